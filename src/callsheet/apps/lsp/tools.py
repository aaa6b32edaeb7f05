"""The tools that edited plans are checked against: local ones, and those of named servers.

In: a setup. Out: a registry, and which servers were not queried. Servers are started only if their
configuration is named on the command line, and stopped once they have listed their tools.
"""

from __future__ import annotations

from dataclasses import dataclass

from callsheet.api.requirements import absent_tools
from callsheet.apps.setup import Setup
from callsheet.apps.toolbox import local_tools, open_toolbox
from callsheet.diagnostics import Diagnostic
from callsheet.ir import Plan
from callsheet.ports.tools import Registry


@dataclass(frozen=True, slots=True)
class Tools:
    """A registry, and a phrase for the servers that were not queried, if any."""

    registry: Registry
    not_queried: str | None = None

    def not_queried_for(self, plan: Plan, setup: Setup) -> str | None:
        """The phrase for servers that were not queried, if a tool of the plan is not in the registry."""
        return self.not_queried if absent_tools(plan, self.registry, setup.agents) else None


def local_tools_of(setup: Setup) -> Tools:
    """The tools that need no server. Raises CallsheetError for a file that cannot be loaded."""
    from callsheet.ports.mcp.discovery import discover  # noqa: PLC0415 - brings the servers' client

    registry = local_tools(setup)
    files = [*(setup.mcp_configs or discover())]
    return Tools(registry, f"a server of {files[0]}" if files else None)


async def server_tools_of(setup: Setup) -> tuple[Tools, tuple[Diagnostic, ...]]:
    """All tools, including those of the named servers, and diagnostics; raises CallsheetError as above."""
    async with open_toolbox(setup) as toolbox:
        return Tools(toolbox.registry), toolbox.diagnostics
