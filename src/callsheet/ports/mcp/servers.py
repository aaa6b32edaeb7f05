"""What an MCP server is to its operator: how it is reached, what its tools do, how to log in to it.

Frozen data, which the reading of a configuration file makes and everything else takes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from ipaddress import ip_address
from pathlib import Path
from urllib.parse import urlsplit

from callsheet.ir import Effect, OnInDoubt

DEFAULT_TIMEOUT = 60.0
"""Seconds that a call may take where the configuration says nothing."""


@dataclass(frozen=True, slots=True)
class StdioServer:
    """A server that is started as a child process and spoken to on its standard streams."""

    command: str
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    cwd: Path | None = None


class Grant(StrEnum):
    """Who logs in: a person, once, or the machine itself, whenever it needs to."""

    LOGIN = "login"
    CLIENT_CREDENTIALS = "client_credentials"


@dataclass(frozen=True, slots=True, kw_only=True)
class OAuthRules:
    """What the operator says of logins with a server; by default everything is as the server declares it.

    `client_id` and `client_secret` were registered by hand with the authorization server `issuer`; the secret
    is said as `env:VARIABLE` or `file:PATH` and read when it is needed. `client_metadata_url` is a document
    that describes the client, for authorization servers that take its address as a client id. `redirect_port`
    is the port of this machine that logins come back to, where it must be a certain one.
    """

    grant: Grant = Grant.LOGIN
    client_id: str = ""
    client_secret: str = ""
    client_metadata_url: str = ""
    issuer: str = ""
    scope: str = ""
    redirect_port: int = 0


@dataclass(frozen=True, slots=True)
class HttpServer:
    """A server at a URL; `sse` is the transport of 2024, else streamable HTTP."""

    url: str
    headers: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    sse: bool = False
    oauth: OAuthRules = field(default_factory=OAuthRules)


@dataclass(frozen=True, slots=True)
class ToolProbe:
    """The tool of the same server that tells whether a call of another one took place.

    `arguments` are those of the call's arguments that it is given (None: those it declares), and
    `key_argument` is the one under which it is given the idempotency key.
    """

    tool: str
    arguments: tuple[str, ...] | None = None
    key_argument: str | None = None


@dataclass(frozen=True, slots=True)
class ToolRule:
    """What the operator says of a tool beside its effect.

    `key_argument` is the argument that the idempotency key is handed over in; plans do not see it.
    """

    key_argument: str | None = None
    probe: ToolProbe | None = None
    on_in_doubt: OnInDoubt | None = None
    max_concurrent: int | None = None
    """How many of its calls may be under way at once."""


@dataclass(frozen=True, slots=True)
class McpServerConfig:
    """A server: how to reach it, and what the operator says about its tools.

    `effects` gives tools by the server's own names their effect; `trusted` lets the server's
    hints count (`readOnlyHint`, `idempotentHint`); `timeout` is for one call, in seconds; `rules`
    say of single tools what is to be done about calls that may have taken place, and `max_concurrent` how
    many calls of all its tools may be under way at once.
    """

    name: str
    transport: StdioServer | HttpServer
    effects: Mapping[str, Effect] = field(default_factory=dict[str, Effect])
    trusted: bool = False
    timeout: float = DEFAULT_TIMEOUT
    origin: str = "<code>"
    """The file that names the server."""
    rules: Mapping[str, ToolRule] = field(default_factory=dict[str, ToolRule])
    max_concurrent: int | None = None


def is_safe(url: str) -> bool:
    """Whether what is sent to an address is read by nobody on the way: it is encrypted, or stays here."""
    if url.lower().startswith("https://"):
        return True
    host = urlsplit(url).hostname or ""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")
