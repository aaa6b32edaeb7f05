"""Builds the value table of a report: each value once, long ones shortened, or all omitted.

In: values of a run. Out: numbers, and the table that they index. A value is stored as its JSON text, so that
no number loses digits in a browser.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import field
from hashlib import sha256
from typing import TypeAlias

from callsheet import lazy
from callsheet.ir import JSON
from callsheet.lazy import dataclass

SEALED = "[sealed k:"
"""The beginning of the text in place of a secret; nothing here opens it."""
NO_VALUE = -1
MOST_BYTES = 16_384
_MOST_ASKED = 1 << 20
"""The maximum size of a value that a person decides about, in bytes."""

_LONGEST_KEY = 64
_ABSENT = "null"
"""The row of a value that is in an earlier document but not in this one."""

Numbers: TypeAlias = "dict[str, int]"
Shown: TypeAlias = "str | list[str | int | None]"
"""A JSON text, `[beginning, bytes, digest]` of a shortened value, or `[null, bytes, kind]` of an omitted one.

The digest is the SHA-256 of the whole JSON text, by which a server finds it."""

_LONE_SURROGATE = lazy.pattern("[\ud800-\udfff]")
_encode = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False).encode


@dataclass(slots=True)
class Values:
    """Collects the values of a report.

    `most` is the maximum size of a value as JSON, in bytes; `redacts` omits all values but keeps their kinds
    and sizes. `sealed` and `shortened` count distinct values.
    """

    most: int = MOST_BYTES
    redacts: bool = False
    rows: list[Shown] = field(default_factory=list["Shown"])
    sealed: int = 0
    shortened: int = 0
    bytes: int = 0
    """The size of all distinct values in bytes, before anything is shortened or omitted."""
    whole: str = ""
    """The digest of a value that is not shortened."""
    numbers: Numbers = field(default_factory=dict[str, int])
    """The numbers by value; with those of an earlier document of the run, its values keep their numbers."""
    _added: set[int] = field(default_factory=set[int])

    def add(self, value: JSON) -> int:
        """Returns the number of a value, adding it if it is new."""
        text = json_text(value)
        number = self._number(_key("=", text))
        if number not in self._added:
            self._added.add(number)
            self.rows[number] = self._shown(text, value)
        return number

    def add_asked(self, value: JSON) -> int:
        """As `add`, for a value that a person decides about: it is shortened only above 1 MiB."""
        number, text = self.add(value), json_text(value)
        shown = self.rows[number]
        if isinstance(shown, list) and shown[0] is not None and len(text.encode()) <= _MOST_ASKED:
            self.rows[number] = text
            self.shortened -= 1
        return number

    def add_plain(self, value: JSON) -> int:
        """Returns the number of data that discloses no value and is never omitted."""
        text = json_text(value)
        number = self._number(_key("~", text))
        if number not in self._added:
            self._added.add(number)
            self.rows[number] = text
        return number

    def _number(self, key: str) -> int:
        number = self.numbers.setdefault(key, len(self.numbers))
        while len(self.rows) <= number:
            self.rows.append(_ABSENT)
        return number

    def add_text(self, text: str) -> int:
        """Returns the number of a text that may contain values, such as an error; -1 for an empty text."""
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
        digest = _digest(text)
        if digest == self.whole:
            return text
        self.shortened += 1
        return [text.encode()[: self.most].decode(errors="ignore"), size, digest]


def whole_text(digest: str, numbers: Numbers, rows: Sequence[Shown]) -> str | None:
    """Returns the JSON text with this digest from a table made with it as `whole`; None if none has it."""
    number = numbers.get(f"={digest}")
    row = None if number is None or number >= len(rows) else rows[number]
    return row if isinstance(row, str) and _digest(row) == digest else None


def _key(kind: str, text: str) -> str:
    return kind + (text if len(text) <= _LONGEST_KEY else _digest(text))


def _digest(text: str) -> str:
    return sha256(text.encode()).hexdigest()


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
    """Returns a value as compact JSON with lone surrogates escaped, which can be encoded as UTF-8."""
    text = _encode(value)
    if text.isascii():
        return text
    return _LONE_SURROGATE.sub(lambda match: f"\\u{ord(match[0]):04x}", text)
