"""Serves a gate: one client over standard input and output, or many over streamable HTTP."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from callsheet.apps.gate.server import Expose, Gate, make_server
from callsheet.apps.hosting import Host
from callsheet.apps.mcp.server_context import ServerContext
from callsheet.apps.mcp.transports import HttpEndpoint, ServerConfig, serve_http, serve_stdio
from callsheet.apps.server_selection import select_servers


async def serve(
    config: ServerConfig, endpoint: HttpEndpoint | None, expose: str, notify: Callable[[str], None]
) -> None:
    """Serve one client until it disconnects, or HTTP clients until cancelled; then sessions end.

    `notify` is called with messages for the operator. Raises CallsheetError for a configuration of servers
    that cannot be read, before anything is served.
    """
    await asyncio.to_thread(select_servers, config.setup, None)
    host = Host(config.setup, config.journal, limits=config.limits, policy=config.policy, say=notify)
    async with host:
        context = ServerContext(host=host, library=config.library, hint=config.hint)
        async with Gate(context, Expose(expose)) as gate:
            server = make_server(gate)
            if endpoint is None:
                await serve_stdio(server, host.masker)
                return
            notify(f"callsheet gate listens at {endpoint.address.url}")
            if endpoint.is_token_new:
                notify(f"clients need this token (Authorization: Bearer …): {endpoint.token}")
            with host.masker.masking_output():
                await serve_http(server, endpoint.listener, endpoint.address, endpoint.token)
