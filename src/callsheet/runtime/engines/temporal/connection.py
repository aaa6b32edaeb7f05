"""Connects to a Temporal server and its blob store: who uses the store, and which blobs are still needed.

In: settings, and the files and variables that Temporal's own tools read (`TEMPORAL_ADDRESS`,
`TEMPORAL_API_KEY`, `TEMPORAL_TLS_…`, `temporal.toml`). Workers leave the sign of their server and namespace
in the blob store, so that pruning knows whose runs may need its blobs. A history references blobs by tickets,
and in its first event by the digests of its policy and its past events.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import re
from collections.abc import Collection, Iterator, Mapping
from hashlib import sha256
from typing import Any, NamedTuple, cast

from google.protobuf.message import Message
from temporalio.api.common.v1 import Payload
from temporalio.api.workflowservice.v1 import GetClusterInfoRequest
from temporalio.client import Client, WorkflowExecution
from temporalio.envconfig import ClientConfig
from temporalio.service import RPCError, RPCStatusCode

from callsheet.diagnostics import CallsheetError
from callsheet.runtime.engines.temporal.payloads import Boxes, ClaimCheck, conversion, ticket_of
from callsheet.runtime.engines.temporal.settings import TemporalSettings
from callsheet.runtime.engines.temporal.wire import WORKFLOW
from callsheet.sealing.keys import NotOpened
from callsheet.store.blobs import BlobMissing
from callsheet.store.seal_keys import KeyStore
from callsheet.store.shared.blobs import DIGEST, Blobs
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


class BlobReferences(NamedTuple):
    """The needed digests, and the number of histories by namespace."""

    digests: frozenset[str]
    histories: Mapping[str, int]


async def needs(connection: TemporalConnection, gone: Collection[str] = ()) -> BlobReferences:
    """The blobs needed by the runs of all users of the store.

    `gone` are the names of signs of users that no longer exist. Raises OSError, and CallsheetError: TMP030
    for a history that cannot be read, TMP031 for a user of the store that cannot be asked from here, TMP004
    if the server refuses.
    """
    own = await user_of(connection.client)
    users = {own.name: own}
    for name, signed in (await asyncio.to_thread(connection.claims.blobs.signs)).items():
        if name not in gone:
            users[name] = WorkerSign(**json.loads(signed))
    away = {name: user for name, user in users.items() if user.server != own.server}
    if away:
        raise _not_asked(away, own)
    digests, histories = set[str](), dict[str, int]()
    for user in users.values():
        client = Client(
            connection.client.service_client,
            namespace=user.namespace,
            data_converter=connection.client.data_converter,
        )
        try:
            histories[user.namespace] = await _add_all(client, connection.claims, digests)
        except RPCError as error:
            if error.status is RPCStatusCode.NOT_FOUND and user != own:
                raise _not_asked({user.name: user}, own) from error
            raise refused(f"the runs of namespace {user.namespace} cannot be read", error) from error
    return BlobReferences(frozenset(digests), histories)


async def _add_all(client: Client, claims: ClaimCheck, digests: set[str]) -> int:
    """Add the digests needed by the runs of a namespace; returns the number of its histories."""
    count = 0
    async for execution in client.list_workflows(f"WorkflowType = '{WORKFLOW}'"):
        try:
            await _add(client, execution, claims, digests)
        except RPCError as error:
            if error.status is not RPCStatusCode.NOT_FOUND:  # else the server has just deleted it
                raise
        count += 1
    return count


async def _add(client: Client, execution: WorkflowExecution, claims: ClaimCheck, digests: set[str]) -> None:
    handle = client.get_workflow_handle(execution.id, run_id=execution.run_id)
    async for event in handle.fetch_history_events():
        tells_all = event.HasField("workflow_execution_started_event_attributes")
        for payload in _payloads(event):
            ticket = ticket_of(payload)
            if ticket is not None:
                digests.add(ticket)
            if ticket is None or tells_all:
                digests.update(await _named(execution, payload, claims))


async def _named(execution: WorkflowExecution, payload: Payload, claims: ClaimCheck) -> list[str]:
    """Everything in a payload that could be a digest."""
    try:
        (decoded,) = await claims.decode([payload])
    except BlobMissing:
        return []  # without its beginning, a history cannot be continued
    except NotOpened as error:
        raise CallsheetError.single(
            "TMP030",
            f"the history of {execution.id} cannot be read: {error}",
            help="prune with the key that the workers have",
        ) from error
    return DIGEST.findall(decoded.data.decode("utf-8", "replace"))


def _payloads(message: Message) -> Iterator[Payload]:
    """All payloads in a message, at any depth."""
    if isinstance(message, Payload):
        yield message
        return
    for field, value in cast("list[tuple[Any, Any]]", message.ListFields()):
        if field.message_type is None:
            continue
        if field.message_type.GetOptions().map_entry:
            entries: Any = value.values()
        else:
            entries = [value] if isinstance(value, Message) else value
        for entry in entries:
            if isinstance(entry, Message):
                yield from _payloads(entry)


def _not_asked(users: Mapping[str, WorkerSign], own: WorkerSign) -> CallsheetError:
    names = ", ".join(
        f"{user.namespace} of the server {user.address} (--gone {name})" for name, user in users.items()
    )
    return CallsheetError.single(
        "TMP031",
        f"these large values are also used by {names}, and {own.address} cannot tell what they need",
        help="give each server its own place; name a server that no longer exists with --gone",
    )
