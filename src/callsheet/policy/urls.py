"""Determines the host of an address as far as it is known before a run, parsed as a browser would.

In: an argument with holes. Out: the authority, and the label of the data it is made of. Data after the
authority (`https://host/?q=$x`) does not affect the host; data before its end may change it.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

from callsheet.ir.labels import LITERAL, Label
from callsheet.policy.addresses import AddressRefused, is_plain, parse_url
from callsheet.policy.calls import Argument, Hole

_END = re.compile(r"[/?#]")
_SCHEME = re.compile(r"\s*([A-Za-z][A-Za-z0-9+.-]*):")
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
