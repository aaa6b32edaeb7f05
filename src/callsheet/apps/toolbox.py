"""The tools of a setup (built-in, transforms, Python files, servers): opened for a run, or only declared.

Tools of Python files have precedence, then built-in tools and transforms, then servers: a tool of a server
never replaces one of the same name. Where tools are only declared, servers are started only on request, and
stopped before the result is returned.
"""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from callsheet.api.checking import Providers
from callsheet.api.requirements import absent_tools, local_registry, take_in_all
from callsheet.apps.server_catalogue import Catalogue, catalogue_of, select_servers
from callsheet.apps.settings import pin_keeper
from callsheet.apps.setup import Setup
from callsheet.diagnostics import Diagnostic, Severity
from callsheet.ir import Plan
from callsheet.lazy import dataclass
from callsheet.ports.tools import Registry, Tool
from callsheet.sealing.credentials import configured, in_environment
from callsheet.sealing.known import Known

if TYPE_CHECKING:
    from callsheet.api.requirements import AgentRules
    from callsheet.ports.calls import CallListener
    from callsheet.ports.mcp import ServerStatus
    from callsheet.ports.mcp.managed_server import Tell
    from callsheet.runtime.gateway import CompilePort, ModelPort, Ports, Route, TurnPort


@dataclass(frozen=True, slots=True)
class Toolbox:
    """Tools that are open and can be called.

    `servers` are the MCP servers that were opened and `configs` the files that name them; `diagnostics`
    report tools that could not be opened, and warnings.
    """

    registry: Registry
    configs: tuple[Path, ...] = ()
    servers: tuple[ServerStatus, ...] = ()
    diagnostics: tuple[Diagnostic, ...] = ()
    workspace: str = ""
    """The folder of the file tools."""
    known: Known = field(default_factory=Known)
    """The known credentials, for masking: those configured for servers and those of the environment."""
    blocks: str | None = None
    """How uncertain facts in the LCTL blocks of agents are handled; None if agents get no blocks."""

    @property
    def not_asked(self) -> str | None:
        """A phrase for where a missing tool might still be; None if all servers were queried."""
        return "an MCP server that could not be opened" if any(d.is_error for d in self.diagnostics) else None

    def ports(
        self,
        model: ModelPort | None = None,
        compiler: CompilePort | None = None,
        turn: TurnPort | None = None,
        listener: CallListener | None = None,
    ) -> Ports:
        """The ports of a run: `model` for operations, `compiler` for new plans, `turn` for agents' turns.

        `listener` follows its calls.
        """
        from callsheet.runtime.gateway import Ports, Route  # noqa: PLC0415 - brings asyncio

        def route(name: str) -> Route | None:
            tool = self.registry.get(name)
            if tool is None:
                return None
            return Route.of(tool)

        return Ports(
            route,
            model,
            compiler=compiler,
            turn=turn,
            workspace=self.workspace,
            known=self.known,
            blocks=self.blocks,
            listener=listener,
        )


def local_tools(setup: Setup) -> Registry:
    """The tools that need no server; those of Python files replace built-in ones of the same name.

    Raises CallsheetError for a file that cannot be loaded or settings that cannot be met.
    """
    from_files: list[Tool] = []
    for path in setup.tools_files:
        from callsheet.ports.python_tools import load_tools  # noqa: PLC0415 - brings asyncio

        from_files += load_tools(path)
    return local_registry(from_files, setup.builtin_settings())


