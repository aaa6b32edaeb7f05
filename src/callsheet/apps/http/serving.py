"""Runs the HTTP server: where it listens, its keys, and how it stops.

In: what an operator wants. Out: a process that serves until a signal comes; runs that were under way stay in
the journal and can be carried on.
"""

from __future__ import annotations

import asyncio
import ipaddress
import os
import shlex
import signal
import socket
import stat
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import uvicorn
from uvicorn.config import WSProtocolType

from callsheet.apps.hosting import Host
from callsheet.apps.hosting.attempts import MAX_ATTEMPTS
from callsheet.apps.hosting.left_runs import LeftRuns
from callsheet.apps.http.app import make_app
from callsheet.apps.http.keys import Keys, new_token
from callsheet.apps.http.protocol import MOST_UNREAD, ApiProtocol
from callsheet.apps.http.proxies import Network
from callsheet.apps.http.rates import Rate, Rates
from callsheet.apps.http.state import Bounds, State
from callsheet.apps.session import Setup
from callsheet.apps.veil import Veil
from callsheet.diagnostics import CallsheetError
from callsheet.machine import Limits
from callsheet.policy.model import Policy
from callsheet.store import Journal
from callsheet.store.library import open_library

VARIABLE = "CALLSHEET_TOKEN"
"""Holds the token in place of one that is made at the start."""
_SHORTEST = 32
_NO_WEBSOCKETS: WSProtocolType = "none"
_NAME = "serve"
"""By which servers know the runs that one of them has started."""
DEFAULT_RATE = Rate(100.0, 400)
"""Requests a second of one client, and so many at once after a rest."""
_MOST_SAID = 10
_EVERYWHERE = ("", "0.0.0.0", "::")


@dataclass(frozen=True, slots=True, kw_only=True)
class Wishes:
    """What an operator wants of a server. Without a `token` everybody may ask, on this machine alone."""

    address: str = "127.0.0.1"
    port: int = 8420
    token: str | None = None
    allow_hosts: tuple[str, ...] = ()
    rate: Rate = DEFAULT_RATE
    bounds: Bounds = field(default_factory=Bounds)
    running: int = 16
    queued: int = 1_000
    drain: float = 5.0
    """Seconds that runs under way get to end when the server is stopped."""
    plans: Path | None = None
    revives: bool = True
    """Whether runs go on that another server on this journal has left when it ended."""
    proxies: tuple[Network, ...] = ()
    """Addresses of proxies that are believed whom they ask for."""

    def check(self) -> None:
        """Raise CallsheetError (API012) for a public address where nobody has to sign in."""
        if self.token is None and not is_private(self.address):
            raise CallsheetError.single(
                "API012",
                f"{self.address or 'every address'} is open to other machines, and nobody would need a token",
                help="leave --no-auth out, or listen on 127.0.0.1",
            )


def is_private(address: str) -> bool:
    """Whether only this machine reaches an address."""
    if address.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return False


