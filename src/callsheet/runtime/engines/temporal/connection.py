"""Connects to a Temporal server and its blob store, and records in the store who uses it.

In: settings, and the files and variables that Temporal's own tools read (`TEMPORAL_ADDRESS`,
`TEMPORAL_API_KEY`, `TEMPORAL_TLS_…`, `temporal.toml`). Out: a client, or a diagnostic; and the sign of a
server and namespace in the store, so that pruning knows whose runs may need its blobs.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import re
from hashlib import sha256
from typing import NamedTuple

from temporalio.api.workflowservice.v1 import GetClusterInfoRequest
from temporalio.client import Client
from temporalio.envconfig import ClientConfig
from temporalio.service import RPCError

from callsheet.diagnostics import CallsheetError
from callsheet.runtime.engines.temporal.payloads import Boxes, ClaimCheck, conversion
from callsheet.runtime.engines.temporal.settings import TemporalSettings
from callsheet.store.seal_keys import KeyStore
from callsheet.store.shared.blobs import Blobs
from callsheet.store.shared.opening import open_blobs

_DEFAULT = "localhost:7233"
_MESSAGE = re.compile(r'message: "([^"]*)"')


class TemporalConnection(NamedTuple):
    """A connection to a server."""

    client: Client
    claims: ClaimCheck
    settings: TemporalSettings


async def reach(settings: TemporalSettings) -> TemporalConnection:
    """Connect to the server.

    Raises CallsheetError: TMP002 if no server answers, TMP003 for an invalid configuration, CFG230 and CFG231
    for the blob store.
    """
    try:
        config = ClientConfig.load_client_connect_config(
            settings.profile or None, override_env_vars=_set_variables()
        )
    except (RuntimeError, ValueError, TypeError, OSError) as error:
        raise CallsheetError.single(
            "TMP003",
            f"the configuration of Temporal cannot be read: {error}",
            help="see TEMPORAL_CONFIG_FILE, TEMPORAL_PROFILE and the other TEMPORAL_ variables",
        ) from error
    address = settings.address or config.get("target_host") or _DEFAULT
    config["target_host"] = address
    if settings.namespace:
        config["namespace"] = settings.namespace
    claims = ClaimCheck(open_blobs(settings.place), boxes=Boxes(KeyStore().sealing, seals=settings.encrypt))
    try:
        client = await Client.connect(**config, data_converter=conversion(claims))
    except (RuntimeError, RPCError, ValueError) as error:
        raise CallsheetError.single(
            "TMP002",
            f"no Temporal server answers at {address}: {_reason(error)}",
            help="start one (`temporal server start-dev`), or name it: --address or TEMPORAL_ADDRESS",
        ) from error
    return TemporalConnection(client, claims, settings)


def refused(action: str, error: RPCError) -> CallsheetError:
    """The error for a request that the server refuses."""
    return CallsheetError.single(
        "TMP004", f"{action}: the Temporal server says: {error.message or error.status}"
    )


def _set_variables() -> dict[str, str]:
    """The environment without empty TEMPORAL_ variables: an empty key would turn TLS on."""
    return {name: value for name, value in os.environ.items() if value or not name.startswith("TEMPORAL_")}


def _reason(error: Exception) -> str:
    """A short text of a failure: the innermost message of those that the SDK nests."""
    text = " ".join(str(error).split())
    messages = _MESSAGE.findall(text)
    return messages[-1] if messages else text[:200] or type(error).__name__


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
