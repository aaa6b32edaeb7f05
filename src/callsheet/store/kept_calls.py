"""The finished calls of an earlier run that a run of an edited plan keeps, found again by their content.

In: the journal of the earlier run. Out: for a call of the new run the recorded outcome of the same call, each
at most once. The same call is one of the same tool with the same arguments, made by the same statement: under
another id, at another place, for another item, or by one that is no longer in the plan.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cache, partial
from hashlib import sha256
from typing import Any, NamedTuple, TypeAlias, cast

from callsheet import lazy
from callsheet.ir import JSON, Plan
from callsheet.ir.tree import ERROR_VARIABLE, Statement, all_statements, recovery_of, variables_set
from callsheet.ir.tree_codec import tree_to_json
from callsheet.ir.tree_edits import without_spans
from callsheet.machine import (
    AgentTurn,
    CallModel,
    CallTool,
    Decided,
    Decision,
    Doubted,
    Fact,
    Probe,
    RunAgent,
    Succeeded,
    TookPlace,
)
from callsheet.machine.keys import attempt_key, is_of_tree, item_of, parse_key, place_in_tree, segment
from callsheet.store.errors import JournalError
from callsheet.store.events import Event as Row
from callsheet.store.events import EventType
from callsheet.store.folded import Folded
from callsheet.store.journal import Journal
from callsheet.store.records import recorded_event
from callsheet.store.replay import begin_with, fold_on
from callsheet.store.runs import RunInfo
from callsheet.store.undoings import taken_back

Kept: TypeAlias = CallTool | CallModel | RunAgent | AgentTurn
"""The commands whose outcomes are kept."""
REMARK = "kept"
"""The name of the remark on an outcome that was kept."""
_OF_IDS = frozenset({"id", "is_named"})
_ROUND = lazy.pattern(r"\[#\d+\]")
_RETRIED = lazy.pattern(r"~\d+(?=/)")
_PLACE = lazy.pattern(r"event (\d+) of run (\S+)")
_SEGMENT = lazy.pattern(r"([^\[\]~]+)((?:\[#?\d+\])*)(?:~\d+)?")
_NUMBER = lazy.pattern(r"\d+")
_GIVEN = lazy.pattern(r"_\d+$")
_LEFT = "it had left before, and its answer is unknown: "


class Finished(NamedTuple):
    """A call of an earlier run with its outcome; None if it left and nothing is known of it."""

    run_id: str
    seq: int
    key: str
    command: Kept
    outcome: Succeeded | None
    signature: str
    """What its statement says, apart from its id."""
    content: str

    @property
    def place(self) -> str:
        """Its key without attempts."""
        return _place(self.key)

    @property
    def source(self) -> str:
        """Where it is recorded, in words."""
        return f"{f'event {self.seq}' if self.outcome else f'call {self.key}'} of run {self.run_id}"

    def is_used(self, used: Collection[tuple[str, int]], doubted: Collection[str]) -> bool:
        """Whether a run has asked for it that has used these outcomes, and heard of these calls in doubt."""
        return self.source in doubted if self.outcome is None else (self.run_id, self.seq) in used


def content_of(
    tool: str, inputs: Iterable[JSON], args: Mapping[str, Any], wants_data: bool = False, more: Any = None
) -> str:
    """A text that is the same for calls with the same tool and arguments alone."""
    told = [tool, [*inputs], dict(args), wants_data, more]
    return sha256(json.dumps(told, sort_keys=True, default=str).encode()).hexdigest()


def content_of_command(command: Kept) -> str:
    """The content of a call."""
    match command:
        case CallTool(tool=tool, args=args, wants_data=wants_data):
            return content_of(tool, (), args, wants_data)
        case AgentTurn():
            more = [repr(command.allowed), repr(command.turns)]
            return content_of(command.tool, command.inputs, command.args, more=more)
        case CallModel() | RunAgent():
            return content_of(command.tool, command.inputs, command.args)


def signatures(plan: Plan) -> dict[str, str]:
    """What each statement of a plan says, by its id: equal for statements that differ in their ids alone.

    So are those that differ in the number that `ir.tree_edits` gives the variable of a handler for its place.
    """
    if plan.tree is None:
        return {step.id: step.id for step in plan.steps}
    every = tuple(all_statements(plan.tree))
    bound = {each.binds for one in every if (way := recovery_of(one)) is not None for each in way.handlers}
    made = {name for one in every for name in variables_set(one)}
    said = {name: old for name in bound if (old := _GIVEN.sub("", name)) in bound | made}
    return {one.id: _signature(one, said) for one in every}


def changed_statements(before: Plan, after: Plan) -> set[str]:
    """The ids of the statements that say something else in another plan than in the one before."""
    was = signatures(before)
    return {id_ for id_, signature in signatures(after).items() if was.get(id_) != signature}


def _signature(one: Statement, said: Mapping[str, str]) -> str:
    return json.dumps(_without_ids(tree_to_json(without_spans(one)), said), sort_keys=True)  # pyright: ignore[reportArgumentType]


def _without_ids(data: Any, said: Mapping[str, str]) -> Any:
    """The data without ids, and with the names that the text has for the variables of handlers."""
    if isinstance(data, dict):
        members = cast("dict[str, Any]", data)
        made = {name: _without_ids(value, said) for name, value in members.items() if name not in _OF_IDS}
        role = {"Variable": "name", "Handler": "binds"}.get(members.get("is", ""))
        if role is not None:
            name = made.get(role, ERROR_VARIABLE)
            made[role] = said.get(name, name)
        return made
    return [_without_ids(one, said) for one in cast("list[Any]", data)] if isinstance(data, list) else data


def _place(key: str) -> str:
    attempt = attempt_key(key)
    return _RETRIED.sub("", f"{place_in_tree(attempt)}{key[len(attempt) :]}")


class Segment(NamedTuple):
    """A part of a place in a run: a statement, and which of its items or rounds, from outside to inside."""

    id: str
    numbers: tuple[int, ...] = ()


def segments_of(place: str) -> tuple[Segment, ...] | None:
    """The parts of a place such as `S2[1]/S3`; None for what is none.

    >>> segments_of("S2[1]/S7[#3]/S8")
    (Segment(id='S2', numbers=(1,)), Segment(id='S7', numbers=(3,)), Segment(id='S8', numbers=()))
    """
    found = [_SEGMENT.fullmatch(part) for part in place.split("/")]
    if not all(found):
        return None
    return tuple(Segment(m[1], tuple(map(int, _NUMBER.findall(m[2])))) for m in found if m is not None)


def is_inside(place: str) -> bool:
    """Whether a place is inside a block or sub-plan under way, and not just a statement."""
    return "/" in place or "[" in place


def _path_of(key: str) -> tuple[Segment, ...]:
    """Where a call is made."""
    return segments_of(place_in_tree(key).removesuffix(":clock")) or ()


class _Start:
    """A place from which on nothing is kept: in the order of the text, of items, and of rounds."""

    def __init__(self, plan: Plan, place: str) -> None:
        assert plan.tree is not None
        self._order = {segment(one.id): number for number, one in enumerate(all_statements(plan.tree))}
        self._path = segments_of(place) or ()

    def is_behind(self, path: tuple[Segment, ...]) -> bool:
        """Whether what is there is at this place, inside of it or behind it."""
        for own, start in zip(path, self._path, strict=False):
            if own.id != start.id:
                return self._order.get(own.id, 0) > self._order.get(start.id, 0)
            if own.numbers != start.numbers and start.numbers:
                return own.numbers > start.numbers
        return len(path) >= len(self._path)


class KeptCalls:
    """Finds the outcomes that a run keeps; `plan` is the plan of that run.

    Statements in `again` keep nothing, nor do sub-plans that they call; of a place inside a block, neither
    does what is behind it. The run's calls with the keys `doubted` have been told that they are in doubt.
    """

    def __init__(
        self, plan: Plan, calls: Iterable[Finished], again: Iterable[str] = (), doubted: Iterable[str] = ()
    ) -> None:
        self.calls = [*calls]
        self._doubted = {*doubted}
        self._left: dict[str, list[Finished]] = {}
        for call in self.calls:
            self._left.setdefault(call.content, []).append(call)
        self._talks: dict[tuple[str, str], list[Finished]] | None = None
        """The calls by the attempt of an agent that made them, once somebody asks."""
        self.signatures = signatures(plan)
        self.again = (*again,)
        """The statements and places that keep nothing."""
        self._again = frozenset(one if is_inside(one) else segment(one) for one in self.again)
        self._starts = [_Start(plan, place) for place in self.again if is_inside(place)]

    def take(self, content: str, key: str) -> Finished | None:
        """The same call of the earlier run; it is found once."""
        waiting = self._left.get(content)
        if not waiting:
            return None
        step = _statement_of(key)
        if self._is_again(key):
            return None
        place, signature, rounds = _place(key), self.signatures.get(step), _ROUND.findall(key)
        is_tree = is_of_tree(key)

        def rank(call: Finished) -> int:
            if not is_tree:  # a visit and its items are all that plans of version 1 have of places
                return 0 if call.place == place else 1 if item_of(call.key) == item_of(key) else 9
            before = _statement_of(call.key)
            if call.place == place and (call.signature == signature or before == step):
                return 0
            if _ROUND.findall(call.key) != rounds or key.endswith(":clock.1"):
                return 9
            if call.signature == signature and signature is not None:
                return 1
            if before == step:
                return 2
            is_gone = before not in self.signatures and call.signature not in self.signatures.values()
            return 3 if is_gone else 9

        found = min(waiting, key=rank)
        if rank(found) == 9:
            return None
        waiting.remove(found)
        return found

    def outcome_of(self, command: Kept) -> Succeeded | Doubted | None:
        """What the same call of the earlier run gave, which is found once; None if this one has to be made.

        A call that had left before, and of which nothing is known, is in doubt if it may not be repeated; it
        is told so once.
        """
        if command.key in self._doubted:
            return None
        found = self.take(content_of_command(command), command.key)
        if found is None:
            return None
        if found.outcome is not None:
            return as_kept(found, command.key)
        if not isinstance(command, CallTool | RunAgent):
            return None
        self._doubted.add(command.key)
        return Doubted(command.key, f"{_LEFT}{found.source}")

    def take_talk(self, question: Finished) -> list[Finished]:
        """What an agent has asked and called, from a question of it on, which was taken; found once."""
        if self._talks is None:
            self._talks = {}
            for call in self.calls:
                self._talks.setdefault((call.run_id, attempt_key(call.key)), []).append(call)
        talk = self._talks[question.run_id, attempt_key(question.key)]
        mine = [call for call in talk if call in self._left[call.content]]
        for call in mine:
            self._left[call.content].remove(call)
        return [question, *mine]

    def _is_again(self, key: str) -> bool:
        if not self._again:
            return False
        path = _path_of(key)
        return any(one.id in self._again for one in path) or any(s.is_behind(path) for s in self._starts)

    def left(self) -> list[Finished]:
        """The calls that nothing has asked for."""
        return sorted((call for calls in self._left.values() for call in calls), key=lambda call: call.seq)

    def is_of(self, call: Finished, step: str) -> bool:
        """Whether a call was made by what is this statement now."""
        return _statement_of(call.key) == step or call.signature == self.signatures.get(step)


def _statement_of(key: str) -> str:
    return parse_key(key).step.removesuffix(":clock")


def calls_of(journal: Journal, run_id: str) -> list[Finished]:
    """The finished and the doubtful calls that a run which follows this one may keep.

    Those are its own but for what an ON_FAIL UNDO or an undoing has taken back, and those that it could have
    kept itself and has not asked for. Raises JournalError if a run cannot be read.
    """
    return _calls_of(journal, run_id, _Undone(journal))


def _calls_of(journal: Journal, run_id: str, undone_of: _Undone) -> list[Finished]:
    info = journal.find_run(run_id)
    plan = journal.plan_of(info.plan_hash)
    said = signatures(plan)
    rows = iter(journal.opener(run_id).events(journal.events(run_id)))
    first = next(rows)
    folded = begin_with(plan, first)
    found: list[Finished] = []
    used: set[tuple[str, int]] = set()
    doubted: set[str] = set()

    def noted() -> Iterator[Row]:
        for row in rows:
            command = folded.waiting.get(row.key or "")
            command = command.call if isinstance(command, Probe) else command
            outcome = _outcome_in(row, journal)
            if outcome is not None:
                tree = folded.machine.tree
                undone = None if tree is None else tree.undone.get(outcome.key.rpartition("/")[0])
                if undone is not None:  # nothing is left of the call, nor of its inverse
                    found[:] = [call for call in found if item_of(call.key) != undone]
                elif isinstance(command, Kept):
                    found.append(_finished(run_id, row.seq, outcome.key, command, outcome, said))
                    used.update(_sources(outcome))
            doubted.add(_doubt_of(row))
            yield row

    fold_on(folded, noted(), journal.plan_of)
    found += _doubtful(run_id, folded, said, info.events)
    gone = undone_of.of(info)
    found = [call for call in found if call.seq not in gone]
    if keeps(first.body or {}) and info.parent_run is not None:
        earlier = _calls_of(journal, info.parent_run, undone_of)
        for call in _offered(first.body or {}, earlier, info.parent_run):
            if not call.is_used(used, doubted):
                found.append(call)
    return found


def _outcome_in(row: Row, journal: Journal) -> Succeeded | None:
    """The result of a call that an event has: its answer, or what a probe or a person says that it gave."""
    if row.type is not EventType.OK and row.type is not EventType.DECIDED:
        return None
    match recorded_event(row, journal.plan_of):
        case Succeeded() as outcome:
            return outcome
        case Decided(key=key, decision=TookPlace(value=value)):
            return Succeeded(key, value)
        case Decided(key=key, decision=Decision.SKIP):
            return Succeeded(key, None)
        case _:
            return None


def undone_in(journal: Journal, info: RunInfo) -> frozenset[int]:
    """The events of a run whose calls undoings have taken back, or may have.

    Those are undoings of this run, and of those of which it has copies of events or outcomes that it kept.
    Raises JournalError if a run cannot be read.
    """
    return _Undone(journal).of(info)


class _Undone:
    """What undoings have taken back of runs that branched off one another, each of which is read once."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._by_run = cache(partial(taken_back, journal))
        self._found: dict[str, frozenset[int]] = {}

    def of(self, info: RunInfo) -> frozenset[int]:
        """The events of a run that are undone."""
        if info.run_id not in self._found:
            self._found[info.run_id] = self._of(info)
        return self._found[info.run_id]

    def _of(self, info: RunInfo) -> frozenset[int]:
        journal, found = self._journal, {*self._by_run(info.run_id)}
        if info.parent_run is None:
            return frozenset(found)
        has_parent = journal.parts.reader.runs.has(info.parent_run)
        parent = journal.find_run(info.parent_run) if has_parent else None
        lost = frozenset[int]() if parent is None else self.of(parent)
        copied = {
            (row.type, row.key)
            for row in (journal.events(parent.run_id) if parent is not None and lost else ())
            if row.seq in lost
        }
        for row in journal.opener(info.run_id).events(journal.events(info.run_id)):
            if row.key is None:
                continue
            if row.ts < info.created and (row.type, row.key) in copied:
                found.add(row.seq)
            outcome = recorded_event(row, journal.plan_of) if row.type is EventType.OK else None
            sources = _sources(outcome) if isinstance(outcome, Succeeded) else ()
            if any(seq in self._by_run(run_id) for run_id, seq in sources):
                found.add(row.seq)
        return frozenset(found)


