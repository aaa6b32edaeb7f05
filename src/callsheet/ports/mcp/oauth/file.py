"""Stores logins in a file outside of every journal, each encrypted with the seal key.

In: a path, and a holder of the keys. Out: logins by server name; CallsheetError (TOL037) for a file that
cannot be used. Only its owner may access it. It is replaced atomically, under a lock shared with other
processes.
"""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import stat
from collections.abc import AsyncGenerator, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, Protocol, cast

from callsheet.files import replace_file, user_file
from callsheet.ir.strict_json import NotJson, read_json
from callsheet.ports.mcp.oauth.login_errors import bad_file
from callsheet.sealing.keys import KeyRing, NotOpened


class WrongLogin(Exception):
    """The data is not a valid login."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Client:
    """Our OAuth client. `method` is `none`, `client_secret_basic` or `client_secret_post`."""

    id: str
    secret: str = field(default="", repr=False)
    method: str = "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class Tokens:
    """Tokens as issued. `ends` is when to stop using the access token.

    It is in seconds since 1970, None if unknown.
    """

    access: str = field(repr=False)
    refresh: str = field(default="", repr=False)
    ends: float | None = None
    scope: str = ""

    def is_over(self, now: float) -> bool:
        """Whether the access token must no longer be used."""
        return self.ends is not None and now >= self.ends


@dataclass(frozen=True, slots=True, kw_only=True)
class Login:
    """A login with the server of this name at this url."""

    server: str
    url: str
    resource: str
    issuer: str
    token_endpoint: str
    revocation_endpoint: str = ""
    client: Client
    tokens: Tokens

    def secrets(self) -> Iterator[str]:
        """The texts that have to be kept secret."""
        yield from (s for s in (self.tokens.access, self.tokens.refresh, self.client.secret) if s)

    def to_json(self) -> dict[str, Any]:
        """The login as JSON data."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: Any) -> Login:
        """The login in JSON data; raises WrongLogin if it is malformed."""
        try:
            row: dict[str, Any] = dict(data)
            client, tokens = Client(**row.pop("client")), _tokens(row.pop("tokens"))
            return cls(**row, client=client, tokens=tokens)
        except (TypeError, KeyError, ValueError) as error:
            raise WrongLogin(f"it contains an invalid login ({type(error).__name__})") from None


def _tokens(data: Mapping[str, Any]) -> Tokens:
    if set(data) != {f.name for f in fields(Tokens)} or not isinstance(data["access"], str):
        raise ValueError("these are not tokens")
    return Tokens(**data)


VARIABLE = "CALLSHEET_LOGINS"
"""The environment variable with the path of the file of logins, instead of the default."""
_MOST_BYTES = 5_000_000
_OTHERS = stat.S_IRWXG | stat.S_IRWXO
_PATIENCE = 0.05


class KeyHolder(Protocol):
    """Provides the seal keys."""

    def sealing(self) -> KeyRing:
        """The keys for encryption; a key is created if there is none."""
        ...

    def opening(self) -> KeyRing:
        """The keys for decryption; raises CallsheetError if there are none."""
        ...


def default_logins() -> Path:
    """The path of the file of logins: by default beside the seal key."""
    return user_file(VARIABLE, "mcp-logins.json")


class LoginFile:
    """A file of logins, which need not exist yet."""

    def __init__(self, path: Path, keys: KeyHolder) -> None:
        self.path = path
        self._keys = keys

    def names(self) -> tuple[str, ...]:
        """The names of the servers with a login."""
        return tuple(self._boxes())

    def get(self, server: str) -> Login | None:
        """The login with a server, None if there is none.

        Raises CallsheetError (TOL037, or about the key).
        """
        entry = self._boxes().get(server)
        if entry is None:
            return None
        key = self._keys.opening().opening.get(entry["key"])
        if key is None:
            raise bad_file(
                self.path, f"it was sealed with the key {entry['key'][:16]}, which is not available"
            )
        try:
            return Login.from_json(read_json(key.open(entry["box"]).decode()))
        except (NotOpened, NotJson, WrongLogin, UnicodeDecodeError):
            raise bad_file(self.path, f"the login with {server!r} cannot be opened") from None

    def put(self, login: Login) -> None:
        """Store a login, replacing any other with its server; to be called within `locked`."""
        key = self._keys.sealing().sealing
        box = key.seal(json.dumps(login.to_json()).encode())
        self._write({**self._boxes(), login.server: {"key": key.name, "box": box}})

    def remove(self, server: str) -> bool:
        """Remove the login with a server; False if there was none. To be called within `locked`."""
        boxes = self._boxes()
        if server not in boxes:
            return False
        self._write({name: entry for name, entry in boxes.items() if name != server})
        return True

    @asynccontextmanager
    async def locked(self) -> AsyncGenerator[None]:
        """Hold the lock on the file; raises CallsheetError (TOL037) if it cannot be locked."""
        try:
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            lock = self.path.with_name(f"{self.path.name}.lock")
            fd = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        except OSError as error:
            raise bad_file(
                self.path, f"it cannot be locked: {error.strerror}", "grant the permission to write"
            ) from None
        try:
            while not _is_taken(fd):  # noqa: ASYNC110 - another process lets go of it, in silence
                await asyncio.sleep(_PATIENCE)
            yield
        finally:
            os.close(fd)

    def _boxes(self) -> dict[str, dict[str, str]]:
        try:
            fd = os.open(self.path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except FileNotFoundError:
            return {}
        except OSError as error:
            raise bad_file(self.path, f"it cannot be read: {error.strerror}") from None
        with os.fdopen(fd, "rb") as file:
            mode = os.fstat(fd).st_mode
            if not stat.S_ISREG(mode):
                raise bad_file(self.path, "it is not a plain file")
            if mode & _OTHERS:
                raise bad_file(self.path, "it is accessible to other users", f"chmod 600 {self.path}")
            data = file.read(_MOST_BYTES)
        try:
            return _checked(read_json(data.decode()))
        except (NotJson, UnicodeDecodeError, ValueError):
            raise bad_file(self.path, "it is damaged") from None

    def _write(self, boxes: Mapping[str, Mapping[str, str]]) -> None:
        text = json.dumps({"schema": 1, "logins": boxes}, indent=1)
        try:
            replace_file(self.path, f"{text}\n".encode())
        except OSError as error:
            raise bad_file(
                self.path,
                f"it cannot be written: {error.strerror}",
                "free space or grant the permission to write",
            ) from None


def _is_taken(fd: int) -> bool:
    """Try to take the lock; whether that succeeded."""
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _checked(data: Any) -> dict[str, dict[str, str]]:
    """The encrypted logins in the data of a file; raises ValueError if the data is malformed."""
    if not isinstance(data, dict) or cast("dict[str, Any]", data).get("schema") != 1:
        raise ValueError("it has another schema")
    boxes = cast("dict[str, Any]", data).get("logins")
    if not isinstance(boxes, dict):
        raise ValueError("it has no logins")
    for entry in cast("dict[str, Any]", boxes).values():
        if not isinstance(entry, dict) or not all(
            isinstance(cast("dict[str, Any]", entry).get(k), str) for k in ("key", "box")
        ):
            raise ValueError("it contains an invalid login")
    return cast("dict[str, dict[str, str]]", boxes)
