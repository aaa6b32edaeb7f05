"""Which server a configuration means: its name, and how it is started or where it is reached.

In: a configuration. Out: an identity without secrets: arguments and addresses are in it as a hash
only, environment and headers not at all. What a server says of itself may be anything.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import NamedTuple

from callsheet.ir.canon import canonical_bytes
from callsheet.ports.mcp.failures import shown_url
from callsheet.ports.mcp.servers import HttpServer, McpServerConfig, StdioServer


class ServerIdentity(NamedTuple):
    """A server as an operator has configured it.

    `place` is for people: the command without its arguments, or the address without user and query.
    `fingerprint` is the hash of the whole transport.
    """

    name: str
    place: str
    fingerprint: str


class Reported(NamedTuple):
    """What a server says that it is; empty where it says nothing."""

    name: str = ""
    version: str = ""

    def __str__(self) -> str:
        return f"{self.name} {self.version}".strip() or "(nothing)"


def identity_of(config: McpServerConfig) -> ServerIdentity:
    """The identity of a configured server.

    An argument that names a file of the server's working folder counts as the whole path of that file:
    `python server.py` is another server in another project.
    """
    transport = config.transport
    if isinstance(transport, HttpServer):
        told = {"url": transport.url, "sse": transport.sse}
        return ServerIdentity(config.name, shown_url(transport.url), _hash(told))
    folder = transport.cwd or Path.cwd()
    told = {"command": _whole(folder, transport.command), "args": [_whole(folder, a) for a in transport.args]}
    return ServerIdentity(config.name, _shown_command(transport), _hash(told))


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


def _hash(value: object) -> str:
    return f"sha256:{hashlib.sha256(canonical_bytes(value)).hexdigest()}"
