"""The HTTP server: its ASGI application with routes and error responses, where it listens, how it stops.

In: the options of an operator. Out: a server that runs until a signal; runs in progress stay in the journal
and can be resumed.
"""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import os
import re
import shlex
import signal
import socket
import stat
import sys
import threading
from collections.abc import Awaitable, Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import h11
import uvicorn
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp
from uvicorn.config import WSProtocolType

from callsheet.api.run_branches import UndoNeedsConsent, undo_json
from callsheet.apps.head_timeout import HeadTimeoutProtocol
from callsheet.apps.hosting import Host
from callsheet.apps.hosting.host import keep_on
from callsheet.apps.hosting.run_queue import MAX_ATTEMPTS, Capacity, LeftRuns
from callsheet.apps.http.clients import Keys, Network, Rate, Rates, new_token
from callsheet.apps.http.endpoint import ApiRequest, Empty, Endpoint, check_right
from callsheet.apps.http.guard import PERSON, SECURITY, Guard
from callsheet.apps.http.people import EVERYBODY, People, Person, right_for
from callsheet.apps.http.problems import Problem, problem_json, problem_of, problem_response
from callsheet.apps.http.reading import read_body, read_query
from callsheet.apps.http.state import Herald, OpenWebhook, RequestLimits, State
from callsheet.apps.http.table import ENDPOINTS, docs
from callsheet.apps.http.viewer import WEB
from callsheet.apps.http.webhooks import problem_with
from callsheet.apps.masking import Masker
from callsheet.apps.scheduling.notices import Audience
from callsheet.apps.scheduling.scheduler import Schedule
from callsheet.apps.setup import Setup
from callsheet.diagnostics import CallsheetError
from callsheet.machine import Limits
from callsheet.policy.model import Policy
from callsheet.runtime.forking import NeedsConsent
from callsheet.store import Journal
from callsheet.store.library import open_library

_log = logging.getLogger("callsheet.http")


def make_app(state: State) -> ASGIApp:
    """The application of a server with this state."""
    by_path: dict[str, dict[str, Endpoint]] = {}
    for endpoint in ENDPOINTS:
        by_path.setdefault(endpoint.path, {})[endpoint.method] = endpoint
    routes = [_route(path, endpoints, state) for path, endpoints in by_path.items()]
    routes += [
        Route(path, _web(handler, state), methods=["GET"]) for path, handler in {**WEB, "/docs": docs}.items()
    ]
    app = Starlette(
        routes=routes,
        exception_handlers={HTTPException: _http_problem, Exception: _bug},
    )
    app.router.redirect_slashes = False
    return Guard(app, state, _is_open)


_OPEN = frozenset((endpoint.method, endpoint.path) for endpoint in ENDPOINTS if endpoint.is_open)
_OPEN_PATTERNS = tuple((method, re.compile(re.sub(r"\{[a-z_]+\}", "[^/]+", path))) for method, path in _OPEN)


def _is_open(method: str, path: str) -> bool:
    asked = _endpoint_method(method)
    return any(asked == known and pattern.fullmatch(path) for known, pattern in _OPEN_PATTERNS)


def _endpoint_method(method: str) -> str:
    """The method of the endpoint for a request: HEAD asks for the response of GET without its body."""
    return "GET" if method == "HEAD" else method


def _route(path: str, endpoints: dict[str, Endpoint], state: State) -> Route:
    async def endpoint(request: Request) -> Response:
        return await _answer(endpoints[_endpoint_method(request.method)], request, state)

    route = Route(path, endpoint, methods=list(endpoints))
    is_open = "GET" in endpoints and endpoints["GET"].is_open
    if route.methods is not None and not is_open:  # monitors send HEAD; the other endpoints are for programs
        route.methods.discard("HEAD")
    return route