@asynccontextmanager
async def open_toolbox(
    setup: Setup,
    plan: Plan | None = None,
    agents: AgentRules | None = None,
    *,
    calls: bool = True,
    tell: Tell | None = None,
) -> AsyncGenerator[Toolbox]:
    """Open the tools that a plan calls, or all without a plan; servers end with the context.

    With rules for `agents` this includes the tools that the plan's agents may call. A server that cannot be
    opened is reported in `diagnostics`: as an error if a tool of the plan is missing, else as a warning.
    Servers of the lock file start when one of their tools is called; `tell` hears how they then differ from
    it. Without `calls` nothing will be called, so that a locked server need not be configured here.
    """
    local, folder = local_tools(setup), setup.folder
    catalogue = None
    if plan is None or absent_tools(plan, local, agents):
        catalogue = catalogue_of(setup)
    registry = local if catalogue is None else catalogue.registry(local, calls=calls)
    chosen = select_servers(
        setup,
        None if plan is None else absent_tools(plan, registry, agents),
        is_lenient=catalogue is not None,
    )
    configs = chosen.configs
    found = chosen.diagnostics
    if catalogue is not None:
        known, found = catalogue.lock.servers, (*found, *catalogue.diagnostics)
        configs = (
            *(config for name, config in catalogue.configs.items() if name in known),
            *(config for config in configs if config.name not in known),
        )
    if not configs:
        known, blocks = configured(in_environment(os.environ)), setup.settings.agent_blocks
        yield Toolbox(registry, (), (), found, folder, known, blocks)
        return
    from callsheet.api.requirements import login_file  # noqa: PLC0415 - only where servers are opened
    from callsheet.ports.mcp import McpPool, credentials_of, folder_sink  # noqa: PLC0415 - as above

    sink = folder_sink(setup.data / "files")
    pins, logins = pin_keeper(setup.settings), login_file()
    lock = None if catalogue is None else catalogue.lock
    async with McpPool(configs, blob_sink=sink, pins=pins, logins=logins, lock=lock, tell=tell) as pool:
        diagnostics = await pool.connect(keep_going=True)
        registry = local if catalogue is None else catalogue.without_configured().registry(local, calls=calls)
        take_in_all(registry, pool.all_tools(), pool.away, None if lock is None else lock.servers)
        status = tuple(pool.status())
        is_open = {server.name for server in status}
        registry.unopened = tuple(c.name for c in configs if c.name not in is_open)
        if plan is not None and not absent_tools(plan, registry, agents):
            diagnostics = tuple(
                replace(d, severity=Severity.WARNING) if d.is_error else d for d in diagnostics
            )
        origins = tuple(dict.fromkeys(Path(c.origin) for c in configs))
        credentials = configured((*in_environment(os.environ), *credentials_of(configs), *pool.secrets()))
        blocks = setup.settings.agent_blocks
        yield Toolbox(registry, origins, status, (*found, *diagnostics), folder, credentials, blocks)


def setup_of_run(setup: Setup, toolbox: Toolbox) -> Setup:
    """A setup that opens the same tools again, naming the configuration files that were discovered."""
    return replace(setup, mcp_configs=setup.mcp_configs or toolbox.configs, discovers=False)


class DeclaredTools:
    """The tools of a setup; local ones are loaded once.

    With an `opened` toolbox only its tools are used, and no server is started.
    """

    def __init__(self, setup: Setup, opened: Toolbox | None = None) -> None:
        self.setup = setup
        self.local = local_tools(setup) if opened is None else opened.registry
        self._opened = opened
        self._known: Registry | None = None

    @property
    def providers(self) -> Providers:
        """Whether there is a model, an agent and a compiler."""
        return self.setup.providers

    def tools_for(
        self, plan: Plan, *, asks_servers: bool
    ) -> tuple[Registry, tuple[Diagnostic, ...], str | None]:
        """The registry, diagnostics about opening it, and a phrase for servers that were not queried.

        The tools that the plan's agents may call are included.
        """
        from callsheet.api.requirements import asks_for_all_tools  # noqa: PLC0415 - as above

        agents = self.setup.agents
        is_open = asks_servers and asks_for_all_tools(plan, agents)
        if self._opened is not None:
            return self.local, self._opened.diagnostics, None
        if not is_open and not absent_tools(plan, self.local, agents):
            return self.local, (), None
        catalogue = self.catalogue
        if catalogue is not None and (not asks_servers or not catalogue.unlocked):
            return self.known(), catalogue.diagnostics, catalogue.not_asked
        if asks_servers:
            return *self._ask_servers(plan), None
        from callsheet.ports.mcp.discovery import discover  # noqa: PLC0415 - only where tools are missing

        files = self.setup.mcp_configs or discover(self.setup.project)
        return self.local, (), f"a server of {files[0]}" if files else None

    @cached_property
    def catalogue(self) -> Catalogue | None:
        """The catalogue of the project; None without a lock file. Raises CallsheetError as `catalogue_of`."""
        return None if self._opened is not None else catalogue_of(self.setup)

    def known(self) -> Registry:
        """All tools that are known without a server: local ones, and those of the lock file."""
        if self._known is None:
            self._known = self.local if self.catalogue is None else self.catalogue.registry(self.local)
        return self._known

    def agent_tool_diagnostics(
        self, plan: Plan, registry: Registry, not_asked: str | None
    ) -> tuple[Diagnostic, ...]:
        """Diagnostics for the tools that steps name for their agents."""
        from callsheet.api.requirements import wrong_tools  # noqa: PLC0415 - only where there is a plan

        return wrong_tools(plan, registry, self.setup.agents, not_asked=not_asked)

    def _ask_servers(self, plan: Plan) -> tuple[Registry, tuple[Diagnostic, ...]]:
        import asyncio  # noqa: PLC0415 - only where servers are asked

        from callsheet.api.requirements import asks_for_all_tools  # noqa: PLC0415 - as above

        async def ask() -> tuple[Registry, tuple[Diagnostic, ...]]:
            needs = None if asks_for_all_tools(plan, self.setup.agents) else plan
            async with open_toolbox(self.setup, needs, self.setup.agents, calls=False) as toolbox:
                return toolbox.registry, toolbox.diagnostics

        return asyncio.run(ask())
