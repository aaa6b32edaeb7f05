"""A worker: a process that drives runs and carries out calls, and the version by which runs find it.

In: a connection, ports, and its duties. It serves until it is cancelled; then it takes no more work, lets its
calls end for a while, and the rest is taken over by others or falls into doubt. A run stays with workers of
the version that began it; the server routes new runs to the build that was made current last.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from datetime import timedelta
from typing import cast

from temporalio.api.workflowservice.v1 import SetWorkerDeploymentCurrentVersionRequest
from temporalio.client import Client
from temporalio.common import VersioningBehavior, WorkerDeploymentVersion
from temporalio.service import RPCError, RPCStatusCode
from temporalio.worker import (
    Interceptor,
    UnsandboxedWorkflowRunner,
    Worker,
    WorkerDeploymentConfig,
    WorkflowInboundInterceptor,
    WorkflowInterceptorClassInput,
)

from callsheet.machine.keys import MACHINE_VERSION
from callsheet.runtime.engines.temporal.call_rules import OpenLabels
from callsheet.runtime.engines.temporal.calls import Calls
from callsheet.runtime.engines.temporal.connection import refused, sign
from callsheet.runtime.engines.temporal.flow import HAND_OVER, Evaluations, PlanRun
from callsheet.runtime.engines.temporal.payloads import ClaimCheck
from callsheet.runtime.engines.temporal.pending import AT_HAND
from callsheet.runtime.engines.temporal.wire import LONGEST_TASK, MODELS, TOOLS
from callsheet.runtime.gateway import Ports
from callsheet.runtime.launch import Offer
from callsheet.store.labels import LabelStore


@dataclass(frozen=True, slots=True)
class Duties:
    """What a worker does: driving plans, calls of tools, calls of models.

    `calls` limits its concurrent calls; when it is stopped they have `drain` seconds to end.
    """

    queue: str
    plans: bool = True
    tools: bool = True
    models: bool = True
    calls: int = 100
    drain: float = 10.0
    secrets: tuple[str, ...] = ()
    """Variables of this process's environment that runs may name as secrets."""
    offer_of: Callable[[str], Offer | None] = lambda tool: None
    """What is offered here under a tool's name; calls of tools that have changed are refused."""
    accepts_changed: bool = False
    """Whether tools may have changed since the start of a run; the pins of its policy hold all the same."""
    deployment: str = ""
    """The worker deployment of the plans' driver, empty for none; `build` identifies its version."""
    build: str = ""


async def serve(
    client: Client,
    ports: Ports,
    claims: ClaimCheck,
    duties: Duties,
    on_ready: Callable[[], None],
    labels: OpenLabels = LabelStore.in_memory,
) -> None:
    """Work until cancelled, with the `labels` of files and facts for runs under a policy.

    Raises RuntimeError if the server rejects the worker permanently.
    """
    calls = Calls(
        ports,
        claims,
        labels,
        duties.secrets,
        duties.offer_of,
        accepts_changed=duties.accepts_changed,
        most=duties.calls,
    )
    evaluations = Evaluations(claims)
    drain = timedelta(seconds=duties.drain)
    workers: list[Worker] = []
    makes_calls = [calls.carry_out, calls.carry_out_once]
    is_at_hand = duties.tools and duties.models
    if duties.plans:
        drives = Worker(
            client,
            task_queue=duties.queue,
            workflows=[PlanRun],
            workflow_runner=UnsandboxedWorkflowRunner(),  # the machine is pure, as `lint-imports` checks
            activities=[calls.keep_past, evaluations.evaluate, *(makes_calls if is_at_hand else ())],
            max_concurrent_activities=duties.calls,
            interceptors=[_Offers(evaluations, makes_calls=is_at_hand)],
            graceful_shutdown_timeout=drain,
            deployment_config=_deployment(duties),
        )
        _be_patient(drives)
        workers.append(drives)
    for is_wanted, suffix in ((duties.tools, TOOLS), (duties.models, MODELS)):
        if is_wanted:
            workers.append(
                Worker(
                    client,
                    task_queue=duties.queue + suffix,
                    activities=makes_calls,
                    max_concurrent_activities=duties.calls,
                    graceful_shutdown_timeout=drain,
                )
            )
    async with AsyncExitStack() as stack:
        stack.callback(calls.close)
        stack.callback(evaluations.close)
        for worker in workers:
            await stack.enter_async_context(worker)
        stack.callback(asyncio.create_task(sign(client, claims.blobs)).cancel)
        on_ready()
        await asyncio.Event().wait()


def _be_patient(worker: Worker) -> None:
    """Let a workflow task take as long as the server waits; the SDK takes two seconds for a deadlock.

    The machine waits for nothing, and its work is limited; the SDK has no setting for this.
    """
    inner = getattr(worker, "_workflow_worker", None)
    if hasattr(inner, DEADLOCK):
        setattr(inner, DEADLOCK, LONGEST_TASK)


class _Offers(Interceptor):
    """What a worker does for the runs that it drives: evaluations, and with `makes_calls` their calls."""

    def __init__(self, evaluations: Evaluations, *, makes_calls: bool) -> None:
        self._offers = {HAND_OVER: evaluations.hand_over, **({AT_HAND: bool} if makes_calls else {})}

    def workflow_interceptor_class(
        self,
        input: WorkflowInterceptorClassInput,  # noqa: A002 - the name is the SDK's
    ) -> type[WorkflowInboundInterceptor] | None:
        functions = cast("dict[str, object]", input.unsafe_extern_functions)  # pyright: ignore[reportUnknownMemberType]
        functions.update(self._offers)


def _deployment(duties: Duties) -> WorkerDeploymentConfig | None:
    """The deployment version of a worker; its runs stay with workers of the same version."""
    if not duties.deployment:
        return None
    return WorkerDeploymentConfig(
        WorkerDeploymentVersion(duties.deployment, duties.build),
        use_worker_versioning=True,
        default_versioning_behavior=VersioningBehavior.PINNED,
    )


DEADLOCK = "_deadlock_timeout_seconds"
"""Where the SDK keeps after how long it takes a workflow task for a deadlock."""
_PATIENCE = 30.0
_PAUSE = 0.2
_NOT_YET = (RPCStatusCode.NOT_FOUND, RPCStatusCode.FAILED_PRECONDITION)


def default_build(release: str) -> str:
    """The default build id: the release and the version of the machine, whose runs must not be mixed."""
    return f"{release}-machine-{MACHINE_VERSION}"


async def make_current(client: Client, deployment: str, build: str) -> None:
    """Route new runs to this build, once the server has heard of its first worker.

    Raises CallsheetError (TMP004) if the server refuses it.
    """
    deadline = time.monotonic() + _PATIENCE
    request = SetWorkerDeploymentCurrentVersionRequest(
        namespace=client.namespace,
        deployment_name=deployment,
        build_id=build,
        identity=client.identity,
        ignore_missing_task_queues=True,
    )
    while True:
        try:
            await client.workflow_service.set_worker_deployment_current_version(request)
        except RPCError as error:
            if error.status not in _NOT_YET or time.monotonic() > deadline:
                raise refused(f"build {build} of {deployment} cannot take new runs", error) from error
            await asyncio.sleep(_PAUSE)
        else:
            return
