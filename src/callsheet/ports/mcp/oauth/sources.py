"""Provides a run's access tokens: from a stored login, renewed when it expires, or for a machine.

In: a server, and its refusal of a request. Out: a token, or CallsheetError saying what a person has to do.
A run never asks a person or opens a browser. If several requests are refused at once, only one renews the
token, even across processes, because a refresh token may be valid only once.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Generator, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from typing import Protocol

import httpx2
from mcp.client.auth.utils import extract_field_from_www_auth, extract_scope_from_www_auth

from callsheet.diagnostics import CallsheetError
from callsheet.ports.mcp.oauth.clients import Denied, refreshed, registered_by_hand, tokens_for
from callsheet.ports.mcp.oauth.discovery import Guard, discover
from callsheet.ports.mcp.oauth.file import Login, LoginFile, Tokens
from callsheet.ports.mcp.oauth.login_errors import (
    login_needed,
    login_over,
    not_safe,
    refused,
    scope_missing,
    unusable,
)
from callsheet.ports.mcp.servers import Grant, HttpServer, OAuthRules, is_safe


class TokenSource(Protocol):
    """Provides the tokens for one server."""

    async def token(self) -> str | None:
        """The token for the first request; None to send it without one."""
        ...

    async def renewed(self, worthless: str | None, refusal: httpx2.Response) -> str:
        """A token other than the one that the server refused; raises CallsheetError if there is none."""
        ...

    def secrets(self) -> Iterator[str]:
        """All tokens given out so far, and the secrets used to get them."""
        ...


def source_for(name: str, server: HttpServer, logins: LoginFile | None) -> TokenSource | None:
    """The source of tokens for a server; None if an Authorization header is configured."""
    if any(header.lower() == "authorization" for header in server.headers):
        return None
    if not is_safe(server.url):
        return NoTokens(name)
    if server.oauth.grant is Grant.CLIENT_CREDENTIALS:
        return MachineTokens(name, server.url, server.oauth)
    return KeptTokens(name, server.url, server.oauth, logins)


class NoTokens:
    """The source for a server whose connection is not encrypted: no token is ever sent."""

    def __init__(self, name: str) -> None:
        self._name = name

    async def token(self) -> str | None:
        """As TokenSource has it."""
        return None

    async def renewed(self, worthless: str | None, refusal: httpx2.Response) -> str:
        """As TokenSource has it."""
        raise not_safe(self._name)

    def secrets(self) -> Iterator[str]:
        """As TokenSource has it."""
        return iter(())


class KeptTokens:
    """The tokens of a person's login, from the file of logins."""

    def __init__(self, name: str, url: str, rules: OAuthRules, logins: LoginFile | None) -> None:
        self._name = name
        self._url = url
        self._rules = rules
        self._logins = logins
        self._login: Login | None = None
        self._was_read = False
        self._lock = asyncio.Lock()
        self._given: dict[str, None] = {}

    async def token(self) -> str | None:
        """As TokenSource has it."""
        login = self._login
        if login is None and self._was_read:
            return None
        if login is None or login.tokens.is_over(time.time()):
            async with self._lock:
                login = await self._usable(None)
        return None if login is None else login.tokens.access

    async def renewed(self, worthless: str | None, refusal: httpx2.Response) -> str:
        """As TokenSource has it."""
        async with self._lock:
            login = await self._usable(worthless)
        if login is None:
            raise login_needed(self._name)
        return login.tokens.access

    def secrets(self) -> Iterator[str]:
        """As TokenSource has it."""
        return iter(tuple(self._given))

    async def _usable(self, worthless: str | None) -> Login | None:
        """The login with a token that has not expired and is not `worthless`; None if there is no login."""
        if self._logins is None:
            return None
        login = self._login
        if login is None or not _is_good(login.tokens, worthless):
            login = await self._kept(self._logins)
        if login is not None and not _is_good(login.tokens, worthless):
            async with self._logins.locked():
                login = await self._kept(self._logins)  # another process may have renewed it
                if login is not None and not _is_good(login.tokens, worthless):
                    login = await self._refreshed(login)
                    self._logins.put(login)
        self._login = login
        return login

    async def _kept(self, logins: LoginFile) -> Login | None:
        login = await asyncio.to_thread(logins.get, self._name)
        self._was_read = True
        if login is None or login.url != self._url:
            return None  # a token for another URL must not be sent to this one
        self._know(login)
        return login

    async def _refreshed(self, login: Login) -> Login:
        if not login.tokens.refresh:
            raise login_over(self._name, "it has ended")
        async with await Guard.of(self._name, self._url, self._rules.issuer) as guard:
            try:
                tokens = await refreshed(guard, login)
            except Denied as error:
                if error.is_final:
                    raise login_over(self._name, f"its authorization server {error}") from None
                raise refused(self._name, login.issuer, str(error)) from None
        renewed = replace(login, tokens=tokens)
        self._know(renewed)
        return renewed

    def _know(self, login: Login) -> None:
        self._given |= dict.fromkeys(login.secrets())