async def _answer(endpoint: Endpoint, request: Request, state: State) -> Response:
    """The response of an endpoint, or a problem response if it raises CallsheetError."""
    try:
        right = right_for(endpoint.method, endpoint.path)
        person: Person = request.scope.get(PERSON, EVERYBODY)
        if right is not None and not endpoint.is_open:
            check_right(person, right)
        query: Any = read_query(request, endpoint.query)
        body: Any = Empty()
        if endpoint.body is not None:
            body = await read_body(
                request, endpoint.body, state.request_limits, is_needed=endpoint.needs_body
            )
        return await endpoint.handler(ApiRequest(state, body, query, request.path_params, request, person))
    except UndoNeedsConsent as refused:
        state.host.masker.add_secrets(refused.undoing.known)
        undo = state.host.masker.value(undo_json(refused.undoing))
        return problem_of(state.host.masker.error(refused), {"undo": undo, "consent": refused.consent})
    except NeedsConsent as refused:
        forking = refused.forking
        effects = state.host.masker.value([effect.to_json() for effect in forking.effects])
        more: dict[str, Any] = {"effects": effects, "consent": forking.consent}
        more |= {"kept": state.host.masker.value([*forking.kept])} if forking.kept else {}
        return problem_of(state.host.masker.error(refused), more)
    except CallsheetError as error:
        return problem_of(state.host.masker.error(error))


def _web(
    handler: Callable[[State, Request], Awaitable[Response]], state: State
) -> Callable[[Request], Awaitable[Response]]:
    async def endpoint(request: Request) -> Response:
        return await handler(state, request)

    return endpoint


async def _http_problem(request: Request, error: Exception) -> Response:
    """The response to a request that the router rejects: unknown path, or method not allowed."""
    assert isinstance(error, HTTPException)
    if error.status_code == 405:
        allowed = dict(error.headers or {})
        message = f"the method {request.method} is not allowed here"
        return problem_of(Problem("API010", message, headers=allowed))
    hint = "/v1/openapi.json lists all endpoints"
    return problem_of(Problem("API009", f"there is no endpoint {request.url.path[:100]!a}", hint))


async def _bug(request: Request, error: Exception) -> Response:
    """The response to an unexpected exception; the traceback is only logged."""
    _log.error("%s %s has met a bug", request.method, request.url.path, exc_info=error)
    return problem_of(Problem("API013", f"a bug in callsheet: {type(error).__name__}; see its log"))


VARIABLE = "CALLSHEET_TOKEN"
"""The environment variable with the token; without it a token is generated."""
_SHORTEST = 32
_NO_WEBSOCKETS: WSProtocolType = "none"
_NAME = "serve"
"""The host name by which a server recognizes the runs of an earlier one."""
DEFAULT_RATE = Rate(100.0, 400)
"""The rate limit of a client."""
_MOST_SAID = 10
MOST_UNREAD = 32 * 1024
"""The maximum size in bytes of request headers that are not complete."""
_EVERYWHERE = ("", "0.0.0.0", "::")


@dataclass(frozen=True, slots=True, kw_only=True)
class ServeOptions:
    """The options of a server. Without a `token`, `address` must be loopback, and nobody is authenticated."""

    address: str = "127.0.0.1"
    port: int = 8420
    token: str | None = None
    allow_hosts: tuple[str, ...] = ()
    rate: Rate = DEFAULT_RATE
    request_limits: RequestLimits = field(default_factory=RequestLimits)
    running: int = 16
    queued: int = 1_000
    drain: float = 5.0
    """Seconds to wait for runs in progress when the server stops."""
    plans: Path | None = None
    revives: bool = True
    """Whether runs that an earlier server of this journal left are resumed."""
    proxies: tuple[Network, ...] = ()
    """The networks of trusted proxies."""
    webhooks: Mapping[str, OpenWebhook] = field(default_factory=dict[str, OpenWebhook])
    schedules: Mapping[str, Schedule] = field(default_factory=dict[str, Schedule])
    """The schedules of the project, which are shown; another process runs them."""
    audience: Callable[[str | None, Path], Audience] = lambda token, journal: Audience()
    """Who is told of the runs of webhooks, for a server with this token and journal."""
    people: Path | None = None
    """The file of those who have tokens of their own; None if there is only the operator."""

    def check(self) -> None:
        """Raise CallsheetError (API012) for a public address, or people, without authentication."""
        if self.token is None and self.people is not None:
            raise CallsheetError.single(
                "API012",
                "the people are known by their tokens, but no token is needed",
                help="omit --no-auth",
            )
        if self.token is None and not is_private(self.address):
            raise CallsheetError.single(
                "API012",
                f"{self.address or 'every address'} is reachable from other machines, and needs no token",
                help="omit --no-auth, or listen on 127.0.0.1",
            )


def is_private(address: str) -> bool:
    """Whether an address is reachable from this machine only."""
    if address.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return False


