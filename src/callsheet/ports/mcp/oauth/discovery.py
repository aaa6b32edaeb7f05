"""Discovers the authorization server of an MCP server from their metadata, and checks that both agree.

In: the URL of a server and its refusal of a request. Out: the resource, the issuer, its endpoints and the
scope to request; None if the server does not mention authorization; CallsheetError (TOL032, TOL033) for
metadata that does not fit. A server of the protocol's revision 2025-03-26 names no authorization server: it
is one itself, with its metadata at its origin, or without any and with the endpoints of that revision.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import httpx2
from mcp.client.auth import OAuthFlowError
from mcp.client.auth.utils import (
    build_oauth_authorization_server_metadata_discovery_urls,
    build_protected_resource_metadata_discovery_urls,
    create_oauth_metadata_request,
    extract_resource_metadata_from_www_auth,
    extract_scope_from_www_auth,
    handle_auth_metadata_response,
    handle_protected_resource_response,
    issuers_match,
    validate_metadata_issuer,
)
from mcp.shared.auth import OAuthMetadata, ProtectedResourceMetadata
from mcp.shared.auth_utils import check_resource_allowed, resource_url_from_server_url

from callsheet.ports.mcp.oauth.guard import Guard
from callsheet.ports.mcp.oauth.login_errors import plain, unusable

_UNAUTHORIZED, _SERVER_ERRORS = 401, 500


@dataclass(frozen=True, slots=True)
class AuthorizationServer:
    """The authorization server of a server. `scope` is what the server asks for, empty if nothing.

    `is_assumed` says that no metadata was found: the endpoints are those of the revision 2025-03-26.
    """

    resource: str
    issuer: str
    metadata: OAuthMetadata
    scope: str = ""
    is_assumed: bool = False


async def discover(
    name: str, url: str, guard: Guard, challenge: httpx2.Response | None, issuer: str = ""
) -> AuthorizationServer | None:
    """Query a server, then the authorization server that it names or that is configured as `issuer`.

    `challenge` is the response with which the server refused a request.
    """
    stated = await _protected_resource(name, url, guard, challenge)
    chosen = _issuer(name, stated, issuer)
    found = await _authorization_server(name, url, guard, chosen)
    if found is None and (stated is not None or issuer):
        raise unusable(name, f"its authorization server {plain(chosen or url)} provides no metadata")
    if found is None and (challenge is None or challenge.status_code != _UNAUTHORIZED):
        return None
    metadata = found or _of_2025_03_26(url)
    for endpoint in _endpoints(metadata):
        await guard.judge(endpoint)
    resource = resource_url_from_server_url(url) if stated is None else str(stated.resource)
    scope = _scope(challenge, stated, metadata)
    return AuthorizationServer(resource, str(metadata.issuer), metadata, scope, is_assumed=found is None)


async def _protected_resource(
    name: str, url: str, guard: Guard, challenge: httpx2.Response | None
) -> ProtectedResourceMetadata | None:
    named = None
    if challenge is not None and challenge.status_code in (401, 403):
        named = extract_resource_metadata_from_www_auth(challenge)
    for place in build_protected_resource_metadata_discovery_urls(named, url):
        response = await guard.send(create_oauth_metadata_request(place))
        if response.status_code >= _SERVER_ERRORS:
            raise unusable(
                name, f"it answers {plain(place)} with status {response.status_code}", "try again later"
            )
        metadata = await handle_protected_resource_response(response)
        if metadata is None:
            continue
        if not check_resource_allowed(resource_url_from_server_url(url), str(metadata.resource)):
            raise unusable(name, f"its metadata is for another server, {plain(str(metadata.resource))}")
        return metadata
    return None


def _issuer(name: str, resource: ProtectedResourceMetadata | None, wanted: str) -> str:
    """The issuer to use: `wanted` if the server names it, else its first; empty for the server itself."""
    if resource is None:
        return wanted
    named = [str(place) for place in resource.authorization_servers]
    if not wanted:
        return named[0]
    for place in named:
        if issuers_match(place, wanted):
            return place
    raise unusable(
        name,
        f"it names the authorization server {plain(named[0])}, but the configuration names {plain(wanted)}",
        "nothing was sent; correct `issuer` if the server is right",
    )


def _origin(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"


def _of_2025_03_26(url: str) -> OAuthMetadata:
    """The metadata that the revision 2025-03-26 assumes for a server without any."""
    origin = _origin(url)
    return OAuthMetadata.model_validate(
        {
            "issuer": origin,
            "authorization_endpoint": f"{origin}/authorize",
            "token_endpoint": f"{origin}/token",
            "registration_endpoint": f"{origin}/register",
            "response_types_supported": ["code"],
            "code_challenge_methods_supported": ["S256"],
        }
    )


async def _authorization_server(name: str, url: str, guard: Guard, issuer: str) -> OAuthMetadata | None:
    """The metadata of an issuer; without one, of the server itself, with an issuer at any of its paths."""
    expected = issuer or _origin(url)
    for place in build_oauth_authorization_server_metadata_discovery_urls(issuer or None, url):
        response = await guard.send(create_oauth_metadata_request(place))
        goes_on, metadata = await handle_auth_metadata_response(response)
        if metadata is not None:
            stated = str(metadata.issuer)
            is_same = issuers_match(stated, expected) or (not issuer and _origin(stated) == expected)
            try:
                validate_metadata_issuer(metadata, stated if is_same else expected)
            except OAuthFlowError:
                raise unusable(
                    name, f"the metadata of {plain(expected)} is for another issuer, {plain(stated)}"
                ) from None
            return metadata
        if not goes_on:
            raise unusable(
                name, f"{plain(place)} answers with status {response.status_code}", "try again later"
            )
    return None


def _endpoints(metadata: OAuthMetadata) -> list[str]:
    """The URLs in metadata that are contacted, or opened by a person."""
    named: tuple[Any, ...] = (
        metadata.authorization_endpoint,
        metadata.token_endpoint,
        metadata.registration_endpoint,
        metadata.revocation_endpoint,
    )
    return [str(place) for place in named if place is not None]


def _scope(
    challenge: httpx2.Response | None, resource: ProtectedResourceMetadata | None, metadata: OAuthMetadata
) -> str:
    """The scope to request: what the server asks for, never everything its authorization server supports."""
    scope = None if challenge is None else extract_scope_from_www_auth(challenge)
    if scope is None and resource is not None and resource.scopes_supported:
        scope = " ".join(resource.scopes_supported)
    if (
        scope
        and "offline_access" in (metadata.scopes_supported or ())
        and "offline_access" not in scope.split()
    ):
        return f"{scope} offline_access"
    return scope or ""
