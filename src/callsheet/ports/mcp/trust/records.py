"""The pins of servers and their tools, and their JSON form.

In: JSON data, read strictly: no unknown or missing keys, and each pin must match its declaration. Out:
frozen records, and the data again. No file is accessed here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, cast

from callsheet.ports.mcp.declarations import orderless_pin_of, pin_of
from callsheet.ports.mcp.trust.identity import Reported, ServerIdentity

SCHEMA = 1


class RecordReason(StrEnum):
    """Why a declaration is recorded: it was there when the server was first seen, or a person approved it."""

    SEEN = "seen"
    APPROVED = "approved"


@dataclass(frozen=True, slots=True)
class PinnedTool:
    """A tool's whole declaration when it was recorded, and since when (UTC, ISO 8601)."""

    declaration: Mapping[str, Any]
    reason: RecordReason
    since: str

    @property
    def pin(self) -> str:
        """The hash of the declaration."""
        return pin_of(self.declaration)


@dataclass(frozen=True, slots=True)
class PinnedServer:
    """A known server, and its recorded tools by its own names."""

    identity: ServerIdentity
    reported: Reported
    tools: Mapping[str, PinnedTool]


class WrongRecord(ValueError):
    """The data is invalid; the text says what is wrong and where."""


@dataclass(frozen=True, slots=True)
class Pins:
    """All records, in the order in which they were added."""

    servers: tuple[PinnedServer, ...] = ()

    def find(self, identity: ServerIdentity) -> PinnedServer | None:
        """The server with this name and transport, None if unknown."""
        return next((s for s in self.servers if _key(s.identity) == _key(identity)), None)

    def named(self, name: str) -> tuple[PinnedServer, ...]:
        """All servers with this configured name."""
        return tuple(s for s in self.servers if s.identity.name == name)

    def having(self, server: PinnedServer) -> Pins:
        """A copy with this server added, or replacing the one with its identity."""
        if self.find(server.identity) is None:
            return Pins((*self.servers, server))
        key = _key(server.identity)
        return Pins(tuple(server if _key(s.identity) == key else s for s in self.servers))

    def without(self, server: PinnedServer) -> Pins:
        """A copy without this server."""
        return Pins(tuple(s for s in self.servers if _key(s.identity) != _key(server.identity)))

    def to_json(self) -> dict[str, Any]:
        """The data that `from_json` reads."""
        return {"schema": SCHEMA, "servers": [_server_json(server) for server in self.servers]}

    @classmethod
    def from_json(cls, data: object) -> Pins:
        """The records in JSON data; raises WrongRecord if it is invalid."""
        top = _table(data, "it", ("schema", "servers"))
        if top["schema"] != SCHEMA or isinstance(top["schema"], bool):
            raise WrongRecord(f"its schema is {top['schema']!r:.40}, and this version reads {SCHEMA}")
        if not isinstance(top["servers"], list):
            raise WrongRecord("servers must be a list")
        pins = cls()
        for place, entry in enumerate(cast("list[object]", top["servers"])):
            server = _read_server(entry, f"servers[{place}]")
            if pins.find(server.identity) is not None:
                raise WrongRecord(f"the server {server.identity.name!r} is in it twice")
            pins = cls((*pins.servers, server))
        return pins


def _key(identity: ServerIdentity) -> tuple[str, str]:
    return identity.name, identity.fingerprint


def _server_json(server: PinnedServer) -> dict[str, Any]:
    name, place, fingerprint = server.identity
    return {
        "name": name,
        "place": place,
        "fingerprint": fingerprint,
        "reported": {"name": server.reported.name, "version": server.reported.version},
        "tools": {
            name: {
                "standing": str(tool.reason),
                "since": tool.since,
                "pin": tool.pin,
                "declaration": dict(tool.declaration),
            }
            for name, tool in server.tools.items()
        },
    }


def _read_server(data: object, where: str) -> PinnedServer:
    entry = _table(data, where, ("name", "place", "fingerprint", "reported", "tools"))
    fields = _table(entry["reported"], f"{where}.reported", ("name", "version"))
    identity = ServerIdentity(
        *(_text(entry[key], f"{where}.{key}") for key in ("name", "place", "fingerprint"))
    )
    reported = Reported(*(_text(fields[key], f"{where}.reported.{key}") for key in ("name", "version")))
    tools = entry["tools"]
    if not isinstance(tools, dict):
        raise WrongRecord(f"{where}.tools must be an object")
    named = cast("dict[str, object]", tools)
    return PinnedServer(
        identity, reported, {n: _read_tool(t, f"{where}.tools.{n!r:.60}") for n, t in named.items()}
    )


def _read_tool(data: object, where: str) -> PinnedTool:
    entry = _table(data, where, ("standing", "since", "pin", "declaration"))
    reason = _text(entry["standing"], f"{where}.standing")
    if reason not in list(RecordReason):
        raise WrongRecord(f"{where}.standing must be one of {', '.join(RecordReason)}")
    declaration = entry["declaration"]
    if not isinstance(declaration, dict):
        raise WrongRecord(f"{where}.declaration must be an object")
    since = _text(entry["since"], f"{where}.since")
    tool = PinnedTool(cast("dict[str, Any]", declaration), RecordReason(reason), since)
    if entry["pin"] not in (tool.pin, orderless_pin_of(tool.declaration)):
        raise WrongRecord(f"the pin of {where} is not that of its declaration")
    return tool


def _table(data: object, where: str, keys: tuple[str, ...]) -> dict[str, object]:
    """An object with exactly these keys."""
    if not isinstance(data, dict):
        raise WrongRecord(f"{where} must be an object")
    entry = cast("dict[str, object]", data)
    for key in entry:
        if key not in keys:
            raise WrongRecord(f"{where} has a key {key!r:.60} that is not known")
    for key in keys:
        if key not in entry:
            raise WrongRecord(f"{where} has no {key}")
    return entry


def _text(value: object, where: str) -> str:
    if not isinstance(value, str):
        raise WrongRecord(f"{where} must be a text")
    return value
