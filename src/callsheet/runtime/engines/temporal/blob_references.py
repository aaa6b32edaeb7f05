"""Finds the blobs that Temporal runs still need: those referenced by histories that their servers keep.

In: a server, and the signs that workers leave in the blob store. Out: digests. A history references blobs by
tickets, and in its first event by the digests of its policy and its past events.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Collection, Iterator, Mapping
from typing import Any, NamedTuple, cast

from google.protobuf.message import Message
from temporalio.api.common.v1 import Payload
from temporalio.client import Client, WorkflowExecution
from temporalio.service import RPCError, RPCStatusCode

from callsheet.diagnostics import CallsheetError
from callsheet.runtime.engines.temporal.connection import TemporalConnection, WorkerSign, refused, user_of
from callsheet.runtime.engines.temporal.payloads import ClaimCheck, ticket_of
from callsheet.runtime.engines.temporal.run_order import WORKFLOW
from callsheet.sealing.keys import NotOpened
from callsheet.store.blobs import BlobMissing
from callsheet.store.shared.blobs import DIGEST


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
