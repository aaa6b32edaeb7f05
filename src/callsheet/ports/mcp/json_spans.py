"""Parses JSON configuration files and keeps the place of every value.

In: a text, with comments and trailing commas as editors allow them. Out: a tree of `Node`s with spans, or
CallsheetError (CFG111) at the wrong character. Duplicate keys are refused, because one would be dropped
silently.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from json import JSONDecodeError, JSONDecoder
from typing import Any, NoReturn, TypeAlias

from callsheet.diagnostics import CallsheetError, Diagnostic, Severity, Source, Span

_BLANK = re.compile(r"(?:[ \t\r\n\ufeff]+|//[^\n]*|/\*.*?\*/)*", re.DOTALL)
_NUMBER = re.compile(r"-?(?:0|[1-9]\d*)(\.\d+)?([eE][-+]?\d+)?")
_WORDS = {"true": True, "false": False, "null": None}
_MAX_DEPTH = 32

Plain: TypeAlias = "bool | int | float | str | list[Node] | dict[str, Node] | None"


@dataclass(frozen=True, slots=True)
class Node:
    """A value and its span; `key` is the span of its key in the enclosing object."""

    value: Plain
    span: Span
    key: Span | None = None

    def data(self) -> Any:
        """The value as plain data, without spans."""
        match self.value:
            case list(items):
                return [item.data() for item in items]
            case dict(items):
                return {key: item.data() for key, item in items.items()}
            case plain:
                return plain


def fail(source: Source, code: str, span: Span, message: str, help: str | None = None) -> NoReturn:  # noqa: A002
    """Raise CallsheetError with one diagnostic at a place in the source."""
    raise CallsheetError([Diagnostic(code, Severity.ERROR, message, span, help=help)], source)


def parse(source: Source) -> Node:
    """The tree of a JSON text; raises CallsheetError (CFG111) if it is not JSON."""
    reader = _Reader(source)
    node = reader.value(reader.skip(0), None, 0)
    end = reader.skip(node.span.end)
    if end != len(source.text):
        reader.wrong(end, "there is more text after the end of the JSON value")
    return node


class _Reader:
    def __init__(self, source: Source) -> None:
        self.source = source
        self.text = source.text
        self._strings = JSONDecoder()

    def wrong(self, at: int, message: str, help: str | None = None) -> NoReturn:  # noqa: A002
        fail(self.source, "CFG111", Span(at, at + 1), message, help)

    def skip(self, at: int) -> int:
        match = _BLANK.match(self.text, at)
        return match.end() if match else at

    def value(self, at: int, key: Span | None, depth: int) -> Node:
        if depth > _MAX_DEPTH:
            self.wrong(at, "nested too deep for a configuration")
        match self.text[at : at + 1]:
            case "{":
                return self._object(at, key, depth)
            case "[":
                return self._array(at, key, depth)
            case '"':
                text, end = self._string(at)
                return Node(text, Span(at, end), key)
            case "":
                self.wrong(at, "the text ends where a value is expected")
            case _:
                return self._plain(at, key)

    def _string(self, at: int) -> tuple[str, int]:
        try:
            return self._strings.raw_decode(self.text, at)
        except JSONDecodeError as error:
            self.wrong(error.pos, f"{error.msg[0].lower()}{error.msg[1:]}".removesuffix(" at"))

    def _plain(self, at: int, key: Span | None) -> Node:
        number = _NUMBER.match(self.text, at)
        if number:
            whole = number[1] is None and number[2] is None
            if whole and len(number[0]) > 300:
                self.wrong(at, "this number is too long")
            return Node(int(number[0]) if whole else float(number[0]), Span(*number.span()), key)
        word = re.compile(r"\w*").match(self.text, at)
        name = word[0] if word else ""
        if name in _WORDS:
            return Node(_WORDS[name], Span(at, at + len(name)), key)
        if self.text[at] == "'":
            self.wrong(at, "a string needs double quotes", "write \"…\" for '…'")
        self.wrong(at, "a value is expected here", "strings need double quotes")

    def _array(self, at: int, key: Span | None, depth: int) -> Node:
        items: list[Node] = []
        position = self.skip(at + 1)
        while self.text[position : position + 1] != "]":
            node = self.value(position, None, depth + 1)
            items.append(node)
            position = self._next(node.span.end, "]", at)
        return Node(items, Span(at, position + 1), key)

    def _object(self, at: int, key: Span | None, depth: int) -> Node:
        items: dict[str, Node] = {}
        position = self.skip(at + 1)
        while self.text[position : position + 1] != "}":
            if self.text[position : position + 1] != '"':
                self.wrong(position, "a key is expected here", "keys need double quotes")
            name, end = self._string(position)
            if name in items:
                fail(self.source, "CFG111", Span(position, end), f"the key {name!r} is repeated here")
            colon = self.skip(end)
            if self.text[colon : colon + 1] != ":":
                self.wrong(colon, f"a colon is expected here, after the key {name!r}")
            node = self.value(self.skip(colon + 1), Span(position, end), depth + 1)
            items[name] = node
            position = self._next(node.span.end, "}", at)
        return Node(items, Span(at, position + 1), key)

    def _next(self, at: int, close: str, opened: int) -> int:
        """Skip a comma; returns the position of the next item or of the closing bracket."""
        position = self.skip(at)
        match self.text[position : position + 1]:
            case ",":
                return self.skip(position + 1)
            case char if char == close:
                return position
            case "":
                line = self.source.position(opened).line
                self.wrong(position, f"the text ends inside the {self.text[opened]!r} of line {line}")
            case _:
                self.wrong(position, f"a comma or {close!r} is expected here")
