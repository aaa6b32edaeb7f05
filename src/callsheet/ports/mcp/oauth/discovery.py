"""Discovers the authorization server of an MCP server from their metadata, and checks that both agree.

In: the URL of a server and its refusal of a request. Out: the resource, the issuer, its endpoints and the
scope to request; None if the server does not mention authorization; CallsheetError (TOL032, TOL033) for
metadata that does not fit. A server of the protocol's revision 2025-03-26 names no authorization server: it
is one itself, with its metadata at its origin, or without any and with the endpoints of that revision.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from ipaddress import IPv4Address, ip_address, ip_network
from types import TracebackType
from typing import Any, NamedTuple
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

from callsheet.policy.addresses import IP, AddressRefused, AllowedHosts, Target, checked, is_public, parse_url
from callsheet.ports.checked_http import UnknownHost, resolve, send_to
from callsheet.ports.mcp.oauth.login_errors import not_reached, plain, unusable

MOST_BYTES = 256 * 1024
"""The largest response in bytes; metadata takes a few thousand."""
SECONDS = 15.0
"""Seconds until a response has to be complete."""
_LOOPBACK = ("127.0.0.0/8", "::1/128")
_PRIVATE = ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "fc00::/7")


class Allowed(NamedTuple):
    """The non-public hosts that may be contacted during one login."""

    hosts: AllowedHosts

    @classmethod
    async def for_server(cls, server_url: str, issuer: str = "") -> Allowed:
        """The hosts that a server may lead to, given its own address; the configured issuer is allowed.

        Raises AddressRefused or UnknownHost if the server's own URL is unusable.
        """
        entries: list[str] = []
        for text in await resolve(parse_url(server_url)):
            address = ip_address(text.partition("%")[0])
            if not is_public(address):
                entries += (str(address), *_kin_of(address))
        if issuer:
            entries.append(parse_url(issuer).host)
        return cls(AllowedHosts.parse(entries))


def _kin_of(address: IP) -> tuple[str, ...]:
    """The networks of the same kind (loopback or private) as an address; none for other special addresses."""
    for networks in (_LOOPBACK, _PRIVATE):
        if any(address in ip_network(network) for network in networks):
            return networks
    return ()


class Guard:
    """Sends the requests of a login with one server, as an async context manager."""

    def __init__(self, name: str, allowed: Allowed) -> None:
        self._name = name
        self._allowed = allowed.hosts
        self._client = httpx2.AsyncClient(trust_env=False, timeout=SECONDS, follow_redirects=False)

    @classmethod
    async def of(cls, name: str, server_url: str, issuer: str = "") -> Guard:
        """The guard for the server with this name and URL; raises CallsheetError (TOL033)."""
        try:
            return cls(name, await Allowed.for_server(server_url, issuer))
        except (AddressRefused, UnknownHost) as error:
            raise not_reached(name, server_url, str(error)) from None

    async def __aenter__(self) -> Guard:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._client.aclose()

    async def judge(self, url: str) -> tuple[Target, list[IP]]:
        """The checked addresses of a URL; raises CallsheetError (TOL033) if it must not be contacted."""
        try:
            target = parse_url(url)
            addresses = checked(target, await resolve(target), self._allowed)
        except (AddressRefused, UnknownHost) as error:
            why = str(error).partition(";")[0]  # the rest names a setting of the web tools
            raise not_reached(self._name, url, why) from None
        if target.scheme != "https" and not all(_is_loopback(address) for address in addresses):
            raise not_reached(self._name, url, "it is not encrypted")
        return target, addresses

    async def send(self, request: httpx2.Request) -> httpx2.Response:
        """The response to a request, read completely; raises CallsheetError (TOL033) if there is none."""
        url = str(request.url)
        target, addresses = await self.judge(url)
        headers = {
            name: value for name, value in request.headers.items() if name not in ("host", "content-length")
        }
        headers["Accept-Encoding"] = "identity"
        try:
            async with asyncio.timeout(SECONDS):
                response = await send_to(
                    self._client, request.method, target, addresses, headers, await request.aread()
                )
                try:
                    body = await _body(response)
                finally:
                    await response.aclose()
        except TimeoutError:
            raise not_reached(self._name, target.url, f"it took longer than {SECONDS:g} s") from None
        except _TooMuch as error:
            raise not_reached(self._name, target.url, str(error)) from None
        except httpx2.HTTPError as error:
            raise not_reached(self._name, target.url, str(error) or type(error).__name__) from None
        return httpx2.Response(response.status_code, headers=response.headers, content=body, request=request)


class _TooMuch(Exception):
    """The response is too long or compressed."""


async def _body(response: httpx2.Response) -> bytes:
    if response.headers.get("content-encoding", "identity").strip().lower() not in ("", "identity"):
        raise _TooMuch("its answer is compressed, which was not requested")
    body = bytearray()
    async for part in response.aiter_raw(16_384):
        body += part
        if len(body) > MOST_BYTES:
            raise _TooMuch(f"its answer is longer than {MOST_BYTES >> 10} KiB")
    return bytes(body)


def _is_loopback(address: IP) -> bool:
    mapped = None if isinstance(address, IPv4Address) else address.ipv4_mapped
    return (mapped or address).is_loopback


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
