"""The lineage of a run, recorded while its journal is folded through the machine.

In: the entries of a journal. Out: a Lineage, or a recorder that has taken the run's start.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from callsheet.ir import Plan
from callsheet.ir.gc_pause import gc_paused
from callsheet.machine.notes import Note
from callsheet.machine.on_demand import program_on_demand
from callsheet.machine.program import Program
from callsheet.store.errors import JournalError
from callsheet.store.events import Entry
from callsheet.store.records import PlanOf
from callsheet.store.replay import begin, start_from
from callsheet.trace.lineage.lineage import Lineage
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
    recorder = Recorder(hears)
    try:
        start = start_from(first.type, first.body)
        if in_part and program is None:
            program = program_on_demand(plan, start.facts)
        machine = begin(plan, start, recorder.note, program).machine
    except (KeyError, TypeError, ValueError) as error:
        raise unreadable(first, error) from error
    recorder.attend(machine, first.seq, start)
    return recorder
