"""Parses URLs strictly and refuses private networks (SSRF protection).

In: the text of a URL, then the addresses its host resolves to. Out: the parts that the request is built from,
so that no second parser can read the URL differently; or AddressRefused.
"""

from __future__ import annotations

import ipaddress
import re
import unicodedata
from collections.abc import Iterable
from functools import lru_cache
from typing import NamedTuple, TypeAlias
from urllib.parse import quote, urlsplit

from callsheet import lazy
from callsheet.lazy import dataclass

IP: TypeAlias = "ipaddress.IPv4Address | ipaddress.IPv6Address"
_Network: TypeAlias = "ipaddress.IPv4Network | ipaddress.IPv6Network"

_LABEL = lazy.pattern(r"[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?\Z")
_NUMERIC_END = lazy.pattern(r"(\d+|0x[0-9a-f]*)\Z")
_UNSAFE_CHARACTER = lazy.pattern(r"[\x00-\x20\x7f\\]")
_MAX_URL = 8_000
_NAT64 = ipaddress.ip_network("64:ff9b::/96")
_NAT64_LOCAL = ipaddress.ip_network("64:ff9b:1::/48")
_PROTOCOLS = ipaddress.ip_network("192.0.0.0/24")
"""Reserved for protocols, though Python calls some of these addresses global: a cloud's metadata is there."""
_OF_TWO_HOSTS = frozenset("ß\u1e9eς\u200c\u200d")
"""Characters that IDNA 2003 (Python) maps to others and IDNA 2008 (browsers) keeps."""


class AddressRefused(Exception):
    """The address is invalid or may not be reached; the message says why."""


