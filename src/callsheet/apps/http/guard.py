"""ASGI middleware that checks host, origin, rate and keys, and sets headers on every response.

In: an ASGI application. Out: the guarded application. A foreign web page may make a browser send requests
here, but it cannot choose the `Host`, hide its `Origin`, or know the token.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, MutableMapping
from typing import Any

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import cookie_parser
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from callsheet.apps.http.clients import AuthMethod, client_of
from callsheet.apps.http.people import Person
from callsheet.apps.http.problems import Problem, problem_of
from callsheet.apps.http.state import State

API = "/v1/"
AUTH_METHOD = "callsheet.entry"
"""The key in the scope of a request that says how it was authenticated."""
PERSON = "callsheet.person"
"""The key in the scope of a request that says who sent it."""
WRITES_HEADER = "x-callsheet"
"""The header that the viewer sends with changes; pages of other sites cannot send it."""
_READS = frozenset({"GET", "HEAD", "OPTIONS"})
_MOST_HEAD = 16 * 1024
SECURITY = {
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
    "cache-control": "no-store",
    "content-security-policy": "default-src 'none'; frame-ancestors 'none'",
}
"""The headers of every response."""


def cookie_name(host: str) -> str:
    """The name of a server's cookie; includes the port, since all ports of a host share cookies."""
    port = host.rpartition(":")[2]
    return f"callsheet_{port}" if port.isascii() and port.isdigit() else "callsheet"


class Guard:
    """The guard of an application; `is_open` tells whether a method and a path need no authentication."""

    def __init__(self, app: ASGIApp, state: State, is_open: Callable[[str, str], bool]) -> None:
        self._app = app
        self._state = state
        self._is_open = is_open

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or answer with the reason for refusing it."""
        if scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})
            return
        if scope["type"] != "http":
            return
        self._resolve_client(scope)

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in SECURITY.items():
                    headers.setdefault(name, value)
                if "server" in headers:
                    del headers["server"]
            await send(message)

        try:
            self._check(scope)
        except Problem as problem:
            await problem_of(problem)(scope, receive, send_guarded)
            return
        try:
            await self._app(scope, receive, send_guarded)
        except asyncio.CancelledError:
            if not self._state.stopping.is_set():
                raise

    def _resolve_client(self, scope: Scope) -> None:
        """Set the client to the one that a trusted proxy names."""
        if self._state.proxies:
            peer, port = scope.get("client") or ("", 0)
            forwarded = Headers(scope=scope).getlist("x-forwarded-for")
            scope["client"] = (client_of(str(peer), forwarded, self._state.proxies), port)

    def _check(self, scope: MutableMapping[str, Any]) -> None:
        """Raise Problem for a request that is refused."""
        headers, method, path = Headers(scope=scope), str(scope["method"]), str(scope["path"])
        if sum(len(name) + len(value) for name, value in headers.raw) + len(_target(scope)) > _MOST_HEAD:
            raise Problem("API005", f"the head of the request is larger than {_MOST_HEAD:,} bytes")
        host = self._host(headers)
        self._check_origin(headers, host, method, path)
        client = str((scope.get("client") or ("",))[0])
        wait = self._state.rates.wait(client)
        if wait:
            raise too_many(wait)
        if path.startswith(API) and not self._is_open(method, path):
            scope[AUTH_METHOD], scope[PERSON] = self._authenticate(headers, host, method, client)

    def _host(self, headers: Headers) -> str:
        given = headers.getlist("host")
        host = given[0].strip().lower() if len(given) == 1 else ""
        name = host if host.endswith("]") else host.rpartition(":")[0] or host
        if not host or (host not in self._state.hosts and name not in self._state.hosts):
            hint = "use the address that callsheet serve printed, or allow this host: --allow-host"
            raise Problem("API002", f"this server does not serve {host[:100]!a}", hint)
        return host

    def _check_origin(self, headers: Headers, host: str, method: str, path: str) -> None:
        """Refuse requests of other sites' pages, except following a link to the viewer."""
        origin = headers.get("origin")
        if origin is not None:
            scheme, _, named = origin.strip().lower().partition("://")
            if scheme not in ("http", "https") or named != host:
                raise Problem("API003", f"pages of {origin[:100]!a} are refused", "there is no CORS")
        site = headers.get("sec-fetch-site", "same-origin").strip().lower()
        is_link = method == "GET" and not path.startswith(API)
        if site not in ("same-origin", "none") and not is_link:
            raise Problem("API003", "requests from pages of other sites are refused", "there is no CORS")

    def _authenticate(
        self, headers: Headers, host: str, method: str, client: str
    ) -> tuple[AuthMethod, Person]:
        keys = self._state.keys
        if keys.is_open:
            return AuthMethod.OPEN, keys.operator
        scheme, _, token = headers.get("authorization", "").strip().partition(" ")
        if scheme.lower() == "bearer" and (person := keys.person_of_token(token.strip())) is not None:
            return AuthMethod.TOKEN, person
        cookie = session_of(headers, host)
        if not scheme and cookie and (person := keys.person_of_session(cookie)) is not None:
            if method not in _READS and not headers.get(WRITES_HEADER):
                raise Problem("API014", "a browser needs the header X-Callsheet for this method")
            return AuthMethod.COOKIE, person
        text = "this request has a wrong token" if scheme or cookie else "this request has no token"
        raise self.refusal(client, Problem("API001", text, _SIGN_IN, {"WWW-Authenticate": _CHALLENGE}))

    def refusal(self, client: str, problem: Problem) -> Problem:
        """The error for a missing or wrong key; after many wrong ones, one that tells how long to wait."""
        wait = self._state.guesses.wait(client)
        return too_many(wait) if wait else problem


_CHALLENGE = 'Bearer realm="callsheet"'
_SIGN_IN = "send the token that callsheet serve printed: Authorization: Bearer …"


def _target(scope: MutableMapping[str, Any]) -> bytes:
    return bytes(scope.get("raw_path") or b"") + bytes(scope.get("query_string") or b"")


def session_of(headers: Headers, host: str) -> str:
    """The session that a request's cookie names; empty for none."""
    return cookie_parser(headers.get("cookie", "")).get(cookie_name(host), "")


def too_many(wait: float) -> Problem:
    """The error for a client that has to wait so many seconds."""
    seconds = max(1, math.ceil(wait))
    headers = {"Retry-After": str(seconds)}
    return Problem("API006", f"too many requests: the next one is accepted in {seconds} s", headers=headers)
