"""Determines the host of an address as far as it is known before a run, parsed as a browser would.

In: an argument with holes. Out: the authority, and the label of the data it is made of. Data after the
authority (`https://host/?q=$x`) does not affect the host; data before its end may change it.
"""

from __future__ import annotations

import ipaddress
import re
import unicodedata
from functools import lru_cache
from typing import NamedTuple
from urllib.parse import unquote

from callsheet import lazy
from callsheet.ir.labels import LITERAL, Label
from callsheet.policy.addresses import IP, AddressRefused, is_plain, parse_url
from callsheet.policy.calls import Argument, Hole

_END = lazy.pattern(r"[/?#]")
_SCHEME = lazy.pattern(r"\s*([A-Za-z][A-Za-z0-9+.-]*):")
MARK = "\ufffc"
"""Placeholder for unknown data."""


class Authority(NamedTuple):
    """What is known of the authority of an address.

    `host` is the host if it is fully known, `error` the reason why it is not an address. `chosen_by` is the
    label of the data in scheme and authority, that of a literal if `is_written` in the plan. `written` is
    their text, with a mark for unknown data.
    """

    host: str | None
    error: str | None
    chosen_by: Label
    is_written: bool
    written: str


@lru_cache(maxsize=4)
def authority_of(argument: Argument) -> Authority:
    """The authority of an address; cached, since several rules ask for it.

    >>> authority_of(Argument("url", ("https://Api.Internal:8443/?d=", Hole("a", LITERAL)))).host
    'api.internal'
    >>> authority_of(Argument("url", ("https://api.internal", Hole("a", LITERAL)))).host is None
    True
    """
    if argument.items:
        return Authority(None, "a list is not an address", argument.label, False, "")
    text, chosen_by, is_written = "", LITERAL, True
    end = None
    for part in argument.parts:
        piece = part if isinstance(part, str) else (MARK if part.text is None else part.text)
        if isinstance(part, Hole):
            chosen_by = chosen_by.join(part.label)
            is_written = False
        text += piece
        end = _ended(text)
        if end is not None:
            break
    head = text[:end]
    if MARK in head:
        return Authority(None, _wrong_scheme(head), chosen_by, False, head)
    try:
        if end is None or not is_plain(text):  # in a plain text, nothing after the head can be invalid
            parse_url(text.replace(MARK, "x"))
        host = parse_url((head.rstrip() if end is None else head) + "/").host
    except AddressRefused as error:
        return Authority(None, str(error), chosen_by, is_written, head)
    return Authority(host, None, chosen_by, is_written, head)


def head_of(text: str) -> str | None:
    """Scheme and authority of a text whose remainder cannot change them.

    None if the authority may continue, or the remainder may make the address invalid.

    >>> head_of("https://c.example/a?q="), head_of("https://c.example"), head_of("https://c.example/\\x00")
    ('https://c.example', None, None)
    """
    end = _ended(text)
    return text[:end] if end is not None and is_plain(text) else None


def _ended(text: str) -> int | None:
    """The index at which the authority ends, None if it may continue."""
    start = text.find("://")
    if start < 0:
        return None
    end = _END.search(text, start + 3)
    return None if end is None else end.start()


def _wrong_scheme(head: str) -> str | None:
    scheme = _SCHEME.match(head.partition(MARK)[0])
    if scheme is not None and scheme[1].lower() not in ("http", "https"):
        return "only http:// and https:// addresses can be fetched"
    return None


