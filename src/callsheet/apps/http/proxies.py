"""The client's address behind trusted proxies.

In: the address of a connection, the values of `X-Forwarded-For`. Out: the address of the client.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from typing import TypeAlias

Network: TypeAlias = "ipaddress.IPv4Network | ipaddress.IPv6Network"


def read_network(text: str) -> Network:
    """Parse an address or a network; raises ValueError for anything else.

    >>> read_network("10.0.0.0/8"), read_network("::1")
    (IPv4Network('10.0.0.0/8'), IPv6Network('::1/128'))
    """
    return ipaddress.ip_network(text.strip())


def client_of(peer: str, forwarded: Iterable[str], trusted: Iterable[Network]) -> str:
    """The client: the peer, unless it is a trusted proxy; then the last untrusted forwarded address.

    `forwarded` are the values of `X-Forwarded-For`, to which each proxy appends its peer. Addresses before
    the last one that is not trusted may be forged.

    >>> client_of("127.0.0.1", ["6.6.6.6, 203.0.113.7"], [read_network("127.0.0.1")])
    '203.0.113.7'
    >>> client_of("198.51.100.1", ["203.0.113.7"], [read_network("127.0.0.1")])
    '198.51.100.1'
    """
    networks = tuple(trusted)
    if not _is_in(peer, networks):
        return peer
    client = peer
    for name in reversed([part.strip() for value in forwarded for part in value.split(",")]):
        try:
            client = str(ipaddress.ip_address(name.strip("[]")))
        except ValueError:
            return client  # the addresses before it are not reliable
        if not _is_in(client, networks):
            return client
    return client


def _is_in(address: str, networks: tuple[Network, ...]) -> bool:
    if not networks:
        return False
    try:
        found = ipaddress.ip_address(address)
    except ValueError:
        return False
    return any(found in network for network in networks)
