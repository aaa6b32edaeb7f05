"""The syntax tree of a JSON or YAML text: scalars, sequences and mappings with their spans."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

from callsheet.diagnostics import Span
from callsheet.ir import JSON
from callsheet.ir import expr as ir_types


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


class Part(NamedTuple):
    """A part of the tree with its number of nodes and the nesting depth of its lists and mappings."""

    node: Node
    size: int
    height: int


def span_of(event: Any) -> Span:
    """The span of an event; PyYAML counts characters, as `Source` does."""
    return Span(event.start_mark.index, event.end_mark.index)


def place_near(text: str, at: int) -> Span:
    """The span of an error; at the end of the text, that of the last character."""
    if at >= len(text):
        at = max(len(text.rstrip()) - 1, 0)
    return Span(at, at + 1)


class YamlWalk(ABC):
    """Builds the tree of one text; a subclass interprets scalars, keys, anchors and aliases."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.size = 0
        """The number of nodes so far; those of an alias are counted at each use."""

    def whole(self) -> Node | None:
        """The tree, None for a text without a document; raises the errors of PyYAML and of the subclass."""
        import yaml  # noqa: PLC0415 - loaded for YAML only

        root: Node | None = None
        stack: list[_Open] = []
        for event in yaml.parse(self.text, Loader=yaml.CSafeLoader):
            match event:
                case yaml.ScalarEvent():
                    is_key = bool(stack) and stack[-1].is_mapping and stack[-1].key is None
                    part = Part(self.scalar(event, is_key), 1, 0)
                    self.size += 1
                    self.finished(event.anchor, part)
                case yaml.SequenceStartEvent() | yaml.MappingStartEvent():
                    self.opened(event, len(stack))
                    self.size += 1
                    is_mapping = isinstance(event, yaml.MappingStartEvent)
                    stack.append(_Open(span_of(event).start, is_mapping, event.anchor, self.size))
                    continue
                case yaml.SequenceEndEvent() | yaml.MappingEndEvent():
                    done = stack.pop()
                    size = self.size - done.size_before + 1
                    part = Part(done.node(span_of(event).end), size, done.height + 1)
                    self.finished(done.anchor, part)
                case yaml.AliasEvent():
                    part = self.alias(event, len(stack))
                    self.size += part.size
                case yaml.DocumentStartEvent():
                    if root is not None:
                        self.second_document(event)
                    continue
                case _:
                    continue
            if stack:
                self._put(stack[-1], part)
            else:
                root = part.node
        return root

    def _put(self, into: _Open, part: Part) -> None:
        into.height = max(into.height, part.height)
        if not into.is_mapping:
            into.items.append(part.node)
        elif into.key is None:
            into.key = self.key(part.node)
        else:
            key, key_span = into.key
            into.key = None
            first = into.known.setdefault(key, key_span)
            if first is key_span:
                into.entries.append(Entry(key, key_span, part.node))
            else:
                self.repeated(key, first, key_span)

    @abstractmethod
    def scalar(self, event: Any, is_key: bool) -> Scalar:
        """The scalar of an event."""

    @abstractmethod
    def key(self, node: Node) -> tuple[str, Span]:
        """The key of a node, with its span."""

    @abstractmethod
    def opened(self, event: Any, depth: int) -> None:
        """Called when a list or mapping begins within `depth` others."""

    @abstractmethod
    def alias(self, event: Any, depth: int) -> Part:
        """The part that an alias refers to."""

    @abstractmethod
    def repeated(self, key: str, first: Span, again: Span) -> None:
        """Called for a duplicate key of a mapping, whose second value is left out."""

    @abstractmethod
    def second_document(self, event: Any) -> None:
        """Called when a second document begins."""

    def finished(self, anchor: str | None, part: Part) -> None:  # noqa: B027 - not abstract: nothing to do without anchors
        """Called for a complete part; `anchor` is its name, if it has one."""


class _Open:
    """A list or mapping whose end has not been read yet."""

    __slots__ = ("anchor", "entries", "height", "is_mapping", "items", "key", "known", "size_before", "start")

    def __init__(self, start: int, is_mapping: bool, anchor: str | None, size_before: int) -> None:
        self.start = start
        self.is_mapping = is_mapping
        self.anchor = anchor
        self.size_before = size_before
        self.height = 0
        self.items: list[Node] = []
        self.entries: list[Entry] = []
        self.known: dict[str, Span] = {}
        self.key: tuple[str, Span] | None = None

    def node(self, end: int) -> Node:
        span = Span(self.start, max(end, self.start))
        return Mapping(self.entries, span) if self.is_mapping else Sequence(self.items, span)
