"""Determines our OAuth client: registered manually, described by a metadata document, or self-registered.

In: the operator's settings and the server's metadata. Out: a client, or CallsheetError (TOL032, TOL034,
TOL038).
"""

from __future__ import annotations

import base64
import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast
from urllib.parse import quote

import httpx2
from mcp.client.auth import OAuthFlowError
from mcp.client.auth.oauth2 import check_registration_usable
from mcp.client.auth.utils import (
    create_client_registration_request,
    handle_registration_response,
    should_use_client_metadata_url,
)
from mcp.shared.auth import OAuthClientMetadata, OAuthMetadata, OAuthToken
from pydantic import AnyUrl, ValidationError

from callsheet import lazy
from callsheet.ir.strict_json import NotJson, read_json
from callsheet.ports.mcp.oauth.discovery import AuthorizationServer, Guard
from callsheet.ports.mcp.oauth.file import Client, Login, Tokens
from callsheet.ports.mcp.oauth.login_errors import no_secret, plain, refused, unusable
from callsheet.ports.mcp.servers import OAuthRules

_EARLY = 30.0
"""Seconds before its expiry from which a token is no longer used."""
_CODE = lazy.pattern(r"[a-z_]{1,60}")
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


_MOST_BYTES = 10_000
_BASIC, _POST = "client_secret_basic", "client_secret_post"
_BY_HAND = 'register callsheet there by hand, and put its "client_id" into the configuration of the server'


def registered_by_hand(name: str, rules: OAuthRules, metadata: OAuthMetadata) -> Client | None:
    """The client in the configuration; None if there is none. Raises CallsheetError (TOL038)."""
    if not rules.client_id:
        return None
    if not rules.client_secret:
        return Client(id=rules.client_id)
    methods: Sequence[str] = metadata.token_endpoint_auth_methods_supported or (_BASIC,)
    method = _BASIC if _BASIC in methods or _POST not in methods else _POST
    return Client(id=rules.client_id, secret=client_secret(name, rules.client_secret), method=method)


async def client_for(
    name: str, rules: OAuthRules, issuer: AuthorizationServer, guard: Guard, redirect_uri: str, scope: str
) -> Client:
    """The client for a person's login, redirected to `redirect_uri`.

    It is the configured one, or the one with a metadata document, else it registers itself dynamically.
    Raises CallsheetError if the authorization server does not allow that.
    """
    by_hand = registered_by_hand(name, rules, issuer.metadata)
    if by_hand is not None:
        return by_hand
    if should_use_client_metadata_url(issuer.metadata, rules.client_metadata_url or None):
        return Client(id=rules.client_metadata_url)
    if issuer.metadata.registration_endpoint is None:
        raise unusable(name, "its authorization server does not support dynamic registration", _BY_HAND)
    wanted = OAuthClientMetadata(
        redirect_uris=[AnyUrl(redirect_uri)],
        client_name="callsheet",
        token_endpoint_auth_method="none",
        scope=scope or None,
    )
    request = create_client_registration_request(issuer.metadata, wanted, issuer.issuer)
    response = await guard.send(request)
    if response.status_code not in (200, 201):
        raise refused(name, issuer.issuer, f"does not register callsheet: it {denial(response)}", _BY_HAND)
    try:
        client_info = await handle_registration_response(response)
        check_registration_usable(client_info)
    except OAuthFlowError:
        client_info = None  # its text contains the whole response, perhaps with a secret
    if client_info is None:
        raise refused(name, issuer.issuer, "registers callsheet with settings that it cannot use", _BY_HAND)
    return Client(
        id=client_info.client_id,
        secret=client_info.client_secret or "",
        method=client_info.token_endpoint_auth_method or "none",
    )


def client_secret(name: str, where: str) -> str:
    """The secret at `env:VARIABLE` or `file:PATH`; raises CallsheetError (TOL038)."""
    kind, _, secret_name = where.partition(":")
    if kind == "env":
        secret = os.environ.get(secret_name, "")
        if not secret:
            raise no_secret(name, f"the environment variable {secret_name} is not set")
        return secret
    try:
        with Path(secret_name).expanduser().open("rb") as file:
            secret = file.read(_MOST_BYTES).decode().strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise no_secret(name, f"{secret_name} cannot be read: {reason}") from None
    if not secret:
        raise no_secret(name, f"{secret_name} is empty")
    return secret
