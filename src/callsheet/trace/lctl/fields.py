"""Reads the fields of one mapping of a document, one by one with their types.

Missing and wrong values are reported as findings and read as None; values of a wrong type and unknown
keys are collected in `rest`, as plain data.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from callsheet.frontends.tree import Mapping as Object
from callsheet.frontends.tree import Node, Scalar, Sequence, kind_of, plain
from callsheet.trace.lctl.findings import Notes, Path
from callsheet.trace.lctl.model import Extra

_MOST_DIGITS = 20
"""A number that is longer is not shown."""


class Fields:
    """A mapping, and the keys of it that have not been read yet."""

    def __init__(self, node: Object, path: Path, notes: Notes) -> None:
        self._nodes: dict[str, Node] = {entry.key: entry.value for entry in node.entries}
        self._rest: dict[str, Any] = {}
        self.path = path
        self.notes = notes

    def has(self, key: str) -> bool:
        """Whether the mapping has this key and it has not been read yet."""
        return key in self._nodes

    def node(self, key: str) -> Node | None:
        """The value of a key, which is marked as read."""
        return self._nodes.pop(key, None)

    def peek(self, key: str) -> Node | None:
        """The value of a key, which is not marked as read."""
        return self._nodes.get(key)

    def keep(self, key: str, node: Node) -> None:
        """Keep an invalid value in `rest`."""
        self._rest[key] = plain(node)

    def wrong(self, key: str, node: Node, wanted: str, rule: str = "S07") -> None:
        """Report an invalid value, and keep it."""
        self.notes.add(rule, f"{key} has to be {wanted}, but is {_value_kind(node, wanted)}", *self.path, key)
        self.keep(key, node)

    def text(self, key: str, *, blank_is: str | None = None) -> str | None:
        """A string; `blank_is` is the rule that a blank one breaks."""
        node = self.node(key)
        if node is None:
            return None
        if not isinstance(node, Scalar) or not isinstance(node.value, str):
            self.wrong(key, node, "a text")
            return None
        if blank_is is not None and not node.value.strip():
            self.notes.add(blank_is, None, *self.path, key)
        return node.value

    def needed_text(self, key: str, rule: str) -> str | None:
        """A string; `rule` is the rule that a missing or blank one breaks."""
        if not self.has(key):
            self.notes.add(rule, None, *self.path)
        return self.text(key, blank_is=rule)

    def flag(self, key: str) -> bool:
        """A boolean; false if it is missing."""
        node = self.node(key)
        if node is None:
            return False
        if isinstance(node, Scalar) and isinstance(node.value, bool):
            return node.value
        self.wrong(key, node, "true or false")
        return False

    def step(self, key: str, rule: str) -> int | None:
        """A whole number from 1 on; `rule` is the rule that anything else breaks."""
        node = self.node(key)
        if node is None:
            return None
        if isinstance(node, Scalar) and type(node.value) is int and node.value >= 1:
            return node.value
        self.wrong(key, node, "a whole number from 1", rule)
        return None

    def confidence(self, key: str) -> float | None:
        """A number from 0 to 1."""
        node = self.node(key)
        if node is None:
            return None
        if not isinstance(node, Scalar) or type(node.value) not in (int, float):
            self.wrong(key, node, "a number", "V01")
            return None
        value: Any = node.value
        if not 0 <= value <= 1:
            shown = repr(value) if len(repr(value)) < _MOST_DIGITS else "a very large number"
            self.notes.add("V02", f"{key} is {shown}, not between 0.0 and 1.0", *self.path, key)
            self.keep(key, node)
            return None
        return value

    def duration(self, key: str) -> float | None:
        """A duration in milliseconds."""
        node = self.node(key)
        if node is None:
            return None
        if not isinstance(node, Scalar) or type(node.value) not in (int, float):
            self.wrong(key, node, "a number")
            return None
        value: Any = node.value
        if not 0 <= value < float("inf"):
            self.notes.add("T13", None, *self.path, key)
            self.keep(key, node)
            return None
        return value

    def texts(self, key: str) -> tuple[str, ...] | None:
        """A list of strings; None if there is none."""
        node = self.node(key)
        if node is None:
            return None
        if not isinstance(node, Sequence) or not all(
            isinstance(item, Scalar) and isinstance(item.value, str) for item in node.items
        ):
            self.wrong(key, node, "a list of strings")
            return None
        return tuple(str(item.value) for item in node.items if isinstance(item, Scalar))

    def inner(self, key: str) -> Fields | None:
        """The fields of a mapping inside this one."""
        node = self.node(key)
        if node is None:
            return None
        if not isinstance(node, Object):
            self.wrong(key, node, "a mapping")
            return None
        return Fields(node, (*self.path, key), self.notes)

    def aliased(self, key: str, short: str) -> str | None:
        """A string with either of two keys; different values for both are an error."""
        has_both = self.has(key) and self.has(short)
        long_value, short_value = self.text(key), self.text(short)
        if has_both and long_value is not None and short_value is not None:
            if long_value == short_value:
                self.notes.add("S10", f"{key} and {short} are both there, and equal", *self.path, short)
            else:
                self.notes.add(
                    "S09", f"{key} is {long_value[:40]!r}, {short} is {short_value[:40]!r}", *self.path, short
                )
                self._rest[short] = short_value
        return long_value if long_value is not None else short_value

    def rest(self) -> Extra:
        """The unknown keys, which are reported, and the invalid values."""
        for key, node in self._nodes.items():
            self.notes.add("S06", f"the key {key[:40]!r} is unknown; it is kept", *self.path, key)
            self._rest[key] = plain(node)
        return frozen(self._rest)


def frozen(data: Mapping[str, Any]) -> Extra:
    """A read-only copy of the mapping."""
    return MappingProxyType(dict(data))


def _value_kind(node: Node, wanted: str) -> str:
    """What a value is: a number itself where numbers are wanted, else the kind."""
    if not isinstance(node, Scalar):
        return kind_of(node)
    if node.value is None:
        return "empty"
    is_number = isinstance(node.value, int | float) and not isinstance(node.value, bool)
    shown = repr(node.value) if is_number and "number" in wanted else ""
    return shown if 0 < len(shown) < _MOST_DIGITS else kind_of(node)
