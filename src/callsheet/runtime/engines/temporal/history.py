"""A history as a journal: what Temporal keeps of a run, told again to the same machine and written down.

In: the history of a run. Out: its events in a journal, as a local run has them, so that every command that
looks at runs works. The history is replayed by the workflow itself: order and times are the ones that it had,
and a history that leads elsewhere is found out. Nothing is called.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from temporalio import workflow
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
from callsheet.runtime.engines.temporal.flow import PlanRun
from callsheet.runtime.engines.temporal.happenings import Happening
from callsheet.runtime.engines.temporal.orders import Order


class Told:
    """What a history tells of a run."""

    def __init__(self, order: Order, happened: Sequence[Happening]) -> None:
        self.order = order
        self.happened = happened


class _Witness(Interceptor):
    """Keeps the workflows that are replayed."""

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


async def told_by(history: WorkflowHistory, converter: DataConverter) -> Told:
    """What a history tells. Raises CallsheetError (TMP006) where it is not one of this version's."""
    witness = _Witness()
    replayer = Replayer(
        workflows=[PlanRun],
        workflow_runner=UnsandboxedWorkflowRunner(),
        data_converter=converter,
        interceptors=[witness],
    )
    found = await replayer.replay_workflow(history, raise_on_replay_failure=False)
    if found.replay_failure is not None or not witness.seen:
        raise CallsheetError.single(
            "TMP006",
            f"the history of {history.workflow_id} cannot be replayed: {found.replay_failure}",
            help="look at it with the callsheet that its workers have",
        )
    run = witness.seen[-1]
    return Told(run.order, tuple(run.happened))
