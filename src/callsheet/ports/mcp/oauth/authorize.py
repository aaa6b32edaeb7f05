"""The authorization code flow: from a URL for the browser to a login.

In: a server, and the parameters with which the browser returns. Out: the authorization URL (with PKCE, a
state, and the resource for the token), then the login. Opening the URL and receiving the parameters are
done elsewhere.
"""

from __future__ import annotations

import asyncio
import secrets
import socket
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from urllib.parse import parse_qs, urlencode, urlsplit, urlunsplit

import httpx2
from mcp.client.auth import OAuthFlowError, PKCEParameters
from mcp.client.auth.utils import validate_authorization_response_iss
from mcp_types import LATEST_PROTOCOL_VERSION

from callsheet.diagnostics import CallsheetError
from callsheet.ports.mcp.oauth.clients import Denied, client_for, tokens_for
from callsheet.ports.mcp.oauth.discovery import AuthorizationServer, Guard, discover
from callsheet.ports.mcp.oauth.file import Client, Login
from callsheet.ports.mcp.oauth.login_errors import (
    no_login,
    not_safe,
    other_issuer,
    plain,
    refused,
    unusable,
    wrong_answer,
)
from callsheet.ports.mcp.servers import HttpServer, is_safe


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingLogin:
    """A login that has been started. `address` is the URL to open in a browser."""

    name: str
    url: str
    address: str = field(repr=False)
    state: str = field(repr=False)
    verifier: str = field(repr=False)
    redirect_uri: str
    authorization_server: AuthorizationServer
    client: Client
    scope: str

    @property
    def issuer(self) -> str:
        """The authorization server at which the person logs in."""
        return self.authorization_server.issuer


async def begin(
    name: str, server: HttpServer, guard: Guard, redirect_uri: str, *, before: str = "", scope: str = ""
) -> PendingLogin:
    """Discover the authorization server, and build the URL for the login.

    `before` is the issuer of the existing login: a different one is refused (TOL040). `scope` overrides the
    scope that the server asks for. Raises CallsheetError (TOL032 to TOL034, TOL038 to TOL041).
    """
    if not is_safe(server.url):
        raise not_safe(name)
    rules = server.oauth
    refusal = await guard.send(_knock(server))
    if refusal.is_success:
        raise no_login(name, "does not ask for a login", "it can be used without one")
    issuer = await discover(name, server.url, guard, refusal, rules.issuer)
    if issuer is None:
        raise _offers_no_login(name, refusal)
    if before and before != issuer.issuer:
        raise other_issuer(name, before, issuer.issuer)
    if "S256" not in (issuer.metadata.code_challenge_methods_supported or ()):
        raise unusable(name, f"its authorization server {plain(issuer.issuer)} does not support PKCE (S256)")
    wanted = scope or rules.scope or issuer.scope
    try:
        client = await client_for(name, rules, issuer, guard, redirect_uri, wanted)
    except CallsheetError:
        if issuer.is_assumed:
            raise _offers_no_login(name, refusal) from None
        raise
    pair, state = PKCEParameters.generate(), secrets.token_urlsafe(32)
    query = {
        "response_type": "code",
        "client_id": client.id,
        "redirect_uri": redirect_uri,
        "state": state,
        "code_challenge": pair.code_challenge,
        "code_challenge_method": "S256",
        "resource": issuer.resource,
        **({"scope": wanted} if wanted else {}),
        **({"prompt": "consent"} if "offline_access" in wanted.split() else {}),
    }
    return PendingLogin(
        name=name,
        url=server.url,
        address=_with_query(str(issuer.metadata.authorization_endpoint), query),
        state=state,
        verifier=pair.code_verifier,
        redirect_uri=redirect_uri,
        authorization_server=issuer,
        client=client,
        scope=wanted,
    )


async def finish(begun: PendingLogin, guard: Guard, given: Mapping[str, str]) -> Login:
    """Exchange the parameters that the browser returned with for a login.

    Raises CallsheetError: TOL035 if they do not belong to this login or come from another issuer, TOL034 if
    the authorization server refuses.
    """
    name, issuer = begun.name, begun.authorization_server
    if not secrets.compare_digest(given.get("state", "").encode(), begun.state.encode()):
        raise wrong_answer(name, "belongs to another login (its state differs)")
    try:
        validate_authorization_response_iss(given.get("iss"), issuer.metadata)
    except OAuthFlowError:
        raise wrong_answer(name, "is from another authorization server (its iss differs)") from None
    if "error" in given:
        denied = Denied(plain(given["error"])[:60], plain(given.get("error_description", "")))
        raise refused(name, issuer.issuer, str(denied))
    if not given.get("code"):
        raise wrong_answer(name, "has no code")
    form = {
        "grant_type": "authorization_code",
        "code": given["code"],
        "redirect_uri": begun.redirect_uri,
        "code_verifier": begun.verifier,
        "resource": issuer.resource,
    }
    endpoint = str(issuer.metadata.token_endpoint)
    try:
        tokens = await tokens_for(guard, name, issuer.issuer, endpoint, begun.client, form)
    except Denied as error:
        raise refused(name, issuer.issuer, str(error)) from None
    revocation = issuer.metadata.revocation_endpoint
    return Login(
        server=name,
        url=begun.url,
        resource=issuer.resource,
        issuer=issuer.issuer,
        token_endpoint=endpoint,
        revocation_endpoint="" if revocation is None else str(revocation),
        client=begun.client,
        tokens=tokens,
    )


