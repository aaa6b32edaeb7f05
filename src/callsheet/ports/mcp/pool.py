"""The MCP servers of a run: opened together, and offered as callsheet's tools.

In: configurations. Out: the tools of all servers that could be opened.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Iterator, Mapping, Set
from types import TracebackType
from typing import TYPE_CHECKING

from callsheet.diagnostics import CallsheetError, Diagnostic
from callsheet.ports.answers import BlobSink
from callsheet.ports.mcp.declarations import (
    qualified_name,
    spec_of,
)
from callsheet.ports.mcp.front import Front
from callsheet.ports.mcp.managed_server import ManagedServer, ServerStatus, Tell
from callsheet.ports.mcp.servers import McpServerConfig
from callsheet.ports.mcp.trust import (
    Lock,
    LockedServer,
    PinKeeper,
    SeenServer,
)
from callsheet.ports.tools import Tool

if TYPE_CHECKING:
    from callsheet.ports.mcp.connection import Connection
    from callsheet.ports.mcp.oauth.file import LoginFile

_log = logging.getLogger("callsheet.mcp")

START_TIMEOUT = 30.0
"""Seconds that a server may take to start, initialise a session and list its tools."""
_PATIENCE = 2.0
"""Seconds after which people hear which servers are awaited."""
_GRACE, _GRACE_WITHOUT = 3.0, 10.0
"""Seconds that others are waited for at least where they may come later: if a server is open, and if none."""


class McpPool:
    """The servers of a run, as an async context manager that closes them all.

    `blob_sink` stores the binary data that servers send (`folder_sink` writes it into a folder); without one
    it stays in the values as base64. `start_timeout` is in seconds and per server. `pins` checks declarations
    against what was seen or approved before; without it every tool is accepted as declared when its server is
    opened. `logins` holds the logins for servers that require one. Servers in `lock` offer the tools that it
    has, and start when one is called; `tell` hears how they then differ from it. `front` is the client for
    which they are opened.

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
        lock: Lock | None = None,
        tell: Tell | None = None,
        front: Front | None = None,
    ) -> None:
        self._pins, self._sink = pins, blob_sink
        locked: Mapping[str, LockedServer] = {} if lock is None else lock.servers
        self._opening: dict[ManagedServer, asyncio.Task[Connection]] = {}
        self._failures: dict[ManagedServer, tuple[Diagnostic, ...]] = {}
        """Why servers could not be opened the last time."""
        self._judged: set[ManagedServer] = set()
        """Those whose declarations were checked against the pins: of others no tool is offered."""
        self.away: tuple[tuple[str, str], ...] = ()
        """The known tools of servers that could not be opened, by name and qualified name."""
        self._servers = [
            ManagedServer(config, blob_sink, start_timeout, logins, locked.get(config.name), tell, front)
            for config in configs
        ]

    async def __aenter__(self) -> McpPool:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def connect(
        self, *, keep_going: bool = False, only_locked: bool = False, leaves_late: bool = False
    ) -> tuple[Diagnostic, ...]:
        """Open all servers that are not open, except locked ones, concurrently; returns warnings about them.

        With `only_locked` none is opened, and only what the lock file says is checked. With `leaves_late`
        servers that need more than twice as long as the others are not waited for: they go on opening, which
        `late` waits for, and any other `connect`.

        Raises CallsheetError with a diagnostic for each server that cannot be opened; with `keep_going` these
        are returned with the warnings, and the other servers can be used. An unusable file of pins raises in
        any case (CFG114).
        """
        opening = [] if only_locked else [server for server in self._servers if server.locked is None]
        saying = asyncio.create_task(_say_what_is_awaited(opening))
        try:
            await self._open(opening, leaves_late=leaves_late)
        finally:
            saying.cancel()
        return await self._checked(keep_going=keep_going)

    async def late(self) -> tuple[Diagnostic, ...]:
        """Wait until a server that a `connect` has left is open, or has failed; gives as that does."""
        if self._opening:
            await asyncio.wait({*self._opening.values()}, return_when=asyncio.FIRST_COMPLETED)
        self._note_ended()
        return await self._checked(keep_going=True)

    async def _open(self, servers: Iterable[ManagedServer], *, leaves_late: bool) -> None:
        """Open servers; wait for all, or for those that begin now and need no longer than the others."""
        loop = asyncio.get_running_loop()
        begun = {
            server: loop.create_task(server.open(), name=f"open {server.config.name}")
            for server in servers
            if server not in self._opening
        }
        self._opening |= begun
        awaited = {*begun.values()} if leaves_late else {self._opening[server] for server in servers}
        try:
            if leaves_late:
                await _most_of(awaited)
            elif awaited:
                await asyncio.wait(awaited)
        except asyncio.CancelledError:
            for server, task in begun.items():
                task.cancel()
                self._opening.pop(server, None)
            await asyncio.gather(*begun.values(), return_exceptions=True)
            raise
        self._note_ended()

    def _note_ended(self) -> None:
        """Note which servers are open now, and why others are not."""
        for server, task in [*self._opening.items()]:
            if not task.done():
                continue
            del self._opening[server]
            self._failures.pop(server, None)
            try:
                task.result()
            except CallsheetError as error:
                self._failures[server] = error.diagnostics

    async def _checked(self, *, keep_going: bool) -> tuple[Diagnostic, ...]:
        """Judge the open servers; what is to be said of them and of those that are not open."""
        failed = [
            diagnostic
            for server in self._servers
            if not server.is_open
            for diagnostic in (
                (_has_not_answered(server),) if server in self._opening else self._failures.get(server, ())
            )
        ]
        if failed and not keep_going:
            raise CallsheetError(failed)
        if self._pins is not None:
            await self._judge(self._pins)
        return (*failed, *(d for server in self._servers for d in server.warnings()))

    @property
    def is_opening(self) -> bool:
        """Whether servers are being opened that a `connect` has left."""
        return bool(self._opening)

    def _offering(self) -> list[ManagedServer]:
        """The servers whose tools are offered: locked ones, and open ones that the pins were asked about."""
        return [
            server
            for server in self._servers
            if server.locked is not None or self._pins is None or server in self._judged
        ]

    async def _judge(self, pins: PinKeeper) -> None:
        """Check all open servers, and what the lock file says of others, against the pins."""
        opened = [
            (server, seen)
            for server in self._servers
            if server.locked is None and (seen := server.seen()) is not None
        ]
        for server in self._servers if pins.needs_approval else ():
            if server.locked is not None:
                opened.append((server, server.as_locked()))
        judgements = await asyncio.to_thread(pins.judge, [seen for _, seen in opened])
        for (server, _), judgement in zip(opened, judgements, strict=True):
            server.judgement = judgement
            self._judged.add(server)
        missing = [s.config for s in self._servers if s.locked is None and not s.is_open]
        self.away = tuple(
            (spec_of(config, declarations).name, qualified_name(config.name, str(declarations["name"])))
            for config, declarations in (await asyncio.to_thread(pins.known, missing) if missing else ())
        )

    def seen(self) -> list[SeenServer]:
        """What the servers declare, in the form that is checked against pins.

        Of a locked server that is what the lock file has, as with `tools`; others are missing until
        they open.
        """
        offering = self._offering()
        found = (server.seen() if server.locked is None else server.as_locked() for server in offering)
        return [seen for seen in found if seen is not None]

    def servers(self) -> list[ManagedServer]:
        """The open servers, and those that start when they are called."""
        return [server for server in self._offering() if server.locked is not None or server.is_open]

    @property
    def refuses(self) -> bool:
        """Whether tools of open servers are refused, so that a person may have approved them since."""
        return any(server.judgement.refusals for server in self._servers)

    async def refresh(self) -> bool:
        """Let servers that have reported changed tools list them again; whether there were any.

        A server that does not list them keeps those that it had, and its calls fail until it does.
        """
        refreshed = [await server.refresh() for server in self._servers]
        return any(refreshed)

    def tools(self) -> list[tuple[Tool, str]]:
        """The tools of all open servers, each with its qualified name (`SERVER__TOOL`)."""
        return [pair for server in self._offering() for pair in server.tools()]

    def all_tools(self) -> list[tuple[Tool, str]]:
        """The same, and those that read resources and get prompts if a server may have some."""
        from callsheet.ports.mcp.resources import offer_tools  # noqa: PLC0415 - builds on this module

        servers, tools = self.servers(), self.tools()
        for what, tool in offer_tools(self.servers, self._sink).items():
            if any(server.may_have(what) for server in servers):
                tools.append((tool, f"SERVERS__{tool.spec.name}"))
        return tools

    def status(self) -> list[ServerStatus]:
        """The servers that are open now, or start when they are called."""
        return [server.status() for server in self.servers()]

    def secrets(self) -> Iterator[str]:
        """The tokens and secrets of logins that were used so far."""
        for server in self._servers:
            yield from server.secrets()

    async def close(self) -> None:
        """End all sessions and processes; waits until they are gone, even if cancelled."""
        for task in self._opening.values():
            task.cancel()
        opening = asyncio.gather(*self._opening.values(), return_exceptions=True)
        closing = asyncio.gather(opening, asyncio.gather(*(server.close() for server in self._servers)))
        try:
            await asyncio.shield(closing)
        except asyncio.CancelledError:
            await asyncio.wait({closing})
            raise


async def _most_of(opening: Set[asyncio.Task[Connection]]) -> None:
    """Wait for servers to open, at most for as long again as the slowest of those that have opened."""
    loop = asyncio.get_running_loop()
    begun, last, pending = loop.time(), 0.0, opening
    while pending:
        left = begun + (max(_GRACE, 2 * last) if last else _GRACE_WITHOUT) - loop.time()
        done, pending = await asyncio.wait(pending, timeout=left, return_when=asyncio.FIRST_COMPLETED)
        if not done:
            return
        if any(not task.cancelled() and task.exception() is None for task in done):
            last = loop.time() - begun


def _has_not_answered(server: ManagedServer) -> Diagnostic:
    return CallsheetError.single(
        "TOL012",
        f"the MCP server {server.config.name!r} has not answered its first request yet",
        help="its tools are there as soon as it does",
    ).diagnostics[0]


async def _say_what_is_awaited(opening: Iterable[ManagedServer]) -> None:
    """Say once which servers have not opened after some time."""
    await asyncio.sleep(_PATIENCE)
    if names := [repr(server.config.name) for server in opening if not server.is_open]:
        _log.warning("waiting for the MCP server%s %s to start", "s" if names[1:] else "", ", ".join(names))
