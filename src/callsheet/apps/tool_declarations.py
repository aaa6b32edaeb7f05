"""The declarations of the tools that plans are checked against.

In: a setup and a plan. Out: a registry, and whether servers were not queried. No tool is called. Servers are
started only on request, and stopped before the result is returned.
"""

from __future__ import annotations

from functools import cached_property

from callsheet.api.checking import Providers
from callsheet.apps.catalogue import Catalogue, catalogue_of
from callsheet.apps.setup import Setup
from callsheet.apps.toolbox import Toolbox, local_tools
from callsheet.diagnostics import Diagnostic
from callsheet.ir import Plan
from callsheet.ports.tools import Registry


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
        from callsheet.api.requirements import (  # noqa: PLC0415 - as above
            absent_tools,
            asks_for_all_tools,
        )

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

        return tuple(wrong_tools(plan, registry, self.setup.agents, not_asked=not_asked))

    def _ask_servers(self, plan: Plan) -> tuple[Registry, tuple[Diagnostic, ...]]:
        import asyncio  # noqa: PLC0415 - only where servers are asked

        from callsheet.api.requirements import asks_for_all_tools  # noqa: PLC0415 - as above
        from callsheet.apps.toolbox import open_toolbox  # noqa: PLC0415 - as above

        async def ask() -> tuple[Registry, tuple[Diagnostic, ...]]:
            needs = None if asks_for_all_tools(plan, self.setup.agents) else plan
            async with open_toolbox(self.setup, needs, self.setup.agents, calls=False) as toolbox:
                return toolbox.registry, toolbox.diagnostics

        return asyncio.run(ask())
