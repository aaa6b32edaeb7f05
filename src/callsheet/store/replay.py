"""Folds the events of a run back into a machine, from its start or a snapshot, to resume or inspect it.

In: the events of a run, from its start or from a snapshot. Out: the machine as it was after the last of them,
with every command that has no outcome yet, or the first bad event. With a snapshot, the chain is verified
from there on, and before it only the start and the values that the snapshot refers to; `Journal.verify`
checks everything. If the snapshot cannot be used, all events are verified and folded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from callsheet.diagnostics import CallsheetError
from callsheet.ir import JSON, Order, Plan, plan_hash
from callsheet.machine import (
    Answered,
    Decided,
    Edited,
    Event,
    Failed,
    Machine,
    PlanCompiled,
    PolicyChanged,
    Program,
    Started,
    Succeeded,
    TimerFired,
    compile_plan,
)
from callsheet.machine.compiling import program_on_demand
from callsheet.machine.decision_log import DecisionLog
from callsheet.machine.limits import AUTO
from callsheet.machine.machine import Observer
from callsheet.machine.result import Result
from callsheet.machine.snapshots import state_from_json
from callsheet.store.chain import BadEvent
from callsheet.store.errors import JournalError
from callsheet.store.events import Event as Row
from callsheet.store.events import EventType
from callsheet.store.folded import Clock, Folded
from callsheet.store.records import PlanOf, recorded_event
from callsheet.store.seal_keys import Unsealer
from callsheet.store.snapshots import (
    FORMAT,
    AskTimes,
    Given,
    SideRecord,
    StoredParts,
    UnusableSnapshot,
    Values,
    read_plainly,
    side_record_from_json,
)
from callsheet.store.start import Start, facts_from_json, facts_to_json

if TYPE_CHECKING:
    from callsheet.store.journal import Journal


def fold(
    plan: Plan,
    rows: Iterable[Row],
    plan_of: PlanOf,
    observer: Observer | None = None,
    look: Callable[[Machine], None] | None = None,
) -> Folded:
    """Fold the events of a run, the first of which is its start.

    `look`, if given, is called with the machine before each statement.
    Raises JournalError (JRN020) if the events do not begin with a start, or if one of them cannot be read by
    this version.
    """
    rest = iter(rows)
    first = next(rest, None)
    if first is None:
        raise JournalError("JRN020", "the run has no events", hint="it was never started")
    return fold_on(begin_with(plan, first, observer, look=look), rest, plan_of)


def begin_with(
    plan: Plan,
    first: Row,
    observer: Observer | None = None,
    body: Mapping[str, Any] | None = None,
    decision_log: DecisionLog | None = None,
    prepare: Callable[[Machine], None] | None = None,
    look: Callable[[Machine], None] | None = None,
) -> Folded:
    """A run after its first event; `body`, if given, replaces that event's body.

    `decision_log`, if given, records the run's decisions; `prepare` is called with the machine before it
    begins, and `look` as in `fold`. Raises JournalError (JRN020) if the event is no start.
    """
    try:
        folded = begin(plan, start_from(first.type, first.body if body is None else body), observer)
    except (KeyError, TypeError, ValueError) as error:
        raise _unreadable(first, error) from error
    folded.look = look
    folded.clock.tick(first)
    if decision_log is not None:
        folded.machine.use_decision_log(decision_log)
    if first.guide is not None:
        folded.machine.follow(first.guide.decisions(first.seq))
    if prepare is not None:
        prepare(folded.machine)
    folded.feed(Started(folded.start.inputs))
    return folded


def fold_on(folded: Folded, rows: Iterable[Row], plan_of: PlanOf) -> Folded:
    """Fold further events of a run; raises as `fold` does."""
    machine, side_record = folded.machine, folded.side_record
    for row in rows:
        folded.clock.tick(row, folded.waiting)
        folded.sees_sealed(row)
        try:
            _note(folded, row)
            event = recorded_event(row, plan_of)
        except (KeyError, TypeError, ValueError) as error:
            raise _unreadable(row, error) from error
        if event is None:
            continue
        if row.guide is not None:
            machine.follow(row.guide.decisions(row.seq))
        folded.feed(event)
        if note_event(side_record, event, Place(row.seq, row.digest or row.body or {}, row.size)):
            side_record.values.prune(machine)
    return folded


def leads_to(result: Result | None, body: Mapping[str, Any]) -> bool:
    """Whether a machine's result is the one that the body of an end event records."""
    if result is None:
        return False
    ended = str(result.status), result.steps_executed, result.ended_at
    return ended == (body.get("status"), body.get("steps_executed"), body.get("ended_at"))


