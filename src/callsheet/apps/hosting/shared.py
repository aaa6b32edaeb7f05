"""The tools of a long-lived process: local ones loaded once, MCP servers opened once and shared.

In: a setup. Out: a toolbox for each plan, as from `open_toolbox`. Servers are opened when a plan first calls
a tool that is not registered, and stay open; failed ones are tried again after a pause.
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import AsyncGenerator, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

from callsheet.api.requirements import AgentRules, absent_tools, take_in_all
from callsheet.apps.server_catalogue import Catalogue, catalogue_of, select_servers
from callsheet.apps.settings import pin_keeper
from callsheet.apps.setup import Setup
from callsheet.apps.toolbox import DeclaredTools, Toolbox, open_toolbox
from callsheet.diagnostics import CallsheetError, Diagnostic, Severity
from callsheet.ir import JSON, Plan
from callsheet.ports.tools import Registry, Tool
from callsheet.sealing.credentials import configured, in_environment

if TYPE_CHECKING:
    from callsheet.ports.mcp import McpPool, McpServerConfig
    from callsheet.ports.mcp.front import Front
    from callsheet.ports.mcp.managed_server import ManagedServer
    from callsheet.ports.mcp.trust import SeenServer

_log = logging.getLogger("callsheet.mcp")
_PAUSE = 30.0
"""Seconds before failed servers are tried again."""


class SharedTools:
    """The tools of a setup, as an async context manager; leaving it ends its servers.

    `more` are tools of the process itself, which no setup names. Raises CallsheetError if a Python file of
    tools cannot be loaded.
    """

    def __init__(self, setup: Setup, more: Iterable[Tool] = ()) -> None:
        self.setup = setup
        self.declared = DeclaredTools(setup)
        """The tools that need no server, for checking plans only."""
        self._local = self.declared.local
        for tool in more:
            self._local.add(tool)
        self._stack = AsyncExitStack()
        self._opening = asyncio.Lock()
        self._pool: McpPool | None = None
        self._catalogue: Catalogue | None = None
        self._configs: tuple[McpServerConfig, ...] = ()
        self._doubts: tuple[Diagnostic, ...] = ()
        self._box = self._toolbox(self._local)
        self._tried = float("-inf")
        self._failed = False
        self._retrying: asyncio.Task[None] | None = None
        self._late: asyncio.Task[None] | None = None
        """Waits for the next of the servers that an opening has left."""
        self._noted: tuple[Setup, dict[str, JSON]] | None = None
        self.front: Front | None = None
        """The client for which servers are opened, if there is only one."""

    async def __aenter__(self) -> SharedTools:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """End the servers."""
        for task in (self._retrying, self._late):
            if task is not None:
                task.cancel()
                await asyncio.wait({task})
        await self._stack.aclose()

    def seen(self) -> list[SeenServer]:
        """What the open servers declare, as they sent it, and the locked ones, as the lock file has it."""
        return [] if self._pool is None else self._pool.seen()

    def servers(self) -> list[ManagedServer]:
        """The open servers, and the locked ones."""
        return [] if self._pool is None else self._pool.servers()

    async def refreshed(self) -> Toolbox:
        """All tools, after servers that have reported changed tools have listed them again.

        A tool that is declared differently than before is refused as everywhere, until a person has approved
        it. The toolbox is another one only if there is something new.
        """
        async with self._opening:
            pool = self._pool
            if pool is not None and (await pool.refresh() or pool.refuses):
                before = [(each.spec, alias) for each, alias in pool.tools()]
                found = await pool.connect(keep_going=True, leaves_late=True)
                if [(each.spec, alias) for each, alias in pool.tools()] != before:
                    self._take_in(found)
                self._begin_late(pool)
        return await self.for_plan(None)

    async def for_plan(self, plan: Plan | None, agents: AgentRules | None = None) -> Toolbox:
        """The tools that a plan calls, or all without a plan.

        The diagnostics report servers that could not be opened: as errors without a plan or if one of its
        tools is missing, else as warnings.
        """
        if plan is None or absent_tools(plan, self._box.registry, agents):
            await self._open(plan, agents)
            while plan is not None and absent_tools(plan, self._box.registry, agents):
                if not await self.late_one():
                    break
        box = self._box
        if plan is None or absent_tools(plan, box.registry, agents):
            return box
        found = tuple(replace(d, severity=Severity.WARNING) if d.is_error else d for d in box.diagnostics)
        return replace(box, diagnostics=found)

    async def late_one(self) -> bool:
        """Wait for the next of the servers that an opening has left; False if there is none."""
        if self._late is None or self._late.done():
            return False
        await asyncio.wait({self._late})
        return True

    @property
    def registry(self) -> Registry:
        """The tools that are there now."""
        return self._box.registry

    @asynccontextmanager
    async def for_run(
        self, setup: Setup, plan: Plan | None, agents: AgentRules | None
    ) -> AsyncGenerator[Toolbox]:
        """The tools for a run that was started with `setup`: these if they are the same, else its own."""
        if self.serves(setup):
            yield await self.for_plan(plan, agents)
            return
        async with open_toolbox(setup, plan, agents) as toolbox:
            yield toolbox

    def serves(self, setup: Setup) -> bool:
        """Whether a run that was started with this setup would open the same tools."""
        if _without_servers(setup) != _without_servers(self.setup):
            return False
        named = {os.path.abspath(path) for path in setup.mcp_configs}
        mine = {os.path.abspath(path) for path in (*self.setup.mcp_configs, *self._box.configs)}
        return (not setup.discovers and named <= mine) or setup.to_note() == self.setup.to_note()

    def note_of(self, setup: Setup) -> dict[str, JSON]:
        """What a run records of its setup; made once for all runs with the same one."""
        if self._noted is None or self._noted[0] != setup:
            self._noted = setup, setup.to_note()
        return self._noted[1]

    async def _open(self, plan: Plan | None, agents: AgentRules | None) -> None:
        """Open the servers that are not open, and not locked; failed ones again only after a pause.

        Locked servers start when one of their tools is called; if they suffice, no other is opened.
        """
        async with self._opening:
            if self._pool is None and self._catalogue is None:
                self._catalogue = await asyncio.to_thread(catalogue_of, self.setup)
                if self._catalogue is not None:
                    pool = await self._make_pool()
                    judged = () if pool is None else await pool.connect(only_locked=True)
                    self._take_in((*self._catalogue.diagnostics, *judged))
            registry = self._box.registry
            if self._catalogue is not None and (
                not self._catalogue.unlocked
                or (plan is not None and not absent_tools(plan, registry, agents))
            ):
                return
            now = time.monotonic()
            has_tried = self._tried > float("-inf")
            if self._pool is not None and has_tried and not (self._failed and now - self._tried >= _PAUSE):
                return
            if self._pool is None:
                await self._make_pool()
            if self._pool is None:
                return
            if plan is None and has_tried:  # nobody needs them now, and one that hangs takes half a minute
                if self._retrying is None or self._retrying.done():
                    self._retrying = asyncio.create_task(self._retry(self._pool), name="servers that failed")
                return
            # a client in front is told when more tools are there
            may_come_later = plan is None and self.front is not None
            found = await self._pool.connect(keep_going=True, leaves_late=may_come_later)
            self._tried = now  # only here: what was cancelled or has failed is tried at the next request
            self._note_opened(found)
            self._begin_late(self._pool)

    async def _retry(self, pool: McpPool) -> None:
        """Try again to open servers that failed, while the others are used."""
        before = len(pool.servers())
        try:
            found = await pool.connect(keep_going=True)
        except CallsheetError as error:  # the file of pins
            _log.warning("servers that failed are not tried again: %s", error)
            return
        async with self._opening:
            self._tried = time.monotonic()
            if len(pool.servers()) != before:
                self._note_opened(found)
                self._tell_front()

    def _begin_late(self, pool: McpPool) -> None:
        """Wait for the servers that an opening has left, while the others are used."""
        if pool.is_opening and (self._late is None or self._late.done()):
            self._late = asyncio.create_task(self._await_late(pool), name="servers that are late")

    async def _await_late(self, pool: McpPool) -> None:
        """Take in the next server that an opening has left as soon as it is open, and wait for the rest."""
        before = len(pool.servers())
        try:
            found = await pool.late()
        except CallsheetError as error:  # the file of pins
            _log.warning("servers that are late are not used: %s", error)
            return
        async with self._opening:
            self._note_opened(found)
            if len(pool.servers()) != before:
                self._tell_front()
        if pool.is_opening:
            self._late = asyncio.create_task(self._await_late(pool), name="servers that are late")

    def _tell_front(self) -> None:
        """Tell the client in front that there are more tools."""
        from callsheet.ports.mcp.front import Changed  # noqa: PLC0415 - only where servers are opened

        if self.front is not None and self.front.changed is not None:
            self.front.changed("", Changed.TOOLS, "")

    def _note_opened(self, found: tuple[Diagnostic, ...]) -> None:
        self._failed = any(d.is_error for d in found)
        self._take_in(found)

    def _take_in(self, found: tuple[Diagnostic, ...]) -> None:
        """Make the toolbox anew, with the tools of all servers that are open or locked."""
        catalogue, pool = self._catalogue, self._pool
        registry = Registry(self._local)
        if catalogue is not None:
            registry = catalogue.without_configured().registry(self._local, calls=True)
        if pool is not None:
            locked = None if catalogue is None else catalogue.lock.servers
            take_in_all(registry, pool.all_tools(), pool.away, locked)
        self._box = self._toolbox(registry, found)

    async def _make_pool(self) -> McpPool | None:
        is_lenient = self._catalogue is not None
        chosen = await asyncio.to_thread(partial(select_servers, self.setup, None, is_lenient=is_lenient))
        if not chosen.configs:
            self._box = replace(self._box, diagnostics=chosen.diagnostics)
            return None
        from callsheet.api.requirements import login_file  # noqa: PLC0415 - only where servers are opened
        from callsheet.ports.mcp import McpPool, folder_sink  # noqa: PLC0415 - as above

        sink, pins = folder_sink(self.setup.data / "files"), pin_keeper(self.setup.settings)
        self._configs, self._doubts = chosen.configs, chosen.diagnostics
        lock = None if self._catalogue is None else self._catalogue.lock
        pool = McpPool(
            chosen.configs, blob_sink=sink, pins=pins, logins=login_file(), lock=lock, front=self.front
        )
        self._pool = await self._stack.enter_async_context(pool)
        return self._pool

    def _toolbox(self, registry: Registry, found: tuple[Diagnostic, ...] = ()) -> Toolbox:
        secrets = in_environment(os.environ)
        if self._configs:
            from callsheet.ports.mcp import credentials_of  # noqa: PLC0415 - as above

            secrets = (*secrets, *credentials_of(self._configs))
        if self._pool is not None:
            secrets = (*secrets, *self._pool.secrets())
        return Toolbox(
            registry,
            tuple(dict.fromkeys(Path(config.origin) for config in self._configs)),
            () if self._pool is None else tuple(self._pool.status()),
            (*self._doubts, *found),
            self.setup.folder,
            configured(secrets),
            self.setup.settings.agent_blocks,
        )


def _without_servers(setup: Setup) -> dict[str, JSON]:
    """The parts of a setup that determine its tools, except servers; the model does not count."""
    note = setup.to_note()
    return {name: note[name] for name in ("workspace", "data", "tools", "settings")} | {
        "lock": note.get("lock")
    }
