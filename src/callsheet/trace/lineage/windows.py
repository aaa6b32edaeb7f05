"""The lineage of the last part of a long run, from a snapshot on: most questions are about what is near.

In: a journal and a run. Out: lineages, the nearest to the end first, that of the whole run last; or a
recorder that stands at a snapshot. Of what was before, a lineage of a part has the values, and says so.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

from callsheet.ir import Plan
from callsheet.ir.collecting import collector_rests
from callsheet.store.events import decode_body
from callsheet.store.journal import Journal
from callsheet.store.reader import RunInfo
from callsheet.store.replay import restored, start_from
from callsheet.store.snapshots import Unfit
from callsheet.trace.lineage.lineage import Lineage
from callsheet.trace.lineage.record import Recorder, lineage_of

_ITEMS = 3
"""The place of a frame's items in the state of a machine; null without a FOREACH."""


def lineages_in(journal: Journal, info: RunInfo) -> Iterator[Lineage]:
    """The lineages of a run, of its last part first where there is one; raises JournalError without a run."""
    plan = journal.plan(info.plan_hash)[0]
    with collector_rests(True):
        recorder = recorder_at(journal, info.run_id, plan)
        if recorder is not None:
            for entry in journal.entries(info.run_id, recorder.seq - 1):
                recorder.take(entry, lambda name: journal.plan(name)[0])
            yield recorder.done(None)
    yield lineage_of(plan, journal.entries(info.run_id), lambda name: journal.plan(name)[0])


def recorder_at(journal: Journal, run_id: str, plan: Plan, upto: int | None = None) -> Recorder | None:
    """A recorder at the last snapshot, up to an event; it is to take the entries from that snapshot on.

    None where there is none, or one from which little would be known: amid a FOREACH, a group, a graph, or in
    a new plan.
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
        folded = restored(
            plan,
            start,
            body,
            lambda seqs: journal.bodies(run_id, seqs),
            lambda name: journal.plan(name)[0],
            recorder.note,
        )
    except (Unfit, KeyError, TypeError, ValueError):
        return None
    recorder.go_on(folded.machine, snapshot, start)
    return recorder


def _stands_alone(body: dict[str, Any]) -> bool:
    state = cast("dict[str, Any]", body["state"])
    is_plain = body["plan"] is None and state["schedule"] is None and state["group"] is None
    return is_plain and all(frame[_ITEMS] is None for frame in state["frames"])
