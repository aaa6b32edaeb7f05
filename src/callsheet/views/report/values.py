"""Builds the value table of a report: each text once, long ones shortened, none if values are omitted.

In: values of a run. Out: numbers, and the table that they point into. A value stands as its JSON text, so
that no number loses digits on its way through a browser.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from hashlib import sha256
from typing import TypeAlias

from callsheet.ir import JSON

SEALED = "[sealed k:"
"""What the text in the place of a secret begins with; nothing here opens it."""
NO_VALUE = -1
MOST_BYTES = 16_384

_LONGEST_KEY = 64
_NOT_HERE = "null"
"""In the place of a value of an earlier document that this one does not have."""

Numbers: TypeAlias = "dict[str, int]"
Shown: TypeAlias = "str | list[str | int] | list[str | int | None]"
"""A JSON text; `[beginning, bytes]` of a shortened one; `[null, bytes, kind]` of one that is left out."""

_LONE = re.compile("[\ud800-\udfff]")
_encode = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False).encode


@dataclass(slots=True)
class Values:
    """Collects the values of a report.

    `most` is the bytes of JSON text that a value may have; `redacts` leaves all values out and keeps what
    kind they are and how large. `sealed` and `shortened` count distinct values.
    """

    most: int = MOST_BYTES
    redacts: bool = False
    rows: list[Shown] = field(default_factory=list["Shown"])
    sealed: int = 0
    shortened: int = 0
    bytes: int = 0
    """Of all values as they were, before anything was left out."""
    numbers: Numbers = field(default_factory=dict[str, int])
    """By value; who gives those of an earlier document of the run gets the same numbers again."""
    _told: set[int] = field(default_factory=set[int])

    def add(self, value: JSON) -> int:
        """The number of a value."""
        text = json_text(value)
        number = self._number("=", text)
        if number not in self._told:
            self._told.add(number)
            self.rows[number] = self._shown(text, value)
        return number

    def add_plain(self, value: JSON) -> int:
        """The number of what tells no value, and is never left out."""
        text = json_text(value)
        number = self._number("~", text)
        if number not in self._told:
            self._told.add(number)
            self.rows[number] = text
        return number

    def _number(self, kind: str, text: str) -> int:
        key = kind + (text if len(text) <= _LONGEST_KEY else sha256(text.encode()).hexdigest())
        number = self.numbers.setdefault(key, len(self.numbers))
        while len(self.rows) <= number:
            self.rows.append(_NOT_HERE)
        return number

    def add_text(self, text: str) -> int:
        """The number of a text that may hold values, such as the message of an error; -1 for none."""
        return self.add(text) if text else NO_VALUE

    def _shown(self, text: str, value: JSON) -> Shown:
        size = len(text) if text.isascii() else len(text.encode())
        self.bytes += size
        if SEALED in text:
            self.sealed += 1
        if self.redacts:
            return [None, size, _kind(value)]
        if size <= self.most:
            return text
        self.shortened += 1
        return [text.encode()[: self.most].decode(errors="ignore"), size]


def _kind(value: JSON) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "bool"
        case str():
            return "text"
        case int() | float():
            return "number"
        case list():
            return "list"
        case dict():
            return "object"


def json_text(value: JSON) -> str:
    """A value as compact JSON that is Unicode text."""
    text = _encode(value)
    if text.isascii():
        return text
    return _LONE.sub(lambda match: f"\\u{ord(match[0]):04x}", text)
