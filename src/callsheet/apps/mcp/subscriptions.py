"""Notifies clients of changes: new plans or runs, and changed ones.

In: the library and the journal, which are polled while clients are subscribed, since other processes write to
them too. Out: notifications. A client of protocol 2026-07-28 or later subscribes; an older one is notified of
changes of the list once it has listed the resources.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from mcp.server.context import ServerRequestContext
from mcp.server.session import ServerSession
from mcp.server.subscriptions import (
    InMemorySubscriptionBus,
    ListenHandler,
    ResourcesListChanged,
    ResourceUpdated,
)
from mcp_types import SubscriptionsListenRequestParams, SubscriptionsListenResult
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from callsheet.apps.mcp import resources
from callsheet.apps.mcp.server_context import ServerContext
from callsheet.diagnostics import CallsheetError

_log = logging.getLogger("callsheet.mcp")
_PAUSE = 1.0
"""The polling interval, in seconds."""
_MOST_CLIENTS = 1_000


class ChangeNotifier:
    """Polls the library and the journal for changes, and notifies the listening clients."""

    def __init__(self, server_context: ServerContext, pause: float = _PAUSE) -> None:
        self._server_context = server_context
        self._poll_interval = pause
        self._bus = InMemorySubscriptionBus()
        self._streams = ListenHandler(self._bus)
        self._subscriber_count = 0
        self._legacy_sessions: dict[int, ServerSession] = {}
        self._last_versions: Mapping[str, object] | None = None
        """The versions at the last poll; None while no client is subscribed."""

    async def listen(
        self, context: ServerRequestContext[Any, Any], params: SubscriptionsListenRequestParams
    ) -> SubscriptionsListenResult:
        """Answer `subscriptions/listen` with the changes from now on, until the client disconnects."""
        self._subscriber_count += 1
        try:
            await self._ensure_baseline()
            return await self._streams(context, params)
        finally:
            self._subscriber_count -= 1

    async def register_legacy_client(self, session: ServerSession) -> None:
        """Notify this client of changes from now on, unless its protocol version has subscriptions."""
        if session.protocol_version in MODERN_PROTOCOL_VERSIONS:
            return
        client = id(session.client_params)
        self._legacy_sessions.pop(client, None)
        while len(self._legacy_sessions) >= _MOST_CLIENTS:
            del self._legacy_sessions[next(iter(self._legacy_sessions))]
        self._legacy_sessions[client] = session
        await self._ensure_baseline()

    @asynccontextmanager
    async def polling(self) -> AsyncGenerator[None]:
        """Poll during the block, while clients are subscribed."""
        task = asyncio.create_task(self._poll_forever())
        try:
            yield
        finally:
            task.cancel()
            self._streams.close()

    async def _poll_forever(self) -> None:
        while True:
            await asyncio.sleep(self._poll_interval)
            if self._subscriber_count or self._legacy_sessions:
                await self._poll()
            else:
                self._last_versions = None

    async def _ensure_baseline(self) -> None:
        if self._last_versions is None:
            await self._poll()

    async def _poll(self) -> None:
        try:
            now = await self._server_context.host.beside(lambda: resources.versions(self._server_context))
        except CallsheetError as error:
            _log.warning("changes cannot be polled: %s", error)
            return
        before, self._last_versions = self._last_versions, now
        if before is None or now == before:
            return
        if now.keys() != before.keys():
            await self._bus.publish(ResourcesListChanged())
            await self._notify_legacy_clients()
        for uri in now:
            if uri in before and now[uri] != before[uri]:
                await self._bus.publish(ResourceUpdated(uri))

    async def _notify_legacy_clients(self) -> None:
        for client, session in [*self._legacy_sessions.items()]:
            try:
                await session.send_resource_list_changed()
            except Exception as error:  # the client has disconnected
                _log.debug("a client cannot be notified of changes: %s", error)
                self._legacy_sessions.pop(client, None)
