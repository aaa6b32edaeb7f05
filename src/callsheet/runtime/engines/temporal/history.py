"""Reads a run's events from its Temporal history, from its result, else by replaying the workflow.

In: the history of a run. Out: its events as rows for the journal, and for an observer, so that every command
that looks at runs works. A replay yields the original order and times, and detects a history that does not
fit the workflow. Nothing is called.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Any

from temporalio import workflow
from temporalio.api.common.v1 import Payload
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
from callsheet.machine import Machine, Started
from callsheet.machine.machine import Observer
from callsheet.runtime.engines.temporal.flow import PlanRun
from callsheet.runtime.engines.temporal.payloads import ClaimCheck, OrderedJson
from callsheet.runtime.engines.temporal.run_order import HAPPENED, PAST, RunOrder
from callsheet.runtime.engines.temporal.wire import Row, event_in
from callsheet.sealing.keys import NotOpened
from callsheet.store.blobs import BlobMissing
from callsheet.store.replay import begin


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
    ended = await _ended(history, claims)
    if ended is not None:
        return ended
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
