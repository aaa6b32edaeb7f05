"""Writes the events of a Temporal run into a journal, and reads the run's state from it.

In: the events in a history. Out: the same journal events, with their original times, that a local run writes.
Events that the journal already has are skipped, so it can be updated at any time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from callsheet.ir import plan_from_json
from callsheet.machine import Machine, Outcome
from callsheet.runtime.doubt import RunOutcome, doubtful_calls, fold_run, unanswered_calls, unfinished
from callsheet.runtime.engines.temporal.event_rows import Row
from callsheet.runtime.engines.temporal.run_order import RunOrder
from callsheet.runtime.engines.temporal.secret_parts import SecretParts
from callsheet.runtime.inbox import asks_of
from callsheet.runtime.recording import text_of
from callsheet.sealing.sealer import Path
from callsheet.store import EventType, Journal, RunStatus, RunWriter
from callsheet.store.errors import JournalError


def note_order(journal: Journal, order: RunOrder, at: float | None = None) -> None:
    """Create a run in the journal with only its start, unless it exists; raises what `create_run` does."""
    if _has(journal, order.run_id):
        return
    with journal.create_run(
        order.run_id, order.plan, order.source, order.start.to_json(), core_version=order.core, at=at
    ) as writer:
        writer.commit()


def note_happenings(journal: Journal, order: RunOrder, happened: Sequence[Row]) -> None:
    """Append the events that the journal does not have yet.

    Raises JournalError: JRN004 while another process does the same, and other errors of writing.
    """
    known = journal.find_run(order.run_id).events - 1
    if len(happened) <= known:
        return
    labels = None if order.start.policy is None else SecretParts(order)
    with journal.claim(order.run_id) as writer:
        for number, row in enumerate(happened):
            secret = None if labels is None else labels.of(row)
            if number >= writer.last_seq - 1:
                writer.date(row["at"])
                _write(writer, row, secret)
        writer.commit()
    if not journal.find_run(order.run_id).status.is_final:
        _set_status(journal, order.run_id)


def _write(writer: RunWriter, row: Row, secret: Mapping[Path, str] | None) -> None:
    kind, key, body = EventType(row["type"]), row["key"], row["body"]
    if "steps" in row:
        plan = plan_from_json(row["steps"])
        writer.add_plan(plan, text_of(plan))
    if kind is EventType.INTENT:
        writer.intend(key, None if body is None else body["tool"])
        return
    writer.append(kind, key=key, body=body, secret=secret)
    if kind is EventType.END:
        writer.set_outcome(Outcome.of(body["status"], has_failures=bool(body.get("failed_steps"))))
    elif kind is EventType.REOPEN:
        writer.set_status(RunStatus.RUNNING)


def machine_of(journal: Journal, run_id: str) -> Machine:
    """The machine of a run, folded from its journal."""
    return fold_run(journal, run_id, journal.plan(journal.find_run(run_id).plan_hash)[0]).machine


def journaled_outcome(journal: Journal, run_id: str) -> RunOutcome:
    """The state of a run by its journal; raises JournalError if it cannot be read."""
    folded = fold_run(journal, run_id, journal.plan(journal.find_run(run_id).plan_hash)[0])
    result, doubtful = folded.machine.result, doubtful_calls(folded)
    if result is not None:
        return RunOutcome(run_id, result, doubtful, usage=folded.usage())
    return unfinished(run_id, folded, doubtful, tuple(asks_of(journal, run_id)), unanswered_calls(folded))


def _set_status(journal: Journal, run_id: str) -> None:
    """Update the status that lists of runs show."""
    outcome = journaled_outcome(journal, run_id)
    status = RunStatus.RUNNING
    if outcome.in_doubt:
        status = RunStatus.IN_DOUBT
    elif outcome.waiting:
        status = RunStatus.WAITING
    if journal.find_run(run_id).status is not status:
        with journal.claim(run_id) as writer:
            writer.set_status(status)
            writer.commit()


def _has(journal: Journal, run_id: str) -> bool:
    try:
        return journal.find_run(run_id).run_id == run_id
    except JournalError:
        return False
