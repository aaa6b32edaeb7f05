"""Where the server listens over HTTP, and the token that its clients have to show.

In: what a command line says. Out: an address of this machine, a bound socket, a token; or CallsheetError.
"""

from __future__ import annotations

import ipaddress
import os
import re
import secrets
import socket
from dataclasses import dataclass
from pathlib import Path

from callsheet.diagnostics import CallsheetError

_ADDRESS = re.compile(r"(?:(?P<host>\[[0-9A-Fa-f:.]+\]|[^:\[\]]*):)?(?P<port>\d{1,5})", re.ASCII)
_TOKEN = re.compile(r"[A-Za-z0-9._~+/=-]*", re.ASCII)
_SHORTEST = 16
_MAKE_ONE = 'make one with: python3 -c "import secrets; print(secrets.token_urlsafe(32))"'


@dataclass(frozen=True, slots=True)
class Address:
    """A host of this machine and a port; port 0 stands for any that is free."""

    host: str
    port: int

    @property
    def authority(self) -> str:
        """Host and port as a URL has them."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def url(self) -> str:
        """Where clients find the server."""
        return f"http://{self.authority}/mcp"


def read_address(text: str) -> Address:
    """The address that `[HOST:]PORT` says.

    Raises CallsheetError: CFG010 for what is none, MCP002 for a host that is not a loopback address.

    >>> read_address("8321"), read_address("[::1]:0").url
    (Address(host='127.0.0.1', port=8321), 'http://[::1]:0/mcp')
    """
    found = _ADDRESS.fullmatch(text.strip())
    if found is None or int(found["port"]) > 65_535:
        message = f"{text[:60]!r} is no address to listen on"
        raise CallsheetError.single("CFG010", message, help="write a port (8321), or 127.0.0.1:8321")
    host = (found["host"] or "127.0.0.1").strip("[]")
    if host != "localhost" and not _is_loopback(host):
        raise CallsheetError.single(
            "MCP002",
            f"callsheet mcp listens on this machine alone, and {host} is an address of the network",
            help=f"write --http {found['port']}; from elsewhere it is reached by ssh -L, or a proxy with TLS",
        )
    return Address("127.0.0.1" if host == "localhost" else host, int(found["port"]))


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def listen(address: Address) -> tuple[socket.socket, Address]:
    """A socket that listens there, and its address with the port that it has.

    Raises CallsheetError (MCP003) where it cannot.
    """
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    try:
        bound = socket.create_server((address.host, address.port), family=family, backlog=128)
    except OSError as error:
        message = f"{address.authority} cannot be listened on: {error.strerror or error}"
        way_out = "name another port, or 0 for any that is free"
        raise CallsheetError.single("MCP003", message, help=way_out) from error
    return bound, Address(address.host, bound.getsockname()[1])


def read_token(where: str) -> str:
    """The token at `env:VARIABLE` or `file:PATH`, or a new one for an empty text.

    Raises CallsheetError (MCP004) for one that cannot be used.
    """
    if not where:
        return secrets.token_urlsafe(32)
    kind, _, what = where.partition(":")
    if kind == "env" and what:
        token = os.environ.get(what)
        if token is None:
            raise _unusable(where, "there is no such variable in the environment")
    elif kind == "file" and what:
        try:
            token = Path(what).expanduser().read_bytes()[:10_000].decode("utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise _unusable(where, getattr(error, "strerror", None) or "it is not UTF-8 text") from None
    else:
        raise _unusable(where[:20], "it says neither env:VARIABLE nor file:PATH")
    token = token.strip()
    if len(token) < _SHORTEST:
        raise _unusable(where, f"it has {len(token)} characters, and at least {_SHORTEST} are needed")
    if not _TOKEN.fullmatch(token):
        raise _unusable(where, "it holds characters that no header can carry")
    return token


def _unusable(where: str, why: str) -> CallsheetError:
    return CallsheetError.single("MCP004", f"the token of {where} cannot be used: {why}", help=_MAKE_ONE)
