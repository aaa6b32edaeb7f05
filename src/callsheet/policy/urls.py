"""The host of an address as far as it is known before a run, read as a browser would.

In: an argument with its holes. Out: the authority and how much of it is written in the plan. Data behind the
authority (`https://host/?q=$x`) leaves the host as it stands; data before its end may choose another one.
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
"""Stands for data that is not known."""


class Authority(NamedTuple):
    """What is known of the host of an address.

    `host` is its name where all of it is known, `error` says why it is no address. `chosen_by` is the label
    of the data that the host is made of; that of a literal if it is written in the plan. `written` is the
    text of scheme and authority with a mark for unknown data.
    """

    host: str | None
    error: str | None
    chosen_by: Label
    is_written: bool
    written: str


@lru_cache(maxsize=4)
def authority_of(argument: Argument) -> Authority:
    """What is known of the host of an address; several rules ask it of one call.

    >>> authority_of(Argument("url", ("https://Api.Internal:8443/?d=", Hole("a", LITERAL)))).host
    'api.internal'
    >>> authority_of(Argument("url", ("https://api.internal", Hole("a", LITERAL)))).host is None
    True
    """
    if argument.items:
        return Authority(None, "a list is no address", argument.label, False, "")
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
        if end is None or not is_plain(text):  # what follows a head makes a plain text no worse
            parse_url(text.replace(MARK, "x"))
        host = parse_url((head.rstrip() if end is None else head) + "/").host
    except AddressRefused as error:
        return Authority(None, str(error), chosen_by, is_written, head)
    return Authority(host, None, chosen_by, is_written, head)


def head_of(text: str) -> str | None:
    """Scheme and authority at the beginning of a text, behind which nothing makes it another address.

    None where they may go on, or what follows in the text may make it none.

    >>> head_of("https://c.example/a?q="), head_of("https://c.example"), head_of("https://c.example/\\x00")
    ('https://c.example', None, None)
    """
    end = _ended(text)
    return text[:end] if end is not None and is_plain(text) else None


def _ended(text: str) -> int | None:
    """Where the authority ends, None if it may go on."""
    _, separator, rest = text.partition("://")
    if not separator:
        return None
    end = _END.search(rest)
    return None if end is None else len(text) - len(rest) + end.start()


def _wrong_scheme(head: str) -> str | None:
    scheme = _SCHEME.match(head.partition(MARK)[0])
    if scheme is not None and scheme[1].lower() not in ("http", "https"):
        return "only http:// and https:// addresses can be fetched"
    return None