_AUTHORITY = lazy.pattern(
    r"\s*(?:https?:|wss?:|[A-Za-z][A-Za-z0-9+.-]*:(?=[/\\]))?[/\\]*(?:[^@/\\?#]*@)?(\[[^\]]*\]|[^:/\\?#]*)",
    re.IGNORECASE,
)
_DROPPED = str.maketrans(dict.fromkeys("\t\r\n"))
_DOTS = str.maketrans(dict.fromkeys("\u3002\uff0e\uff61", "."))
_LONGEST = 1_000
_NUMBER = lazy.pattern(r"0x[0-9a-f]*|[0-9]+")
_NAMES = frozenset(
    {"instance-data", "instance-data.ec2.internal", "metadata", "metadata.azure.internal", "metadata.goog",
     "metadata.google.internal", "metadata.tencentyun.com"}
)  # fmt: skip
_EMBEDDED = lazy.pattern(r"(?:^|[.-])(?:169[.-]254[.-]\d{1,3}[.-]\d{1,3}|a9fe[0-9a-f]{4})\.")
"""A link-local address in a name of a service that resolves to it (`169-254-169-254.nip.io`)."""
_NETWORKS = tuple(
    ipaddress.ip_network(network)
    for network in (
        "169.254.0.0/16",
        "fe80::/10",
        "100.100.100.200/32",
        "192.0.0.192/32",
        "fd00:ec2::/32",
        "fd20:ce::/32",
    )
)
_NAT64 = ipaddress.ip_network("64:ff9b::/96")


@lru_cache(maxsize=1_024)
def loose_host(text: str) -> str:
    """The host of an address, in lower case and without port; an IP address in its normal form.

    >>> loose_host("http://0xA9FEA9FE/latest"), loose_host("http://me@[::ffff:1.2.3.4]:80/")
    ('169.254.169.254', '1.2.3.4')
    >>> loose_host("//Docs.Example./a"), loose_host("localhost:3000"), loose_host("http://%31.1")
    ('docs.example', 'localhost', '1.0.0.1')
    """
    match = _AUTHORITY.match(text[:_LONGEST].translate(_DROPPED))
    assert match is not None
    host = unicodedata.normalize("NFKC", unquote(match[1])).translate(_DOTS).lower().strip().removesuffix(".")
    address = _loose_address(host)
    return host if address is None else str(address)


def is_metadata(host: str) -> bool:
    """Whether a host, as `loose_host` gives it, is a cloud's metadata service, or may be one.

    >>> [is_metadata(host) for host in ("169.254.169.254", "fd00:ec2::254", "metadata.google.internal")]
    [True, True, True]
    >>> is_metadata("metadata.example"), is_metadata("10.0.0.1")
    (False, False)
    """
    address = _loose_address(host)
    if address is not None:
        return any(address in network for network in _NETWORKS)
    return host in _NAMES or _EMBEDDED.search(host) is not None


def _loose_address(host: str) -> IP | None:
    """The IP address that a host is, however it is written; of an IPv4 address in an IPv6 one, that."""
    if host.startswith("[") or ":" in host:
        try:
            address = ipaddress.IPv6Address(host.strip("[]").partition("%")[0])
        except ValueError:
            return None
        inner = address.ipv4_mapped or address.sixtofour
        if inner is None and (address in _NAT64 or (int(address) >> 32 == 0 and int(address) > 1)):
            inner = ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
        return inner or address
    return _loose_ipv4(host)


def _loose_ipv4(host: str) -> ipaddress.IPv4Address | None:
    """An IPv4 address as `inet_aton` reads it: one to four numbers, also octal or hexadecimal."""
    parts = host.split(".")
    if len(parts) > 4 or not all(_NUMBER.fullmatch(part) for part in parts):
        return None
    numbers = [_number(part) for part in parts]
    *first, last = numbers
    room = 4 - len(first)
    if any(number > 255 for number in first) or last >= 256**room:
        return None
    value = 0
    for number in first:
        value = value * 256 + number
    return ipaddress.IPv4Address(value * 256**room + last)


def _number(part: str) -> int:
    """A number in C's notation; one that is not octal after all is read as decimal."""
    if len(part) > 16:
        return 2**64
    if part.startswith("0x"):
        return int(part[2:] or "0", 16)
    is_octal = part.startswith("0") and not set(part) & {"8", "9"}
    return int(part, 8 if is_octal else 10)
