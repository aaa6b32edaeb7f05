"""Compares the current declarations of MCP server tools with the pinned ones; for `callsheet trust`.

In: a setup and the names of servers or tools (`SERVER`, `SERVER/TOOL`). Out: for each tool whether and how it
differs from what is kept; and the pins with what a person has approved or revoked. Servers are started to be
asked what they offer; none of their tools is called.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

from callsheet.api.logins import login_file
from callsheet.apps.session import Setup, choose_servers, pin_file
from callsheet.diagnostics import CallsheetError, Diagnostic, did_you_mean
from callsheet.ports.mcp import McpPool
from callsheet.ports.mcp.declarations import pin_of
from callsheet.ports.mcp.trust import (
    PinFile,
    PinnedServer,
    PinnedTool,
    Pins,
    RecordReason,
    Reported,
    SeenServer,
    ServerIdentity,
    differences,
)

State = Literal["same", "changed", "new", "gone"]


class Target(NamedTuple):
    """What a person names: a server, or one of its tools."""

    server: str
    tool: str | None = None

    def covers(self, server: str, tool: str) -> bool:
        """Whether it means this tool."""
        return self.server == server and self.tool in (None, tool)


@dataclass(frozen=True, slots=True)
class ToolTrust:
    """A tool as it is kept and as it is declared now; one of them may be missing."""

    name: str
    pinned: PinnedTool | None
    declared: Mapping[str, Any] | None

    @property
    def state(self) -> State:
        """How it stands to what is kept."""
        if self.declared is None:
            return "gone"
        if self.pinned is None:
            return "new"
        return "same" if self.pinned.pin == pin_of(self.declared) else "changed"

    @property
    def lines(self) -> tuple[str, ...]:
        """What has changed, or all that a new tool says; nothing is cut."""
        if self.declared is None:
            return ()
        return differences(
            {} if self.pinned is None else self.pinned.declaration, self.declared, is_whole=True
        )

    @property
    def is_approved(self) -> bool:
        """Whether it is declared as a person has approved it."""
        return (
            self.state == "same" and self.pinned is not None and self.pinned.reason is RecordReason.APPROVED
        )


@dataclass(frozen=True, slots=True)
class ServerTrust:
    """A server that was asked, what it said it was before, and those of its tools that are meant."""

    seen: SeenServer
    reported_before: Reported | None
    tools: tuple[ToolTrust, ...]

    @property
    def identity(self) -> ServerIdentity:
        """Which server it is."""
        return self.seen.identity

    @property
    def is_renamed(self) -> bool:
        """Whether it calls itself something else than before."""
        return self.reported_before is not None and self.reported_before.name != self.seen.reported.name


def targets_of(words: Iterable[str], known: Iterable[str]) -> tuple[Target, ...]:
    """What is meant by words such as `git` and `git/git_log`, where servers of these names are known.

    Raises CallsheetError (CFG011) for a server that nobody knows.
    """
    names = tuple(dict.fromkeys(known))
    return tuple(_target(word, names) for word in words)


def _target(word: str, names: tuple[str, ...]) -> Target:
    if word in names:
        return Target(word)
    server = max((n for n in names if word.startswith(f"{n}/")), key=len, default=None)
    if server is not None and len(word) > len(server) + 1:
        return Target(server, word[len(server) + 1 :])
    near = did_you_mean(word.partition("/")[0], names)
    raise CallsheetError.single(
        "CFG011",
        f"no MCP server is called {word[:80]!r}",
        help=f"did you mean {' or '.join(near)}?" if near else f"known are {', '.join(names) or 'none'}",
    )


async def compare_with_pins(
    setup: Setup, words: Iterable[str]
) -> tuple[tuple[ServerTrust, ...], tuple[Diagnostic, ...]]:
    """Ask the servers that are meant, all if nothing is named, and hold them against what is kept.

    Gives also what was wrong with servers that could not be asked. Raises CallsheetError: a server that
    is not configured, a tool that is neither offered nor kept, or a file that is wrong.
    """
    chosen = choose_servers(setup, None)
    targets = targets_of(words, (config.name for config in chosen.configs))
    if not targets:
        targets = tuple(Target(config.name) for config in chosen.configs)
    wanted = {target.server for target in targets}
    pins = pin_file(setup.settings).read()
    async with McpPool([c for c in chosen.configs if c.name in wanted], logins=login_file()) as pool:
        doubts = await pool.connect(keep_going=True)
        servers = tuple(_server_trust(seen, pins.find(seen.identity), targets) for seen in pool.seen())
    for target in targets:
        for server in servers:
            if target.tool is not None and target.server == server.identity.name:
                _require_tool(target, server)
    return servers, (*chosen.diagnostics, *doubts)


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
    near = did_you_mean(target.tool or "", offered)
    raise CallsheetError.single(
        "CFG011",
        f"the MCP server {target.server!r} has no tool {target.tool!r}",
        help=f"did you mean {' or '.join(near)}?" if near else f"it offers {', '.join(offered) or 'nothing'}",
    )


def approve(file: PinFile, servers: Iterable[ServerTrust], moment: str) -> None:
    """Keep the tools that stand here as they are declared now; those that are gone are forgotten.

    Raises OSError where the file cannot be written.
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
    """Take back what is kept of servers or tools, and give their names.

    A server stays known, so that none of its tools counts by itself again; with `forgets` it does not.
    Raises CallsheetError (CFG011) for what is not kept, OSError where the file cannot be written.
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
                    f"nothing is kept of the tool {target.tool!r} of the MCP server {target.server!r}",
                    help=f"`callsheet trust list {target.server}` lists what is",
                )
        return pins

    file.change(change)
    return tuple(revoked)
