"""The tool registry of a session; MCP servers are opened when a plan first needs them.

In: a configuration, plans. Out: a registry, and diagnostics about the servers. They stay open until the
session ends.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import TYPE_CHECKING

from callsheet.api.agents import asks_for_all_tools
from callsheet.api.configuration import Configuration
from callsheet.api.requirements import absent_tools, take_in_all
from callsheet.diagnostics import Diagnostic, Severity
from callsheet.ir import Plan as Steps
from callsheet.ports.tools import Registry
from callsheet.sealing.configured import configured, in_environment
from callsheet.sealing.known import Known

if TYPE_CHECKING:
    from callsheet.ports.mcp import McpPool, ServerStatus

_log = logging.getLogger("callsheet")


class OpenTools:
    """The tools of a session. `stack` closes the servers; `when_opened` is called once they are open."""

    def __init__(self, config: Configuration, stack: AsyncExitStack, when_opened: Callable[[], None]) -> None:
        self.registry = Registry(config.tools)
        self.are_all_here = not config.servers
        """Whether all servers have been opened, or there are none."""
        self.servers: tuple[ServerStatus, ...] = ()
        """The servers that are open."""
        self._config = config
        self._stack = stack
        self._when_opened = when_opened
        self._opening = asyncio.Lock()
        self._pool: McpPool | None = None
        self._doubts: tuple[Diagnostic, ...] = ()
        """Diagnostics from opening the servers."""

    async def reach(self, plan: Steps | None) -> tuple[Diagnostic, ...]:
        """Open the servers if the plan needs a tool that is not registered, or if no plan is given.

        Returns the diagnostics about the servers, with errors only if a tool of the plan is still missing.
        """
        async with self._opening:
            if not self.are_all_here and (plan is None or self._needs_servers(plan)):
                await self._open_servers()
        if plan is not None and absent_tools(plan, self.registry, self._config.agents):
            return self._doubts
        return tuple(replace(d, severity=Severity.WARNING) if d.is_error else d for d in self._doubts)

    def _needs_servers(self, plan: Steps) -> bool:
        """Whether a tool of the plan is not registered, or its agents may call all tools."""
        rules = self._config.agents
        return bool(absent_tools(plan, self.registry, rules)) or asks_for_all_tools(plan, rules)

    async def _open_servers(self) -> None:
        from callsheet.api.logins import login_file  # noqa: PLC0415 - only where servers are opened
        from callsheet.ports.mcp import McpPool, folder_sink  # noqa: PLC0415 - as above

        sink = folder_sink(self._config.files)
        pool = McpPool(self._config.servers, blob_sink=sink, pins=self._config.pins, logins=login_file())
        async with AsyncExitStack() as opened:
            await opened.enter_async_context(pool)
            self._doubts = await pool.connect(keep_going=True)
            take_in_all(self.registry, pool.tools(), pool.away)
            self._stack.push_async_exit(opened.pop_all())
        self._pool = pool
        self.servers = tuple(pool.status())
        self.are_all_here = True
        self._when_opened()
        for doubt in (d for d in self._doubts if d.severity is not Severity.HINT):
            _log.warning("%s: %s", doubt.code, doubt.message)

    def credentials(self) -> Known:
        """The known credentials, for masking: those configured for servers and those of the environment."""
        secrets = [*in_environment(os.environ)]
        if self._config.servers:
            from callsheet.ports.mcp import credentials_of  # noqa: PLC0415 - only with servers

            secrets += credentials_of(self._config.servers)
        if self._pool is not None:
            secrets += self._pool.secrets()
        return configured(secrets)
