"""Requests to a token endpoint (code, refresh token, client credentials), and revocation.

In: the client and the grant. Out: tokens; or CallsheetError (TOL034) with the authorization server's error.
Requests for tokens name the resource that the token is for.
"""

from __future__ import annotations

import base64
import re
import time
from collections.abc import Mapping
from typing import Any, cast
from urllib.parse import quote

import httpx2
from mcp.shared.auth import OAuthToken
from pydantic import ValidationError

from callsheet.ir.strict_json import NotJson, read_json
from callsheet.ports.mcp.oauth.guard import Guard
from callsheet.ports.mcp.oauth.login_errors import plain, refused
from callsheet.ports.mcp.oauth.records import Client, Login, Tokens

_EARLY = 30.0
"""Seconds before its expiry from which a token is no longer used."""
_CODE = re.compile(r"[a-z_]{1,60}")
_GONE = frozenset({"invalid_grant", "invalid_client", "unauthorized_client"})


class Denied(Exception):
    """An error response of an authorization server: its code and description."""

    def __init__(self, code: str, words: str) -> None:
        self.code = code
        super().__init__(f"says {code}{f': {words}' if words else ''}")

    @property
    def is_final(self) -> bool:
        """Whether the grant is no longer valid, so that only a new login helps."""
        return self.code in _GONE


def denial(response: httpx2.Response) -> Denied:
    """The OAuth error in a response; nothing else of the response is shown."""
    try:
        data: Any = read_json(response.text)
    except (NotJson, ValueError):
        data = None
    fields = cast("dict[str, Any]", data) if isinstance(data, dict) else {}
    code, words = fields.get("error"), fields.get("error_description")
    if not isinstance(code, str) or not _CODE.fullmatch(code):
        return Denied(f"HTTP {response.status_code}", "")
    return Denied(code, plain(words) if isinstance(words, str) else "")


async def tokens_for(
    guard: Guard, name: str, issuer: str, endpoint: str, client: Client, form: Mapping[str, str]
) -> Tokens:
    """Request tokens from a token endpoint with a form.

    Raises Denied for an OAuth error, CallsheetError (TOL034) for a response without a usable token.
    """
    response = await guard.send(_as(client, endpoint, form))
    if response.status_code not in (200, 201):
        raise denial(response)
    try:
        token = OAuthToken.model_validate_json(response.content)
    except ValidationError:
        token = None  # its text contains the response, perhaps with a token
    if token is None or not _is_sendable(token.access_token):
        raise refused(name, issuer, "answers without a token")
    ends = None if token.expires_in is None else time.time() + _usable_for(token.expires_in)
    return Tokens(
        access=token.access_token, refresh=token.refresh_token or "", ends=ends, scope=token.scope or ""
    )


def _usable_for(seconds: int) -> float:
    """How many seconds a token with this lifetime is used, so that it does not expire in transit."""
    return seconds - min(_EARLY, seconds / 4)


async def refreshed(guard: Guard, login: Login) -> Tokens:
    """New tokens for a login, from its refresh token; raises as `tokens_for` does."""
    form = {
        "grant_type": "refresh_token",
        "refresh_token": login.tokens.refresh,
        "resource": login.resource,
    }
    new = await tokens_for(guard, login.server, login.issuer, login.token_endpoint, login.client, form)
    return Tokens(
        access=new.access,
        refresh=new.refresh or login.tokens.refresh,
        ends=new.ends,
        scope=new.scope or login.tokens.scope,
    )


async def revoke(guard: Guard, login: Login) -> bool:
    """Revoke a login at the authorization server; whether the server confirmed it."""
    token = login.tokens.refresh or login.tokens.access
    form = {"token": token, "client_secret": ""}  # counts as absent, but some servers insist on it
    response = await guard.send(_as(login.client, login.revocation_endpoint, form))
    return response.status_code == 200


def _is_sendable(token: str) -> bool:
    """Whether a token can be sent in a header."""
    return bool(token) and token.isascii() and token.isprintable() and " " not in token


def _as(client: Client, endpoint: str, form: Mapping[str, str]) -> httpx2.Request:
    """A request with a form, authenticated as the client by header or form field, as registered."""
    headers: dict[str, str] = {"Accept": "application/json"}
    sent = {**form, "client_id": client.id}
    if client.method == "client_secret_basic":
        pair = f"{quote(client.id, safe='')}:{quote(client.secret, safe='')}"
        headers["Authorization"] = f"Basic {base64.b64encode(pair.encode()).decode()}"
    elif client.method == "client_secret_post":
        sent["client_secret"] = client.secret
    return httpx2.Request("POST", endpoint, data=sent, headers=headers)