def chosen_token(path: Path | None) -> tuple[str, bool]:
    """The token of a file, else of the environment, else a new one; and whether it is new.

    Raises CallsheetError (API019) for one that cannot be used.
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
        way_out = "name a file with a token in it, or leave --token-file out: a new one is made then"
        if isinstance(error, FileNotFoundError):
            way_out = f"make one: (umask 077; openssl rand -hex 32 > {shlex.quote(str(path))})"
        raise CallsheetError.single(
            "API019", f"the token in {path} cannot be read: {why}", help=way_out
        ) from error
    if mode & (stat.S_IRGRP | stat.S_IROTH | stat.S_IWGRP | stat.S_IWOTH):
        raise CallsheetError.single(
            "API019", f"others can read or write the token in {path}", help=f"chmod 600 {path}"
        )
    return text


def _checked(token: str, where: str) -> str:
    if not (token.isascii() and token.isprintable() and " " not in token):
        raise CallsheetError.single("API019", f"the token in {where} has characters that no header takes")
    if len(token) < _SHORTEST:
        raise CallsheetError.single(
            "API019",
            f"the token in {where} has {len(token)} characters",
            help=f"take at least {_SHORTEST}: openssl rand -hex 32",
        )
    return token


def listening(wishes: Wishes) -> socket.socket:
    """A socket that listens; raises CallsheetError (API018) where there cannot be one."""
    address, port = wishes.address, wishes.port
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
            f"{address}:{port} cannot be listened on: {why}",
            help="choose another --port; 0 is a free one",
        ) from error
    return made


def served_hosts(wishes: Wishes, port: int) -> frozenset[str]:
    """The names under which requests may come: of this machine, of the address, and what is allowed."""
    own: list[str] = ["localhost", "127.0.0.1", "[::1]"] if is_private(wishes.address) else []
    if not is_private(wishes.address) and wishes.address not in _EVERYWHERE:
        own.append(f"[{wishes.address}]" if ":" in wishes.address else wishes.address)
    named = [f"{name}:{port}" for name in own] + (own if port == 80 else [])
    return frozenset([*named, *(name.lower() for name in wishes.allow_hosts)])


@dataclass(frozen=True, slots=True)
class Serving:
    """A server that listens: its address for people, and a code with which a browser signs in once."""

    url: str
    code: str | None
    server: uvicorn.Server
    veil: Veil
    """What takes secrets out of all that it shows."""

    @property
    def sign_in_url(self) -> str:
        """The address that signs a browser in."""
        return self.url if self.code is None else f"{self.url}/#code={self.code}"


async def serve(
    wishes: Wishes,
    setup: Setup,
    journal: Journal,
    *,
    limits: Limits | None = None,
    policy: Policy | None = None,
    on_ready: Callable[[Serving], None],
    say: Callable[[str], None],
) -> None:
    """Serve until the server is told to stop; `on_ready` hears of it when it listens.

    Raises CallsheetError: API012, API018, and what a `Host` raises.
    """
    wishes.check()
    listener = listening(wishes)
    port = listener.getsockname()[1]
    keys = Keys(wishes.token)
    with listener:
        async with Host(
            setup,
            journal,
            limits=limits,
            policy=policy,
            most_running=wishes.running,
            most_queued=wishes.queued,
            say=say,
            name=_NAME,
        ) as host:
            state = State(
                host=host,
                keys=keys,
                rates=Rates(wishes.rate),
                hosts=served_hosts(wishes, port),
                proxies=wishes.proxies,
                library=lambda: open_library(wishes.plans),
                bounds=wishes.bounds,
            )
            config = uvicorn.Config(
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
            server = _Server(config)
            server.stopping = state.stopping
            shown = wishes.address if wishes.address not in _EVERYWHERE else "127.0.0.1"
            host_name = f"[{shown}]" if ":" in shown else shown
            code = None if keys.is_open else keys.new_code()
            if wishes.revives:
                _tell(await host.revive(), say)
            server.on_started = lambda: on_ready(
                Serving(f"http://{host_name}:{port}", code, server, host.veil)
            )
            try:
                await server.serve(sockets=[listener])
            finally:
                await host.close(wishes.drain)


def _tell(left: LeftRuns, say: Callable[[str], None]) -> None:
    count = len(left.interrupted)
    if count:
        say(f"resuming {count} run{'s' * (count != 1)} of the previous server")
    for run_id in left.given_up[:_MOST_SAID]:
        say(f"run {run_id} is not resumed: the server died {MAX_ATTEMPTS} times while running it [API050]")
    if len(left.given_up) > _MOST_SAID:
        say(f"and {len(left.given_up) - _MOST_SAID} others, listed by callsheet runs as interrupted")


class _Server(uvicorn.Server):
    """A server that says when it listens."""

    on_started: Callable[[], None]
    stopping: asyncio.Event

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Let streams end, then all connections."""
        self.stopping.set()
        await super().shutdown(sockets)

    @contextmanager
    def capture_signals(self) -> Generator[None]:
        """Stop at SIGINT and SIGTERM, and raise neither again: runs under way are still to be seen to."""
        if threading.current_thread() is threading.main_thread():
            loop = asyncio.get_running_loop()
            for number in (signal.SIGINT, signal.SIGTERM):
                loop.add_signal_handler(number, self.stop)
        yield

    def stop(self) -> None:
        """Serve no more."""
        self.should_exit = True

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to listen, and say so."""
        await super().startup(sockets)
        if self.started:
            self.on_started()
