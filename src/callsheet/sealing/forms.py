"""How programs write a text that they put into another one: in addresses, JSON, pages, base64, hexadecimal.

In: a secret. Out: the texts in which it turns up where a program has encoded it, once or twice. All are plain
texts, so that looking for them takes one pass, however many they are.
"""

from __future__ import annotations

import json
import re
from base64 import b32encode, b64encode
from collections.abc import Iterable, Iterator
from html import escape
from urllib.parse import quote, quote_plus

_KEPT_IN_ADDRESSES = ("", "/", "!'()*", "!'()*;/?:@&=+$,#", "!$&'()*+,;=", "!$&'()*+,;=:@/")
"""What programs write as it is: Python, a browser for a part of an address and for a whole one, RFC 3986."""
_ESCAPED = re.compile(r"%[0-9A-F]{2}|\\u[0-9a-f]{4}")


def forms_of(value: str) -> Iterator[str]:
    """The secret, as it is and as programs encode it: URL, base64, hexadecimal, in JSON, HTML or a literal.

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
        for ascii_only in (True, False):  # a JSON text that stands in another one
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
    """The secret as it stands where what one program has encoded is encoded by another one.

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
    """What stands in any base32 text of data with these bytes in it."""
    for before in range(5):
        text = b32encode(bytes(before) + data).decode()
        yield text[-(-before * 8 // 5) : (before + len(data)) * 8 // 5]


def _in_base64(data: bytes) -> Iterator[str]:
    """What stands in any base64 text of data with these bytes in it, in both alphabets."""
    for before in range(3):
        core = _core(data, before)
        yield core
        if "+" in core or "/" in core:
            yield core.replace("+", "-").replace("/", "_")


def _put_elsewhere(core: str) -> Iterable[str]:
    """A part of a base64 text as it stands in an address, and as PHP puts it into JSON."""
    if "+" not in core and "/" not in core:
        return ()
    in_address = quote(core, safe="")
    return in_address, _of_other_case(in_address), core.replace("/", "\\/")


def _of_other_case(text: str) -> str:
    r"""The same with the letters of its escapes in the other case.

    >>> _of_other_case(r"%2Fab \u00fc")
    '%2fab \\u00FC'
    """
    return _ESCAPED.sub(lambda found: found[0].swapcase().replace("U", "u"), text)


def _in_json(text: str) -> Iterator[str]:
    """A text as it stands in a JSON text, also of those who put JSON into pages."""
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
    """A text as it stands in a page."""
    yield escape(text, quote=False)
    whole = escape(text)
    for quote_mark, double in (
        ("&#x27;", "&quot;"),
        ("&#39;", "&quot;"),
        ("&#39;", "&#34;"),
        ("&apos;", "&quot;"),
    ):
        yield whole.replace("&#x27;", quote_mark).replace("&quot;", double)


def _core(data: bytes, before: int) -> str:
    """What stands in any base64 text of data with these bytes after `before` others, whatever is around."""
    text = b64encode(bytes(before) + data).decode().rstrip("=")
    first = (before * 8 + 5) // 6
    last = (before + len(data)) * 8 // 6
    return text[first:last]
