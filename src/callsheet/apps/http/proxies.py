"""The client's address behind trusted proxies.

In: the address of a connection, what `X-Forwarded-For` says. Out: the address of the client.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from typing import TypeAlias

Network: TypeAlias = "ipaddress.IPv4Network | ipaddress.IPv6Network"


def read_network(text: str) -> Network:
    """An address, or a network of them; raises ValueError for what is neither.

    >>> read_network("10.0.0.0/8"), read_network("::1")
    (IPv4Network('10.0.0.0/8'), IPv6Network('::1/128'))
    """
    return ipaddress.ip_network(text.strip())


def client_of(peer: str, forwarded: Iterable[str], trusted: Iterable[Network]) -> str:
    """Who asks: the peer, unless it is a trusted proxy; then the last one named that is none.

    `forwarded` are the values of `X-Forwarded-For`, to which each proxy adds by whom it was asked; what
    stands before the last that is not trusted may be made up.

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
            return client  # who stands behind that is not known
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