def start_from(kind: str, body: Mapping[str, Any] | None) -> Start:
    """The content of a run's first event; raises KeyError, TypeError or ValueError if it is no start."""
    if kind != EventType.START:
        raise ValueError("a run starts with its start event")
    return Start.from_json(body or {})


def begin(
    plan: Plan, start: Start, observer: Observer | None = None, program: Program | None = None
) -> Folded:
    """A run with a new machine that was fed no event yet.

    `program` may be the program of the plan with the facts of the start, if it was compiled before.
    """
    if program is None or start.ranks:
        program = compile_plan(plan, start.facts, start.ranks)
    rules = start.approve, start.approval_timeout, start.enforcement()
    machine = start.set_up(Machine(program, start.limits, observer, *rules))
    return Folded(start, machine, SideRecord(dict(start.facts), Values(start.inputs)))


def restored(
    plan: Plan,
    start: Start,
    body: Mapping[str, Any],
    stored: StoredParts,
    observer: Observer | None = None,
    program: Program | None = None,
) -> Folded:
    """A run restored from the body of a snapshot; raises UnusableSnapshot if that cannot be used.

    `program` may be the program of the run's first plan, if it was compiled before.
    """
    try:
        if body["format"] != FORMAT:
            raise UnusableSnapshot("it is of another version")
        given = Given(body, start.inputs, stored.fetch, stored.read)
        side_record = side_record_from_json(body, start.facts, given.values, stored.plan_of)
        if side_record.plans:
            goes_on, _, facts = side_record.plans[-1]
            program = compile_plan(goes_on, facts_from_json(facts))
        elif program is None:
            program = _program_of(plan, start, body["state"])
        state = state_from_json(program, body["state"], given.decode, start.enforcement())
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError, CallsheetError) as error:
        raise UnusableSnapshot(f"it cannot be read: {error!r}") from error
    machine = start.set_up(Machine.at(state, observer, start.approve, start.approval_timeout))
    return Folded(start, machine, side_record, machine.open_commands(), clock=Clock(float(body["seconds"])))


def _program_of(plan: Plan, start: Start, state: Mapping[str, Any]) -> Program:
    """The program for a run in this state; if most steps are done, it compiles steps only on demand.

    Graphs, runs that run ahead and runs with approval rules need all steps, so they are compiled in full.
    """
    looks_at_all = state["limits"].get("schedule") == AUTO or bool(start.approve)
    if plan.order is Order.DAG or looks_at_all or 2 * state["pc"] < len(plan.steps):
        return compile_plan(plan, start.facts, start.ranks)
    return program_on_demand(plan, start.facts)


class Place(NamedTuple):
    """Refers to an event in the journal: its number, its body or the body's digest, the size in bytes."""

    seq: int
    body: Mapping[str, JSON] | bytes
    size: int


def note_event(side_record: SideRecord, event: Event, place: Place) -> bool:
    """Add to the side record an event that is fed to the machine; `place` refers to it in the journal.

    Returns whether the recorded values should be pruned after the machine has processed it.
    """
    if isinstance(event, Succeeded):
        side_record.close(event.key)
        return side_record.values.saw(event.value, *place)
    match event:
        case Failed(key=key, error=error):
            side_record.close(key)
            return side_record.values.saw(error, *place)
        case PlanCompiled(plan=plan, facts=facts):
            side_record.plans.append((plan, plan_hash(plan), facts_to_json(facts)))
            side_record.facts.update(facts)
        case Decided(key=key, decision=decision):
            side_record.decided[key] = decision
            side_record.launched.pop(key, None)
            side_record.asked.pop(key, None)
        case Answered(digest=digest):
            side_record.posed.pop(digest, None)
        case TimerFired(key=key):
            side_record.due.pop(key, None)
        case PolicyChanged() | Edited():
            side_record.unsay()
        case _:
            pass
    return False


def _unreadable(row: Row, error: Exception) -> JournalError:
    return JournalError(
        "JRN020",
        f"event {row.seq} ({row.type}) of run {row.run_id} cannot be read: {error!r}",
        hint="it was written by another version of callsheet, or changed since",
    )


