"""Lists the encodings in which a secret may appear: URL, JSON, HTML, base64, base32, hexadecimal.

In: a secret. Out: the texts it turns into when programs encode it once or twice. All are plain texts, so
one multi-pattern search finds them however many there are.
"""

from __future__ import annotations

import json
import re
from base64 import b32encode, b64encode
from collections.abc import Iterable, Iterator
from html import escape
from urllib.parse import quote, quote_plus

_KEPT_IN_ADDRESSES = ("", "/", "!'()*", "!'()*;/?:@&=+$,#", "!$&'()*+,;=", "!$&'()*+,;=:@/")
"""Characters left unescaped by: Python, browsers (for a component and for a whole URL), RFC 3986."""
_ESCAPED = re.compile(r"%[0-9A-F]{2}|\\u[0-9a-f]{4}")


def forms_of(value: str) -> Iterator[str]:
    """The secret as it is, and encoded for URLs, JSON, HTML or a Python literal, in base64 and so on.

    >>> sorted(set(forms_of("a b&c")))[:4]
    ['61 20 62 26 63', '6120622663', '61:20:62:26:63', 'BEBRCMY']
    """
    yield value
    data = value.encode("utf-8", "surrogatepass")
    in_addresses = dict.fromkeys((quote_plus(data), *(quote(data, safe=kept) for kept in _KEPT_IN_ADDRESSES)))
    yield from in_addresses
    yield from map(_of_other_case, in_addresses)
    for text in dict.fromkeys(_in_json(value)):
        yield text
        for ascii_only in (True, False):  # JSON nested in a JSON string
            yield json.dumps(text, ensure_ascii=ascii_only)[1:-1]
    yield from _in_html(value)
    yield repr(value)[1:-1]
    yield repr(data)[2:-1]
    yield from _in_hexadecimal(data)
    yield from _in_base32(data)
    for core in _in_base64(data):
        yield core
        yield from _put_elsewhere(core)


def twice_encoded(value: str) -> Iterator[str]:
    """The secret encoded by one program and then again by another.

    >>> written = b64encode(b'{"auth": "' + b64encode(b"joe:hunter2") + b'"}').decode()
    >>> [form for form in twice_encoded("hunter2") if form in written]
    ['gxYm5SbGNq']
    """
    data = value.encode("utf-8", "surrogatepass")
    in_addresses = {*(quote(data, safe=kept) for kept in _KEPT_IN_ADDRESSES), quote_plus(data)} - {value}
    every = {*in_addresses, *map(_of_other_case, in_addresses)}
    for text in every:
        again = quote(text, safe="")
        yield again
        yield _of_other_case(again)
    in_json = {json.dumps(value, ensure_ascii=ascii_only)[1:-1] for ascii_only in (True, False)} - {value}
    cores = [*_in_base64(data)]
    for text in (*every, *in_json, data.hex(), data.hex().upper(), *cores):
        yield from _in_base64(text.encode("utf-8", "surrogatepass"))
    for core in cores:
        yield from (core.encode().hex(), core.encode().hex().upper())


def _in_hexadecimal(data: bytes) -> Iterator[str]:
    for text in (data.hex(), data.hex(" "), data.hex(":")):
        yield text
        yield text.upper()


def _in_base32(data: bytes) -> Iterator[str]:
    """For each alignment, what encodes these bytes alone in base32 of data that contains them."""
    for before in range(5):
        text = b32encode(bytes(before) + data).decode()
        yield text[-(-before * 8 // 5) : (before + len(data)) * 8 // 5]


def _in_base64(data: bytes) -> Iterator[str]:
    """The same for base64 (`_core`), in the standard and the URL-safe alphabet."""
    for before in range(3):
        core = _core(data, before)
        yield core
        if "+" in core or "/" in core:
            yield core.replace("+", "-").replace("/", "_")


def _put_elsewhere(core: str) -> Iterable[str]:
    """A part of a base64 text as it is escaped in a URL, and in JSON by PHP."""
    if "+" not in core and "/" not in core:
        return ()
    in_address = quote(core, safe="")
    return in_address, _of_other_case(in_address), core.replace("/", "\\/")


def _of_other_case(text: str) -> str:
    r"""The text with the hexadecimal digits of its escapes in the other case.

    >>> _of_other_case(r"%2Fab \u00fc")
    '%2fab \\u00FC'
    """
    return _ESCAPED.sub(lambda found: found[0].swapcase().replace("U", "u"), text)


def _in_json(text: str) -> Iterator[str]:
    """A text inside a JSON string, also with the extra escapes used for JSON in HTML pages."""
    for ascii_only in (True, False):
        plain = json.dumps(text, ensure_ascii=ascii_only)[1:-1]
        yield plain
        yield _of_other_case(plain)
        yield plain.replace("/", "\\/")
        for signs in ("<>&", "<>&'"):
            unseen = plain.translate({ord(sign): f"\\u{ord(sign):04x}" for sign in signs})
            yield unseen
            yield _of_other_case(unseen)


def _in_html(text: str) -> Iterator[str]:
    """A text inside HTML, with the various escapes of quotes."""
    yield escape(text, quote=False)
    escaped = escape(text)
    for quote_mark, double in (
        ("&#x27;", "&quot;"),
        ("&#39;", "&quot;"),
        ("&#39;", "&#34;"),
        ("&apos;", "&quot;"),
    ):
        yield escaped.replace("&#x27;", quote_mark).replace("&quot;", double)


def _core(data: bytes, before: int) -> str:
    """The characters that encode these bytes alone, in base64 of data where `before` bytes precede them."""
    text = b64encode(bytes(before) + data).decode().rstrip("=")
    first = (before * 8 + 5) // 6
    last = (before + len(data)) * 8 // 6
    return text[first:last]
