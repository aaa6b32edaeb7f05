"""Serves `callsheet gate`, and `callsheet mcp`, which offers the same tools without servers behind them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path

from callsheet.apps.gate.own_tools import ModelTools
from callsheet.apps.gate.server import Expose, Gate, make_server
from callsheet.apps.gate.spoken_words import SpokenWords
from callsheet.apps.hosting import Host
from callsheet.apps.mcp.server_context import ServerContext
from callsheet.apps.mcp.transports import HttpEndpoint, ServerConfig, serve_clients
from callsheet.apps.mcp.transports import serve as serve_tools
from callsheet.apps.server_catalogue import select_servers
from callsheet.store.library import PlanLibrary


async def serve(
    config: ServerConfig,
    endpoint: HttpEndpoint | None,
    expose: str,
    notify: Callable[[str], None],
    plans: Sequence[str] = (),
    *,
    asks_unproved: bool = False,
) -> None:
    """Serve one client until it disconnects, or HTTP clients until cancelled; then sessions end.

    `notify` is called with messages for the operator, `plans` are the saved plans that are tools; with
    `asks_unproved` programs that cannot be proved run if a person agrees. Raises
    CallsheetError for a configuration of servers that cannot be read, or a plan that is not there, before
    anything is served.
    """
    await asyncio.to_thread(select_servers, config.setup, None)
    _check_plans(config.library, plans)
    host = Host(config.setup, config.journal, limits=config.limits, policy=config.policy, say=notify)
    async with host:
        spoken = SpokenWords(Path.cwd()) if endpoint is None else None
        context = ServerContext(host=host, library=config.library, hint=config.hint)
        async with Gate(context, Expose(expose), plans, spoken, asks_unproved=asks_unproved) as gate:
            await serve_clients(make_server(gate), endpoint, host.masker, notify, "gate")


def _check_plans(library: PlanLibrary, plans: Sequence[str]) -> None:
    if plans:
        from callsheet.apps.gate.own_tools import PlanTools  # noqa: PLC0415 - brings the readers of plans

        PlanTools(library, plans).check()


async def serve_models(
    config: ServerConfig,
    endpoint: HttpEndpoint | None,
    notify: Callable[[str], None],
    plans: Sequence[str] = (),
) -> None:
    """Serve the tools for models, and further ones as the configuration says; otherwise as `serve`."""
    _check_plans(config.library, plans)
    await serve_tools(config, endpoint, notify, lambda context: ModelTools(context, plans))
