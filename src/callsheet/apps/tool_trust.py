"""Trust in tools of MCP servers: their current declarations beside the pinned ones, and the lock file.

In: a setup and the names of servers or tools (`SERVER`, `SERVER/TOOL`). Out: how each tool differs from its
pin or from the lock file, and both after a change. Servers are started to list their tools; no tool is
called.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, NamedTuple

from callsheet.api.requirements import login_file
from callsheet.apps.server_catalogue import does_not_count, foreign_servers, select_servers
from callsheet.apps.settings import pin_file
from callsheet.apps.setup import LOCK_VARIABLE, Setup
from callsheet.diagnostics import CallsheetError, Diagnostic, meant
from callsheet.ir import Effect
from callsheet.ports.mcp import McpPool, McpServerConfig
from callsheet.ports.mcp.declarations import EffectSource, hinted_effect, pin_of, terms_of
from callsheet.ports.mcp.trust import (
    Lock,
    LockedServer,
    LockedTool,
    LockFile,
    PinFile,
    PinnedServer,
    PinnedTool,
    Pins,
    RecordReason,
    Reported,
    SeenServer,
    ServerIdentity,
    differences,
    locked_server,
)
from callsheet.ports.mcp.trust.lock import shown_place, transport_of

State = Literal["same", "changed", "new", "gone"]


class Target(NamedTuple):
    """A server, or one of its tools, as named by the user."""

    server: str
    tool: str | None = None

    def covers(self, server: str, tool: str) -> bool:
        """Whether the target includes this tool."""
        return self.server == server and self.tool in (None, tool)


@dataclass(frozen=True, slots=True)
class ToolTrust:
    """The pin and the current declaration of a tool; one of them may be missing."""

    name: str
    pinned: PinnedTool | None
    declared: Mapping[str, Any] | None

    @property
    def state(self) -> State:
        """How the declaration differs from the pin."""
        if self.declared is None:
            return "gone"
        if self.pinned is None:
            return "new"
        return "same" if self.pinned.pin == pin_of(self.declared) else "changed"

    @property
    def lines(self) -> tuple[str, ...]:
        """The differences, or the whole declaration of a new tool; nothing is truncated."""
        if self.declared is None:
            return ()
        return differences(
            {} if self.pinned is None else self.pinned.declaration, self.declared, is_whole=True
        )

    @property
    def is_approved(self) -> bool:
        """Whether a person has approved the current declaration."""
        return (
            self.state == "same" and self.pinned is not None and self.pinned.reason is RecordReason.APPROVED
        )


@dataclass(frozen=True, slots=True)
class ServerTrust:
    """A server that was queried, its name and version at the last time, and the selected tools."""

    seen: SeenServer
    reported_before: Reported | None
    tools: tuple[ToolTrust, ...]

    @property
    def identity(self) -> ServerIdentity:
        """The identity of the server."""
        return self.seen.identity

    @property
    def is_renamed(self) -> bool:
        """Whether the server reports another name than before."""
        return self.reported_before is not None and self.reported_before.name != self.seen.reported.name


_OTHER_CONFIGURATION = "--mcp-config FILE names a configuration that is not in a conventional place"


def targets_of(words: Iterable[str], known: Iterable[str], remedy: str = "") -> tuple[Target, ...]:
    """Parses words such as `git` and `git/git_log`, given the names of the known servers.

    `remedy` says how to make further servers known. Raises CallsheetError (CFG011) for an unknown server.
    """
    names = tuple(dict.fromkeys(known))
    return tuple(_target(word, names, remedy) for word in words)


def _target(word: str, names: tuple[str, ...], remedy: str) -> Target:
    if word in names:
        return Target(word)
    server = max((n for n in names if word.startswith(f"{n}/")), key=len, default=None)
    if server is not None and len(word) > len(server) + 1:
        return Target(server, word[len(server) + 1 :])
    wanted = word.partition("/")[0]
    listed = f"known are {', '.join(names) or 'none'}" + (f"; {remedy}" if remedy else "")
    hint = meant(wanted, names, listed)
    raise CallsheetError.single("CFG011", f"no MCP server is called {wanted[:80]!r}", help=hint)


async def compare_with_pins(
    setup: Setup, words: Iterable[str]
) -> tuple[tuple[ServerTrust, ...], tuple[Diagnostic, ...]]:
    """Query the named servers, or all, and compare their tools with the pins.

    Also returns diagnostics about servers that could not be queried. Raises CallsheetError for a server that
    is not configured, a tool that is neither offered nor pinned, or an invalid file.
    """
    chosen = select_servers(setup, None)
    targets = targets_of(words, (config.name for config in chosen.configs), _OTHER_CONFIGURATION)
    if not targets:
        targets = tuple(Target(config.name) for config in chosen.configs)
    wanted = {target.server for target in targets}
    pins = pin_file(setup.settings).read()
    async with McpPool([c for c in chosen.configs if c.name in wanted], logins=login_file()) as pool:
        diagnostics = await pool.connect(keep_going=True)
        servers = tuple(_server_trust(seen, pins.find(seen.identity), targets) for seen in pool.seen())
    for target in targets:
        for server in servers:
            if target.tool is not None and target.server == server.identity.name:
                _require_tool(target, server)
    return servers, (*chosen.diagnostics, *diagnostics)


def _server_trust(seen: SeenServer, known: PinnedServer | None, targets: tuple[Target, ...]) -> ServerTrust:
    pinned: Mapping[str, PinnedTool] = {} if known is None else known.tools
    tools = tuple(
        ToolTrust(name, pinned.get(name), seen.declarations.get(name))
        for name in dict.fromkeys((*seen.declarations, *pinned))
        if any(target.covers(seen.identity.name, name) for target in targets)
    )
    return ServerTrust(seen, None if known is None else known.reported, tools)


def _require_tool(target: Target, server: ServerTrust) -> None:
    if any(tool.name == target.tool for tool in server.tools):
        return
    offered = list(server.seen.declarations)
    raise CallsheetError.single(
        "CFG011",
        f"the MCP server {target.server!r} has no tool {target.tool!r}",
        help=meant(target.tool or "", offered, f"it offers {', '.join(offered) or 'nothing'}"),
    )


def approve(file: PinFile, servers: Iterable[ServerTrust], moment: str) -> None:
    """Pin the current declarations of these tools as approved; pins of tools that are gone are removed.

    `moment` is the time as ISO 8601 text. Raises OSError if the file cannot be written.
    """
    approved = tuple(servers)

    def change(pins: Pins) -> Pins:
        for server in approved:
            pins = pins.having(_approved(server, pins.find(server.identity), moment))
        return pins

    file.change(change)


def _approved(server: ServerTrust, known: PinnedServer | None, moment: str) -> PinnedServer:
    tools = {} if known is None else dict(known.tools)
    for tool in server.tools:
        if tool.declared is None:
            tools.pop(tool.name, None)
        elif not tool.is_approved:
            tools[tool.name] = PinnedTool(tool.declared, RecordReason.APPROVED, moment)
    return PinnedServer(server.identity, server.seen.reported, tools)


def revoke(file: PinFile, words: Iterable[str], *, forgets: bool) -> tuple[str, ...]:
    """Remove the pins of servers or tools, and return the names of the tools.

    A server stays known, so that its tools are not pinned at their next use; with `forgets` it does not.
    Raises CallsheetError (CFG011) for a name without pins, OSError if the file cannot be written.
    """
    revoked: list[str] = []

    def change(pins: Pins) -> Pins:
        for target in targets_of(words, (server.identity.name for server in pins.servers)):
            before = len(revoked)
            for server in pins.named(target.server):
                matching = [name for name in server.tools if target.covers(target.server, name)]
                revoked.extend(f"{target.server}/{name}" for name in matching)
                remaining = {name: tool for name, tool in server.tools.items() if name not in matching}
                is_whole = forgets and target.tool is None
                if is_whole and not matching:
                    revoked.append(target.server)
                pins = pins.without(server) if is_whole else pins.having(replace(server, tools=remaining))
            if len(revoked) == before and target.tool is not None:
                raise CallsheetError.single(
                    "CFG011",
                    f"the tool {target.tool!r} of the MCP server {target.server!r} has no pin",
                    help=f"`callsheet trust list {target.server}` lists the pinned tools",
                )
        return pins

    file.change(change)
    return tuple(dict.fromkeys(revoked))  # two servers may have one name


@dataclass(frozen=True, slots=True, kw_only=True)
class LockRequest:
    """What to bring up to date: `refresh` names the servers to ask although they are locked, None all.

    `accept` and `reject` name servers or tools (`SERVER/TOOL`) whose hints are accepted, or no more.
    """

    refresh: tuple[str, ...] | None = ()
    accept: tuple[str, ...] = ()
    reject: tuple[str, ...] = ()
    is_new: bool = False
    """Start over, whatever the file contains."""


@dataclass(frozen=True, slots=True)
class EffectChange:
    """A tool whose effect has changed in the lock file."""

    server: str
    tool: str
    before: Effect
    after: Effect
    source: EffectSource


@dataclass(frozen=True, slots=True)
class UpdatedLock:
    """The lock file, before and after, and how the servers that were asked differ from it before."""

    path: Path
    before: Lock | None
    after: Lock
    asked: tuple[ServerTrust, ...]
    diagnostics: tuple[Diagnostic, ...]

    @property
    def is_changed(self) -> bool:
        """Whether the file has another text now; one that could take in no server is not begun."""
        if self.before is None:
            return bool(self.after.servers) or not any(d.is_error for d in self.diagnostics)
        return self.before.to_text() != self.after.to_text()

    @property
    def removed(self) -> tuple[str, ...]:
        """The servers that are no longer in it."""
        return tuple(n for n in (self.before.servers if self.before else ()) if n not in self.after.servers)

    def effect_changes(self) -> Iterator[EffectChange]:
        """The effects that differ from those before, or from `unsafe` for new tools."""
        for server in self.after.servers.values():
            old = self.before.servers.get(server.name) if self.before else None
            for name, tool in server.tools.items():
                known = old.tools.get(name) if old else None
                effect = Effect.UNSAFE if known is None else known.terms.effect
                if effect is not tool.terms.effect:
                    yield EffectChange(server.name, name, effect, tool.terms.effect, tool.terms.source)


def lock_file(setup: Setup) -> LockFile:
    """The lock file of a setup; raises CallsheetError (CFG115) if it uses none."""
    if setup.lock is None:
        raise CallsheetError.single(
            "CFG115",
            f"{LOCK_VARIABLE} is empty, so no lock file is used",
            help=f"unset {LOCK_VARIABLE}, or set it to the path of the file",
        )
    return LockFile(setup.lock)


async def update_lock(setup: Setup, request: LockRequest) -> UpdatedLock:
    """The lock file as it should be; it is not written.

    Raises CallsheetError for a file or a configuration that cannot be used, an unknown server or tool, or a
    server whose hints are to be accepted and that cannot be opened.
    """
    file = lock_file(setup)
    before = None if request.is_new else file.read()
    chosen = select_servers(setup, None, is_lenient=True)
    configs = {config.name: config for config in chosen.configs}
    known: Mapping[str, LockedServer] = before.servers if before else {}
    if known and not configs and not chosen.skipped:
        raise CallsheetError.single(
            "CFG115",
            f"no MCP server is configured here, so {file.path.name} would lose all that it has",
            help="run the command where the servers are configured, or name their file with --mcp-config;"
            " delete the lock file if the project has no servers any more",
        )
    wanted = configs if request.refresh is None else [t.server for t in targets_of(request.refresh, configs)]
    asking = [c for name, c in configs.items() if name in wanted or name not in known]
    servers: dict[str, LockedServer] = {
        name: _kept(known[name], configs.get(name))
        for name in known
        if name in configs or name in chosen.skipped
    }
    asked: list[ServerTrust] = []
    async with McpPool(asking, logins=login_file()) as pool:
        found = await pool.connect(keep_going=True)
        protocols = {status.name: status.protocol or "" for status in pool.status()}
        for seen in pool.seen():
            name = seen.identity.name
            servers[name] = locked_server(configs[name], seen, protocols[name], known.get(name))
            if name in known:
                asked.append(_compared(seen, known[name]))
    named = targets_of((*request.accept, *request.reject), {**configs, **servers})
    if any(target.server not in servers for target in named):
        raise CallsheetError([d for d in found if d.is_error])
    for name, server in servers.items():
        accepted = [*_named(request.accept, servers, name, needs_hint=True)]
        rejected = {*_named(request.reject, servers, name)}
        servers[name] = _without(server.accepting(accepted), rejected, configs.get(name))
    foreign = frozenset[str]() if before is None else foreign_servers(file.path, before, configs)
    diagnostics = (*chosen.diagnostics, *found, *does_not_count(file.path, foreign))
    return UpdatedLock(file.path, before, Lock(servers), tuple(asked), diagnostics)


def _kept(server: LockedServer, config: McpServerConfig | None) -> LockedServer:
    """The record of a server that is not asked, with what its configuration says now."""
    if config is None:
        return server
    tools = {name: replace(tool, terms=server.terms(config, name)) for name, tool in server.tools.items()}
    return replace(server, place=shown_place(config), transport=transport_of(config), tools=tools)


def _without(server: LockedServer, rejected: set[str], config: McpServerConfig | None) -> LockedServer:
    def rejecting(tool: LockedTool) -> LockedTool:
        if tool.accepted is None:
            return tool
        if config is None:
            return replace(tool, terms=tool.terms._replace(effect=Effect.UNSAFE, source=EffectSource.NOBODY))
        return replace(tool, terms=terms_of(config, tool.declaration))

    tools = {n: rejecting(tool) if n in rejected else tool for n, tool in server.tools.items()}
    return replace(server, tools=tools)


def _named(
    words: tuple[str, ...], servers: dict[str, LockedServer], name: str, *, needs_hint: bool = False
) -> Iterator[str]:
    """The tools of a server that the words name; raises CallsheetError (CFG011) for one that is not there."""
    server = servers[name]
    for target in targets_of(words, servers):
        if target.server != name:
            continue
        tools = [tool for tool in server.tools if target.covers(name, tool)]
        if target.tool is not None:
            _require(target, server, needs_hint=needs_hint)
        yield from tools


def _require(target: Target, server: LockedServer, *, needs_hint: bool) -> None:
    tool = server.tools.get(target.tool or "")
    if tool is None:
        hint = f"it offers {', '.join(server.tools) or 'nothing'}"
        message = f"the MCP server {server.name!r} has no tool {target.tool!r}"
        raise CallsheetError.single("CFG011", message, help=hint)
    if needs_hint and hinted_effect(tool.declaration) is None:
        raise CallsheetError.single(
            "CFG011",
            f"the MCP server {server.name!r} does not say which effect its tool {target.tool!r} has",
            help="say it yourself: the table `effects` in the configuration of the server",
        )


def _compared(seen: SeenServer, known: LockedServer) -> ServerTrust:
    """How an open server differs from the lock file."""
    tools = tuple(
        ToolTrust(
            name,
            None
            if (old := known.tools.get(name)) is None
            else PinnedTool(old.declaration, RecordReason.LOCKED, ""),
            seen.declarations.get(name),
        )
        for name in dict.fromkeys((*known.tools, *seen.declarations))
    )
    return ServerTrust(seen, known.reported, tools)


def unaccepted(lock: Lock) -> Iterator[tuple[str, int, int]]:
    """Each server whose hints are not accepted yet, with how many say that they read, and may be repeated."""
    for name, server in lock.servers.items():
        open_ones = [
            hinted_effect(tool.declaration)
            for tool in server.tools.values()
            if tool.terms.source is EffectSource.NOBODY
        ]
        reads, repeats = open_ones.count(Effect.READ), open_ones.count(Effect.IDEMPOTENT)
        if reads or repeats:
            yield name, reads, repeats


def summary(lock: Lock) -> str:
    """The lock file in a phrase.

    >>> summary(Lock({}))
    'no servers'
    """
    if not lock.servers:
        return "no servers"
    count = sum(len(server.tools) for server in lock.servers.values())
    effects = [str(t.terms.effect) for server in lock.servers.values() for t in server.tools.values()]
    by_effect = ", ".join(f"{effects.count(effect)} {effect}" for effect in dict.fromkeys(sorted(effects)))
    servers = f"{len(lock.servers)} server{'' if len(lock.servers) == 1 else 's'}"
    tools = f"{count} tool{'' if count == 1 else 's'}"
    return f"{servers}, {tools}" + (f" ({by_effect})" if by_effect else "")
