"""Compares the current declarations of MCP server tools with the pinned ones; for `callsheet trust`.

In: a setup and the names of servers or tools (`SERVER`, `SERVER/TOOL`). Out: for each tool whether and how it
differs from its pin; and the pins after an approval or revocation. Servers are started to list their tools;
no tool is called.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

from callsheet.api.requirements import login_file
from callsheet.apps.server_selection import select_servers
from callsheet.apps.setup import Setup
from callsheet.apps.tool_pins import pin_file
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
    near = did_you_mean(wanted, names)
    listed = f"known are {', '.join(names) or 'none'}" + (f"; {remedy}" if remedy else "")
    hint = f"did you mean {' or '.join(near)}?" if near else listed
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
    near = did_you_mean(target.tool or "", offered)
    raise CallsheetError.single(
        "CFG011",
        f"the MCP server {target.server!r} has no tool {target.tool!r}",
        help=f"did you mean {' or '.join(near)}?" if near else f"it offers {', '.join(offered) or 'nothing'}",
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
    return tuple(revoked)
