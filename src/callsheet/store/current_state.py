"""Computes the current state of a run from its last snapshot or from all events, and verifies what it uses.

In: a journal, a run, its plan. Out: the folded run, or the first bad event. With a snapshot, the chain is
verified from there on, and before it only the start and the values that the snapshot refers to;
`Journal.verify` checks everything. If the snapshot cannot be used, all events are verified and folded.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from callsheet.ir import Plan
from callsheet.machine import Program
from callsheet.machine.compiling import program_on_demand
from callsheet.machine.machine import Observer
from callsheet.store.chain import BadEvent
from callsheet.store.events import Event, EventType
from callsheet.store.folded import Folded
from callsheet.store.journal import Journal
from callsheet.store.replay import fold, fold_on, restored, start_from
from callsheet.store.seal_keys import Unsealer
from callsheet.store.snapshots import StoredParts, UnusableSnapshot, read_plainly


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
    events: Iterator[Event],
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
