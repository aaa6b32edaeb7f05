"""Contacts the URLs in a server's metadata, but only checked addresses and within bounds (SSRF protection).

In: requests of a login. Out: complete responses, or CallsheetError (TOL033) for a URL that must not be
contacted. Redirects are not followed. A server on the internet cannot lead into a private network, not even
by a name: each name is resolved once, checked, and that address is used. A server on this machine or in a
private network may name addresses of the same kind.
"""

from __future__ import annotations

import asyncio
from ipaddress import IPv4Address, ip_address, ip_network
from types import TracebackType
from typing import NamedTuple

import httpx2

from callsheet.policy.addresses import IP, AddressRefused, AllowedHosts, Target, checked, is_public, parse_url
from callsheet.ports.checked_http import UnknownHost, resolve, send_to
from callsheet.ports.mcp.oauth.login_errors import not_reached

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
