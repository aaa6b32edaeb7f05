"""The calls that a run of an edited plan keeps: foreseen before it starts, and given the recorded outcomes.

In: a journal, a run, a plan with blocks. Out: the prepared run, with what it keeps, what it makes again or
for the first time, and what is no longer asked for. No tool is called, nothing is recorded.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Coroutine, Iterable, Mapping
from dataclasses import replace
from typing import Any

from callsheet.diagnostics import did_you_mean, meant
from callsheet.frontends.spelling import text_of
from callsheet.ir import JSON, Effect, Plan
from callsheet.ir.operations import CLOCK, COMPUTE, CallKind, call_kind
from callsheet.ir.tree import Act, all_statements
from callsheet.machine import AgentTurn, CallTool, Doubted
from callsheet.machine.agents.actions import OWN_ARGUMENTS, Finish, read_action, read_allowance
from callsheet.machine.forecasting import Foreseen, Knowledge
from callsheet.machine.forecasting.tree_calls import ForeseenCall, Recalled
from callsheet.machine.forecasting.tree_interpreter import foresee_tree
from callsheet.machine.keys import step_of
from callsheet.ports.transforms import work_out
from callsheet.runtime.edits import ParentHistory
from callsheet.runtime.effects import AheadCall, EarlierCall, EffectAhead, effect_of, inner_tools
from callsheet.runtime.flat_reruns import failures_of
from callsheet.runtime.forking import ORIGINS, Forking, Revision, parent_of
from callsheet.runtime.gateway import NOTES, Carried, Gateway, Outcome
from callsheet.runtime.recording import JournalRecorder
from callsheet.sealing.known import Known
from callsheet.store import EventType, Journal, JournalError
from callsheet.store.branch import Cut, branch
from callsheet.store.folded import Folded
from callsheet.store.kept_calls import (
    Finished,
    Kept,
    KeptCalls,
    calls_of,
    content_of,
    is_inside,
    segments_of,
    signatures,
    without_talks,
)
from callsheet.store.start import facts_to_json, policy_body
from callsheet.trace.visits import account_of
from callsheet.views.describe import wording_of


def keeping(gateway: Gateway, kept: KeptCalls) -> Callable[[Carried], Coroutine[Any, Any, Outcome]]:
    """How calls are carried out: a kept outcome if there is one, under a policy too, else by the gateway."""

    async def carry_out(command: Carried) -> Outcome:
        outcome = kept.outcome_of(command) if isinstance(command, Kept) else None
        if outcome is None:
            return await gateway.carry_out(command)
        if isinstance(command, CallTool) and command.tool == NOTES and not isinstance(outcome, Doubted):
            await gateway.keep_again(command)
        return outcome

    return carry_out


def settle_kept(folded: Folded, recorder: JournalRecorder, kept: KeptCalls) -> None:
    """On resumption, give calls without an outcome what they keep: they have never been sent.

    One that was told of its doubt is no such call: it left since, as was decided.
    """
    for key, command in folded.in_doubt().items():
        outcome = None if key in folded.asked else kept.outcome_of(command)
        if outcome is not None:
            folded.feed(recorder.event(outcome))


_MOST_CALLS = 1_000
_MOST_GONE = 20
"""How many calls are named that a plan no longer has, those that may have changed something first."""


def keep_calls(  # noqa: PLR0913 - what the run is, and who asks
    journal: Journal,
    run_id: str,
    plan: Plan,
    revision: Revision,
    *,
    verb: str = "rerun",
    start_again: str = "",
    by: str = "",
    known: Known | None = None,
    text: str = "",
    failed_items: bool = False,
    origin: Mapping[str, JSON] | None = None,
) -> Forking:
    """Prepare a run of this plan that keeps what is unchanged of another run.

    `origin` is what it notes of where its plan is from; without it the plan is from where that of the other
    run is.

    With `failed_items` the other run has ended with failed items of loops, which are run again.

    With `start_again`, the id of a statement, that one and those behind it in the text keep nothing; or a
    place inside a block, such as `S2[1]/S3`, then what is behind it in that item or round, in later ones, and
    behind the block. Raises JournalError as `forking.fork` does; JRN081 for a statement that the plan does
    not have, and for a place to which the run has not come; JRN087 if no item has failed.
    """
    parent = parent_of(journal, run_id)
    history = ParentHistory(journal, parent, known)
    again = _from(plan, start_again)
    failures = failures_of(journal, parent, history) if failed_items else None
    anew = () if failures is None else failures.anew
    if is_inside(start_again):
        _check_visited(history.plan, journal, run_id, start_again)
    branched = {"verb": verb, "by": by, "from": start_again, "edits": [], "keeps": True, "again": again}
    if failures is not None:
        branched |= {"anew": [*anew], "failed_items": True}
    body = history.start(1, branched)
    kept = {name: fact for name, fact in body["facts"].items() if name in body["pins"]}
    body |= {"facts": {**body["facts"], **facts_to_json(revision.facts), **kept}}
    body |= {"pins": {**revision.pins, **body["pins"]}}
    launch: dict[str, Any] = {**body["launch"]}
    if origin is not None:
        launch = {name: value for name, value in launch.items() if name not in ORIGINS} | {**origin}
    servers = {**revision.servers, **launch.get("servers", {})}
    body |= {"launch": {**launch, **({"servers": servers} if servers else {})}}
    body |= {} if revision.policy is None else policy_body(revision.policy)
    made = branch(plan, history.events(1), history.plan_of, Cut(1), body)
    calls = without_talks(calls_of(journal, run_id), anew)
    preview = _Preview(KeptCalls(plan, calls, again), made.folded, _failed_calls(history), run_id)
    preview.walk(plan, made.folded.start.inputs)
    source = text or text_of(plan)
    forking = Forking(
        parent, made, source, preview.effects(), history.known(), is_sealed=history.opener.has_opened
    )
    found = () if failures is None else tuple(failures.lines())
    return replace(forking, kept=(*found, *preview.lines()))


def _from(plan: Plan, start_again: str) -> list[str]:
    """The statements from one on, in the order of the text, those of sub-plans first."""
    if not start_again:
        return []
    assert plan.tree is not None
    ids = [one.id for one in all_statements(plan.tree)]
    segments = segments_of(start_again) if is_inside(start_again) else None
    for id_ in [start_again] if segments is None else [each.id for each in segments]:
        if id_ not in ids:
            hint = meant(id_, ids, f"its statements are {', '.join(ids[:12])}")
            raise JournalError("JRN081", f"the plan has no statement {id_[:80]}", hint)
    return [start_again] if segments is not None else ids[ids.index(start_again) :]


def _check_visited(plan: Plan, journal: Journal, run_id: str, place: str) -> None:
    """Refuse a place inside a block to which a run has not come."""
    account = account_of(plan, journal.opener(run_id).events(journal.events(run_id)), journal.plan_of)
    places = [visit.step for visit in account.steps]
    if any(each == place or each.startswith((f"{place}/", f"{place}[")) for each in places):
        return
    near = did_you_mean(place, places) or list(dict.fromkeys(each for each in places if is_inside(each)))
    hint = f"places inside its blocks: {', '.join(near[:8])}" if near else "it has none inside a block"
    raise JournalError("JRN081", f"run {run_id} has not come to {place[:80]}", hint)


class _Preview:
    """Walks the new plan with the outcomes that it keeps."""

    def __init__(self, kept: KeptCalls, folded: Folded, failed: Collection[str], run_id: str) -> None:
        self._kept, self._facts, self._run_id = kept, folded.facts, run_id
        self._program, self._failed = folded.machine.program, failed
        self._listed = {step.id: step for step in self._program.plan.steps}
        self._found: list[tuple[ForeseenCall, Finished]] = []
        self._asked: list[ForeseenCall] = []
        self._doubtful: list[ForeseenCall] = []
        self._words = wording_of(self._program.plan)

    def walk(self, plan: Plan, inputs: Mapping[str, object]) -> None:
        """Go through the plan in the order of the text."""
        knowledge = Knowledge(facts=self._facts, compute=work_out)
        foresee_tree(plan, inputs, knowledge, self._recall)  # pyright: ignore[reportArgumentType]

    def _recall(self, call: ForeseenCall) -> Recalled | None:
        found = None
        if call.place and call.is_known:
            content = content_of(call.tool, call.inputs, call.arguments, call.wants_data)  # pyright: ignore[reportArgumentType]
            found = self._kept.take(content, f"{call.place}.1")
        if found is not None and found.outcome is not None:
            self._found.append((call, found))
            return Recalled(found.outcome.value)
        if found is None and (talk := self._talk(call)):
            self._found += [(call, each) for each in talk]
            last = max((c for c in talk if isinstance(c.command, AgentTurn)), key=lambda c: c.seq)
            decided = read_action(None if last.outcome is None else last.outcome.value)
            if isinstance(decided, Finish):
                return Recalled(decided.value)
        (self._asked if found is None else self._doubtful).append(call)
        return None

    def _talk(self, call: ForeseenCall) -> list[Finished]:
        """What an agent has asked and called that begins as this one; it is kept turn by turn."""
        number = self._program.number_of.get(call.statement.id)
        loop = None if number is None else self._program.steps[number].loop
        if loop is None or not call.place or not call.is_known or call_kind(call.tool) is not CallKind.AGENT:
            return []
        args: dict[str, Any] = {**call.arguments}
        allowed = read_allowance(tuple(loop.tools), args)
        told = {name: value for name, value in args.items() if name not in OWN_ARGUMENTS}
        content = content_of(call.tool, call.inputs, told, more=[repr(allowed), repr(())])  # pyright: ignore[reportArgumentType]
        question = self._kept.take(content, f"{call.place}.1/t1")
        return [] if question is None else self._kept.take_talk(question)

    def effects(self) -> tuple[EffectAhead, ...]:
        """The calls ahead that may change something, by statement, with those of the run before."""
        by_step: dict[tuple[str, Effect], list[ForeseenCall]] = {}
        for call in (*self._doubtful, *self._asked):
            effect = effect_of(call.tool, self._listed.get(call.statement.id), self._facts)
            if isinstance(call.statement, Act) and effect is not None:
                by_step.setdefault((call.statement.id, effect), []).append(call)
        return tuple(self._ahead(step, effect, calls) for (step, effect), calls in by_step.items())

    def _ahead(self, step: str, effect: Effect, calls: list[ForeseenCall]) -> EffectAhead:
        before = [call for call in self._kept.left() if self._kept.is_of(call, step)]
        ahead = [
            AheadCall(
                call.place,
                {**_numbered(call.inputs), **call.arguments},
                in_doubt=any(call is each for each in self._doubtful),
            )
            for call in calls
        ]
        return EffectAhead(
            step,
            calls[0].tool,
            effect,
            self._run_id,
            tuple(ahead[:_MOST_CALLS]),
            inner_tools(calls[0].tool, self._listed.get(step), self._facts),
            more=max(0, len(ahead) - _MOST_CALLS),
            earlier=tuple(_earlier(call) for call in before),
            words=self._words,
        )

    def lines(self) -> tuple[str, ...]:
        """What is kept, made again, new, and gone, a line each."""
        shown = [call.statement for call, _ in self._found if call.tool not in (CLOCK, COMPUTE)]
        counts = Counter(one.id for one in shown)
        lines = [f"kept: {_counted(counts)}"] if counts else ["kept: no call"]
        doubts = Counter(call.statement.id for call in self._doubtful)
        if doubts:
            lines.append(f"in doubt, it may have taken place: {_counted(doubts)}")
        left = self._kept.left()
        asked = Counter(c.statement.id for c in self._asked if c.tool not in (CLOCK, COMPUTE))
        said = self._kept.signatures
        had = {step: [call for call in left if self._kept.is_of(call, step)] for step in asked}
        finished = {step for step, calls in had.items() if any(call.outcome is not None for call in calls)}
        unknown = Counter(
            c.statement.id for c in self._asked if c.statement.id in finished and not (c.place and c.is_known)
        )
        surely = asked - unknown
        made = {step for step in surely if said.get(step) in self._failed or had[step]}
        for word, counts in (
            ("runs again, or with other arguments", {step: surely[step] for step in surely if step in made}),
            ("new", {step: surely[step] for step in surely if step not in made}),
            ("kept if its arguments turn out as before, else runs again", unknown),
        ):
            if counts:
                lines.append(f"{word}: {_counted(Counter(counts))}")
        for word, steps, is_known in (
            ("called before with other arguments, which has effects that stay", made - unknown.keys(), True),
            ("called before, which has effects that stay", unknown.keys(), True),
            ("called before, in doubt: it may have taken place", made | unknown.keys(), False),
        ):
            before = {step: [c for c in had[step] if (c.outcome is not None) is is_known] for step in steps}
            if others := +Counter(
                {step: sum(map(self._may_last, before[step])) for step in asked if step in steps}
            ):
                lines.append(f"{word}: {_counted(others)}")
        gone = [c for c in left if not any(self._kept.is_of(c, step) for step in asked) and _is_call(c)]
        gone.sort(key=lambda call: not self._may_last(call))
        for call in gone[:_MOST_GONE]:
            stays = ", its effect stays" if self._may_last(call) else ""
            what = ", in doubt: it may have taken place" if call.outcome is None else stays
            lines.append(f"gone{what}: {call.key} {self._words.tool(call.command.tool)}, {call.source}")
        if more := gone[_MOST_GONE:]:
            lasting = sum(map(self._may_last, more))
            stays = f", {lasting:,} of which have or may have an effect that stays" if lasting else ""
            lines.append(f"gone: {len(more):,} more calls{stays}")
        return tuple(lines)

    def _may_last(self, call: Finished) -> bool:
        """Whether a call that left may have changed something; those of an agent's talk count themselves."""
        command = call.command
        return isinstance(command, CallTool) and effect_of(command.tool, None, self._facts) is not None


def _failed_calls(history: ParentHistory) -> set[str]:
    """What the statements say of which a call has failed, if only by a decision about it."""
    said = signatures(history.plan)
    ways = {EventType.ERR, EventType.DECIDED}
    failed = {row.key for row in history.closed() if row.type in ways and row.key is not None}
    return {said[step] for step in map(step_of, failed) if step in said}


def _is_call(call: Finished) -> bool:
    return call.command.tool not in (CLOCK, COMPUTE)


def _numbered(inputs: Iterable[Foreseen]) -> dict[str, Foreseen]:
    return {str(number): value for number, value in enumerate(inputs)}


def _earlier(call: Finished) -> EarlierCall:
    args = call.command.args if isinstance(call.command, CallTool) else {"inputs": call.command.inputs}
    return EarlierCall(call.seq, call.command.tool, args, in_doubt=call.outcome is None)


def _counted(counts: Counter[str]) -> str:
    named = ", ".join(f"{step} ({count})" if count > 1 else step for step, count in [*counts.items()][:20])
    more = f" and {len(counts) - 20} more steps" if len(counts) > 20 else ""
    total = sum(counts.values())
    return f"{total} call{'s' if total != 1 else ''}: {named}{more}"