def require_not_undone(journal: Journal, info: RunInfo, at: int | None = None) -> None:
    """Raise JournalError (JRN086) if an undoing has taken back a call of a run, up to an event of it."""
    gone = undone_in(journal, info)
    if not gone:
        return
    keys = (row.key for row in journal.events(info.run_id) if row.seq in gone and row.seq <= (at or row.seq))
    steps = [*dict.fromkeys(parse_key(key).step for key in keys if key is not None)]
    if steps:
        named = ", ".join(steps[:8]) + (", …" if len(steps) > 8 else "")
        message = f"run {info.run_id} cannot go on: an undoing has taken back calls of {named}"
        hint = f"make them again, in a new run: callsheet rerun {info.run_id} --from {steps[0]}"
        raise JournalError("JRN086", message, hint)


def keeps(start: Mapping[str, Any]) -> bool:
    """Whether a run with this start keeps the calls of its parent."""
    origin: Mapping[str, Any] = start.get("fork") or {}
    return bool(origin.get("keeps"))


def without_talks(calls: Iterable[Finished], anew: Collection[str]) -> list[Finished]:
    """The calls without the questions to the models of these attempts of agents, which begin anew."""
    return [c for c in calls if not (isinstance(c.command, AgentTurn) and attempt_key(c.key) in anew)]


