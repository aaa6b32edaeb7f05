"""Selects the MCP servers to open for the tools that a plan calls.

In: a setup, and names of tools. Out: the configurations of servers, from the files that the setup names or
from those at the conventional places, and diagnostics about files that are skipped.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from callsheet.apps.setup import Setup
from callsheet.diagnostics import CallsheetError, Diagnostic, Severity

if TYPE_CHECKING:
    from callsheet.ports.mcp import McpServerConfig


@dataclass(frozen=True, slots=True)
class SelectedServers:
    """The MCP servers to open, and diagnostics about files that were skipped.

    `skipped` are servers that cannot be used as they are configured.
    """

    configs: tuple[McpServerConfig, ...] = ()
    diagnostics: tuple[Diagnostic, ...] = ()
    skipped: tuple[str, ...] = ()


def select_servers(setup: Setup, names: Iterable[str] | None, *, is_lenient: bool = False) -> SelectedServers:
    """The servers to open for tools of these names; None for all servers.

    With `is_lenient`, here or in the setup, a server that cannot be used is skipped also in a file that the
    setup names.
    Raises CallsheetError for an invalid file that the setup names. At a conventional place an invalid file is
    skipped with a warning, as is each server that cannot be used. callsheet's own entry in such a file is
    skipped silently: it is meant for the client that owns the file.
    """
    wanted = None if names is None else tuple(names)
    if wanted == ():
        return SelectedServers()
    from callsheet.ports.mcp import discover, load_config  # noqa: PLC0415 - only where tools are missing

    by_name: dict[str, McpServerConfig] = {}
    diagnostics: list[Diagnostic] = []
    skipped: list[str] = []
    for path in setup.mcp_configs or (discover(setup.project) if setup.discovers else ()):
        try:
            file = load_config(path, skips=is_lenient or setup.is_lenient or not setup.mcp_configs)
        except CallsheetError as error:
            if setup.mcp_configs or not os.path.isfile(path):
                raise
            diagnostics += (_skipped(d, path) for d in error.diagnostics)
            continue
        diagnostics += (replace(d, span=None, message=f"{path}: {d.message}") for d in file.warnings)
        skipped += file.skipped
        for server in file.servers:
            if setup.mcp_configs or not _is_callsheet(server):
                by_name.setdefault(server.name, server)
    return SelectedServers(_needed(setup, by_name.values(), wanted), tuple(diagnostics), tuple(skipped))


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
    setup: Setup, servers: Iterable[McpServerConfig], wanted: tuple[str, ...] | None
) -> tuple[McpServerConfig, ...]:
    """All servers, or only those that may offer the named tools.

    A qualified name (`SERVER__TOOL`) names its server. For another name these are the servers whose recorded
    tools have it, and those without a record: a tool that is new on a known server would not be called. If no
    record has the name, any server may.
    """
    from callsheet.ports.mcp.declarations import qualified_name  # noqa: PLC0415 - as its caller

    offered = tuple(servers)
    if wanted is None or len(offered) < 2:
        return offered
    prefixes = {server.name: qualified_name(server.name, "") for server in offered}
    plain = [name for name in wanted if not name.startswith(tuple(prefixes.values()))]
    recorded = _recorded_names(setup, offered) if plain else {}
    chosen = {name for name, prefix in prefixes.items() if any(each.startswith(prefix) for each in wanted)}
    for name in plain:
        claimants = {server for server, names in recorded.items() if name in names}
        if not claimants:
            return offered
        chosen |= claimants | (prefixes.keys() - recorded.keys())
    return tuple(server for server in offered if server.name in chosen)


def _recorded_names(setup: Setup, servers: Iterable[McpServerConfig]) -> dict[str, set[str]]:
    """The names in plans of the recorded tools of each server that has a record."""
    from callsheet.apps.tool_pins import pin_file  # noqa: PLC0415 - only where servers may be left out
    from callsheet.ports.mcp.declarations import plan_name  # noqa: PLC0415 - as above
    from callsheet.ports.mcp.trust import identity_of  # noqa: PLC0415 - as above

    pins = pin_file(setup.settings).read()
    known = ((server.name, pins.find(identity_of(server))) for server in servers)
    return {name: {plan_name(name, tool) for tool in record.tools} for name, record in known if record}
