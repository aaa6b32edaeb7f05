"""What a runtime is made of: tools, servers, model, journal, limits; nothing of it is open yet.

In: what users write in `Runtime(…)`. Out: the parts of a `Kit`, or what is wrong with them.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypedDict, cast

from callsheet.api.agents import AgentRules
from callsheet.api.checking import Means
from callsheet.api.models import Agent, Compiler, Model
from callsheet.api.planning import GraphPlanner, Planner
from callsheet.api.reach import default_data
from callsheet.api.replanning import Replan
from callsheet.api.sending import Collector
from callsheet.api.tools import ToolSource
from callsheet.authoring.shapes import Shared
from callsheet.diagnostics import Source
from callsheet.diagnostics.wanted import wanted, wanted_list, wanted_path
from callsheet.ir import OnInDoubt
from callsheet.machine import Limits
from callsheet.machine.approvals import ApprovalTimeout
from callsheet.policy.model import Policy
from callsheet.ports.builtin import BuiltinSettings, ExecutionSettings, FetchSettings
from callsheet.ports.models.model import LanguageModel
from callsheet.ports.tools import Tool
from callsheet.runtime.asking import OnAsk
from callsheet.runtime.gateway import AgentPort, ModelPort
from callsheet.store import Journal

if TYPE_CHECKING:
    from callsheet.ports.mcp import McpServerConfig
    from callsheet.ports.mcp.trust import PinKeeper

Servers: TypeAlias = "str | os.PathLike[str] | Mapping[str, Any] | Iterable[McpServerConfig]"
"""MCP servers: the path of an `mcpServers` file, its content, or the table of servers in it."""


class RuntimeOptions(TypedDict, total=False):
    """What `Runtime` takes by name; its docstring says what each is."""

    tools: Iterable[ToolSource]
    mcp: Servers | None
    builtins: bool | BuiltinSettings
    workspace: str | os.PathLike[str] | None
    data: str | os.PathLike[str] | None
    model: Model | None
    agent: Agent | None
    compiler: Compiler | None
    planner: Planner | None
    share_values: Shared
    journal: Journal | str | os.PathLike[str] | None
    limits: Limits | None
    approve: Iterable[str]
    approval_timeout: ApprovalTimeout | None
    on_approval: OnAsk | None
    on_in_doubt: Literal["ask", "fail", "retry"]
    agent_tools: Iterable[str] | None
    agent_blocks: Literal["flag", "block", "review"] | None
    policy: Policy | str | os.PathLike[str] | None
    pinned: bool
    pins: str | os.PathLike[str] | None
    schedule: Literal["sequential", "auto"] | None


_TABLES = ("mcpServers", "servers")


@dataclass(frozen=True, slots=True, kw_only=True)
class Kit:
    """All that a runtime was given, read and checked.

    `tools` are those that need no server: given ones, built-in ones, transforms.
    """

    tools: tuple[Tool, ...]
    servers: tuple[McpServerConfig, ...]
    model: ModelPort | None
    agent: AgentPort | None
    replan: Replan | None
    planner: GraphPlanner | None
    journal: Journal | Path | None
    limits: Limits
    on_in_doubt: OnInDoubt
    data: Path | None
    approve: tuple[str, ...] = ()
    approval_timeout: Mapping[str, float] = field(default_factory=dict[str, float])
    on_ask: OnAsk | None = None
    schedule: Literal["sequential", "auto"] | None = None
    agents: AgentRules | None = None
    """How the machine drives agents, None where it does not."""
    agent_blocks: str | None = None
    """What becomes of doubts in the LCTL blocks of agents; None hands out none."""
    pins: PinKeeper | None = None
    """What judges the tools of servers; None takes them as they are when they are opened."""
    workspace: str = ""
    """The folder of the file tools, empty where there are none."""
    fetch: FetchSettings | None = None
    """How the built-in tools fetch pages; None where they are not there."""
    execution: ExecutionSettings | None = None
    """How the built-in tools run code; None where they are not there."""
    policy: Policy | None = None
    """What plans and their calls are held against."""
    collector: Collector | None = None
    """Where runs are sent while they go on."""
    in_force: tuple[str, ...] = ()
    """The files, beside those of the policy, that say what plans may do here, as absolute paths."""
    language: LanguageModel | None = None
    """Who is asked for plans; None where there is no model, or one that carries out whole operations."""

    def bounds(self, limits: Limits | None) -> Limits:
        """The limits of a run: those that it is given or the runtime's, on the schedule that was named."""
        chosen = self.limits if limits is None else wanted("limits", limits, Limits, "Limits(…)")
        return chosen if self.schedule is None else replace(chosen, schedule=self.schedule)

    @property
    def means(self) -> Means:
        """Who carries out, beside tools, what a plan asks for."""
        drives = self.agents is not None and self.agents.drives_agents
        return Means(self.model is not None, self.agent is not None or drives, self.replan is not None)

    @property
    def files(self) -> Path:
        """The folder for files that servers send."""
        return (default_data() if self.data is None else self.data) / "files"


def builtin_settings(
    given: bool | BuiltinSettings, workspace: str | os.PathLike[str] | None, data: Path | None
) -> BuiltinSettings | None:
    """The settings of the built-in tools; None where there are to be none.

    Raises ValueError for a workspace without them.
    """
    if isinstance(given, BuiltinSettings):
        return given if workspace is None else replace(given, workspace=Path(workspace))
    if not wanted("builtins", given, bool, "True, False or BuiltinSettings(…)"):
        if workspace is not None:
            raise ValueError("the workspace is the folder of the built-in tools: give builtins=True as well")
        return None
    return BuiltinSettings(workspace=Path(workspace or "."), data=data or default_data())


def read_servers(given: Servers) -> tuple[McpServerConfig, ...]:
    """The servers that are given; raises CallsheetError (CFG110 to CFG113) for what names none."""
    from callsheet.ports.mcp import McpServerConfig, load_config, parse_config  # noqa: PLC0415 - only where servers are named

    if isinstance(given, str | os.PathLike):
        return load_config(wanted_path("mcp", given)).servers
    if isinstance(given, Mapping):
        table = cast("Mapping[str, Any]", given)
        content = table if any(name in table for name in _TABLES) else {"mcpServers": table}
        text = json.dumps(content, indent=2, ensure_ascii=False, default=str)
        return parse_config(Source("<mcp>", text), Path.cwd()).servers
    servers = wanted_list("mcp", given, "servers, a table of them, or the path of one")
    return tuple(wanted("mcp", each, McpServerConfig, "a list of McpServerConfig") for each in servers)


def files_in_force(*given: object) -> tuple[str, ...]:
    """Those of what a runtime is given that are paths of files, as absolute paths.

    >>> files_in_force(print, {"files": {}}, "/srv/tools.py")
    ('/srv/tools.py',)
    """
    named = [cast("str | os.PathLike[str]", each) for each in given if isinstance(each, str | os.PathLike)]
    return tuple(os.path.abspath(path) for path in named)


def pin_keeper(pinned: bool, pins: str | os.PathLike[str] | None) -> PinKeeper | None:
    """What holds the tools of servers against a file of pins; None where neither is asked for."""
    if not pinned and pins is None:
        return None
    from callsheet.ports.mcp.trust import PinFile, PinKeeper, default_pins  # noqa: PLC0415 - only then

    return PinKeeper(PinFile(default_pins() if pins is None else wanted_path("pins", pins)), pinned=pinned)
