"""The context of all MCP requests: the host of runs, the plan library, the operator's settings."""

from __future__ import annotations

from dataclasses import dataclass

from callsheet.api.requirements import asks_for_all_tools
from callsheet.apps.hosting import Host
from callsheet.apps.operations.reading import PlanText
from callsheet.apps.setup import Setup
from callsheet.apps.tool_declarations import DeclaredTools
from callsheet.apps.toolbox import Toolbox
from callsheet.policy.model import Policy
from callsheet.store.library import PlanLibrary


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerContext:
    """The host, the library and the operator's settings for all requests.

    With `clients_may_answer`, a client without forms may answer for a person. `hint` is the option of
    commands that names the journal (` --journal PATH`).
    """

    host: Host
    library: PlanLibrary
    policy: Policy | None = None
    clients_may_answer: bool = False
    hint: str = ""

    @property
    def setup(self) -> Setup:
        """The setup of all runs."""
        return self.host.tools.setup

    async def toolbox(self) -> Toolbox:
        """All available tools."""
        return await self.host.tools.for_plan(None)

    async def declared_tools_for(self, text: PlanText) -> DeclaredTools:
        """The tools to check a plan against; servers are opened for unknown ones."""
        plan = text.plan or text.partial
        if plan is None:
            return self.host.tools.declared
        agents = self.setup.agents
        needed = None if asks_for_all_tools(plan, agents) else plan
        return DeclaredTools(self.setup, await self.host.tools.for_plan(needed, agents))