class Target(NamedTuple):
    """A parsed URL; the host is in lower-case ASCII."""

    scheme: str
    host: str
    port: int
    path: str
    """Path and query as they are sent."""

    @property
    def authority(self) -> str:
        """The Host header: the host, and the port unless it is the scheme's default."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == _PORTS[self.scheme] else f"{host}:{self.port}"

    @property
    def url(self) -> str:
        """The URL in its normal form."""
        return f"{self.scheme}://{self.authority}{self.path}"

    def at(self, address: IP) -> str:
        """The same URL with the host replaced by an address to connect to."""
        host = f"[{address}]" if address.version == 6 else str(address)
        return f"{self.scheme}://{host}:{self.port}{self.path}"


_PORTS = {"http": 80, "https": 443}


@lru_cache(maxsize=1_024)
def parse_url(text: str) -> Target:
    """Parse a URL; raises AddressRefused for anything ambiguous.

    >>> parse_url("https://Example.com/a b?q=1#top").url
    'https://example.com/a%20b?q=1'
    >>> parse_url("http://0x7f.1/")
    Traceback (most recent call last):
    ...
    callsheet.policy.addresses.AddressRefused: '0x7f.1' is a number in another form than a dotted IPv4 address
    """
    text = text.strip()
    scheme, separator, rest = text.partition("://")
    if not separator or scheme.lower() not in _PORTS:
        raise AddressRefused("only http:// and https:// addresses can be fetched")
    authority = re.split(r"[/?#]", rest, maxsplit=1)[0]
    if len(text) > _MAX_URL:
        raise AddressRefused(f"the address is longer than {_MAX_URL} characters")
    if "@" in authority:
        raise AddressRefused("an address with a user name in it is refused")
    if _UNSAFE_CHARACTER.search(authority) or re.search(r"[\x00-\x1f\x7f\ud800-\udfff]", text):
        raise AddressRefused("the address contains a control character, a space or a backslash")
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError as error:
        raise AddressRefused(f"this is not an address: {error}") from None
    try:
        path = quote(parts.path or "/", safe="/%:@!$&'()*+,;=~-._[]|")
        query = f"?{quote(parts.query, safe='/%:@!$&()*+,;=~-._?[]|')}" if parts.query else ""
    except UnicodeEncodeError:  # a lone surrogate, which JSON may contain
        raise AddressRefused("the address contains a lone surrogate") from None
    low = scheme.lower()
    host = _host(authority)
    return Target(low, host, _PORTS[low] if port is None else port, path + query)


def is_plain(text: str) -> bool:
    """Whether nothing after the authority can make the URL invalid: it is short, printable ASCII.

    >>> is_plain("https://example.com/a?q=1"), is_plain("https://example.com/\\x00")
    (True, False)
    """
    return len(text) <= _MAX_URL and text.isascii() and text.isprintable()


def _host(authority: str) -> str:
    if authority.startswith("["):
        inner, _, after = authority[1:].partition("]")
        address = _ip(inner)
        if address is None or address.version != 6 or "%" in inner or not re.match(r"(:\d*)?\Z", after):
            raise AddressRefused(f"[{inner}] is not an IPv6 address")
        return str(address)
    name = unicodedata.normalize("NFKC", authority.rpartition(":")[0] if ":" in authority else authority)
    if not name.isascii():
        if not _OF_TWO_HOSTS.isdisjoint(name):
            raise AddressRefused(
                "the host name is ambiguous between IDNA 2003 and IDNA 2008: write it as xn--…"
            )
        try:
            name = name.encode("idna").decode("ascii")
        except UnicodeError:
            raise AddressRefused("the host is not a valid domain name") from None
    name = name.lower().removesuffix(".")
    labels = name.split(".")
    if _NUMERIC_END.match(labels[-1]):
        address = _ip(name)
        if address is None:
            raise AddressRefused(f"{name!r} is a number in another form than a dotted IPv4 address")
        return str(address)
    if len(name) > 253 or not all(_LABEL.match(label) for label in labels):
        raise AddressRefused(f"{name!r} is not a host name")
    return name


def _ip(text: str) -> IP | None:
    try:
        return ipaddress.ip_address(text)
    except ValueError:
        return None


def host_address(host: str) -> IP | None:
    """The IP address that the host of a parsed URL is, None for a name."""
    return _ip(host) if _NUMERIC_END.search(host) or ":" in host else None


def is_public(address: IP) -> bool:
    """Whether an address is on the public internet; an embedded IPv4 address is judged itself.

    >>> is_public(ipaddress.ip_address("::ffff:127.0.0.1")), is_public(ipaddress.ip_address("1.1.1.1"))
    (False, True)
    """
    if isinstance(address, ipaddress.IPv6Address):
        inner = address.ipv4_mapped or address.sixtofour
        if inner is None and address in _NAT64:
            inner = ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
        if inner is not None:
            return is_public(inner)
        if address.teredo or address.is_site_local or address in _NAT64_LOCAL or int(address) >> 32 == 0:
            return False
    return address.is_global and not (address.is_multicast or address.is_reserved or address in _PROTOCOLS)


@dataclass(frozen=True, slots=True)
class AllowedHosts:
    """Hosts that may be reached although they are not public."""

    names: frozenset[str] = frozenset()
    suffixes: tuple[str, ...] = ()
    networks: tuple[_Network, ...] = ()
    everything: bool = False

    @classmethod
    def parse(cls, entries: Iterable[str]) -> AllowedHosts:
        """Parse names, `*.suffix`, addresses, CIDR ranges and `*`; raises ValueError for anything else."""
        names: set[str] = set()
        suffixes: list[str] = []
        networks: list[_Network] = []
        everything = False
        for raw in entries:
            entry = raw.strip().lower().removesuffix(".")
            if entry == "*":
                everything = True
                continue
            try:
                networks.append(ipaddress.ip_network(entry.strip("[]"), strict=False))
                continue
            except ValueError:
                name = entry.removeprefix("*.")
            if not all(_LABEL.match(label) for label in name.split(".")) or _NUMERIC_END.match(
                name.split(".")[-1]
            ):
                raise ValueError(f"{raw!r} is neither a host name, an address nor a range")
            if entry.startswith("*."):
                suffixes.append(f".{name}")
            else:
                names.add(name)
        return cls(frozenset(names), tuple(suffixes), tuple(networks), everything)

    def allow_name(self, host: str) -> bool:
        """Whether a host may be reached whatever its address."""
        return self.everything or host in self.names or host.endswith(self.suffixes)

    def allow(self, host: str, address: IP) -> bool:
        """Whether a connection to this address may be made for this host."""
        return self.allow_name(host) or is_public(address) or self.allow_network(address)

    def allow_network(self, address: IP) -> bool:
        """Whether an address, or the IPv4 address mapped in it, is in one of the ranges."""
        mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
        return any(
            candidate in network for network in self.networks for candidate in (address, mapped) if candidate
        )


def checked(target: Target, resolved: Iterable[str], allowed: AllowedHosts) -> list[IP]:
    """The addresses a request may connect to; raises AddressRefused if one of them is private.

    One private address among public ones refuses the host, since legitimate hosts do not mix them.
    """
    addresses: list[IP] = []
    for text in resolved:
        address = _ip(text.partition("%")[0])
        if address is None:
            raise AddressRefused(f"{target.host} resolves to something that is not an address")
        if not allowed.allow(target.host, address):
            raise AddressRefused(
                f"{target.host} is at {address}, which is not a public address; "
                "allow_private_hosts in the configuration can allow it"
            )
        addresses.append(address)
    if not addresses:
        raise AddressRefused(f"{target.host} has no address")
    return addresses
