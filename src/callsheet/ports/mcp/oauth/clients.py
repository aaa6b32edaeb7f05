"""Determines our OAuth client: registered manually, described by a metadata document, or self-registered.

In: the operator's settings and the server's metadata. Out: a client, or CallsheetError (TOL032, TOL034,
TOL038).
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from mcp.client.auth import OAuthFlowError
from mcp.client.auth.oauth2 import check_registration_usable
from mcp.client.auth.utils import (
    create_client_registration_request,
    handle_registration_response,
    should_use_client_metadata_url,
)
from mcp.shared.auth import OAuthClientMetadata, OAuthMetadata
from pydantic import AnyUrl

from callsheet.ports.mcp.oauth.discovery import AuthorizationServer
from callsheet.ports.mcp.oauth.grants import denial
from callsheet.ports.mcp.oauth.guard import Guard
from callsheet.ports.mcp.oauth.login_errors import no_secret, refused, unusable
from callsheet.ports.mcp.oauth.records import Client
from callsheet.ports.mcp.servers import OAuthRules

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
