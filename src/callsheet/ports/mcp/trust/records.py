"""The pins of servers and their tools, and their JSON form.

In: JSON data, read strictly: no unknown or missing keys, and each pin must match its declaration. Out:
frozen records, and the data again. No file is accessed here.
"""

from __future__ import annotations

import fcntl
import json
import os
import stat
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, NamedTuple, cast

from callsheet.diagnostics import CallsheetError
from callsheet.files import replace_file, user_file
from callsheet.ir.strict_json import NotJson, read_json
from callsheet.ports.mcp.declarations import hash_of, orderless_pin_of, pin_of
from callsheet.ports.mcp.failures import shown_url
from callsheet.ports.mcp.servers import HttpServer, McpServerConfig, StdioServer


class ServerIdentity(NamedTuple):
    """A server as the operator configured it.

    `place` is for display: the command without its arguments, or the URL without user and query.
    `fingerprint` is the hash of command and arguments, or of the URL and the kind of transport.
    """

    name: str
    place: str
    fingerprint: str


class Reported(NamedTuple):
    """The name and version that a server reports; empty if it reports none."""

    name: str = ""
    version: str = ""

    def __str__(self) -> str:
        return f"{self.name} {self.version}".strip() or "(nothing)"


def identity_of(config: McpServerConfig) -> ServerIdentity:
    """The identity of a configured server.

    An argument that is a file in the server's working folder counts as its absolute path: `python server.py`
    is a different server in another project.
    """
    transport = config.transport
    if isinstance(transport, HttpServer):
        data = {"url": transport.url, "sse": transport.sse}
        return ServerIdentity(config.name, shown_url(transport.url), hash_of(data))
    folder = transport.cwd or Path.cwd()
    data = {"command": _whole(folder, transport.command), "args": [_whole(folder, a) for a in transport.args]}
    return ServerIdentity(config.name, _shown_command(transport), hash_of(data))


def _whole(folder: Path, word: str) -> str:
    if not word or word.startswith(("-", "/")) or len(word) > 1_000 or "\0" in word:
        return word
    path = folder / word
    try:
        return str(path.resolve()) if path.is_file() else word
    except OSError:
        return word


def _shown_command(transport: StdioServer) -> str:
    count = len(transport.args)
    more = f" … ({count} argument{'' if count == 1 else 's'})" if count else ""
    return f"{transport.command}{more}"


SCHEMA = 1


class RecordReason(StrEnum):
    """Why a declaration is recorded: it was there when the server was first seen, or a person approved it."""

    SEEN = "seen"
    APPROVED = "approved"
    LOCKED = "locked"
    """It is in the lock file of the project; the file of pins has none such."""


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
        top = read_table(data, "it", ("schema", "servers"))
        if top["schema"] != SCHEMA or isinstance(top["schema"], bool):
            raise WrongRecord(f"its schema is {top['schema']!r:.40}, and this version reads {SCHEMA}")
        if not isinstance(top["servers"], list):
            raise WrongRecord("servers must be a list")
        servers: dict[tuple[str, str], PinnedServer] = {}
        for place, entry in enumerate(cast("list[object]", top["servers"])):
            server = _read_server(entry, f"servers[{place}]")
            if servers.setdefault(_key(server.identity), server) is not server:
                raise WrongRecord(f"the server {server.identity.name!r} is in it twice")
        return cls(tuple(servers.values()))


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
    entry = read_table(data, where, ("name", "place", "fingerprint", "reported", "tools"))
    fields = read_table(entry["reported"], f"{where}.reported", ("name", "version"))
    identity = ServerIdentity(
        *(read_text(entry[key], f"{where}.{key}") for key in ("name", "place", "fingerprint"))
    )
    reported = Reported(*(read_text(fields[key], f"{where}.reported.{key}") for key in ("name", "version")))
    tools = entry["tools"]
    if not isinstance(tools, dict):
        raise WrongRecord(f"{where}.tools must be an object")
    named = cast("dict[str, object]", tools)
    return PinnedServer(
        identity, reported, {n: _read_tool(t, f"{where}.tools.{n!r:.60}") for n, t in named.items()}
    )


