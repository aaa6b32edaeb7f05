"""Records in a blob store which server and namespace its workers use.

In: a client. Out: its sign in the store, so that pruning knows whose runs may need its blobs.
"""

from __future__ import annotations

import asyncio
import json
import logging
from hashlib import sha256
from typing import NamedTuple

from temporalio.api.workflowservice.v1 import GetClusterInfoRequest
from temporalio.client import Client
from temporalio.service import RPCError

from callsheet.store.shared.blobs import Blobs

_PAUSE = 5.0
_log = logging.getLogger("callsheet")


class WorkerSign(NamedTuple):
    """A namespace of a server whose workers use a blob store; `server` is the server's own id."""

    server: str
    namespace: str
    address: str

    @property
    def name(self) -> str:
        """The name of its sign."""
        return sha256(f"{self.server} {self.namespace}".encode()).hexdigest()[:12]


async def user_of(client: Client) -> WorkerSign:
    """The server and namespace of a client."""
    address = client.service_client.config.target_host
    try:
        info = await client.workflow_service.get_cluster_info(GetClusterInfoRequest())
    except RPCError:  # a hosted service may not support this
        return WorkerSign(address, client.namespace, address)
    return WorkerSign(info.cluster_id or address, client.namespace, address)


async def sign(client: Client, blobs: Blobs) -> None:
    """Leave a sign that workers of this client use the store; retries until it is written."""
    user = await user_of(client)
    data = json.dumps(user._asdict()).encode()
    while True:
        try:
            await asyncio.to_thread(blobs.sign, user.name, data)
        except OSError as error:
            _log.warning("the place of large values cannot be signed: %s; retrying", error)
            await asyncio.sleep(_PAUSE)
        else:
            return
