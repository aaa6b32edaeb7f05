"""Requests to a token endpoint: for a code, a refresh token, credentials of a machine; and revocation.

In: who asks, and what for. Out: tokens; or CallsheetError (TOL034) with the short word of the authorization
server. Each request says for which resource a token is to count.
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
from callsheet.ports.mcp.oauth.records import Client, Login, Tokens
from callsheet.ports.mcp.oauth.troubles import plain, refused

_EARLY = 30.0
"""Seconds before its end from which a token is not used any more."""
_CODE = re.compile(r"[a-z_]{1,60}")
_GONE = frozenset({"invalid_grant", "invalid_client", "unauthorized_client"})


class Denied(Exception):
    """An authorization server's no: its code, and what it says beside it."""

    def __init__(self, code: str, words: str) -> None:
        self.code = code
        super().__init__(f"says {code}{f': {words}' if words else ''}")

    @property
    def is_final(self) -> bool:
        """Whether what was shown counts no more, so that only a new login helps."""
        return self.code in _GONE


def denial(response: httpx2.Response) -> Denied:
    """What an answer that is an error says; only its own words for errors, never the rest of it."""
    try:
        said: Any = read_json(response.text)
    except (NotJson, ValueError):
        said = None
    told = cast("dict[str, Any]", said) if isinstance(said, dict) else {}
    code, words = told.get("error"), told.get("error_description")
    if not isinstance(code, str) or not _CODE.fullmatch(code):
        return Denied(f"HTTP {response.status_code}", "")
    return Denied(code, plain(words) if isinstance(words, str) else "")


async def tokens_for(
    guard: Guard, name: str, issuer: str, endpoint: str, client: Client, form: Mapping[str, str]
) -> Tokens:
    """The tokens that a token endpoint gives for a form.

    Raises Denied for a no of the authorization server, CallsheetError (TOL034) for an answer without a token.
    """
    response = await guard.send(_as(client, endpoint, form))
    if response.status_code not in (200, 201):
        raise denial(response)
    try:
        token = OAuthToken.model_validate_json(response.content)
    except ValidationError:
        token = None  # its words hold what came, a token perhaps
    if token is None or not _is_sendable(token.access_token):
        raise refused(name, issuer, "answers with no token")
    ends = None if token.expires_in is None else time.time() + _usable_for(token.expires_in)
    return Tokens(
        access=token.access_token, refresh=token.refresh_token or "", ends=ends, scope=token.scope or ""
    )


def _usable_for(seconds: int) -> float:
    """How long a token is used that counts for so long: it may not end on its way."""
    return seconds - min(_EARLY, seconds / 4)


async def refreshed(guard: Guard, login: Login) -> Tokens:
    """New tokens in the place of those of a login; raises as `tokens_for` does."""
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
    """Tell the authorization server that the login is over; whether it says that it heard."""
    token = login.tokens.refresh or login.tokens.access
    form = {"token": token, "client_secret": ""}  # empty counts as left out, and some servers insist on it
    response = await guard.send(_as(login.client, login.revocation_endpoint, form))
    return response.status_code == 200


def _is_sendable(token: str) -> bool:
    """Whether a token can stand in a header."""
    return bool(token) and token.isascii() and token.isprintable() and " " not in token


def _as(client: Client, endpoint: str, form: Mapping[str, str]) -> httpx2.Request:
    """A form that is sent as a client; its secret stands in the header or in the form, as was agreed on."""
    headers: dict[str, str] = {"Accept": "application/json"}
    sent = {**form, "client_id": client.id}
    if client.method == "client_secret_basic":
        pair = f"{quote(client.id, safe='')}:{quote(client.secret, safe='')}"
        headers["Authorization"] = f"Basic {base64.b64encode(pair.encode()).decode()}"
    elif client.method == "client_secret_post":
        sent["client_secret"] = client.secret
    return httpx2.Request("POST", endpoint, data=sent, headers=headers)
