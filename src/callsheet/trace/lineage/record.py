"""The lineage of a run, recorded while its journal is folded through the machine.

In: the entries of a journal. Out: a Lineage, or a recorder that has taken the run's start.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any, cast

from callsheet.diagnostics import Source
from callsheet.frontends.spelling import Syntax, is_python, read_plan_text
from callsheet.ir import Order, Plan, Step
from callsheet.ir.gc_pause import gc_paused
from callsheet.machine.compiling import program_on_demand
from callsheet.machine.notes import Note
from callsheet.machine.program import Program
from callsheet.store.errors import JournalError
from callsheet.store.events import Entry, Event, EventType, decode_body
from callsheet.store.journal import Journal
from callsheet.store.records import PlanOf
from callsheet.store.replay import begin, restored, start_from
from callsheet.store.runs import RunInfo
from callsheet.store.snapshots import StoredParts, UnusableSnapshot
from callsheet.trace.lineage.blocks import TreeLineage
from callsheet.trace.lineage.lineage import NONE, LastUses, Lineage, last_uses
from callsheet.trace.lineage.recorder import Recorder, unreadable


def lineage_of(
    plan: Plan,
    entries: Iterable[Entry],
    plan_of: PlanOf,
    upto: int | None = None,
    program: Program | None = None,
) -> Lineage:
    """The lineage of a run, or of its events up to the number `upto`.

    `program` is the plan compiled with the same facts, if it is at hand. Raises JournalError (JRN020) if the
    events do not begin with a start or cannot be read.
    """
    with gc_paused(True):
        rest = iter(entries)
        recorder = recorder_of(plan, rest, program)
        for entry in rest:
            if upto is not None and entry.seq > upto:
                break
            recorder.add(entry, plan_of)
        return recorder.done(upto)


def recorder_of(
    plan: Plan, entries: Iterator[Entry], program: Program | None = None, *, in_part: bool = False
) -> Recorder:
    """A recorder that has taken the first entry, the start of a run; raises as `lineage_of` does.

    With `in_part`, the plan's steps are compiled on demand, as only part of the run will be read.
    """
    first = next(entries, None)
    if first is None:
        raise JournalError("JRN020", "the run has no events", hint="it was never started")
    recorder = attending(plan, first, program=program, in_part=in_part)
    recorder.begin(first)
    return recorder


def attending(
    plan: Plan,
    first: Entry,
    hears: Callable[[Note], None] | None = None,
    program: Program | None = None,
    *,
    in_part: bool = False,
) -> Recorder:
    """A recorder attached to the machine of a run that `first` describes; `Recorder.begin` starts both.

    `hears` is called with each note of the machine after it has been recorded. `in_part` as for
    `recorder_of`; raises as `lineage_of` does.
    """
    recorder = _recorder(plan, hears)
    try:
        start = start_from(first.type, first.body)
        if in_part and program is None and plan.tree is None:
            program = program_on_demand(plan, start.facts)
        machine = begin(plan, start, recorder.note, program).machine
    except (KeyError, TypeError, ValueError) as error:
        raise unreadable(first, error) from error
    recorder.attend(machine, first.seq, start)
    return recorder


def entry_of(row: Event) -> Entry:
    """An event as an entry of its own."""
    return Entry(row.seq, row.type, row.key, row.ts, row.body, row.seq, None, row.epoch, row.guide)


def run_lineage(journal: Journal, info: RunInfo, upto: int | None = None) -> Lineage:
    """The lineage of a run of a journal, or of its events up to `upto`; raises JournalError."""
    plan, source = journal.plan(info.plan_hash)
    lineage = lineage_of(plan, journal.entries(info.run_id), journal.plan_of, upto)
    if isinstance(lineage, TreeLineage):
        lineage.lines = lines_of(plan, source)
    return lineage


def lines_of(plan: Plan, source: str) -> dict[str, str]:
    """Where the statements of a Python plan stand in its text, by id: `line 12:5`; empty for other plans."""
    if plan.tree is None or not is_python(source):
        return {}
    from callsheet.ir.tree import all_statements  # noqa: PLC0415 - only for version 2

    read = read_plan_text(source, syntax=Syntax.PYTHON).result.plan
    if read is None or read.tree is None:
        return {}
    text = Source("", source)
    spans = {one.id: one.span for one in all_statements(read.tree) if one.span is not None}
    return {id_: "line {}:{}".format(*text.position(span.start)) for id_, span in spans.items()}


def _recorder(plan: Plan, hears: Callable[[Note], None] | None) -> Recorder:
    if plan.tree is None:
        return Recorder(hears)
    from callsheet.trace.lineage.block_recorder import BlockRecorder  # noqa: PLC0415 - only for version 2

    return BlockRecorder(hears)


_ITEMS = 3
"""The place of a frame's items in the state of a machine; null without a FOREACH."""
_FURTHER = 8_000
"""The second part tried begins about this many events before the end."""
_MOST_WRITERS = 500
_FIRST_STAGE = 1_000
"""The number of entries after which a lineage that may end early is first returned."""
_GROWTH = 4
"""The factor by which each further stage is longer."""
_NOT_IN_ORDER = (EventType.PLAN, EventType.EDIT, EventType.REOPEN)