def offered(
    calls: list[Finished],
    run_id: str,
    anew: Collection[str] = (),
    events: Sequence[Sequence[int]] | None = None,
) -> list[Finished]:
    """What a run that branches off another may keep of its calls, which `calls_of` gives.

    `anew` are agents that begin anew. `events`, if given, are ranges of what it may keep, first to last; a
    call of which nothing is known stays in doubt.
    """
    found = without_talks(calls, anew) if anew else calls
    if events is None:
        return found
    seqs = {seq for first, last in events for seq in range(first, last + 1)}
    return [c for c in found if c.outcome is None or (c.run_id == run_id and c.seq in seqs)]


def _offered(start: Mapping[str, Any], calls: list[Finished], run_id: str) -> list[Finished]:
    origin: Mapping[str, Any] = start["fork"]
    return offered(calls, run_id, origin.get("anew") or (), origin.get("events"))


def kept_by(journal: Journal, run_id: str) -> KeptCalls | None:
    """What a recorded run still keeps of the calls of its parent; None if it keeps none."""
    info = journal.find_run(run_id)
    if info.parent_run is None:
        return None
    first = next(iter(journal.events(run_id)))
    if not keeps(first.body or {}):
        return None
    used: set[tuple[str, int]] = set()
    doubted: dict[str, str] = {}
    for row in journal.opener(run_id).events(journal.events(run_id)):
        outcome = _outcome_in(row, journal)
        used.update(() if outcome is None else _sources(outcome))
        if source := _doubt_of(row):
            doubted[source] = row.key or ""
    body = first.body or {}
    earlier = _offered(body, calls_of(journal, info.parent_run), info.parent_run)
    calls = [call for call in earlier if not call.is_used(used, doubted)]
    again = body["fork"].get("again", ())
    return KeptCalls(journal.plan_of(info.plan_hash), calls, again, doubted.values())


