"""Connections to checked addresses only: a host is resolved once, judged, and that very address is reached.

The host's name goes into TLS and the Host header, so what it resolves to later does not matter. No redirect
is followed here: whoever follows one judges it like a first request.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Mapping

import httpx2

from callsheet.policy.addresses import IP, Target


class UnknownHost(Exception):
    """The name of a host leads nowhere; the text says which."""


async def resolve(target: Target) -> list[str]:
    """The addresses of a target's host, as texts; raises UnknownHost."""
    loop = asyncio.get_running_loop()
    try:
        found = await loop.getaddrinfo(target.host, target.port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        raise UnknownHost(f"the host {target.host} is not known") from None
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))


async def send_to(
    client: httpx2.AsyncClient,
    method: str,
    target: Target,
    addresses: list[IP],
    headers: Mapping[str, str],
    content: bytes | None = None,
) -> httpx2.Response:
    """The answer of the first of these addresses that can be reached; its body is not read yet.

    Raises httpx2.HTTPError, and UnknownHost without an address.
    """
    for last, address in ((address is addresses[-1], address) for address in addresses):
        request = client.build_request(
            method,
            target.at(address),
            headers={**headers, "Host": target.authority},
            content=content,
            extensions={"sni_hostname": target.host},
        )
        try:
            return await client.send(request, stream=True)
        except httpx2.ConnectError:
            if last:
                raise
    raise UnknownHost(f"{target.host} has no address")
