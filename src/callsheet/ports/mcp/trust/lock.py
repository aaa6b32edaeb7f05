"""The lock file of a project: what its MCP servers declare, and the effects that a person has accepted.

In: a file `callsheet.lock`, read strictly as the file of pins, or servers as they are now. Out: the catalogue
of their tools, from which plans are checked and proved without a server, and by which a server is judged when
it is opened. The file is meant to be committed: it has no arguments, environments, headers and queries.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

from callsheet.diagnostics import CallsheetError, Diagnostic, Severity
from callsheet.files import replace_file
from callsheet.ir import Effect, OnInDoubt, ToolClass
from callsheet.ir.inverse import Inverse, NotAnInverse, read_inverse
from callsheet.ir.strict_json import NotJson, read_json
from callsheet.ports.mcp.declarations import (
    EffectSource,
    ToolTerms,
    hinted_effect,
    pin_of,
    qualified_name,
    spec_under,
    terms_of,
)
from callsheet.ports.mcp.failures import shown_url
from callsheet.ports.mcp.servers import HttpServer, McpServerConfig
from callsheet.ports.mcp.trust.judging import SeenServer
from callsheet.ports.mcp.trust.records import (
    PinnedServer,
    PinnedTool,
    RecordReason,
    Reported,
    ServerIdentity,
    WrongRecord,
    read_table,
    read_text,
    read_word,
    read_words,
)
from callsheet.ports.tools import ToolSpec

NAME = "callsheet.lock"
SCHEMA = 1


@dataclass(frozen=True, slots=True)
class LockedTool:
    """A tool's whole declaration, and its terms when it was locked."""

    declaration: Mapping[str, Any]
    terms: ToolTerms

    @property
    def accepted(self) -> Effect | None:
        """The effect of its hint, if a person has accepted it."""
        return self.terms.effect if self.terms.source is EffectSource.ACCEPTED else None


@dataclass(frozen=True, slots=True)
class LockedServer:
    """A server of the lock file, and its tools by its own names.

    `place` is for display, `transport` is `pipe` or `tcp`, and `protocol` is the version of the protocol that
    it spoke.
    """

    name: str
    place: str
    transport: str
    protocol: str
    reported: Reported
    tools: Mapping[str, LockedTool]

    @property
    def declarations(self) -> dict[str, Mapping[str, Any]]:
        """The declarations of its tools."""
        return {name: tool.declaration for name, tool in self.tools.items()}

    def terms(self, config: McpServerConfig | None, name: str) -> ToolTerms:
        """The terms of a tool: those of the configuration, with the accepted effect, if there is one."""
        tool = self.tools[name]
        if config is None:
            return tool.terms
        return terms_of(config, tool.declaration, self.accepted(config, tool.declaration))

    def accepted(self, config: McpServerConfig, declaration: Mapping[str, Any]) -> Effect | None:
        """The effect that a person has accepted for a tool, while place and declaration are the same.

        What they accepted is what this server said of a tool that they could read: of another command or URL,
        or any other declaration, also one with the same hint, nobody has accepted it.
        """
        tool = self.tools.get(str(declaration.get("name")))
        if tool is None or shown_place(config) != self.place:
            return None
        is_same = tool.declaration is declaration or pin_of(tool.declaration) == pin_of(declaration)
        return tool.accepted if is_same else None

    def spec(self, config: McpServerConfig | None, name: str) -> ToolSpec:
        """The spec of a tool under these terms."""
        return spec_under(self.name, self.tools[name].declaration, self.terms(config, name))

    def specs(self, config: McpServerConfig | None) -> Iterator[tuple[ToolSpec, str]]:
        """The specs of all tools, each with its qualified name."""
        for name in self.tools:
            yield self.spec(config, name), qualified_name(self.name, name)

    def pinned(self, identity: ServerIdentity) -> PinnedServer:
        """The server as a record to judge it by, under the identity of its configuration."""
        tools = {
            name: PinnedTool(tool.declaration, RecordReason.LOCKED, "") for name, tool in self.tools.items()
        }
        return PinnedServer(identity, self.reported, tools)

    def accepting(self, tools: Iterable[str]) -> LockedServer:
        """A copy in which the hints of these tools are accepted; others, and tools without hints, stay."""
        chosen = frozenset(tools)
        changed = {
            name: replace(tool, terms=tool.terms._replace(effect=hinted, source=EffectSource.ACCEPTED))
            for name, tool in self.tools.items()
            if name in chosen
            and tool.terms.source is not EffectSource.CONFIGURED
            and (hinted := hinted_effect(tool.declaration)) is not None
        }
        return replace(self, tools={**self.tools, **changed})

    def changes_in(self, config: McpServerConfig) -> str:
        """Where the configuration says something else of its tools or its place than the lock file; or ""."""
        differ = [name for name, tool in self.tools.items() if self.terms(config, name) != tool.terms]
        if shown_place(config) != self.place:
            differ.insert(0, f"its place, {self.place}")
        return ", ".join(differ[:3]) + (f" and {len(differ) - 3} more" if len(differ) > 3 else "")