def as_kept(call: Finished, key: str) -> Succeeded:
    """The outcome of an earlier call as that of the same call here."""
    assert call.outcome is not None
    remarks = tuple(one for one in call.outcome.remarks if not (isinstance(one, Fact) and one.name == REMARK))
    return Succeeded(key, call.outcome.value, (*remarks, Fact(REMARK, call.source)), label=call.outcome.label)


def doubt_in(reason: str) -> str:
    """The call of an earlier run that was in doubt already, if that is the reason for a doubt; else empty."""
    return reason.removeprefix(_LEFT) if reason.startswith(_LEFT) else ""


def _doubt_of(row: Row) -> str:
    return doubt_in(str((row.body or {}).get("reason", ""))) if row.type is EventType.IN_DOUBT else ""


def _sources(outcome: Succeeded) -> Iterator[tuple[str, int]]:
    for remark in outcome.remarks:
        if isinstance(remark, Fact) and remark.name == REMARK:
            found = _PLACE.fullmatch(remark.text)
            if found is not None:
                yield found[2], int(found[1])


def _finished(
    run_id: str, seq: int, key: str, command: Kept, outcome: Succeeded | None, said: Mapping[str, str]
) -> Finished:
    signature = said.get(_statement_of(key), "")
    return Finished(run_id, seq, key, command, outcome, signature, content_of_command(command))


def _doubtful(run_id: str, folded: Folded, said: Mapping[str, str], events: int) -> Iterator[Finished]:
    for key, command in {**folded.in_doubt(), **folded.probing()}.items():
        yield _finished(run_id, events, key, command, None, said)
