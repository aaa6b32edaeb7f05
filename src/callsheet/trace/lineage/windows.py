"""Records the lineage of a part of a long run, from a snapshot on, as most queries are about recent events.

In: a journal and a run. Out: lineages, of the shortest part first and of the whole run last; or a recorder
that starts at a snapshot. In the lineage of a part, values from before it are marked as such.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any, cast

from callsheet.ir import Order, Plan, Step
from callsheet.ir.gc_pause import gc_paused
from callsheet.machine import Program
from callsheet.machine.on_demand import program_on_demand
from callsheet.store.events import Entry, EventType, decode_body
from callsheet.store.journal import Journal
from callsheet.store.records import PlanOf
from callsheet.store.replay import restored, start_from
from callsheet.store.runs import RunInfo
from callsheet.store.snapshots import StoredParts, UnusableSnapshot
from callsheet.trace.lineage.lineage import NONE, Lineage
from callsheet.trace.lineage.record import lineage_of, recorder_of
from callsheet.trace.lineage.recorder import Recorder
from callsheet.trace.lineage.uses import LastUses, last_uses

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
    is_plain = body["plan"] is None and state["schedule"] is None and state["group"] is None
    early = cast("dict[str, Any]", state.get("ahead") or {})  # what its arguments were made of is before
    return is_plain and not early.get("steps") and all(frame[_ITEMS] is None for frame in state["frames"])
