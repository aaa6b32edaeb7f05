"""Sends HTTP requests to addresses that were checked after DNS resolution, which prevents DNS rebinding.

A host is resolved once; the connection goes to one of the checked addresses, and the name is used only for
TLS and the Host header. Redirects are not followed here: the caller must check each like a new request.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Mapping

import httpx2

from callsheet.policy.addresses import IP, Target


class UnknownHost(Exception):
    """A host name cannot be resolved, or has no usable address; the text names it."""


async def resolve(target: Target) -> list[str]:
    """The IP addresses of a target's host, as strings; raises UnknownHost."""
    loop = asyncio.get_running_loop()
    try:
        addresses = await loop.getaddrinfo(target.host, target.port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        raise UnknownHost(f"the host {target.host} is not known") from None
    return list(dict.fromkeys(str(entry[4][0]) for entry in addresses))


async def send_to(
    client: httpx2.AsyncClient,
    method: str,
    target: Target,
    addresses: list[IP],
    headers: Mapping[str, str],
    content: bytes | None = None,
) -> httpx2.Response:
    """The response of the first address that accepts a connection; its body is not read yet.

    Raises httpx2.HTTPError, and UnknownHost if `addresses` is empty.
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
