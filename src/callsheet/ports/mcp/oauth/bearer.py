"""Adds the access token to requests to its server, and to no others.

A request that is refused for its token is repeated once with a new token. If that is refused too, the
response is returned, and the reason is noted for whoever opens the session and for the call that sent it.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable

import httpx2
from mcp.client.auth.utils import extract_field_from_www_auth, extract_scope_from_www_auth

from callsheet.diagnostics import CallsheetError
from callsheet.ports.mcp.oauth.login_errors import login_over, scope_missing
from callsheet.ports.mcp.oauth.request_errors import note
from callsheet.ports.mcp.oauth.sources import TokenSource

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
