"""The syntax tree of a JSON or YAML text: scalars, sequences and mappings with their spans.

Shared by plans and LCTL documents. Keys of a mapping are strings and unique: parsers refuse others.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from callsheet.diagnostics import Span
from callsheet.ir import JSON
from callsheet.ir import types as ir_types


@dataclass(slots=True, eq=False)
class Scalar:
    """A string, number, true, false or null; the span of a string includes its quotes."""

    value: ir_types.Scalar
    span: Span


@dataclass(slots=True, eq=False)
class Sequence:
    """A list."""

    items: list[Node]
    span: Span


class Entry(NamedTuple):
    """A key with its value."""

    key: str
    key_span: Span
    value: Node


@dataclass(slots=True, eq=False)
class Mapping:
    """An object, with its entries in the order of the text."""

    entries: list[Entry]
    span: Span

    def get(self, key: str) -> Entry | None:
        """The entry of a key."""
        return next((entry for entry in self.entries if entry.key == key), None)


Node: TypeAlias = "Scalar | Sequence | Mapping"


def plain(node: Node) -> JSON:
    """The value without spans, as `json.loads` returns it."""
    match node:
        case Scalar(value=value):
            return value
        case Sequence(items=items):
            return [plain(item) for item in items]
        case Mapping(entries=entries):
            return {entry.key: plain(entry.value) for entry in entries}


def kind_of(node: Node) -> str:
    """The name of a node's type in messages.

    >>> kind_of(Scalar(7, Span(0, 1))), kind_of(Scalar(None, Span(0, 4)))
    ('a number', 'null')
    """
    match node:
        case Sequence():
            return "a list"
        case Mapping():
            return "an object"
        case Scalar(value=bool(value)):
            return "true" if value else "false"
        case Scalar(value=None):
            return "null"
        case Scalar(value=str()):
            return "a text"
        case Scalar():
            return "a number"
