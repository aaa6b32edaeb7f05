"""Resolves the address on which the MCP server listens over HTTP.

In: an option of the command line. Out: a loopback address and a bound socket, or CallsheetError.
"""

from __future__ import annotations

import ipaddress
import re
import socket
from dataclasses import dataclass

from callsheet.diagnostics import CallsheetError

_ADDRESS = re.compile(r"(?:(?P<host>\[[0-9A-Fa-f:.]+\]|[^:\[\]]*):)?(?P<port>\d{1,5})", re.ASCII)


@dataclass(frozen=True, slots=True)
class Address:
    """A loopback host and a port; port 0 stands for any free port."""

    host: str
    port: int

    @property
    def authority(self) -> str:
        """Host and port as in a URL."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def url(self) -> str:
        """The URL of the server."""
        return f"http://{self.authority}/mcp"


def read_address(text: str) -> Address:
    """Parse `[HOST:]PORT`.

    Raises CallsheetError: CFG010 for an invalid address, MCP002 for a host that is not a loopback address.

    >>> read_address("8321"), read_address("[::1]:0").url
    (Address(host='127.0.0.1', port=8321), 'http://[::1]:0/mcp')
    """
    match = _ADDRESS.fullmatch(text.strip())
    if match is None or int(match["port"]) > 65_535:
        message = f"{text[:60]!r} is not an address to listen on"
        raise CallsheetError.single("CFG010", message, help="write a port (8321), or 127.0.0.1:8321")
    host = (match["host"] or "127.0.0.1").strip("[]")
    if host != "localhost" and not _is_loopback(host):
        raise CallsheetError.single(
            "MCP002",
            f"callsheet mcp listens only on loopback addresses, and {host} is an address of the network",
            help=f"write --http {match['port']}; for other machines use ssh -L or a proxy with TLS",
        )
    return Address("127.0.0.1" if host == "localhost" else host, int(match["port"]))


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def listen(address: Address) -> tuple[socket.socket, Address]:
    """Return a listening socket, and its address with the actual port.

    Raises CallsheetError (MCP003) if the address cannot be used.
    """
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    try:
        bound = socket.create_server((address.host, address.port), family=family, backlog=128)
    except OSError as error:
        message = f"{address.authority} cannot be used: {error.strerror or error}"
        hint = "name another port, or 0 for any free port"
        raise CallsheetError.single("MCP003", message, help=hint) from error
    return bound, Address(address.host, bound.getsockname()[1])
