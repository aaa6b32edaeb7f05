"""Text that a reader's program would turn into a request: links, images, bare addresses, with data in them.

In: texts with holes. Out: whether data stands in an address of a host that may not have it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

from callsheet.policy.addresses import AddressRefused, parse_url
from callsheet.policy.calls import Hole, Part
from callsheet.policy.rendered import as_read
from callsheet.policy.urls import MARK

_REST = r"(?:[^\s<>\"'`]|[\"'`](?!,))*\Z"
"""An address goes on to a blank or a bracket: many programs read past a quote, if no comma follows it."""
_DATA = "\ufffb"
"""Stands for data that is not public."""
_WORDS = (
    "mailto|data|javascript|vbscript|tel|callto|sms|smsto|facetime|skype|sip|sips|xmpp|whatsapp|tg|magnet|intent|market"
    "|geo|feed|webcal|ircs?|ldaps?|bitcoin|view-source|matrix|slack|zoommtg|vscode|(?:ht|f)tps?"
)
"""Schemes that programs make a link of without two slashes."""
_BARE = re.compile(
    rf"(?:\w:[/\\]{{2}}|(?<![:\w/])//|(?<![\w\\])\\\\(?=\w)|www\.|(?<![\w-])(?:{_WORDS}):){_REST}",
    re.I,
)
_HOST = r"(?:(?:[\w-]+\.)+(?:[^\W\d_]{2,}|xn--[a-z0-9-]+)|(?:\d{1,3}\.){3}\d{1,3})"
_DOMAIN = re.compile(
    rf"(?<![\w@./-])(?:{_HOST}|localhost|\[[\da-f.]*:[\da-f:.]*\])(?::\d+)?[/?#]{_REST}", re.I
)
_NAMED = r"^(?:[ \t>*+-]|\d{1,9}[.)])*+\[(?:[^\]\\\n]|\\.|\\?\n(?![ \t>]*$)){1,999}+\]:"
"""The name of what a link or an image is elsewhere in a text, in lists and quotes too, over several lines."""
_MARKDOWN = re.compile(rf"\]\(\s*<?[^)>\n]*\Z|{_NAMED}\s*\S*\Z", re.M)
_LOADING = (
    r"\w*(?:src|href)\w*|on\w+|\w*action|poster|background|data|style|ping|cite|content|value|code\w*"
    r"|archive|longdesc|manifest|profile|classid|icon"
)
_TAG = re.compile(rf"<[a-z][\w:-]*[\s/][^>]*\b(?:{_LOADING})\s*=[^>]*\Z|url\(\s*[^)]*\Z", re.I)
"""A tag whose attributes name an address, and not every sign for less than."""
_OPEN_TAG = re.compile(r"<[a-z][\w:-]*[\s/][^<>]*\Z", re.I)
_LEADING_ON = re.compile(r"[^<>]*\b(?:\w*(?:src|href)|\w*action|data|ping)\s*=", re.I)
"""What stands in a tag behind data and leads to a page, which may be told the tag's other attributes."""
_GLUED = re.compile(rf"[{MARK}{_DATA}](?:[^\s]*[/?#&=])?\Z")
_AFTER = re.compile(
    r"[\w.%-]*\.(?:[\w-]+\.)+(?:[a-z]{2,}[/?#]|(?:com|net|org|info|biz|io|dev|app|example|site|online|xyz|link|shop|live)\b)",
    re.I,
)
"""A host that begins with data: before a path, or by an ending that no file has."""
_SCHEME = re.compile(r"[a-z][a-z0-9+.-]{0,30}\Z", re.I)
"""A scheme before its `://`: at most 31 characters, or a long word would be read from each of its letters."""
_WHOLE = re.compile(r"[a-z][a-z0-9+.-]{0,30}://[^\s<>\"'`)\]]+", re.I)
_IMAGE = re.compile(
    r"!\[(?:[^\]!]|!(?!\[))*+\]\(|<(?:img|iframe|script|link|video|audio|source)\b|url\(", re.I
)
_DEFINED = re.compile(_NAMED, re.M)
"""What a link or an image is elsewhere in a text, where it is only named."""
_NAMED_HOST = re.compile(r"[a-z][a-z0-9+.-]{0,30}://(?:[\w-]+\.)+[\w-]+[^\s\"'`]*", re.I)
_SPOKEN_HOST = re.compile(rf"(?<![\w@./:-])(?://|www\.)?{_HOST}(?::\d+)?/(?!\s|\Z)", re.I)
"""An address as it is told somebody who knows what is meant: without its scheme."""
_ENDING = re.compile(r"[()\[\]{}|\\^,;*]")
"""Where an address may be at its end, or may go on: programs differ about that."""
_ANOTHER = re.compile(
    rf"[/\\]{{2}}|&#|&\w+;|www\.|(?<![\w-])(?:{_WORDS}):|(?<![\w/.-]){_HOST}(?::\d+)?[/?#]", re.I
)
"""What may begin an address behind the end of another one."""
_SLASHED_HOST = re.compile(r"(?<![\w:/])//(?:[\w-]+\.)+[\w-]+", re.I)


