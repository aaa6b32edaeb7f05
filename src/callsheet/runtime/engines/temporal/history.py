"""The events of a run on Temporal: from its result or its history, and their copy in a journal.

The copy has the events that a local run writes, with their original order and times and with secret parts
sealed by their labels, so that every command that looks at runs works. A replay detects a history that does
not fit the workflow; nothing is called. Events that the journal already has are skipped, so it can be updated
at any time. When people acted at the same moment, it says whose answer or decision the run took.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

from temporalio import workflow
from temporalio.api.common.v1 import Payload
from temporalio.api.enums.v1 import EventType as ServerEvent
from temporalio.client import WorkflowHistory
from temporalio.converter import DataConverter
from temporalio.worker import (
    ExecuteWorkflowInput,
    Interceptor,
    Replayer,
    UnsandboxedWorkflowRunner,
    WorkflowInboundInterceptor,
    WorkflowInterceptorClassInput,
)

from callsheet.diagnostics import CallsheetError
from callsheet.frontends.spelling import text_of
from callsheet.ir import plan_from_json
from callsheet.machine import Ask, Machine, Outcome, Started
from callsheet.machine.machine import Observer
from callsheet.runtime.answers import PendingAsk
from callsheet.runtime.doubt import RunOutcome, doubtful_calls, fold_run, unanswered_calls, unfinished
from callsheet.runtime.engines.temporal.flow import PlanRun
from callsheet.runtime.engines.temporal.payloads import ClaimCheck, OrderedJson
from callsheet.runtime.engines.temporal.run_order import HAPPENED, PAST, Carried, Reopening, RunOrder
from callsheet.runtime.engines.temporal.wire import Row, event_in
from callsheet.runtime.inbox import asks_of
from callsheet.runtime.recording import secrecy_of
from callsheet.sealing.keys import NotOpened
from callsheet.sealing.sealer import Path, is_sealed
from callsheet.store import EventType, Journal, RunStatus, RunWriter
from callsheet.store.blobs import BlobMissing
from callsheet.store.errors import JournalError
from callsheet.store.pauses import RunPause, pause_in
from callsheet.store.pending import NO_FACTS
from callsheet.store.replay import begin
from callsheet.store.run_index import facts_of_rest

SCHEDULED = ServerEvent.EVENT_TYPE_WORKFLOW_TASK_SCHEDULED


class RunHistory:
    """The order and the events of a run, read from its history."""

    def __init__(self, order: RunOrder, happened: Sequence[Row]) -> None:
        self.order = order
        self.happened = happened


class _Witness(Interceptor):
    """An interceptor that keeps the replayed workflow instances."""

    def __init__(self) -> None:
        self.seen: list[PlanRun] = []

    def workflow_interceptor_class(
        self,
        input: WorkflowInterceptorClassInput,  # noqa: A002 - the name is the SDK's
    ) -> type[WorkflowInboundInterceptor] | None:
        del input
        seen = self.seen

        class _Inbound(WorkflowInboundInterceptor):
            async def execute_workflow(self, input: ExecuteWorkflowInput) -> Any:  # noqa: A002 - as above
                seen.append(workflow.instance())
                return await super().execute_workflow(input)

        return _Inbound


async def run_history(history: WorkflowHistory, converter: DataConverter, claims: ClaimCheck) -> RunHistory:
    """The events in a history and in those before it.

    Raises CallsheetError (TMP006) if it cannot be replayed.
    """
    told = await _ended(history, claims) or await _begun(history, claims)
    if told is not None:
        return told
    witness = _Witness()
    replayer = Replayer(
        workflows=[PlanRun],
        workflow_runner=UnsandboxedWorkflowRunner(),
        data_converter=converter,
        interceptors=[witness],
    )
    replay = await replayer.replay_workflow(history, raise_on_replay_failure=False)
    if replay.replay_failure is not None or not witness.seen:
        raise _unreadable(history, replay.replay_failure)
    run = witness.seen[-1]
    return await _whole(history, claims, run.order, run.past, run.happened)


async def _ended(history: WorkflowHistory, claims: ClaimCheck) -> RunHistory | None:
    """What a run that has ended says itself; None if it has not, or did not say it."""
    first, last = history.events[0], history.events[-1]
    if not last.HasField("workflow_execution_completed_event_attributes"):
        return None
    order = first.workflow_execution_started_event_attributes.input.payloads[:1]
    result = last.workflow_execution_completed_event_attributes.result.payloads[:1]
    try:
        decoded = await claims.of(history.workflow_id).decode([*order, *result])
        said, body = (OrderedJson().from_payload(payload) for payload in decoded)
    except (BlobMissing, NotOpened, OSError, ValueError) as error:
        raise _unreadable(history, error) from error
    if HAPPENED not in body:
        return None
    return await _whole(history, claims, RunOrder.from_json(said), body[PAST], body[HAPPENED])


async def _begun(history: WorkflowHistory, claims: ClaimCheck) -> RunHistory | None:
    """What a history begins with, if no worker is to take it up yet: the SDK would wait for that for ever.

    The server holds a history back for a while if those before it were short. None for all others.
    """
    if any(event.event_type == SCHEDULED for event in history.events):
        return None
    given = history.events[0].workflow_execution_started_event_attributes.input.payloads
    try:
        decoded = await claims.of(history.workflow_id).decode(given)
        order, carried, again, *_ = (*(OrderedJson().from_payload(one) for one in decoded), None, None)
    except (BlobMissing, NotOpened, OSError, ValueError) as error:
        raise _unreadable(history, error) from error
    past = () if carried is None else Carried.from_json(carried).past
    rows = () if again is None else Reopening.from_json(again).rows
    return await _whole(history, claims, RunOrder.from_json(order), past, rows)


async def _whole(
    history: WorkflowHistory,
    claims: ClaimCheck,
    order: RunOrder,
    past: Sequence[str],
    happened: Sequence[Row],
) -> RunHistory:
    """The events of a run, with those of its earlier histories."""
    try:
        before = [OrderedJson().from_payload(Payload(data=await claims.fetch(name))) for name in past]
    except (BlobMissing, NotOpened, OSError) as error:
        raise _unreadable(history, error) from error
    return RunHistory(order, tuple(chain(*before, happened)))


def _unreadable(history: WorkflowHistory, why: object) -> CallsheetError:
    return CallsheetError.single(
        "TMP006",
        f"the history of {history.workflow_id} cannot be replayed: {why}",
        help="use the version of callsheet and the folder of blobs that its workers use",
    )


class Watching:
    """The observer of one run, and how far it has been notified."""

    def __init__(self, observer: Observer) -> None:
        self._observer = observer
        self._machine: Machine | None = None
        self._seen = 0

    def notify(self, history: RunHistory) -> None:
        """Notify of the events since the last call."""
        if self._machine is None:
            start = history.order.start
            self._machine = begin(history.order.plan, start, self._observer).machine
            self._machine.feed(Started(start.inputs))
        for row in history.happened[self._seen :]:
            event = event_in(row)
            if event is not None:
                self._machine.feed(event)
        self._seen = len(history.happened)


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
    asks, pause = tuple(asks_of(journal, run_id)), recorded_pause(journal, run_id)
    return replace(unfinished(run_id, folded, doubtful, asks, unanswered_calls(folded)), pause=pause)


def recorded_pause(journal: Journal, run_id: str) -> RunPause | None:
    """The pause of a run by its events; None if a person has let it go on since, or none is recorded."""
    reader = journal.parts.reader
    began, ended = reader.last_of(run_id, EventType.PAUSE), reader.last_of(run_id, EventType.UNPAUSE)
    return None if began is None or (ended is not None and ended.seq > began.seq) else pause_in(began)


def _set_status(journal: Journal, run_id: str) -> None:
    """Update the status that lists of runs show."""
    outcome = journaled_outcome(journal, run_id)
    status = RunStatus.RUNNING
    if outcome.pause is not None:
        status = RunStatus.PAUSED
    elif outcome.in_doubt:
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
