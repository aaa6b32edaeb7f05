"""The configuration of an MCP server: transport, effects of its tools, login.

Frozen data, created by the reader of a configuration file.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from ipaddress import ip_address
from pathlib import Path
from urllib.parse import urlsplit

from callsheet.diagnostics.wrong_type import check_fields
from callsheet.ir import Effect, OnInDoubt, ToolClass
from callsheet.ir.inverse import Inverse
from callsheet.ir.operations import ORDERED, Independence
from callsheet.ports.reconcilers import ByPlan, Condition
from callsheet.sealing.credentials import (
    Shapes,
    configured,
    in_address,
    in_arguments,
    in_environment,
    in_headers,
)
from callsheet.sealing.masking import Finder

DEFAULT_TIMEOUT = 60.0
"""Seconds that a call may take unless configured otherwise."""


class Protocol(StrEnum):
    """In which protocol a server is spoken to that knows several."""

    OLDER = "older"
    """In that before 2026, in which a server asks its client by requests of its own."""
    NEWEST = "newest"


@dataclass(frozen=True, slots=True)
class StdioServer:
    """A server that is started as a child process and uses its standard streams."""

    command: str
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    cwd: Path | None = None

    def __post_init__(self) -> None:
        check_fields(self)


class Grant(StrEnum):
    """Who logs in: a person, once, or the machine itself, whenever necessary."""

    LOGIN = "login"
    CLIENT_CREDENTIALS = "client_credentials"


@dataclass(frozen=True, slots=True, kw_only=True)
class OAuthRules:
    """The operator's settings for logins with a server; by default everything is as the server declares it.

    `client_id` and `client_secret` were registered manually with the authorization server `issuer`; the
    secret is given as `env:VARIABLE` or `file:PATH` and read when it is needed. `client_metadata_url` is a
    document that describes the client, for authorization servers that accept its URL as a client id.
    `redirect_port` is the local port for the redirect of a login, if it has to be a fixed one.
    """

    grant: Grant = Grant.LOGIN
    client_id: str = ""
    client_secret: str = ""
    client_metadata_url: str = ""
    issuer: str = ""
    scope: str = ""
    redirect_port: int = 0

    def __post_init__(self) -> None:
        check_fields(self)


@dataclass(frozen=True, slots=True)
class HttpServer:
    """A server at a URL; `sse` selects the transport of 2024, otherwise it is streamable HTTP."""

    url: str
    headers: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    sse: bool = False
    oauth: OAuthRules = field(default_factory=OAuthRules)

    def __post_init__(self) -> None:
        check_fields(self)


@dataclass(frozen=True, slots=True)
class ToolProbe:
    """The tool of the same server that tells whether a call of another one took place.

    `arguments` names the call's arguments that it is given (None: those that it declares), and `key_argument`
    the argument that receives the idempotency key. A `condition` judges its answer; without one it answers
    `{"happened": …, "value": …}`. In place of a tool a `plan` tells.
    """

    tool: str
    arguments: tuple[str, ...] | None = None
    key_argument: str | None = None
    condition: Condition | None = None
    plan: ByPlan | None = None

    def __post_init__(self) -> None:
        check_fields(self)


@dataclass(frozen=True, slots=True)
class ToolRule:
    """The operator's rules for a tool, besides its effect.

    `key_argument` is the argument that receives the idempotency key; plans do not see it. `does` is what kind
    of thing it does, `to` the argument that says who is told, `undo` the call that takes back what it did.
    """

    key_argument: str | None = None
    probe: ToolProbe | None = None
    on_in_doubt: OnInDoubt | None = None
    max_concurrent: int | None = None
    """How many of its calls may run at once."""
    does: ToolClass | None = None
    to: str | None = None
    undo: Inverse | None = None
    independence: Independence = ORDERED
    """What is declared of the order of its calls."""

    def __post_init__(self) -> None:
        check_fields(self, positive=("max_concurrent",))


@dataclass(frozen=True, slots=True)
class McpServerConfig:
    """A server: its transport, and the operator's settings for its tools.

    `effects` gives the effects of tools by the server's own names; `trusted` lets the server's hints count
    (`readOnlyHint`, `idempotentHint`); `timeout` is per call, in seconds; `rules` has more settings of single
    tools, and `max_concurrent` limits how many calls of all its tools run at once.
    """

    name: str
    transport: StdioServer | HttpServer
    effects: Mapping[str, Effect] = field(default_factory=dict[str, Effect])
    trusted: bool = False
    timeout: float = DEFAULT_TIMEOUT
    origin: str = "<code>"
    """The file that configures the server."""
    rules: Mapping[str, ToolRule] = field(default_factory=dict[str, ToolRule])
    max_concurrent: int | None = None
    protocol: Protocol | None = None
    """None: that of the client in front of a gate, and otherwise the newest."""

    def __post_init__(self) -> None:
        check_fields(self, positive=("timeout", "max_concurrent"))


def is_safe(url: str) -> bool:
    """Whether data sent to a URL cannot be read in transit: it is encrypted, or stays on this machine."""
    if url.lower().startswith("https://"):
        return True
    host = urlsplit(url).hostname or ""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


def credentials_of(configs: Iterable[McpServerConfig]) -> Iterator[str]:
    """The credentials in environments, arguments, headers and URLs of these servers."""
    for config in configs:
        yield from _credentials(config.transport)


def _credentials(transport: StdioServer | HttpServer) -> Iterator[str]:
    if isinstance(transport, HttpServer):
        yield from in_headers(transport.headers)
        yield from in_address(transport.url)
    else:
        yield from in_environment(transport.env)
        yield from in_arguments(transport.args)


def finder_for(transport: StdioServer | HttpServer, secrets: Iterable[str] = ()) -> Finder:
    """A finder for a server's credentials, the `secrets` of its login, and credential patterns."""
    return Finder(configured((*_credentials(transport), *secrets)), Shapes())
