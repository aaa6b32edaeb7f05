"""The copy of a Temporal run in a journal: writes its events, and reads the run's state from it.

In: the events in a history. Out: the same journal events, with their original times, that a local run writes,
with secret parts sealed by their labels. Events that the journal already has are skipped, so it can be
updated at any time. When people acted at the same moment, it says whose answer or decision the run took.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from callsheet.ir import plan_from_json
from callsheet.machine import Ask, Machine, Outcome, Started
from callsheet.runtime.answers import PendingAsk
from callsheet.runtime.doubt import RunOutcome, doubtful_calls, fold_run, unanswered_calls, unfinished
from callsheet.runtime.engines.temporal.run_order import RunOrder
from callsheet.runtime.engines.temporal.wire import Row, event_in
from callsheet.runtime.inbox import asks_of
from callsheet.runtime.recording import secrecy_of, text_of
from callsheet.sealing.sealer import Path, is_sealed
from callsheet.store import EventType, Journal, RunStatus, RunWriter
from callsheet.store.errors import JournalError
from callsheet.store.pending import NO_FACTS
from callsheet.store.replay import begin
from callsheet.store.run_index import facts_of_rest


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
        writer.set_outcome(Outcome.of(body["status"], has_failures=bool(body.get("failed_steps"))), body)
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
    info = journal.find_run(run_id)
    if info.status is not status:
        rests = status is not RunStatus.RUNNING
        folded = fold_run(journal, run_id, journal.plan_of(info.plan_hash)) if rests else None
        with journal.claim(run_id) as writer:
            writer.set_status(status, facts=NO_FACTS if folded is None else facts_of_rest(folded))
            writer.commit()


def _has(journal: Journal, run_id: str) -> bool:
    try:
        return journal.find_run(run_id).run_id == run_id
    except JournalError:
        return False


class SecretParts:
    """The labels of one run, as they become known."""

    def __init__(self, order: RunOrder) -> None:
        self._machine = begin(order.plan, order.start).machine
        self._machine.feed(Started(order.start.inputs))
        self._secrecy = secrecy_of(self._machine)
        self._has_secrets = False

    def of(self, row: Row) -> Mapping[Path, str] | None:
        """The secret parts of the body of the next row, None if there are none."""
        places = self._find_parts(row)
        self._has_secrets = self._has_secrets or bool(places)
        return places or None

    def _find_parts(self, row: Row) -> Mapping[Path, str] | None:
        secrecy, machine = self._secrecy, self._machine
        if secrecy is None:
            return None
        if row["type"] == EventType.ASK:
            command = machine.open_commands().get(row["key"])
            return secrecy.of_question(command) if isinstance(command, Ask) else None
        if row["type"] == EventType.END:
            result = machine.result
            return None if result is None else secrecy.of_end(result, has_sealed=self._has_secrets)
        event = event_in(row)
        if event is None:
            return None
        secret = secrecy.of(event)
        machine.feed(event)
        return secret


def first_answer(journal: Journal, ask: PendingAsk) -> str | None:
    """The message id of the answer that a question got; "" if its time ran out, None if it is open."""
    for event in journal.events(ask.run_id):
        body = event.body or {}
        if event.type is EventType.SIGNAL and event.key == ask.key and body.get("digest") == ask.digest:
            return str(body.get("msg_id", ""))
    return None


def first_decision(journal: Journal, run_id: str, key: str, doubt: int) -> Mapping[str, Any] | None:
    """The body of the decision about a call's doubt with this number, from 1; None if there is none."""
    count = 0
    for event in journal.events(run_id):
        if event.key == key:
            count += event.type is EventType.IN_DOUBT
            if event.type is EventType.DECIDED and count == doubt:
                return event.body
    return None


def is_same_decision(taken: Mapping[str, Any], sent: Mapping[str, Any]) -> bool:
    """Whether two decisions say the same; a value that the journal has sealed is not compared."""
    return taken["decision"] == sent["decision"] and (
        is_sealed(taken) or taken.get("value") == sent.get("value")
    )
