"""The MCP servers of a project: which to open for the tools of a plan, and what is known without them.

Servers are configured in the files that the setup names, else in those at the conventional places. The lock
file of a folder does not count for a server that is configured elsewhere (by the user, for all folders) until
the user trusts the project: its author must not extend what plans may do with the user's own servers.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterable, Mapping
from dataclasses import field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from callsheet.api.requirements import take_in
from callsheet.apps.setup import Setup
from callsheet.diagnostics import CallsheetError, Diagnostic, Severity
from callsheet.ir import JSON
from callsheet.lazy import dataclass
from callsheet.ports.calls import CallContext, ToolFailed
from callsheet.ports.tools import Registry, Tool

if TYPE_CHECKING:
    from callsheet.ports.mcp import McpServerConfig
    from callsheet.ports.mcp.trust import Judgement, Lock, LockedServer


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
    from callsheet.apps.settings import pin_file  # noqa: PLC0415 - only where servers may be left out
    from callsheet.ports.mcp.declarations import plan_name  # noqa: PLC0415 - as above
    from callsheet.ports.mcp.trust import identity_of  # noqa: PLC0415 - as above

    pins = pin_file(setup.settings).read()
    known = ((server.name, pins.find(identity_of(server))) for server in servers)
    return {name: {plan_name(name, tool) for tool in record.tools} for name, record in known if record}


_MOST_NAMES = 3


@dataclass(frozen=True, slots=True)
class Catalogue:
    """The locked servers that count here, and the configured ones.

    `unlocked` are the names of configured servers that are not in the lock file. `diagnostics` report what
    does not count, and configurations that have changed since.
    """

    lock: Lock
    configs: Mapping[str, McpServerConfig]
    unlocked: tuple[str, ...] = ()
    diagnostics: tuple[Diagnostic, ...] = ()
    judgements: Mapping[str, Judgement] = field(default_factory=dict[str, "Judgement"])
    """What the pins say of these servers, where only approved tools may be called."""

    def registry(self, local: Registry, *, calls: bool = False) -> Registry:
        """A copy of the local tools with those of the locked servers, which cannot be called from it.

        With `calls` the tools of servers that are not configured here are refused (TOL029).
        """
        registry = Registry(local)
        for server in self.lock.servers.values():
            self.take_in(registry, server, calls=calls)
        if self.lock.servers:
            from callsheet.ports.mcp.declarations import OFFERS  # noqa: PLC0415 - only with servers

            for spec in OFFERS.values():
                take_in(registry, Tool(spec, _not_open), f"SERVERS__{spec.name}")
        return registry

    def without_configured(self) -> Catalogue:
        """A copy with only those locked servers that are not configured here."""
        return replace(self, lock=self.lock.only(n for n in self.lock.servers if n not in self.configs))

    def take_in(self, registry: Registry, server: LockedServer, *, calls: bool) -> None:
        """Add the tools of a locked server, as `registry` does."""
        config, judgement = self.configs.get(server.name), self.judgements.get(server.name)
        absent = _not_configured(server) if calls and config is None else None
        for spec, alias in server.specs(config):
            refusal = absent if judgement is None else judgement.refusals.get(spec.executor)
            take_in(registry, Tool(replace(spec, refusal=refusal), _not_open), alias)

    @property
    def not_asked(self) -> str | None:
        """A phrase for the servers that may have further tools; None if all are locked."""
        if not self.unlocked:
            return None
        names = ", ".join(self.unlocked[:_MOST_NAMES])
        more = f" and {len(self.unlocked) - _MOST_NAMES} more" if len(self.unlocked) > _MOST_NAMES else ""
        return f"a server that is not in callsheet.lock ({names}{more})"


async def _not_open(_: dict[str, Any], context: CallContext) -> JSON:
    raise ToolFailed("the server of this tool is not open")


def _not_configured(server: LockedServer) -> Diagnostic:
    return Diagnostic(
        "TOL029",
        Severity.ERROR,
        f"the MCP server {server.name!r} ({server.place}) is in callsheet.lock, but is not configured here",
        help="name the file that configures it with --mcp-config, or set the variables that its entry needs",
    )


def catalogue_of(setup: Setup) -> Catalogue | None:
    """The catalogue of a setup; None without a lock file.

    Raises CallsheetError for a lock file (CFG115) or a configuration that cannot be used. A server whose
    entry is wrong is told (CFG112) and counts as not configured, one whose entry needs a variable that is
    not set only counts so.
    """
    if setup.lock is None or not setup.lock.is_file():
        return None
    from callsheet.ports.mcp.trust import LockFile, stale  # noqa: PLC0415 - as above

    lock = LockFile(setup.lock).read()
    if lock is None:
        return None
    chosen = select_servers(setup, None, is_lenient=True)
    configs = {config.name: config for config in chosen.configs}
    scope = {*configs, *chosen.skipped} if setup.mcp_configs else {*configs, *lock.servers}
    foreign = foreign_servers(setup.lock, lock, configs)
    counting = lock.only(scope - foreign)
    here = {name: config for name, config in configs.items() if name in counting.servers}
    wrong = (d for d in chosen.diagnostics if d.is_error or d.code == "CFG112")
    changed = stale((counting.servers[name], config) for name, config in here.items())
    return Catalogue(
        counting,
        configs,
        tuple(name for name in configs if name not in counting.servers),
        (*wrong, *does_not_count(setup.lock, foreign), *changed),
        _judgements(setup, counting, here),
    )


def foreign_servers(path: Path, lock: Lock, configs: Mapping[str, McpServerConfig]) -> frozenset[str]:
    """The locked servers that are configured outside of the project, unless the user trusts its lock file."""
    folder = path.resolve().parent
    outside = {
        name
        for name, config in configs.items()
        if name in lock.servers and not Path(config.origin).resolve().is_relative_to(folder)
    }
    if not outside:
        return frozenset()
    from callsheet.apps.projects import is_trusted  # noqa: PLC0415 - only where it counts

    return frozenset() if is_trusted(path) else frozenset(outside)


def does_not_count(path: Path, names: frozenset[str]) -> tuple[Diagnostic, ...]:
    """A warning about the servers for which a lock file does not count; none without such servers."""
    if not names:
        return ()
    listed = ", ".join(sorted(names)[:_MOST_NAMES])
    return (
        Diagnostic(
            "TOL028",
            Severity.WARNING,
            f"{path.name} describes servers that are configured outside of this folder ({listed}): it does"
            " not count for them",
            help="read it, then `callsheet trust project` makes it count",
        ),
    )


def _judgements(setup: Setup, lock: Lock, configs: Mapping[str, McpServerConfig]) -> dict[str, Judgement]:
    if setup.settings.trust != "pinned" or not configs:
        return {}
    from callsheet.apps.settings import pin_keeper  # noqa: PLC0415 - only where approvals count
    from callsheet.ports.mcp.trust import SeenServer, identity_of  # noqa: PLC0415 - as above

    names = tuple(configs)
    seen = [
        SeenServer(identity_of(configs[name]), lock.servers[name].reported, lock.servers[name].declarations)
        for name in names
    ]
    return dict(zip(names, pin_keeper(setup.settings, records=False).judge(seen), strict=True))
