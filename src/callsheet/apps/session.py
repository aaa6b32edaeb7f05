"""Opens the tools that a plan calls: built-in tools, transforms, Python files, MCP servers.

In: a setup with the operator's choices, which is recorded in the journal of a run. Out: a toolbox with a
registry and the ports of a run. Tools of Python files have precedence, then built-in tools and transforms,
then servers: a tool of a server never replaces one of the same name.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import AsyncGenerator, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from callsheet.api.checking import Providers
from callsheet.api.requirements import absent_tools, local_registry, take_in_all
from callsheet.apps.config_file import settings_path
from callsheet.apps.settings import Settings, read_settings
from callsheet.diagnostics import CallsheetError, Diagnostic, Severity
from callsheet.ir import JSON, Plan
from callsheet.ports.builtin import BuiltinSettings
from callsheet.ports.tools import Registry, Tool
from callsheet.sealing.configured import configured, in_environment
from callsheet.sealing.known import Known

if TYPE_CHECKING:
    from callsheet.api.agents import AgentRules
    from callsheet.api.obligations import Guarantees
    from callsheet.ports.mcp import McpServerConfig, ServerStatus
    from callsheet.ports.mcp.trust import PinFile, PinKeeper
    from callsheet.runtime.gateway import CompilePort, ModelPort, Ports, Route, TurnPort


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """Where the tools of a run come from, and what they may do.

    `workspace` is the folder of the file tools, `data` that of memory and received files. `mcp_configs` are
    used instead of the files at the conventional places, which are read only if `discovers`. `settings` is
    the user's configuration.
    """

    workspace: Path
    data: Path
    tools_files: tuple[Path, ...] = ()
    mcp_configs: tuple[Path, ...] = ()
    discovers: bool = True
    settings: Settings = field(default_factory=Settings)
    model: str = ""
    """The model to use instead of the configured one: `provider:model`, an address, `FILE.py:FUNCTION`."""

    @property
    def names_model(self) -> bool:
        """Whether a model is named or configured."""
        return bool(self.model) or self.settings.model.is_set

    @property
    def means(self) -> Providers:
        """Whether plans have a model, agent and compiler; a downloaded model counts if none is named."""
        has_model = self.names_model or default_local_model() is not None
        return Providers(model=has_model, agent=has_model, compiler=has_model)

    @property
    def agents(self) -> AgentRules:
        """The operator's rules for agents."""
        from callsheet.api.agents import AgentRules  # noqa: PLC0415 - only where plans are looked at

        return AgentRules(self.settings.agent_tools)

    @property
    def folder(self) -> str:
        """The folder of the file tools as an absolute path."""
        return os.path.abspath(self.workspace)

    def to_note(self) -> dict[str, JSON]:
        """The setup as JSON data with absolute paths, for a run's journal."""
        return {
            "workspace": self.folder,
            "data": os.path.abspath(self.data),
            "tools": [os.path.abspath(path) for path in self.tools_files],
            "mcp_configs": [os.path.abspath(path) for path in self.mcp_configs],
            "discovers": self.discovers,
            "settings": self.settings.to_json(),
            **({"model": self.model} if self.model else {}),
        }

    @classmethod
    def from_note(cls, launch: Mapping[str, Any]) -> Setup:
        """The setup in the launch note of a run's first event; raises CallsheetError (CFG017) if missing."""
        try:
            note = launch["setup"]
            return cls(
                workspace=Path(note["workspace"]),
                data=Path(note["data"]),
                tools_files=tuple(map(Path, note["tools"])),
                mcp_configs=tuple(map(Path, note["mcp_configs"])),
                discovers=bool(note["discovers"]),
                settings=read_settings(note["settings"], "of the run"),
                model=str(note.get("model", note.get("planner", ""))),
            )
        except (KeyError, TypeError) as error:
            raise CallsheetError.single(
                "CFG017",
                "the run does not record the tools that it was started with: no command of callsheet"
                " started it",
                help="resume it with the program that started it",
            ) from error

    def builtin_settings(self) -> BuiltinSettings:
        """The settings of the built-in tools."""
        return BuiltinSettings(
            workspace=self.workspace,
            data=self.data,
            fetch=self.settings.fetch,
            search=self.settings.search,
            execution=self.settings.execution,
        )


