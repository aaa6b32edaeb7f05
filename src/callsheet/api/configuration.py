"""`Configuration`: the validated configuration of a runtime, before anything is opened.

In: the arguments of `Runtime(…)`. Out: the parts of a `Configuration`, or an error for an invalid argument;
among them the collector to which traces of runs are sent.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
from collections.abc import AsyncGenerator, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypedDict, cast

from callsheet.api.arguments import ToolSource
from callsheet.api.checking import Providers
from callsheet.api.models import Agent, Compiler, Model
from callsheet.api.planning import GraphPlanner, Planner, Replan
from callsheet.api.requirements import AgentRules
from callsheet.authoring.shapes import Shared
from callsheet.diagnostics import CallsheetError, Source
from callsheet.diagnostics.wrong_type import wanted, wanted_list, wanted_path
from callsheet.files import user_folder
from callsheet.ir import OnInDoubt
from callsheet.lazy import dataclass
from callsheet.machine import Limits
from callsheet.machine.questions import ApprovalTimeout
from callsheet.policy.model import Policy
from callsheet.ports.builtin import BuiltinSettings, ExecutionSettings, FetchSettings
from callsheet.ports.models.model import LanguageModel
from callsheet.ports.tools import Tool
from callsheet.runtime.asking import OnAsk
from callsheet.runtime.gateway import AgentPort, ModelPort
from callsheet.runtime.telemetry.target import OtelSettings, Target, checked_url
from callsheet.store import Journal

if TYPE_CHECKING:
    from callsheet.ports.mcp import McpServerConfig
    from callsheet.ports.mcp.trust import Lock, PinKeeper

_log = logging.getLogger("callsheet")


@dataclass(frozen=True, slots=True)
class Collector:
    """The collector for traces; with `content`, arguments and results are sent as well."""

    target: Target
    content: bool = False


def collector_of(given: str | OtelSettings | None) -> Collector | None:
    """The collector that `Runtime(otlp=…)` names.

    Raises CallsheetError: TRC003 for an invalid address, TRC004 for an invalid header.
    """
    if given is None:
        return None
    settings = OtelSettings(url=checked_url(given)) if isinstance(given, str) else given
    target = settings.target()
    return None if target is None else Collector(target, settings.content)


@asynccontextmanager
async def sent_beside(
    collector: Collector | None, journal: Journal | None, run_id: str
) -> AsyncGenerator[None]:
    """Send the trace of a run during the block; a failure is only logged, and the trace can be sent later."""
    if collector is None or journal is None:
        yield
        return
    from callsheet.runtime.telemetry.live import LiveExport  # noqa: PLC0415 - few programs need it

    export = LiveExport(journal.path, run_id, collector.target, content=collector.content)
    export.start()
    try:
        yield
    finally:
        done = await asyncio.to_thread(export.finish)
        if done.failure is not None:
            _log.warning(
                "the trace of run %s is not sent: %s; Runtime.export_trace sends it", run_id, done.failure
            )


Servers: TypeAlias = "str | os.PathLike[str] | Mapping[str, Any] | Iterable[McpServerConfig]"
"""MCP servers: the path of an `mcpServers` file, its content, or the table of servers in it."""


class RuntimeOptions(TypedDict, total=False):
    """The keyword arguments of `Runtime`, which documents them."""

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
    lock: str | os.PathLike[str] | None
    schedule: Literal["sequential", "auto"] | None


_TABLES = ("mcpServers", "servers")


@dataclass(frozen=True, slots=True, kw_only=True)
class Configuration:
    """The configuration of a runtime, read and validated.

    `tools` are those that need no server: the user's, built-in ones, transforms.
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
    """What to do about doubts in the LCTL blocks of agents; None if agents get no block."""
    pins: PinKeeper | None = None
    """Compares server tools with their pins; None accepts them as they are when the server is opened."""
    lock: Lock | None = None
    """The servers whose tools are known without starting them."""
    workspace: str = ""
    """The folder of the file tools, empty if there are none."""
    fetch: FetchSettings | None = None
    """How the built-in tools fetch pages; None if there are none."""
    execution: ExecutionSettings | None = None
    """How the built-in tools run code; None if there are none."""
    policy: Policy | None = None
    """The policy that plans and their calls are checked against."""
    collector: Collector | None = None
    """Where traces are sent during runs."""
    keeps_labels: bool = False
    """Whether labels of files are kept although there is no journal, as in a rehearsal."""
    in_force: tuple[str, ...] = ()
    """Absolute paths of the files that configure this runtime, which no call under a policy may write."""
    language: LanguageModel | None = None
    """The model that is asked for plans; None without a model, or with an `OperationModel`."""

    def bounds(self, limits: Limits | None) -> Limits:
        """The limits of a run: its own or the runtime's, with the runtime's schedule if one was named."""
        chosen = self.limits if limits is None else wanted("limits", limits, Limits, "Limits(…)")
        return chosen if self.schedule is None else replace(chosen, schedule=self.schedule)

    @property
    def providers(self) -> Providers:
        """Whether there is a model, an agent and a compiler."""
        drives = self.agents is not None and self.agents.drives_agents
        return Providers(self.model is not None, self.agent is not None or drives, self.replan is not None)

    @property
    def files(self) -> Path:
        """The folder for files received from servers."""
        return (user_folder("data") if self.data is None else self.data) / "files"


def builtin_settings(
    given: bool | BuiltinSettings, workspace: str | os.PathLike[str] | None, data: Path | None
) -> BuiltinSettings | None:
    """The settings of the built-in tools; None if they are not wanted.

    Raises ValueError for a workspace without built-in tools.
    """
    folder = None if workspace is None else wanted_path("workspace", workspace)
    if isinstance(given, BuiltinSettings):
        return given if folder is None else replace(given, workspace=folder)
    if not wanted("builtins", given, bool, "True, False or BuiltinSettings(…)"):
        if folder is not None:
            raise ValueError("the workspace is the folder of the built-in tools: give builtins=True as well")
        return None
    return BuiltinSettings(workspace=folder or Path(), data=data or user_folder("data"))


def read_servers(given: Servers) -> tuple[McpServerConfig, ...]:
    """The server configurations; raises CallsheetError (CFG110 to CFG113) for an invalid one."""
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
    """The absolute paths among the arguments of a runtime; arguments that are no paths are skipped.

    >>> files_in_force(print, {"files": {}}, "/srv/tools.py")
    ('/srv/tools.py',)
    """
    named = [cast("str | os.PathLike[str]", each) for each in given if isinstance(each, str | os.PathLike)]
    return tuple(os.path.abspath(path) for path in named)


def pin_keeper(pinned: bool, pins: str | os.PathLike[str] | None) -> PinKeeper | None:
    """What compares server tools with a file of pins; None if neither argument asks for it."""
    if not pinned and pins is None:
        return None
    from callsheet.ports.mcp.trust import PinFile, PinKeeper, default_pins  # noqa: PLC0415 - only then

    return PinKeeper(PinFile(default_pins() if pins is None else wanted_path("pins", pins)), pinned=pinned)


def read_lock(path: str | os.PathLike[str] | None) -> Lock | None:
    """The lock file at a path; raises CallsheetError (CFG115) if it is missing or cannot be used."""
    if path is None:
        return None
    from callsheet.ports.mcp.trust import LockFile  # noqa: PLC0415 - only then

    place = wanted_path("lock", path)
    lock = LockFile(place).read()
    if lock is None:
        raise CallsheetError.single(
            "CFG115",
            f"the lock file {place} cannot be used: it does not exist",
            help="`callsheet lock` writes it",
        )
    return lock