def _note(folded: Folded, row: Row) -> None:
    """Add to the side record an event that is not fed to the machine."""
    key, side_record = row.key or "", folded.side_record
    match row.type:
        case EventType.INTENT:
            side_record.call_issued(key, row.ts)
        case EventType.TIMER:
            side_record.due[key] = float((row.body or {})["due"])
        case EventType.IN_DOUBT:
            side_record.asked[key] = str((row.body or {}).get("reason", ""))
        case EventType.ASK:
            body = row.body or {}
            side_record.posed[body["digest"]] = AskTimes(row.ts, body["due"])
            if folded.start.is_veiled or folded.machine.asking.is_recorded_as(key, body):
                folded.adopt(key, body["digest"])
        case EventType.MOVED:
            side_record.moved.update(row.body or {})
        case EventType.PAUSE:
            side_record.withhold((row.body or {}).get("unsent", ()))
        case EventType.SERVER_TASK:
            side_record.tasks[key] = str((row.body or {})["task"])
        case EventType.START:
            raise ValueError("a run has one start")
        case EventType.END:
            _note_end(folded, row)
        case EventType.REOPEN:
            folded.ended = folded.has_diverged = False
        case _:
            pass


def _note_end(folded: Folded, row: Row) -> None:
    folded.ended = True
    folded.has_diverged = not leads_to(folded.machine.result, row.body or {})
    response = (row.body or {}).get("response")
    if folded.start.is_veiled and isinstance(response, str):
        folded.recorded_response = response
    if folded.has_diverged and row.guide is not None:
        row.guide.warn_diverged()
    usage = (row.body or {}).get("usage")
    if usage is not None:
        folded.clock.seconds = float(usage["seconds"])


def current_state(
    journal: Journal,
    run_id: str,
    plan: Plan,
    observer: Observer | None = None,
    *,
    from_start: bool = False,
    opener: Unsealer | None = None,
) -> Folded | BadEvent:
    """The run after its last event, or its first bad event.

    The observer is called for all events or, with a snapshot, for those since. `from_start` ignores
    snapshots. With an `opener` secrets are unsealed, for a run that is resumed; without one, placeholders
    are in their place. Raises JournalError: JRN002 for an unknown run, JRN012 or JRN020 for
    events that cannot be read, SEC001 to SEC004 for secrets that cannot be unsealed.
    """
    snapshot = None if from_start else journal.last_snapshot(run_id)
    if snapshot is not None and journal.verify(run_id, snapshot) is None:
        try:
            return state_from_snapshot(
                journal, run_id, plan, journal.events(run_id, snapshot - 1), observer, opener
            )
        except UnusableSnapshot:
            pass  # folding all events gives the same state
    bad = journal.verify(run_id)
    if bad is not None:
        return bad
    rows = journal.events(run_id)
    rows = rows if opener is None else opener.events(rows)
    return fold(plan, rows, journal.plan_of, observer)


def state_from_snapshot(
    journal: Journal,
    run_id: str,
    plan: Plan,
    events: Iterator[Row],
    observer: Observer | None = None,
    opener: Unsealer | None = None,
    program: Program | None = None,
    *,
    in_part: bool = False,
) -> Folded:
    """The run after these events, the first of which is a snapshot.

    Raises UnusableSnapshot if the snapshot cannot be used.

    `program` is the compiled plan, if there is one already. Else it is compiled, with `in_part` only for the
    steps that are reached, which suffices if the run is not resumed.
    """
    read = read_plainly if opener is None else opener.stored
    events = events if opener is None else opener.events(events)
    taken = next(events)
    if taken.type is not EventType.SNAPSHOT:
        raise UnusableSnapshot("another event is in its place")
    try:
        ((_, kind, data),) = journal.bodies(run_id, [1])
        start = start_from(kind, read(kind, data, 1))
    except (KeyError, TypeError, ValueError) as error:
        raise UnusableSnapshot(f"the start of the run cannot be read: {error!r}") from error
    if in_part and program is None:
        program = program_on_demand(plan, start.facts)
    stored = StoredParts(partial(journal.bodies, run_id), journal.plan_of, read)
    folded = restored(plan, start, taken.body or {}, stored, observer, program)
    folded.clock.tick(taken)
    return fold_on(folded, events, journal.plan_of)