def chosen_token(path: Path | None) -> tuple[str, bool]:
    """The token of a file, else of the environment, else a new one; and whether it is new.

    Raises CallsheetError (API019) for an unreadable or invalid token.
    """
    if path is not None:
        return _checked(_read_token(path), str(path)), False
    given = os.environ.get(VARIABLE)
    if given is not None:
        return _checked(given.strip(), VARIABLE), False
    return new_token(), True


def _read_token(path: Path) -> str:
    try:
        with path.open("rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            text = file.read(4_096).decode("ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not ASCII text"
        hint = "name a file that contains a token, or omit --token-file: a new token is generated then"
        if isinstance(error, FileNotFoundError):
            hint = f"create it: (umask 077; openssl rand -hex 32 > {shlex.quote(str(path))})"
        raise CallsheetError.single(
            "API019", f"the token in {path} cannot be read: {why}", help=hint
        ) from error
    if mode & (stat.S_IRGRP | stat.S_IROTH | stat.S_IWGRP | stat.S_IWOTH):
        raise CallsheetError.single(
            "API019", f"others can read or write the token in {path}", help=f"chmod 600 {path}"
        )
    return text


def _checked(token: str, where: str) -> str:
    if not (token.isascii() and token.isprintable() and " " not in token):
        raise CallsheetError.single("API019", f"the token in {where} has characters not allowed in headers")
    if len(token) < _SHORTEST:
        raise CallsheetError.single(
            "API019",
            f"the token in {where} has {len(token)} characters",
            help=f"use at least {_SHORTEST}: openssl rand -hex 32",
        )
    return token


def listening(options: ServeOptions) -> socket.socket:
    """A listening socket; raises CallsheetError (API018) if it cannot be opened."""
    address, port = options.address, options.port
    try:
        family, kind, proto, _, place = socket.getaddrinfo(
            address, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        made = socket.socket(family, kind, proto)
        try:
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            made.bind(place)
            made.listen(2_048)
        except BaseException:
            made.close()
            raise
    except OSError as error:
        why = error.strerror or str(error)
        raise CallsheetError.single(
            "API018",
            f"cannot listen on {address}:{port}: {why}",
            help="choose another --port; 0 chooses a free one",
        ) from error
    return made


def served_hosts(options: ServeOptions, port: int) -> frozenset[str]:
    """The accepted `Host` values: those of this machine or of the address, and the allowed ones.

    A server that listens on every address is reached from this machine too, where nobody else can give these
    names another meaning. Its names elsewhere are known only to the operator.
    """
    if is_private(options.address) or options.address in _EVERYWHERE:
        own = ["localhost", "127.0.0.1", "[::1]"]
    else:
        own = [f"[{options.address}]" if ":" in options.address else options.address]
    named = [f"{name}:{port}" for name in own] + (own if port == 80 else [])
    return frozenset([*named, *(name.lower() for name in options.allow_hosts)])


@dataclass(frozen=True, slots=True)
class Serving:
    """A listening server: its URL, and a code with which a browser signs in once."""

    url: str
    code: str | None
    server: uvicorn.Server
    masker: Masker
    """Masks secrets in everything that is shown."""

    @property
    def sign_in_url(self) -> str:
        """The URL that signs a browser in."""
        return self.url if self.code is None else f"{self.url}/#code={self.code}"


async def serve(
    options: ServeOptions,
    setup: Setup,
    journal: Journal,
    *,
    limits: Limits | None = None,
    policy: Policy | None = None,
    on_ready: Callable[[Serving], None],
    say: Callable[[str], None],
) -> None:
    """Serve until the server is stopped; `on_ready` is called when it listens, `say` with log messages.

    Raises CallsheetError: API012, API018, and what a `Host` raises.
    """
    options.check()
    people = None if options.people is None else People(options.people, say)
    listener = listening(options)
    port = listener.getsockname()[1]
    keys = Keys(options.token, journal.path, people=people, say=say)
    with listener:
        async with Host(
            setup,
            journal,
            limits=limits,
            policy=policy,
            capacity=Capacity(options.running, options.queued),
            say=say,
            name=_NAME,
        ) as host:
            audience = options.audience(options.token, journal.path)
            state = State(
                host=host,
                keys=keys,
                rates=Rates(options.rate),
                hosts=served_hosts(options, port),
                proxies=options.proxies,
                library=lambda: open_library(options.plans),
                webhooks=options.webhooks,
                schedules=options.schedules,
                herald=Herald(host, audience, say),
                request_limits=options.request_limits,
            )
            server = _Server(_server_config(state))
            server.stopping = state.stopping
            code = None if keys.is_open else keys.new_code()
            for name, webhook in options.webhooks.items():
                if problem := problem_with(webhook, state):
                    say(f"the plan of the webhook {name} cannot be used: {problem}")
            if options.revives:
                _report_left(await host.revive(), say)
            await state.herald.take_up(state.webhooks)
            url = _url(options.address, port)
            server.on_started = lambda: on_ready(Serving(url, code, server, host.masker))
            rules = setup.settings.retention
            upkeep = asyncio.create_task(keep_on(host, rules, say)) if rules.is_set else None
            try:
                await server.serve(sockets=[listener])
            finally:
                if upkeep is not None:
                    upkeep.cancel()
                await state.herald.close()
                await host.close(options.drain)


def _server_config(state: State) -> uvicorn.Config:
    """The configuration of a server that logs nothing by itself and believes no header of a proxy."""
    return uvicorn.Config(
        make_app(state),
        http=ApiProtocol,
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        ws=_NO_WEBSOCKETS,
        h11_max_incomplete_event_size=MOST_UNREAD,
        timeout_keep_alive=15,
        timeout_graceful_shutdown=1,
    )


def _url(address: str, port: int) -> str:
    """The URL under which a server that listens at this address is reached from this machine."""
    host = address if address not in _EVERYWHERE else "127.0.0.1"
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def _report_left(left: LeftRuns, say: Callable[[str], None]) -> None:
    count = len(left.interrupted)
    if count:
        say(f"resuming {count} run{'s' * (count != 1)} of the previous server")
    for run_id in left.given_up[:_MOST_SAID]:
        say(f"run {run_id} is not resumed: the server died {MAX_ATTEMPTS} times while running it [API050]")
    if len(left.given_up) > _MOST_SAID:
        say(f"and {len(left.given_up) - _MOST_SAID} others, listed by callsheet runs as interrupted")


class _Server(uvicorn.Server):
    """A server that calls `on_started` when it listens."""

    on_started: Callable[[], None]
    stopping: asyncio.Event

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End the event streams, then close all connections."""
        self.stopping.set()
        await super().shutdown(sockets)

    @contextmanager
    def capture_signals(self) -> Generator[None]:
        """Stop at SIGINT and SIGTERM without raising them again, so that the host can be closed."""
        if threading.current_thread() is threading.main_thread():
            loop = asyncio.get_running_loop()
            for number in (signal.SIGINT, signal.SIGTERM):
                loop.add_signal_handler(number, self.stop)
        yield

    def stop(self) -> None:
        """Begin to shut down."""
        self.should_exit = True

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen, and call `on_started`."""
        await super().startup(sockets)
        if self.started:
            self.on_started()


# ---------------------------------------------------------------- connections

_TOO_LARGE = 431
"""The status that h11 suggests for headers that are too large."""


_LINGER = 2.0
"""For how many seconds what else a refused client sends is read: to close before would lose the response."""


class ApiProtocol(HeadTimeoutProtocol):
    """An HTTP connection of the API."""

    _is_refused = False

    def data_received(self, data: bytes) -> None:
        """Process received data; that of a client that was refused is discarded."""
        if not self._is_refused:
            super().data_received(data)

    def send_400_response(self, msg: str) -> None:
        """Respond to a malformed request, and close the connection when the client has done so."""
        response = problem_response(*_problem_for(sys.exception()), {"connection": "close", **SECURITY})
        events = (
            h11.Response(status_code=response.status_code, headers=response.raw_headers),
            h11.Data(data=bytes(response.body)),
            h11.EndOfMessage(),
        )
        self.transport.write(b"".join(self.conn.send(event) or b"" for event in events))
        self._is_refused = True
        if self.transport.can_write_eof():
            self.transport.write_eof()
        self.loop.call_later(_LINGER, self.transport.close)


def _problem_for(error: BaseException | None) -> tuple[int, dict[str, Any]]:
    """The status and the problem for an error of the server library."""
    if isinstance(error, h11.RemoteProtocolError) and error.error_status_hint == _TOO_LARGE:
        problem = Problem("API005", f"the head of the request is larger than {MOST_UNREAD:,} bytes")
        return 413, problem_json(problem, 413)
    problem = Problem("API008", "the request is not valid HTTP/1.1")
    return 400, problem_json(problem, 400)