def _read_tool(data: object, where: str) -> PinnedTool:
    entry = read_table(data, where, ("standing", "since", "pin", "declaration"))
    reason = read_text(entry["standing"], f"{where}.standing")
    if reason not in _KEPT:
        raise WrongRecord(f"{where}.standing must be one of {', '.join(_KEPT)}")
    declaration = entry["declaration"]
    if not isinstance(declaration, dict):
        raise WrongRecord(f"{where}.declaration must be an object")
    since = read_text(entry["since"], f"{where}.since")
    tool = PinnedTool(cast("dict[str, Any]", declaration), RecordReason(reason), since)
    if entry["pin"] != tool.pin and entry["pin"] != orderless_pin_of(tool.declaration):
        raise WrongRecord(f"the pin of {where} is not that of its declaration")
    return tool


_KEPT = (RecordReason.SEEN, RecordReason.APPROVED)


def read_words(data: object, where: str) -> dict[str, object]:
    """An object with any keys; raises WrongRecord."""
    if not isinstance(data, dict):
        raise WrongRecord(f"{where} must be an object")
    return cast("dict[str, object]", data)


def read_word(entry: Mapping[str, object], key: str, where: str, words: tuple[str, ...]) -> str | None:
    """The word of a key, None if the key is absent; raises WrongRecord for another word."""
    if key not in entry:
        return None
    word = read_text(entry[key], f"{where}.{key}")
    if word not in words:
        raise WrongRecord(f"{where}.{key} must be one of {', '.join(words)}")
    return word


def read_table(
    data: object, where: str, keys: tuple[str, ...], more: tuple[str, ...] = ()
) -> dict[str, object]:
    """An object with exactly these keys, and perhaps some of `more`; raises WrongRecord."""
    entry = read_words(data, where)
    for key in entry:
        if key not in keys and key not in more:
            raise WrongRecord(f"{where} has a key {key!r:.60} that is not known")
    for key in keys:
        if key not in entry:
            raise WrongRecord(f"{where} has no {key}")
    return entry


def read_text(value: object, where: str) -> str:
    """The text; raises WrongRecord for anything else."""
    if not isinstance(value, str):
        raise WrongRecord(f"{where} must be a text")
    return value


VARIABLE = "CALLSHEET_PINS"
"""The environment variable with the path of the file of pins, instead of the default."""
_MOST_BYTES = 50_000_000


def default_pins() -> Path:
    """The path of the file of pins."""
    return user_file(VARIABLE, "mcp-pins.json")


class PinFile:
    """A file of pins, which need not exist yet."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def read(self) -> Pins:
        """The pins; raises CallsheetError (CFG114) if the file cannot be read or is invalid."""
        try:
            text = _text_of(self.path)
        except FileNotFoundError:
            return Pins()
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
            raise self._wrong(f"it cannot be read: {reason or error}") from error
        try:
            return Pins.from_json(read_json(text))
        except NotJson as error:
            raise self._wrong(f"it is not JSON: {error}") from error
        except WrongRecord as error:
            raise self._wrong(str(error)) from error

    def change(self, changed: Callable[[Pins], Pins]) -> Pins:
        """Replace the pins by `changed(pins)` and return them; other processes wait meanwhile.

        Raises CallsheetError (CFG114) as `read` does, and OSError if the file cannot be written.
        """
        with self._locked():
            before = self.read()
            after = changed(before)
            text = _as_text(after)
            if text != _as_text(before):  # records that are equal may have their arguments in another order
                replace_file(self.path, f"{text}\n".encode())
            return after

    @contextmanager
    def _locked(self) -> Generator[None]:
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = self.path.with_name(f"{self.path.name}.lock")
        fd = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX)
            yield
        finally:
            os.close(fd)

    def _wrong(self, reason: str) -> CallsheetError:
        return CallsheetError.single(
            "CFG114",
            f"the file of trusted tools {self.path} cannot be used: {reason}",
            help="no tool is trusted until it is repaired; move it away to start over",
        )


def _as_text(pins: Pins) -> str:
    return json.dumps(pins.to_json(), indent=1, ensure_ascii=True, allow_nan=False)


def _text_of(path: Path) -> str:
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(fd, "rb") as file:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise OSError(0, "it is not a plain file")
        data = file.read(_MOST_BYTES + 1)
    if len(data) > _MOST_BYTES:
        raise OSError(0, f"it is larger than {_MOST_BYTES // 1_000_000} MB")
    return data.decode("utf-8")
