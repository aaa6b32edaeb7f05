"""The placeholder shown instead of a secret: its digest, kind and size, and nothing of its content."""

from __future__ import annotations

import json
from collections.abc import Collection
from typing import Any, cast

from callsheet.sealing.keys import SealKey

MASK = "[secret]"
"""Shown instead of a secret if there is no key for a digest."""
WITHHELD = "[withheld: computed from a sealed value]"
"""Stands for what a run has computed from a secret, where only the placeholder of the secret is there."""


def kind_of(value: object) -> tuple[str, int]:
    """The kind of a value as a word, and its size: characters, items or entries; 0 for scalars.

    >>> kind_of("abc"), kind_of([1]), kind_of(7)
    (('text', 3), ('list', 1), ('number', 0))
    """
    match value:
        case str():
            return "text", len(value)
        case bool():
            return "truth value", 0
        case int() | float():
            return "number", 0
        case list():
            return "list", len(cast("list[Any]", value))
        case dict():
            return "object", len(cast("dict[str, Any]", value))
        case _:
            return "nothing", 0


_UNITS = {"text": "characters", "list": "items", "object": "entries"}


def bytes_of(value: object) -> bytes:
    """The bytes that are hashed for the digest: a text itself, the JSON text of any other value."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text.encode("utf-8", "surrogatepass")


def placeholder(value: object, key: SealKey) -> str:
    """The placeholder of a secret value.

    >>> placeholder("hunter2", SealKey(bytes(32)))
    '[sealed k:fbbc4bb23d84, text, 7 characters]'
    """
    kind, size = kind_of(value)
    unit = f", {size:,} {_UNITS[kind]}" if kind in _UNITS else ""
    return f"[sealed {key.digest(bytes_of(value))}, {kind}{unit}]"


def is_nothing(value: object) -> bool:
    """Whether a value is empty, so that there is nothing to keep secret."""
    return value is None or (isinstance(value, str | list | dict) and not value)


def veiled(value: object, key: SealKey, names: Collection[str]) -> Any:
    """The value with its leaves replaced by placeholders; lists and entries in `names` keep structure.

    The names are those that the plan uses, so showing them reveals nothing.
    """
    if is_nothing(value):
        return value
    if isinstance(value, list):
        return [veiled(item, key, names) for item in cast("list[Any]", value)]
    if isinstance(value, dict):
        entries = cast("dict[str, Any]", value).items()
        visible = {name: veiled(item, key, names) for name, item in entries if name in names}
        if visible:
            return visible
    return placeholder(cast("object", value), key)


def has_placeholder(value: Any) -> bool:
    """Whether a value is, or contains, the placeholder of a sealed value."""
    if isinstance(value, str):
        return "[sealed k:" in value
    if isinstance(value, list):
        return any(map(has_placeholder, cast("list[Any]", value)))
    return isinstance(value, dict) and any(map(has_placeholder, cast("dict[str, Any]", value).values()))