def default_local_model() -> str | None:
    """The local model that is used if none is named; None if none was downloaded."""
    from callsheet.ports.models.local import detect  # noqa: PLC0415 - only where none is named

    return detect().default


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
    ) -> Ports:
        """The ports of a run: `model` for operations, `compiler` for new plans, `turn` for agents' turns."""
        from callsheet.runtime.gateway import Ports, Route  # noqa: PLC0415 - brings asyncio

        def route(name: str) -> Route | None:
            tool = self.registry.get(name)
            if tool is None:
                return None
            return Route(tool.handler, probe=tool.probe, is_builtin=tool.spec.origin == "builtin")

        return Ports(
            route,
            model,
            compiler=compiler,
            turn=turn,
            workspace=self.workspace,
            known=self.known,
            blocks=self.blocks,
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


@dataclass(frozen=True, slots=True)
class Servers:
    """The MCP servers to open, and diagnostics about files that were skipped."""

    configs: tuple[McpServerConfig, ...] = ()
    diagnostics: tuple[Diagnostic, ...] = ()


def choose_servers(setup: Setup, names: Iterable[str] | None) -> Servers:
    """The servers to open for tools of these names; None for all servers.

    Raises CallsheetError for an invalid file that the setup names. An invalid file at a conventional place is
    skipped with a warning. callsheet's own entry in such a file is skipped silently: it is meant for the
    client that owns the file.
    """
    wanted = None if names is None else tuple(names)
    if wanted == ():
        return Servers()
    from callsheet.ports.mcp import discover, load_config  # noqa: PLC0415 - only where tools are missing

    by_name: dict[str, McpServerConfig] = {}
    diagnostics: list[Diagnostic] = []
    for path in setup.mcp_configs or (discover() if setup.discovers else ()):
        try:
            file = load_config(path)
        except CallsheetError as error:
            if setup.mcp_configs or not os.path.isfile(path):
                raise
            diagnostics += (_skipped(d, path) for d in error.diagnostics)
            continue
        diagnostics += (replace(d, span=None, message=f"{path}: {d.message}") for d in file.warnings)
        for server in file.servers:
            if setup.mcp_configs or not _is_callsheet(server):
                by_name.setdefault(server.name, server)
    return Servers(_needed(by_name.values(), wanted), tuple(diagnostics))


def _is_callsheet(server: McpServerConfig) -> bool:
    """Whether a server is `callsheet mcp`, however it is started."""
    from callsheet.ports.mcp import StdioServer  # noqa: PLC0415 - as its caller

    if not isinstance(server.transport, StdioServer):
        return False
    words = [Path(server.transport.command).name, *server.transport.args]
    return any(pair in (("callsheet", "mcp"), ("callsheet.exe", "mcp")) for pair in itertools.pairwise(words))


def _skipped(diagnostic: Diagnostic, path: Path) -> Diagnostic:
    message = f"{path} is skipped: {diagnostic.message}"
    return replace(diagnostic, severity=Severity.WARNING, message=message, span=None)


def _needed(
    servers: Iterable[McpServerConfig], wanted: tuple[str, ...] | None
) -> tuple[McpServerConfig, ...]:
    """All servers, or only the named ones if every name is qualified (`SERVER__TOOL`)."""
    from callsheet.ports.mcp.declarations import qualified_name  # noqa: PLC0415 - as its caller

    offered = tuple(servers)
    if wanted is None:
        return offered
    named: dict[str, McpServerConfig] = {}
    for name in wanted:
        server = next((s for s in offered if name.startswith(qualified_name(s.name, ""))), None)
        if server is None:
            return offered
        named[server.name] = server
    return tuple(named.values())


@asynccontextmanager
async def open_toolbox(
    setup: Setup, plan: Plan | None = None, agents: AgentRules | None = None
) -> AsyncGenerator[Toolbox]:
    """Open the tools that a plan calls, or all without a plan; servers end with the context.

    With rules for `agents` this includes the tools that the plan's agents may call. A server that cannot be
    opened is reported in `diagnostics`: as an error if a tool of the plan is missing, else as a warning.
    """
    registry, folder = local_tools(setup), setup.folder
    chosen = choose_servers(setup, None if plan is None else absent_tools(plan, registry, agents))
    if not chosen.configs:
        known, blocks = configured(in_environment(os.environ)), setup.settings.agent_blocks
        yield Toolbox(registry, (), (), chosen.diagnostics, folder, known, blocks)
        return
    from callsheet.api.logins import login_file  # noqa: PLC0415 - only where servers are opened
    from callsheet.ports.mcp import McpPool, credentials_of, folder_sink  # noqa: PLC0415 - as above

    sink = folder_sink(setup.data / "files")
    pins, logins = pin_keeper(setup.settings), login_file()
    async with McpPool(chosen.configs, blob_sink=sink, pins=pins, logins=logins) as pool:
        diagnostics = await pool.connect(keep_going=True)
        take_in_all(registry, pool.tools(), pool.away)
        status = tuple(pool.status())
        is_open = {server.name for server in status}
        registry.unopened = tuple(c.name for c in chosen.configs if c.name not in is_open)
        if plan is not None and not absent_tools(plan, registry, agents):
            diagnostics = tuple(
                replace(d, severity=Severity.WARNING) if d.is_error else d for d in diagnostics
            )
        origins = tuple(dict.fromkeys(Path(c.origin) for c in chosen.configs))
        diagnostics = (*chosen.diagnostics, *diagnostics)
        known = configured((*in_environment(os.environ), *credentials_of(chosen.configs), *pool.secrets()))
        blocks = setup.settings.agent_blocks
        yield Toolbox(registry, origins, status, diagnostics, folder, known, blocks)


def guarantees_of(setup: Setup, registry: Registry, *, keeps_labels: bool = True) -> Guarantees:
    """The guarantees of a run with this setup on which a proof may rely."""
    from callsheet.api.obligations import Guarantees  # noqa: PLC0415 - only under a policy

    settings = setup.settings
    return Guarantees(
        registry,
        settings.fetch,
        settings.execution,
        keeps_labels=keeps_labels,
        workspace=setup.folder,
        files=policy_relevant_files(setup),
    )


def policy_relevant_files(setup: Setup) -> tuple[str, ...]:
    """The files that determine what plans may do here, other than policy files; they need not exist."""
    from callsheet.ports.mcp import looked_for  # noqa: PLC0415 - only under a policy
    from callsheet.ports.mcp.trust import default_pins  # noqa: PLC0415 - as above

    pins = setup.settings.pins
    named = (*setup.tools_files, *setup.mcp_configs, *looked_for(setup.workspace))
    own = (settings_path(), default_pins() if pins is None else Path(pins).expanduser())
    return tuple(dict.fromkeys(os.path.abspath(path) for path in (*named, *own)))


def pin_file(settings: Settings) -> PinFile:
    """The file with the pins of server tools."""
    from callsheet.ports.mcp.trust import PinFile, default_pins  # noqa: PLC0415 - only with servers

    return PinFile(default_pins() if settings.pins is None else Path(settings.pins).expanduser())


def pin_keeper(settings: Settings, *, records: bool = True) -> PinKeeper:
    """The comparison of server tools with the pins in that file."""
    from callsheet.ports.mcp.trust import PinKeeper  # noqa: PLC0415 - as above

    return PinKeeper(pin_file(settings), pinned=settings.trust == "pinned", records=records)


def setup_of_run(setup: Setup, toolbox: Toolbox) -> Setup:
    """A setup that opens the same tools again, naming the configuration files that were discovered."""
    return replace(setup, mcp_configs=setup.mcp_configs or toolbox.configs, discovers=False)
