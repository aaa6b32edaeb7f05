"""Shortens values and texts for a document: one line each, in valid Unicode.

A shortened value states its length and SHA-256, so that equal values can be recognised.
"""

from __future__ import annotations

import json
from hashlib import sha256

from callsheet.ir import JSON

MOST_OF_A_VALUE = 200
MOST_OF_A_TEXT = 300
MOST_OF_A_NAME = 80
_DIGITS = 12


def shown_value(value: JSON, most: int = MOST_OF_A_VALUE) -> str:
    """A value as JSON; if longer than `most` characters, its start, its length and the start of its SHA-256.

    >>> shown_value({"total": "120.5"})
    '{"total": "120.5"}'
    >>> shown_value("a" * 300, 10)
    '"aaaaaaaaa… (302 characters, sha256 807cbaadeb1a)'
    """
    text = _unicode(json.dumps(value, ensure_ascii=False))
    if len(text) <= most:
        return text
    digest = sha256(text.encode()).hexdigest()[:_DIGITS]
    return f"{text[:most]}… ({len(text):,} characters, sha256 {digest})"


def shown_text(text: str, most: int = MOST_OF_A_TEXT) -> str:
    """A text on one line, cut after `most` characters.

    >>> shown_text("no such\\n file", 9)
    'no such f…'
    """
    line = " ".join(_unicode(text[: most * 4]).split())
    return line if len(line) <= most else f"{line[:most]}…"


def _unicode(text: str) -> str:
    return text.encode("utf-8", "backslashreplace").decode()