class MachineTokens:
    """Tokens for a machine's own credentials; they are kept in this process only."""

    def __init__(self, name: str, url: str, rules: OAuthRules) -> None:
        self._name = name
        self._url = url
        self._rules = rules
        self._tokens: Tokens | None = None
        self._lock = asyncio.Lock()
        self._given: dict[str, None] = {}

    async def token(self) -> str | None:
        """As TokenSource has it."""
        tokens = self._tokens
        if tokens is None:
            return None
        if tokens.is_over(time.time()):
            return await self._new(tokens.access, None)
        return tokens.access

    async def renewed(self, worthless: str | None, refusal: httpx2.Response) -> str:
        """As TokenSource has it."""
        return await self._new(worthless, refusal)

    def secrets(self) -> Iterator[str]:
        """As TokenSource has it."""
        return iter(tuple(self._given))

    async def _new(self, worthless: str | None, refusal: httpx2.Response | None) -> str:
        async with self._lock:
            if self._tokens is None or not _is_good(self._tokens, worthless):
                self._tokens = await self._asked_for(refusal)
            return self._tokens.access

    async def _asked_for(self, refusal: httpx2.Response | None) -> Tokens:
        rules = self._rules
        async with await Guard.of(self._name, self._url, rules.issuer) as guard:
            issuer = await discover(self._name, self._url, guard, refusal, rules.issuer)
            client = None if issuer is None else registered_by_hand(self._name, rules, issuer.metadata)
            if issuer is None or client is None:
                raise unusable(self._name, "it names no authorization server")
            self._given[client.secret] = None
            form = {"grant_type": "client_credentials", "resource": issuer.resource}
            if scope := rules.scope or issuer.scope:
                form["scope"] = scope
            endpoint = str(issuer.metadata.token_endpoint)
            try:
                tokens = await tokens_for(guard, self._name, issuer.issuer, endpoint, client, form)
            except Denied as error:
                hint = "check that client_id, client_secret and scope are those that it knows"
                raise refused(self._name, issuer.issuer, str(error), hint) from None
        self._given[tokens.access] = None
        return tokens


def _is_good(tokens: Tokens, worthless: str | None) -> bool:
    return tokens.access != worthless and not tokens.is_over(time.time())


_OF_CALL: ContextVar[list[CallsheetError] | None] = ContextVar("callsheet_login_troubles", default=None)


def note(trouble: CallsheetError) -> None:
    """Report a login error to the call in whose context this runs, if there is one."""
    noted = _OF_CALL.get()
    if noted is not None:
        noted.append(trouble)


@contextmanager
def troubles() -> Generator[list[CallsheetError]]:
    """Collect the login errors of requests sent in this context."""
    noted: list[CallsheetError] = []
    token = _OF_CALL.set(noted)
    try:
        yield noted
    finally:
        _OF_CALL.reset(token)


_UNAUTHORIZED, _FORBIDDEN = 401, 403


class Bearer(httpx2.Auth):
    """Authenticates requests to the origin of `url`; `on_trouble` is told why it failed."""

    def __init__(
        self, name: str, url: str, source: TokenSource, on_trouble: Callable[[CallsheetError], None]
    ) -> None:
        self._name = name
        self._home = _origin(httpx2.URL(url))
        self._source = source
        self._on_trouble = on_trouble

    async def async_auth_flow(
        self, request: httpx2.Request
    ) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        """Send the request with a token, and once more with a new one if that is refused."""
        if _origin(request.url) != self._home:
            yield request
            return
        try:
            token = await self._source.token()
        except CallsheetError as error:
            self._note(error)
            yield request  # the server may answer even without a token
            return
        response = yield _signed(request, token)
        if response.status_code == _UNAUTHORIZED:
            try:
                token = await self._source.renewed(token, response)
            except CallsheetError as error:
                self._note(error)
                return
            response = yield _signed(request, token)
            if response.status_code == _UNAUTHORIZED:
                self._note(login_over(self._name, "it refuses a new token"))
        asks_for_more = extract_field_from_www_auth(response, "error") == "insufficient_scope"
        if response.status_code == _FORBIDDEN and asks_for_more:
            self._note(scope_missing(self._name, extract_scope_from_www_auth(response) or ""))

    def _note(self, trouble: CallsheetError) -> None:
        self._on_trouble(trouble)
        note(trouble)


def _origin(url: httpx2.URL) -> tuple[str, str, int | None]:
    return url.scheme, url.host, url.port


def _signed(request: httpx2.Request, token: str | None) -> httpx2.Request:
    if token is not None:
        request.headers["Authorization"] = f"Bearer {token}"
    return request