def stale(servers: Iterable[tuple[LockedServer, McpServerConfig]]) -> Iterator[Diagnostic]:
    """One warning for all servers whose configuration differs from the lock file."""
    changed = [(server.name, changes) for server, config in servers if (changes := server.changes_in(config))]
    if not changed:
        return
    more = f" and {len(changed) - 3} more" if len(changed) > 3 else ""
    named = ", ".join(f"{name!r} ({changes})" for name, changes in changed[:3])
    yield Diagnostic(
        "TOL027",
        Severity.WARNING,
        f"the configuration of the MCP server{'s' if len(changed) > 1 else ''} {named}{more}"
        f" has changed since {NAME} was written",
        help=f"the configuration precedes it here; `callsheet lock` writes it into {NAME}, from which"
        " plans are checked elsewhere",
    )


def locked_server(
    config: McpServerConfig, seen: SeenServer, protocol: str, before: LockedServer | None
) -> LockedServer:
    """The record of an open server; effects accepted `before` stay, as `LockedServer.accepted` says."""
    tools = {
        name: LockedTool(
            declaration,
            terms_of(config, declaration, before.accepted(config, declaration) if before else None),
        )
        for name, declaration in sorted(seen.declarations.items())
    }
    return LockedServer(
        config.name, shown_place(config), transport_of(config), protocol, seen.reported, tools
    )


def transport_of(config: McpServerConfig) -> str:
    """How a server is reached: over a `pipe`, or over `tcp`."""
    return "tcp" if isinstance(config.transport, HttpServer) else "pipe"


def shown_place(config: McpServerConfig) -> str:
    """The place of a server in the lock file: its command without path and arguments, or its URL, bare."""
    transport = config.transport
    return shown_url(transport.url) if isinstance(transport, HttpServer) else Path(transport.command).name


@dataclass(frozen=True, slots=True)
class Lock:
    """The servers of a lock file, by name."""

    servers: Mapping[str, LockedServer]

    def only(self, names: Iterable[str]) -> Lock:
        """A copy with the servers of these names alone."""
        kept = frozenset(names)
        return Lock({name: server for name, server in self.servers.items() if name in kept})

    def to_text(self) -> str:
        """The text of the file; servers and tools are in the order of their names."""
        servers = {name: _server_json(self.servers[name]) for name in sorted(self.servers)}
        data = {"schema": SCHEMA, "servers": servers}
        return json.dumps(data, indent=1, ensure_ascii=True, allow_nan=False) + "\n"

    @classmethod
    def from_text(cls, text: str) -> Lock:
        """The servers in a text; raises WrongRecord or NotJson."""
        top = read_table(read_json(text), "it", ("schema", "servers"))
        if top["schema"] != SCHEMA or isinstance(top["schema"], bool):
            raise WrongRecord(f"its schema is {top['schema']!r:.40}, and this version reads {SCHEMA}")
        servers = read_words(top["servers"], "servers")
        return cls({name: _read_server(name, entry) for name, entry in servers.items()})


def _server_json(server: LockedServer) -> dict[str, Any]:
    timeout = next((tool.terms.timeout for tool in server.tools.values()), ToolTerms().timeout)
    return {
        "place": server.place,
        "transport": server.transport,
        "protocol": server.protocol,
        "reported": {"name": server.reported.name, "version": server.reported.version},
        "timeout": timeout,
        "tools": {name: _tool_json(server.tools[name]) for name in sorted(server.tools)},
    }


def _tool_json(tool: LockedTool) -> dict[str, Any]:
    terms = tool.terms
    return {
        "effect": str(terms.effect),
        "source": str(terms.source),
        **({} if terms.key_argument is None else {"key_argument": terms.key_argument}),
        **({} if terms.on_in_doubt is None else {"on_in_doubt": str(terms.on_in_doubt)}),
        **({} if terms.does is None else {"does": str(terms.does)}),
        **({} if terms.tells is None else {"to": terms.tells}),
        **({} if terms.undo is None else {"undo": str(terms.undo)}),
        "pin": pin_of(tool.declaration),
        "declaration": dict(tool.declaration),
    }


