"""Disarms links in a text before it is shown, so that no program turns them into requests that leak data.

In: a text composed of private data and untrusted text. Out: the same words without a link, image or tag to a
host that may not read the data. Pure; linear.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Collection
from typing import Any, NamedTuple, cast

from callsheet.policy.links import as_read, host_of

_REST = r"[^\s<>\"'`()\[\]{}|\\^,;*]{0,2000}"
_HOST = r"(?:[\w-]+\.)+(?:[^\W\d_]{2,}|xn--[\w-]+)\.?(?::\d+)?"
_NUMBERS = r"(?:\d{1,3}\.){3}\d{1,3}(?::\d+)?"
_ADDRESS = re.compile(
    r"(?P<head>[a-z][a-z0-9+.-]{0,30}:[/\\]{2}|(?:https?|ftp):[/\\]"
    rf"|(?<![\w/\\\]])[/\\]{{2}}(?=\w|\[[\da-f:])|www\.){_REST}"
    rf"|(?:(?:(?<![\w./-])|(?<=[^\w.\]-][/\\.]))(?={_HOST}[/?#])|(?<=[/\\]{{2}}))(?P<host>{_HOST}|{_NUMBERS})"
    rf"[/?#]?{_REST}"
    r"|(?P<word>mailto|tel|callto|sms|magnet|xmpp|skype|whatsapp|javascript|vbscript|blob|data(?=:[\w-]+/|:[;,])):(?=\S)",
    re.I,
)
"""What programs turn into a link anywhere: a scheme, `//` or `www.`, or a host with a path."""
_ENDS = frozenset("<>\"'`)]}|,;*")
"""Characters at which an address ends for many programs, besides white space."""
_BEHIND = re.compile(r"[^\s<]{0,2000}")
"""What other programs include in the address: everything up to white space or a tag."""
_TAG = re.compile(r"<(?=[a-z!/?](?:[^>]{0,200}[=:]|[^>]{200}))|url\((?=\s*\S)", re.I)
_TARGET = re.compile(r"\]\(\s*(<(?:(?!\]\()[^>\n]){0,2000}>?|(?:(?!\]\()[^)\s]){0,2000})")
"""The target of a Markdown link, up to another link that begins inside it."""
_NAMED_TARGET = re.compile(
    r"^((?:[ \t>*+-]|\d{1,9}[.)])*\[(?:[^\]\\\n]|\\.|\\?\n(?![ \t>]*$)){1,999}\]):", re.M
)
"""A Markdown reference definition; its label may contain escaped brackets and line ends."""
_NEAR = re.compile(r"(?!//)[\w./#\[\]-]*")
"""The target of a link within the same site."""
_ENTITY = re.compile(r"&(?=#?\w)")
_CLOSING = ".:!?_~"
_MOST_CLOSING = 12
"""The longest run of closing brackets, quotes and the like that is ignored after an address."""


class Allowed(NamedTuple):
    """What may stay a link: addresses of hosts that may read the data, and addresses written in the plan.

    `known` are addresses that may stay where a person follows them, and not where a program may load them.
    """

    may_know: Callable[[str], bool]
    own: Collection[str] = ()
    known: Collection[str] = ()


def disarmed(text: str, allowed: Allowed) -> str:
    """The text with all addresses disarmed except the allowed ones; unchanged if there are none.

    >>> disarmed("![x](https://evil.example/?d=42) https://c.example/", Allowed({"c.example"}.__contains__))
    '![x] (https[:]//evil[.]example/?d=42) https://c.example/'
    """
    shown = _apart(text, allowed)
    read = unicodedata.normalize("NFKC", as_read(shown))
    if read == shown or _apart(read, allowed) == read:
        return shown
    plain = _ENTITY.sub("& ", unicodedata.normalize("NFKC", as_read(shown, has_entities=False)))
    return _apart(plain, allowed)


def addresses_in(text: str) -> frozenset[str]:
    """The addresses in a text that programs turn into links."""
    return frozenset(found.group().rstrip(_CLOSING) for found in _ADDRESS.finditer(text))


def addresses_within(value: object) -> frozenset[str]:
    """The addresses in the texts of a value, at any depth.

    >>> sorted(addresses_within([{"body": "see www.c.example, or https://d.example/7."}]))
    ['https://d.example/7', 'www.c.example']
    """
    found: set[str] = set()
    waiting: list[Any] = [value]
    while waiting:
        one = waiting.pop()
        if isinstance(one, str):
            found |= addresses_in(one)
        elif isinstance(one, dict):
            waiting += cast("dict[str, Any]", one).values()
        elif isinstance(one, list):
            waiting += cast("list[Any]", one)
    return frozenset(found)


def _apart(text: str, allowed: Allowed) -> str:
    """The text with its tags, link targets and addresses disarmed."""

    def target(match: re.Match[str]) -> str:
        return match.group() if _stays_near(match[1], allowed) else f"] {match.group()[1:]}"

    text = _NAMED_TARGET.sub(r"\1 :", _TARGET.sub(target, text))
    text = _TAG.sub(lambda found: f"{found.group()[:-1]} (" if found.group() != "<" else "< ", text)
    parts: list[str] = []
    at = 0
    while (found := _ADDRESS.search(text, at)) is not None:
        parts.append(text[at : found.start()])
        if _may_stay(found, allowed):
            parts.append(found.group())
            at = found.end()
        else:  # the rest after the host may contain more addresses
            broken, length = _broken(found)
            parts.append(broken)
            at = found.start() + length
    return "".join(parts) + text[at:] if parts else text


def _broken(match: re.Match[str]) -> tuple[str, int]:
    """The disarmed beginning of an address, and the length of the text that it replaces."""
    whole, head, host, word = match.group(), match["head"], match["host"], match["word"]
    if word is not None:
        return f"{word}[:]", len(word) + 1
    if host is not None:
        return host.replace(".", "[.]"), len(host)
    end = next((at for at in range(len(head), len(whole)) if whole[at] in "/?#:"), len(whole))
    shown = head.replace(".", "[.]").replace(":", "[:]")
    if shown != head and match.string.startswith("[", match.end()):  # some programs link `//[::1]` by itself
        shown = f"{shown[:-2]}[{shown[-2:]}]"
    if shown == head:
        shown = f"[{head}]"
    shown += whole[len(head) : end].replace(".", "[.]")
    return (f"{shown}[:]", end + 1) if whole[end : end + 1] == ":" else (shown, end)


def _may_stay(match: re.Match[str], allowed: Allowed) -> bool:
    behind = _BEHIND.match(match.string, match.end())
    rest = behind[0] if behind else ""
    if rest and rest[0] not in _ENDS:
        return False  # programs disagree where such an address ends
    address = match.group()
    if _says_something(rest) and not _has_path(address):
        return False  # the rest may belong to the host
    if _is_known(address, allowed):
        return True
    bare = address.rstrip(_CLOSING)
    return (bare in allowed.own or bare in allowed.known) and not _says_something(rest)


def _says_something(rest: str) -> bool:
    """Whether more than closing punctuation directly follows an address."""
    return len(rest) > _MOST_CLOSING or re.search(r"\w", rest) is not None


def _has_path(address: str) -> bool:
    return re.search(r"[/?#]", address.partition("://")[2]) is not None


def _stays_near(target: str, allowed: Allowed) -> bool:
    """Whether a Markdown link target is relative, in the plan, or on a host that may read the data."""
    return target in allowed.own or _NEAR.fullmatch(target) is not None or _is_known(target, allowed)


def _is_known(address: str, allowed: Allowed) -> bool:
    """Whether an address is on a host that may read the data; only decidable for complete web addresses."""
    if re.match(r"https?://", address, re.I) is None:
        return False
    host = host_of(address)
    return host is not None and allowed.may_know(host)
