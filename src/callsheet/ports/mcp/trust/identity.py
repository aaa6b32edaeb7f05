"""Identifies a configured server by its name and transport.

In: a configuration. Out: an identity without secrets: arguments and URLs only as part of a hash,
environment and headers not at all. What a server reports about itself proves nothing.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import NamedTuple

from callsheet.ir.canon import canonical_bytes
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
        return ServerIdentity(config.name, shown_url(transport.url), _hash(data))
    folder = transport.cwd or Path.cwd()
    data = {"command": _whole(folder, transport.command), "args": [_whole(folder, a) for a in transport.args]}
    return ServerIdentity(config.name, _shown_command(transport), _hash(data))


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
