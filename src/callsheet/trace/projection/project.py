"""Projects a run onto an LCTL hand-off after a step.

In: the record of a run. Out: a document without errors under the rules of LCTL. Each visit becomes an entry,
each write a fact. Live facts are critical; facts with a confidence below 0.40 are listed, but not handed on.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from types import MappingProxyType

from callsheet.diagnostics import CallsheetError
from callsheet.ir import SAYING, Ending, Order, Plan, Step
from callsheet.ir.flow import Flow, flow_of, uses_of
from callsheet.machine import Outcome, Result, Status
from callsheet.trace.lctl.confidence import is_blocked, needs_review
from callsheet.trace.lctl.model import Chain, Entry, Fact, Handoff, Lists
from callsheet.trace.projection.record import (
    BEFORE_ALL,
    CALLER,
    ERROR,
    MOST_OF_A_NAME,
    Record,
    Visit,
    Worth,
    Write,
    action_of,
    affirmed,
    affirming,
    agent_of,
    error_of,
    fact_id,
    item_ids,
    made_of,
    own_basis,
    shown_text,
    worth_of,
)
from callsheet.trace.projection.record import Outcome as VisitOutcome


def read_by(plan: Plan, number: int) -> set[str]:
    """The variables that a step reads: in its arguments, its conditions and its failure message."""
    return {use.ref.name for use in uses_of(plan.steps[number], number)}


def live_in_graph(plan: Plan, settled: Collection[int]) -> set[str]:
    """The variables that unsettled steps read; `settled` are the numbers of the settled ones."""
    left = [number for number in range(len(plan.steps)) if number not in settled]
    return {name for number in left for name in read_by(plan, number)}


def live_at(plan: Plan, number: int) -> set[str] | None:
    """The variables that are live before a step of a plan in text order; None means all of them.

    A RE-PLAN passes all variables to the planner, so all are live wherever one can still be reached.

    >>> from callsheet.ir import Call, Output, Ref, Respond, Step
    >>> first = Step("S1", Call("X", (Ref("a"),)), output=Output("b"))
    >>> plan = Plan((first, Step("S2", Respond((Ref("b"),)))))
    >>> live_at(plan, 0), live_at(plan, 1)
    ({'a'}, {'b'})
    """
    assert plan.order is Order.TEXT
    flow = flow_of(plan)
    reached = _reached(flow, number)
    if any(plan.steps[node].course.ends is Ending.NEW_PLAN for node in reached):
        return None
    return _names(plan, flow, reached, [number])[0]


def live_before_each(plan: Plan) -> list[set[str] | None]:
    """What `live_at` returns, for every step of the plan at once.

    >>> from callsheet.ir import Call, Output, Ref, Respond, Step
    >>> first = Step("S1", Call("X", (Ref("a"),)), output=Output("b"))
    >>> live_before_each(Plan((first, Step("S2", Respond((Ref("b"),))))))
    [{'a'}, {'b'}]
    """
    assert plan.order is Order.TEXT
    flow = flow_of(plan)
    every = list(range(len(plan.steps)))
    live: list[set[str] | None] = [*_names(plan, flow, every, every)]
    for number in _leading_to(flow, [n for n in every if plan.steps[n].course.ends is Ending.NEW_PLAN]):
        if number < len(live):
            live[number] = None
    return live


def _leading_to(flow: Flow, numbers: list[int]) -> set[int]:
    """The steps from which any of these can be reached, including themselves."""
    before: dict[int, list[int]] = {}
    for number, successors in enumerate(flow.successors):
        for following in successors:
            before.setdefault(following, []).append(number)
    seen, stack = set(numbers), [*numbers]
    while stack:
        for number in before.get(stack.pop(), ()):
            if number not in seen:
                seen.add(number)
                stack.append(number)
    return seen


def _reached(flow: Flow, number: int) -> list[int]:
    """The steps that can be reached from a step, including itself."""
    seen, stack = {number}, [number]
    while stack:
        for following in flow.successors[stack.pop()]:
            if following < flow.end and following not in seen:
                seen.add(following)
                stack.append(following)
    return sorted(seen)


def _names(plan: Plan, flow: Flow, reached: list[int], wanted: list[int]) -> list[set[str]]:
    """The variables that are live before each of the `wanted` steps, which are among the `reached` ones.

    Backward data flow to a fixed point; a set of variables is a bit mask.
    """
    bit: dict[str, int] = {}
    gen = {node: _bits(bit, read_by(plan, node)) for node in reached}
    kill = dict.fromkeys(reached, 0)
    for var, definitions in flow.definitions.items():
        for definition in definitions:
            if definition.sure and var in bit and definition.committed in kill:
                kill[definition.committed] |= 1 << bit[var]
    live = dict(gen)
    changed = True
    while changed:
        changed = False
        for node in reversed(reached):
            out = 0
            for following in flow.successors[node]:
                out |= live.get(following, 0)
            live_here = gen[node] | (out & ~kill[node])
            changed = changed or live_here != live[node]
            live[node] = live_here
    return [{name for name, place in bit.items() if live[number] >> place & 1} for number in wanted]


def _bits(bit: dict[str, int], names: set[str]) -> int:
    bits = 0
    for name in sorted(names):
        bits |= 1 << bit.setdefault(name, len(bit))
    return bits


MOST_VISITS = 1_000
"""At most this many visits have an entry of their own; the first entry sums up the earlier ones."""
MOST_FACTS = 2_000
MOST_PARENTS = 8
_MOST_OF_A_GOAL = 4_000
_MOST_WARNINGS = 20
_ENDS = {
    Status.DONE: "The run is done",
    Status.FAILED: "The run has failed",
    Status.REFUSED: "The run was refused by its policy",
    Status.CANCELLED: "The run was cancelled",
}

_PARTIAL = Outcome.DONE_WITH_FAILURES

NO_VALUES: Mapping[str, float] = MappingProxyType({})
"""No confidences of single tools."""


def handoff_of(
    record: Record, run_id: str, at: str | None = None, by_tool: Mapping[str, float] = NO_VALUES
) -> Handoff:
    """The hand-off of a run in its current state, or after the last visit of a step.

    `at` is a step's id, or the label of one of its visits: `S3@1`, `r1/S3@2`. `by_tool` are the confidences
    of tools' results, by canonical name. Raises CallsheetError (RUN060) if the step has not been settled.
    """
    return Projection.of(record, run_id, _boundary(record, at), by_tool).handoff()


def _boundary(record: Record, at: str | None) -> int:
    if at is None:
        return len(record.visits)
    places = [p for p, visit in enumerate(record.visits) if visit.step and visit.step.id == at]
    label = at.removesuffix("@1")
    places = places or [p for p, visit in enumerate(record.visits) if visit.label == label]
    if not places:
        raise _no_such_step(record, at)
    batches = record.batches()
    return len(batches) - batches[::-1].index(batches[places[-1]])


def _no_such_step(record: Record, at: str) -> CallsheetError:
    labels = list(dict.fromkeys(visit.label for visit in record.visits))
    shown = ", ".join(labels[:_MOST_WARNINGS]) + (", …" if len(labels) > _MOST_WARNINGS else "")
    hint = f"it has done {shown}" if labels else "it has done none yet"
    return CallsheetError.single("RUN060", f"the run has not done step {at[:80]!a}", help=hint)


@dataclass(frozen=True, slots=True)
class Projection:
    """A record up to a boundary, with the data that hand-offs and post-mortems share."""

    record: Record
    run_id: str
    upto: int
    worth: Mapping[int, Worth]
    first: int
    """The place of the first visit that has an entry of its own."""
    steps: Mapping[int, int]
    """The step number in the trace of each visit, by its place."""
    together: frozenset[int]
    """The step numbers that several entries share, as their visits ran in parallel."""
    facts: Mapping[str, Fact]
    by_tool: Mapping[str, float]
    affirmed: Mapping[int, int]
    """For each write affirmed by a later visit, the place of the last such visit."""

    @classmethod
    def of(cls, record: Record, run_id: str, upto: int, by_tool: Mapping[str, float]) -> Projection:
        """The projection of the first `upto` visits; `by_tool` as for `handoff_of`."""
        batches = record.batches()[:upto]
        first = max(0, upto - MOST_VISITS)
        while 0 < first < upto and batches[first - 1] == batches[first]:
            first += 1
        base = batches[first] if first < upto else 0
        steps = {place: batches[place] - base + 2 for place in range(first, upto)}
        counted = list(steps.values())
        together = frozenset(step for step, after in pairwise(counted) if step == after)
        worth, given_back = worth_of(record, by_tool), affirming(record, first, upto)
        bare = cls(record, run_id, upto, worth, first, steps, together, {}, by_tool, given_back)
        return replace(bare, facts=bare._registry())

    # ------------------------------------------------------------ facts

    def _registry(self) -> dict[str, Fact]:
        """The facts: one for each write; in a long run only for current values and the latest others."""
        writes = [*self.record.given, *(w for visit in self.record.visits[: self.upto] for w in visit.wrote)]
        current = {write.number for write in self.record.current(self.upto).values()}
        if len(writes) > MOST_FACTS:
            newest = sorted(current)[-MOST_FACTS:]
            others = [w.number for w in writes if w.number not in current]
            chosen = {*newest, *others[len(others) - (MOST_FACTS - len(newest)) :]}
            writes = [write for write in writes if write.number in chosen]
        known = {write.number for write in writes}
        facts = {fact_id(write): self._fact(write, known) for write in writes}
        room = MOST_FACTS - len(writes)
        for write in reversed(writes):
            if 0 < len(write.items) <= room:
                room -= len(write.items)
                self._tell_items(write, facts)
        return facts

    def _tell_items(self, write: Write, facts: dict[str, Fact]) -> None:
        """Add the results of a FOREACH as facts, from which the fact of the whole list is derived."""
        whole, visit = facts[fact_id(write)], self.record.visits[write.visit]
        basis = own_basis(replace(visit, failures=0), self.record.facts, self.by_tool)
        ids = item_ids(write)
        for n, (item_id, item) in enumerate(zip(ids, write.items, strict=True)):
            own = ERROR if item.is_error else basis
            worth = min([own.value, *(self.worth[parent.number].value for parent in made_of(visit))])
            facts[item_id] = replace(
                whole,
                id=item_id,
                text=f"${shown_text(write.var, MOST_OF_A_NAME)}.{n} = {item.text}",
                confidence=worth,
                note=f"${shown_text(write.var, MOST_OF_A_NAME)}.{n}; basis: {own.why} ({own.value:g})",
            )
        facts[whole.id] = replace(whole, derived_from=ids)

    def ids(self, writes: Iterable[Write]) -> tuple[str, ...]:
        """The ids of those facts of these writes, and of their items, that the document has."""
        every = (i for write in writes for i in (fact_id(write), *item_ids(write)))
        return tuple(i for i in every if i in self.facts)

    def _fact(self, write: Write, known: set[int]) -> Fact:
        value, place = self.worth[write.number], self.affirmed.get(write.number, write.visit)
        has_own = place >= self.first
        source = agent_of(self.record.visits[place]) if has_own else CALLER
        parents = () if write.visit == BEFORE_ALL else self._parents(self.record.visits[write.visit], known)
        least = "" if value.value == value.basis.value else f"; {value.value:g} by what it was made of"
        name = shown_text(write.var, MOST_OF_A_NAME)
        return Fact(
            fact_id(write),
            f"${name} = {write.text}",
            value.value,
            source,
            self.steps[place] if has_own else 1,
            f"${name}; basis: {value.basis.why} ({value.basis.value:g}){least}",
            parents,
        )

    def _parents(self, visit: Visit, known: set[int]) -> tuple[str, ...]:
        """The ids of the facts a value was made from; of too many, the least confident ones."""
        data = [write for write in made_of(visit) if write.number in known]
        data = sorted(data, key=lambda write: self.worth[write.number].value)[:MOST_PARENTS]
        return tuple(fact_id(write) for write in sorted(data))

    # ------------------------------------------------------------ entries

    def entries(self, failed: int | None = None, error: str = "") -> list[Entry]:
        """The trace: an entry for the inputs, then one for each visit; that at place `failed` has `error`."""
        shown = [self._entry(place, failed, error) for place in range(self.first, self.upto)]
        return [self._first_entry(), *shown]

    def _first_entry(self) -> Entry:
        before = [*self.record.given, *(w for v in self.record.visits[: self.first] for w in v.wrote)]
        ids = self.ids(before)
        names = ", ".join(f"${shown_text(w.var, MOST_OF_A_NAME)}" for w in self.record.given[:MOST_PARENTS])
        more = ", …" if len(self.record.given) > MOST_PARENTS else ""
        action = f"started the run with {names}{more}" if names else "started the run"
        if self.first:
            action += f"; its first {self.first:,} visits are not listed"
        least = min((self.facts[i].confidence or 0.0 for i in ids), default=1.0)
        return Entry(1, CALLER, action, least if self.first else 1.0, ids, duration_ms=0.0)

    def _entry(self, place: int, failed: int | None, error: str) -> Entry:
        visit = self.record.visits[place]
        error_text = error or error_of(visit) if place == failed else error_of(visit)
        wrote = self.ids(visit.wrote)
        action = action_of(visit)
        if place == failed and not action.startswith("FAILED"):
            action = f"FAILED: {action}"
        return Entry(
            self.steps[place],
            agent_of(visit),
            action,
            0.0 if error_text is not None else self._sure(visit),
            wrote,
            tuple(fact_id(write) for write in affirmed(visit) if fact_id(write) in self.facts),
            self.steps[place] in self.together,
            round(visit.seconds * 1000, 3),
            error_text,
            self._known_before(place) if place == failed else None,
        )

    def _sure(self, visit: Visit) -> float:
        return min((self.worth[write.number].value for write in visit.wrote), default=1.0)

    def _known_before(self, place: int) -> tuple[str, ...]:
        writes = [*self.record.given, *(w for visit in self.record.visits[:place] for w in visit.wrote)]
        return self.ids(writes)

    # ------------------------------------------------------------ hand-offs

    def handoff(self) -> Handoff:
        """The hand-off at the boundary."""
        live = self.live()
        fit = [fact.id for fact in self.facts.values() if not is_blocked(fact.confidence)]
        lists = Lists(
            tuple(i for i in fit if i in live),
            tuple(i for i in fit if i not in live),
            tuple(self.warnings(live)),
        )
        facts = MappingProxyType(dict(self.facts))
        return Handoff(self.chain(), facts, tuple(self.entries()), lists, self.instruction(), "observability")

    def chain(self) -> Chain:
        """The source and target of the hand-off at the boundary."""
        has_own = self.first < self.upto
        step = self.steps[self.upto - 1] if has_own else 1
        source = agent_of(self.record.visits[self.upto - 1]) if has_own else CALLER
        return Chain(self.run_id, step, source, self._target(), parallel_merge=bool(self.together))

    def _is_at_end(self) -> bool:
        return self.upto == len(self.record.visits) and self.record.result is not None

    def _next(self) -> Visit | None:
        """The visit that follows the boundary, if the journal has one."""
        if self.upto < len(self.record.visits):
            return self.record.visits[self.upto]
        under_way = (visit for visit in self.record.under_way if visit.outcome is VisitOutcome.OPEN)
        return min(under_way, key=lambda visit: visit.number, default=None)

    def _target(self) -> str:
        following = self._next()
        return CALLER if following is None else agent_of(following)

    def _plan(self) -> Plan:
        following = self._next()
        before = self.record.visits[self.upto - 1].plan if self.upto else 0
        return self.record.plans[before if following is None else following.plan]

    def live(self) -> set[str]:
        """The ids of the facts that are still needed: by a step that has not run, or for the answer."""
        current = self.record.current(self.upto)
        if self._is_at_end():
            writes: Sequence[Write] = self._answered(current)
        else:
            names = self._live_names()
            writes = [write for name, write in current.items() if names is None or name in names]
        return set(self.ids(writes))

    def _live_names(self) -> set[str] | None:
        following, plan = self._next(), self._plan()
        if following is None or following.step is None:
            return None  # a new plan may read whatever there is
        if plan.tree is not None:
            return None  # what the rest of its blocks reads is not worked out
        if plan.order is Order.TEXT:
            return live_at(plan, following.number)
        done = {visit.number for visit in self.record.visits[: self.upto] if visit.plan == following.plan}
        return live_in_graph(plan, done)

    def _answered(self, current: Mapping[str, Write]) -> Sequence[Write]:
        """The writes that the answer of the run was made from."""
        place, plan = self.record.ending(), self._plan()
        if place is not None:
            visit = self.record.visits[place]
            is_answer = visit.step is not None and visit.step.course.ends in SAYING
            return visit.data if is_answer else visit.reads
        if plan.order is Order.TEXT:
            wrote = [visit.wrote for visit in self.record.visits if visit.wrote]
            return wrote[-1] if wrote else ()
        output = plan.steps[-1].output if plan.steps else None
        return [current[output.var]] if output is not None and output.var in current else ()

    def warnings(self, live: set[str]) -> list[str]:
        """Warnings for the receiver: doubtful facts it needs (`live`), shortened texts, and retries."""
        parts: list[str] = []
        for name, fact in self.facts.items():
            if name not in live or not (is_blocked(fact.confidence) or needs_review(fact.confidence)):
                continue
            fact_title = f"{name} ({shown_text(fact.text or '', MOST_OF_A_NAME)})"
            if is_blocked(fact.confidence):
                parts.append(
                    f"{fact_title} is needed and is not passed on: {fact.note}; a person has to review it"
                )
            else:
                parts.append(f"{fact_title} is worth {fact.confidence:g}: a person should review it")
        for visit in self.record.visits[self.first : self.upto]:
            parts += [f"{agent_of(visit)}: {cut}" for cut in visit.cuts]
            if visit.attempts > 1:
                parts.append(f"{agent_of(visit)} took {visit.attempts} attempts")
        more = len(parts) - _MOST_WARNINGS
        return [*parts[:_MOST_WARNINGS], *([f"and {more} more warnings"] if more > 0 else [])]

    def instruction(self) -> str:
        """The goal of the plan, and the next step or else the state of the run."""
        plan = self._plan()
        goal = plan.goal or plan.title
        lines = [f"Goal: {shown_text(goal, _MOST_OF_A_GOAL)}"] if goal else []
        following = self._next()
        if following is not None:
            lines.append(f"Next: {agent_of(following)}{_title(following.step)}")
        elif self.record.result is None:
            lines.append("The run has not ended; it can be resumed.")
        else:
            lines.append(_result_text(self.record.result))
        return "\n".join(lines)


def _title(step: Step | None) -> str:
    return f", {shown_text(step.title)}" if step is not None and step.title else ""


def _result_text(result: Result) -> str:
    text = shown_text(result.error or result.response)
    failed = shown_text(", ".join(result.failed_steps), MOST_OF_A_NAME)
    end = _ENDS[result.status] + (f" with failures ({failed})" if result.outcome is _PARTIAL else "")
    return end + (f": {text}" if text else ".")