def carries_data(
    parts: Iterable[Part],
    may_have: Callable[[str | None, Hole | None], bool],
    literal_is_public: bool,
    *,
    is_strict: bool = False,
) -> bool:
    """Whether data that not everybody may read stands in an address.

    Fields of one value may stand beside each other, unless their texts are known and make an address, or it
    `is_strict`.
    `may_have(host, hole)` says whether a host may have the data of a hole, or the plan's own text (None).
    """
    text = ""
    parts = list(parts)
    for number, part in enumerate(parts):
        if isinstance(part, str):
            text += part
            continue
        if part.label.is_public:
            text += MARK if part.text is None else part.text
            continue
        after = "".join(p if isinstance(p, str) else MARK for p in parts[number + 1 :])[:300]
        is_own = not is_strict and _goes_on(parts, number)
        if _is_address(text, after, is_own=is_own) and not may_have(_host_before(text), part):
            return True
        text += _DATA if part.text is None else part.text
    return not literal_is_public and any(
        not may_have(_only_host_of(found.group()), None) for found in _WHOLE.finditer(text)
    )


def _goes_on(parts: list[Part], number: int) -> bool:
    """Whether a hole is a field of the same value as the one before it: `$done.count/$done.total`."""
    here = parts[number]
    before = next((part for part in reversed(parts[:number]) if isinstance(part, Hole)), None)
    if before is None or isinstance(here, str):
        return False
    (one, _, field), (other, _, further) = before.name.partition("."), here.name.partition(".")
    return one == other and bool(field) and bool(further)


def _is_address(before: str, after: str, *, is_own: bool) -> bool:
    """Whether what stands between is in an address.

    Data right behind other data may be, since that may end in an address; not where both are of one value.
    """
    tail = before[-2_000:]
    if _ends_in_address(tail, after, is_own=is_own):
        return True
    if tail.isascii() and "&" not in tail and "\\" not in tail:
        return False
    return _ends_in_address(as_read(tail), after, is_own=is_own)


def _ends_in_address(tail: str, after: str, *, is_own: bool) -> bool:
    last = tail[-1:]
    if last and not (last.isspace() or last in "<>") and (_BARE.search(tail) or _DOMAIN.search(tail)):
        return True  # an address goes on to the end of what stands before
    if "]" in tail and _MARKDOWN.search(tail):
        return True
    if ("<" in tail or "(" in tail) and _TAG.search(tail):
        return True
    if "=" in after and "<" in tail and _OPEN_TAG.search(tail) and _LEADING_ON.match(after):
        return True
    return (not is_own and _GLUED.search(tail) is not None) or _AFTER.match(after) is not None


def _host_before(text: str) -> str | None:
    """The host of the address that the text ends in, where all of it is there."""
    start = text.rfind("://")
    if start < 0:
        return None
    scheme = _SCHEME.search(text[max(start - 31, 0) : start])
    url = text[start - len(scheme[0]) if scheme else start :]
    if re.search(r"[\s<>\"'`]", url) or not re.search(r"://[^/?#]+[/?#]", url):
        return None
    return _only_host_of(url)


def _only_host_of(url: str) -> str | None:
    """The host of a web address; None also where another address may begin behind its end.

    >>> _only_host_of("https://c.example/a(b),c.d"), _only_host_of("https://c.example/](//evil.example/")
    ('c.example', None)
    """
    end = _ENDING.search(url)
    if end is not None and (end[0] == "\\" or _ANOTHER.search(url, end.end())):
        return None
    return host_of(url)


def host_of(url: str) -> str | None:
    """The host of a web address; None for one that is none."""
    try:
        return parse_url(url.replace(MARK, "x").replace(_DATA, "x")).host
    except AddressRefused:
        return None


def images(text: str) -> bool:
    """Whether showing the text makes a request by itself.

    >>> images("![x](https://c.example/)"), images("![x]\\n\\n[x]: https://c.example/"), images("vec![1][0]")
    (True, True, False)
    """
    is_marked = "![" in text
    if not is_marked and "<" not in text and "(" not in text:  # all that loads something has one of these
        return False
    return _IMAGE.search(text) is not None or (is_marked and _DEFINED.search(text) is not None)


def hosts_named(text: str) -> list[str | None]:
    """The hosts of the web addresses in a text, None for one that is none."""
    if "://" not in text:
        return []
    return [_only_host_of(found.group()) for found in _NAMED_HOST.finditer(text)]


def hosts_spoken(text: str) -> list[str | None]:
    """The hosts of the addresses in words, with or without a scheme, None for one that is none.

    >>> hosts_spoken("a link to shop.example/find and one to //cdn.example, on 1/2 page")
    ['shop.example', 'cdn.example']
    """
    if "/" not in text:
        return []
    found = [f.group() for pattern in (_SPOKEN_HOST, _SLASHED_HOST) for f in pattern.finditer(text)]
    spoken = dict.fromkeys(host_of(f"https://{url.lstrip('/')}") for url in found)
    return hosts_named(text) + list(spoken)
