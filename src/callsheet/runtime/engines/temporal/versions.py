"""Worker versioning: which build gets new runs. A run stays with workers of the version that began it.

In: a deployment and a build. Out: the server routes new runs to that build.
"""

from __future__ import annotations

import asyncio
import time

from temporalio.api.workflowservice.v1 import SetWorkerDeploymentCurrentVersionRequest
from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

from callsheet.machine.keys import MACHINE_VERSION
from callsheet.runtime.engines.temporal.client import refused

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