def lineages_in(
    journal: Journal, info: RunInfo, name: str = "", *, is_forward: bool = False, ends_early: bool = False
) -> Iterator[Lineage]:
    """The lineages of a run, of short parts first where there are such; raises JournalError without a run.

    The parts end where the run does or, where a variable is named, with what has set it last. Of one that is
    asked about forward they begin before that: there are none where no step sets it. With `ends_early` each
    of these is told in stages, as one lineage that goes on when the next is asked for.
    """
    plan = journal.plan_of(info.plan_hash)
    if plan.tree is not None:
        yield run_lineage(journal, info)
        return
    writers = _writers(plan, name)
    last = _last_write(journal, info, plan, writers) if name else None
    bounds = (last, (last or info.events) - _FURTHER)
    if is_forward:
        bounds = () if name and not writers else (last,)
        last = None
    uses = last_uses(plan) if ends_early and not journal.has_any(info.run_id, *_NOT_IN_ORDER) else None

    program: Program | None = None
    with gc_paused(True):
        begun = None
        for bound in bounds:
            recorder = (
                None
                if bound is not None and bound < 1
                else recorder_at(journal, info.run_id, plan, bound, program)
            )
            if recorder is None:
                break
            program = recorder.machine.program
            if recorder.seq == begun:
                continue
            begun = recorder.seq
            entries = journal.entries(info.run_id, recorder.seq - 1)
            if uses is not None:
                yield from _in_stages(recorder, entries, journal.plan_of, uses, bound or 1)
                continue
            lineage = _from(recorder, entries, journal.plan_of, last)
            if last is None or _is_last(lineage, name, last):
                yield lineage
        entries = journal.entries(info.run_id)
        if uses is not None:
            recorder = recorder_of(plan, entries, program, in_part=True)
            yield from _in_stages(recorder, entries, journal.plan_of, uses)
            return
    yield lineage_of(plan, entries, journal.plan_of, program=program)


def _from(recorder: Recorder, entries: Iterable[Entry], plan_of: PlanOf, upto: int | None) -> Lineage:
    """The lineage from a recorder's event on, up to the event `upto` if that is given."""
    for entry in entries:
        if upto is not None and entry.seq > upto:
            break
        recorder.add(entry, plan_of)
    return recorder.done(upto)


def _in_stages(
    recorder: Recorder, entries: Iterable[Entry], plan_of: PlanOf, uses: LastUses, since: int = 1
) -> Iterator[Lineage]:
    """The lineage from a recorder's event on in growing stages, the first ending after the event `since`."""
    machine, count, stop = recorder.machine, 0, _FIRST_STAGE
    for entry in entries:
        recorder.add(entry, plan_of)
        count += entry.seq >= since
        if count < stop or machine.group is not None or machine.result is not None:
            continue
        stop = _GROWTH * count
        lineage = recorder.so_far()
        lineage.uses = uses
        yield lineage
    lineage = recorder.done(None)
    lineage.uses = None
    yield lineage


def _writers(plan: Plan, name: str) -> list[Step]:
    return [step for step in plan.steps if step.output is not None and step.output.var == name]


def _last_write(journal: Journal, info: RunInfo, plan: Plan, writers: list[Step]) -> int | None:
    """The last event at which one of these steps set its variable; None if that takes a replay to know."""
    is_plain = plan.order is Order.TEXT and all(step.group is None for step in writers)
    if not is_plain or not 0 < len(writers) <= _MOST_WRITERS:
        return None
    if journal.has_any(info.run_id, EventType.PLAN, EventType.EDIT):
        return None
    return journal.last_outcome(info.run_id, [step.id for step in writers])


def _is_last(lineage: Lineage, name: str, seq: int) -> bool:
    """Whether a variable was last set at this event; an early outcome sets it only when its turn comes."""
    write = lineage.current.get(name, NONE)
    return write != NONE and lineage.writes[write].seq == seq


def recorder_at(
    journal: Journal, run_id: str, plan: Plan, upto: int | None = None, program: Program | None = None
) -> Recorder | None:
    """A recorder at the last snapshot, up to an event; it is to take the entries from that snapshot on.

    None where there is none, or one from which little would be known: amid a FOREACH, a group, a graph, or in
    a new plan. `program` is that of the plan, where it has been made before.
    """
    snapshot = journal.last_snapshot(run_id, upto)
    if snapshot is None:
        return None
    recorder = Recorder()
    try:
        (_, kind, data), (_, _, taken) = journal.bodies(run_id, [1, snapshot])
        start, body = start_from(kind, decode_body(data)), decode_body(taken)
        if not _stands_alone(body):
            return None
        program = program_on_demand(plan, start.facts) if program is None else program
        stored = StoredParts(partial(journal.bodies, run_id), journal.plan_of)
        folded = restored(plan, start, body, stored, program=program)
    except (UnusableSnapshot, KeyError, TypeError, ValueError):
        return None
    folded.machine.observer = recorder.note  # of what was before, the state tells
    recorder.resume(folded.machine, snapshot, start)
    return recorder


def _stands_alone(body: dict[str, Any]) -> bool:
    state = cast("dict[str, Any]", body["state"])
    if "tree" in state:
        return False
    is_plain = body["plan"] is None and state["schedule"] is None and state["group"] is None
    early = cast("dict[str, Any]", state.get("ahead") or {})  # what its arguments were made of is before
    return is_plain and not early.get("steps") and all(frame[_ITEMS] is None for frame in state["frames"])
