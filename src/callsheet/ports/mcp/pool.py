"""The MCP servers of a run: opened together, checked against pins, and offered as callsheet's tools.

In: configurations. Out: the tools of all servers that could be opened.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from types import TracebackType
from typing import TYPE_CHECKING

from callsheet.diagnostics import CallsheetError, Diagnostic
from callsheet.ports.answers import BlobSink
from callsheet.ports.mcp.declarations import qualified_name, spec_of
from callsheet.ports.mcp.managed_server import ManagedServer, ServerStatus
from callsheet.ports.mcp.servers import McpServerConfig
from callsheet.ports.mcp.trust import PinKeeper, SeenServer
from callsheet.ports.tools import Tool

if TYPE_CHECKING:
    from callsheet.ports.mcp.oauth.file import LoginFile

START_TIMEOUT = 30.0
"""Seconds that a server may take to start, initialise a session and list its tools."""


class McpPool:
    """The servers of a run, as an async context manager that closes them all.

    `blob_sink` stores the binary data that servers send (`folder_sink` writes it into a folder); without one
    it stays in the values as base64. `start_timeout` is in seconds and per server. `pins` checks declarations
    against what was seen or approved before; without it every tool is accepted as declared when its server is
    opened. `logins` holds the logins for servers that require one.

        async with McpPool(load_config(path).servers) as pool:
            await pool.connect()
            registry = Registry()
            for tool, alias in pool.tools():
                registry.add(tool, alias)
    """

    def __init__(
        self,
        configs: Iterable[McpServerConfig],
        *,
        blob_sink: BlobSink | None = None,
        start_timeout: float = START_TIMEOUT,
        pins: PinKeeper | None = None,
        logins: LoginFile | None = None,
    ) -> None:
        self._pins = pins
        self.away: tuple[tuple[str, str], ...] = ()
        """The known tools of servers that could not be opened, by name and qualified name."""
        self._servers = [ManagedServer(config, blob_sink, start_timeout, logins) for config in configs]

    async def __aenter__(self) -> McpPool:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def connect(self, *, keep_going: bool = False) -> tuple[Diagnostic, ...]:
        """Open all servers that are not open, concurrently; returns warnings about them.

        Raises CallsheetError with a diagnostic for each server that cannot be opened; with `keep_going` these
        are returned with the warnings, and the other servers can be used. An unusable file of pins raises in
        any case (CFG114).
        """
        outcomes = await asyncio.gather(*(server.open() for server in self._servers), return_exceptions=True)
        failed: list[Diagnostic] = []
        for outcome in outcomes:
            if isinstance(outcome, CallsheetError):
                failed.extend(outcome.diagnostics)
            elif isinstance(outcome, BaseException):
                raise outcome
        if failed and not keep_going:
            raise CallsheetError(failed)
        if self._pins is not None:
            await self._judge(self._pins)
        return (*failed, *(d for server in self._servers for d in server.warnings()))

    async def _judge(self, pins: PinKeeper) -> None:
        """Check all open servers against the pins."""
        opened = [(server, seen) for server in self._servers if (seen := server.seen()) is not None]
        judgements = await asyncio.to_thread(pins.judge, [seen for _, seen in opened])
        for (server, _), judgement in zip(opened, judgements, strict=True):
            server.judgement = judgement
        missing = [server.config for server in self._servers if not server.is_open]
        self.away = tuple(
            (spec_of(config, declarations).name, qualified_name(config.name, str(declarations["name"])))
            for config, declarations in (await asyncio.to_thread(pins.known, missing) if missing else ())
        )

    def seen(self) -> list[SeenServer]:
        """What the open servers declare, in the form that is checked against pins."""
        return [seen for server in self._servers if (seen := server.seen()) is not None]

    def tools(self) -> list[tuple[Tool, str]]:
        """The tools of all open servers, each with its qualified name (`SERVER__TOOL`)."""
        return [pair for server in self._servers for pair in server.tools()]

    def status(self) -> list[ServerStatus]:
        """The servers that are open now."""
        return [server.status() for server in self._servers if server.is_open]

    def secrets(self) -> Iterator[str]:
        """The tokens and secrets of logins that were used so far."""
        for server in self._servers:
            yield from server.secrets()

    async def close(self) -> None:
        """End all sessions and processes; waits until they are gone, even if cancelled."""
        closing = asyncio.gather(*(server.close() for server in self._servers))
        try:
            await asyncio.shield(closing)
        except asyncio.CancelledError:
            await asyncio.wait({closing})
            raise