def _offers_no_login(name: str, refusal: httpx2.Response) -> CallsheetError:
    return no_login(
        name,
        f"does not offer a login: it answers with status {refusal.status_code}",
        "check the address; if the server takes a key, configure it as a header",
    )


def _knock(server: HttpServer) -> httpx2.Request:
    """A request that makes a server say how to log in."""
    headers = {
        **server.headers,
        "Accept": "application/json, text/event-stream",
        "MCP-Protocol-Version": LATEST_PROTOCOL_VERSION,
    }
    if server.sse:
        return httpx2.Request("GET", server.url, headers=headers)
    return httpx2.Request(
        "POST", server.url, headers=headers, json={"jsonrpc": "2.0", "id": 1, "method": "ping"}
    )


def _with_query(endpoint: str, asked: Mapping[str, str]) -> str:
    """A URL with parameters added to those that it has."""
    parts = urlsplit(endpoint)
    query = f"{parts.query}&{urlencode(asked)}" if parts.query else urlencode(asked)
    return urlunsplit(parts._replace(query=query, fragment=""))


HOST = "127.0.0.1"
PATH = "/callback"
_MOST_BYTES = 16 * 1024
_SECONDS = 10.0
_MOST_AT_ONCE = 20
_HEADERS = (
    "Content-Type: text/plain; charset=utf-8\r\nCache-Control: no-store\r\nReferrer-Policy: no-referrer\r\n"
    "Content-Security-Policy: default-src 'none'\r\nX-Content-Type-Options: nosniff\r\nConnection: close\r\n"
)
_DONE = "You can close this page: callsheet has received the answer, and shows the result in its terminal.\n"
_NO = "This is not the answer that callsheet is waiting for.\n"


def redirect_uri(port: int) -> str:
    """The URL to which the browser is redirected."""
    return f"http://{HOST}:{port}{PATH}"


def bound(port: int = 0) -> socket.socket:
    """A listening socket on the loopback interface, on this port or any free one (0); raises OSError."""
    return socket.create_server((HOST, port), reuse_port=False)


def parameters(url: str) -> dict[str, str]:
    """The query parameters of a redirect URL; repeated ones are left out."""
    values_of = parse_qs(urlsplit(url).query, keep_blank_values=True, max_num_fields=50)
    return {name: values[0] for name, values in values_of.items() if len(values) == 1}


class Waiting:
    """Waits for the request with this state."""

    def __init__(self, state: str, port: int) -> None:
        self._state = state
        self._hosts = {f"{HOST}:{port}", f"localhost:{port}"}
        self._busy = 0
        self._answer: asyncio.Future[Mapping[str, str]] = asyncio.get_running_loop().create_future()

    async def answer(self, seconds: float) -> Mapping[str, str]:
        """The parameters of the redirect; raises TimeoutError after `seconds`."""
        async with asyncio.timeout(seconds):
            return await asyncio.shield(self._answer)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one request."""
        self._busy += 1
        try:
            if self._busy <= _MOST_AT_ONCE:
                async with asyncio.timeout(_SECONDS):
                    head = await reader.readuntil(b"\r\n\r\n")
                    status, text = self._judge(head.decode("latin-1"))
                    body = text.encode()
                    line = f"HTTP/1.1 {status}\r\n{_HEADERS}Content-Length: {len(body)}\r\n\r\n"
                    writer.write(line.encode() + body)
                    await writer.drain()
        except (TimeoutError, ConnectionError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass  # incomplete requests get no answer
        finally:
            self._busy -= 1
            writer.close()

    def _judge(self, head: str) -> tuple[str, str]:
        """The status and text of the response to a request; accepts the one with the right state."""
        first, *lines = head.split("\r\n")
        method, _, rest = first.partition(" ")
        target = rest.rpartition(" ")[0]
        hosts = [line.partition(":")[2].strip().lower() for line in lines if line[:5].lower() == "host:"]
        if len(hosts) != 1 or hosts[0] not in self._hosts:
            return "421 Misdirected Request", _NO
        if method != "GET":
            return "405 Method Not Allowed", _NO
        try:
            given = parameters(target)
        except ValueError:
            return "400 Bad Request", _NO
        if target.partition("?")[0] != PATH:
            return "404 Not Found", _NO
        if not secrets.compare_digest(given.get("state", "").encode(), self._state.encode()):
            return "400 Bad Request", _NO
        if not self._answer.done():
            self._answer.set_result(given)
        return "200 OK", _DONE


@asynccontextmanager
async def listening(listener: socket.socket, state: str) -> AsyncGenerator[Waiting]:
    """Serve on a socket, closed at the end, until the context is left."""
    waiting = Waiting(state, listener.getsockname()[1])
    server = await asyncio.start_server(waiting.serve, sock=listener, limit=_MOST_BYTES)
    try:
        yield waiting
    finally:
        server.close()