def _read_server(name: str, data: object) -> LockedServer:
    where = f"servers.{name!r:.60}"
    keys = ("place", "transport", "protocol", "reported", "timeout", "tools")
    entry = read_table(data, where, keys)
    fields = read_table(entry["reported"], f"{where}.reported", ("name", "version"))
    timeout = entry["timeout"]
    if isinstance(timeout, bool) or not isinstance(timeout, int | float) or timeout <= 0:
        raise WrongRecord(f"{where}.timeout must be a number of seconds above 0")
    texts = (read_text(entry[key], f"{where}.{key}") for key in keys[:3])
    place, transport, protocol = texts
    if transport not in ("pipe", "tcp"):
        raise WrongRecord(f"{where}.transport must be pipe or tcp")
    tools = read_words(entry["tools"], f"{where}.tools")
    return LockedServer(
        name,
        place,
        transport,
        protocol,
        Reported(*(read_text(fields[key], f"{where}.reported.{key}") for key in ("name", "version"))),
        {
            tool: _read_tool(tool, each, f"{where}.tools.{tool!r:.60}", timeout)
            for tool, each in tools.items()
        },
    )


def _read_undo(data: object, where: str) -> Inverse:
    try:
        return read_inverse(read_text(data, where))
    except NotAnInverse as error:
        raise WrongRecord(f"{where} undoes nothing: {error}") from None


def _read_tool(name: str, data: object, where: str, timeout: float) -> LockedTool:
    needed, more = (
        ("effect", "source", "pin", "declaration"),
        ("key_argument", "on_in_doubt", "does", "to", "undo"),
    )
    entry = read_table(data, where, needed, more)
    declaration = read_words(entry["declaration"], f"{where}.declaration")
    if declaration.get("name") != name:
        raise WrongRecord(f"the declaration of {where} is that of another tool")
    if entry["pin"] != pin_of(declaration):
        raise WrongRecord(f"the pin of {where} is not that of its declaration")
    doubt = read_word(entry, "on_in_doubt", where, tuple(OnInDoubt))
    does = read_word(entry, "does", where, tuple(ToolClass))
    terms = ToolTerms(
        Effect(read_word(entry, "effect", where, tuple(Effect))),
        EffectSource(read_word(entry, "source", where, tuple(EffectSource))),
        None if "key_argument" not in entry else read_text(entry["key_argument"], f"{where}.key_argument"),
        None if doubt is None else OnInDoubt(doubt),
        timeout,
        None if does is None else ToolClass(does),
        None if "to" not in entry else read_text(entry["to"], f"{where}.to"),
        None if "undo" not in entry else _read_undo(entry["undo"], f"{where}.undo"),
    )
    if terms.source in (EffectSource.ACCEPTED, EffectSource.TRUSTED):
        if hinted_effect(declaration) is not terms.effect:
            raise WrongRecord(f"{where} has the effect {terms.effect}, which no hint of the server gives it")
    elif terms.source is EffectSource.NOBODY and terms.effect is not Effect.UNSAFE:
        raise WrongRecord(f"{where} has the effect {terms.effect}, which nobody has declared")
    return LockedTool(cast("Mapping[str, Any]", declaration), terms)


class LockFile:
    """A lock file, which need not exist yet."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def read(self) -> Lock | None:
        """The lock, None without a file; raises CallsheetError (CFG115) for one that cannot be used."""
        try:
            return Lock.from_text(self.path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
            raise self._wrong(f"it cannot be read: {reason or error}") from error
        except NotJson as error:
            raise self._wrong(f"it is not JSON: {error}") from error
        except WrongRecord as error:
            raise self._wrong(str(error)) from error

    def write(self, lock: Lock) -> None:
        """Replace the file; raises CallsheetError (CFG115) if it cannot be written."""
        try:
            replace_file(self.path, lock.to_text().encode(), mode=0o644)
        except OSError as error:
            raise self._wrong(f"it cannot be written: {error.strerror or error}") from error

    def _wrong(self, reason: str) -> CallsheetError:
        return CallsheetError.single(
            "CFG115",
            f"the lock file {self.path} cannot be used: {reason}",
            help="restore it, or write it anew with `callsheet lock --new`",
        )
