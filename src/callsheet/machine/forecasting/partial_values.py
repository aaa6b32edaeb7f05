"""Partially known values: placeholders, and texts, lists and dicts that contain some.

A plain JSON value is always fully known; a value with an unknown part at any depth is one of the classes
here. Paths, emptiness and casts of known values are those of `machine.values`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, TypeAlias

from callsheet.ir import JSON, Cast, PathPart
from callsheet.machine.values import cast_value, is_empty, items_of, to_text, walk

_MOST_PATH = 30


@dataclass(frozen=True, slots=True)
class Unknown:
    """A placeholder for a value that only a run will know.

    `what` describes it (`READ_FILE result`, `$x`), `step` is the step that gives it, None if it is not one
    step's; `path` is the path inside that value. `kind` is the cast applied to it, or another word for its
    type; None if unknown.
    """

    what: str
    step: str | None = None
    path: tuple[PathPart, ...] = ()
    kind: str | None = None

    def at(self, part: PathPart) -> Unknown:
        """The placeholder for a part of the value."""
        path = (*self.path, part)[-_MOST_PATH:]
        return replace(self, path=path, kind=None)

    def __str__(self) -> str:
        return f"<{'.'.join([self.what, *map(str, self.path)])}>"


class Text(NamedTuple):
    """A text with placeholders in it; no two neighbouring parts are texts."""

    parts: tuple[str | Unknown, ...]


class Items(NamedTuple):
    """A list of known length; at least one item is not fully known."""

    items: tuple[Foreseen, ...]


class Fields(NamedTuple):
    """A dict with known keys; at least one value is not fully known."""

    pairs: tuple[tuple[str, Foreseen], ...]


Partial: TypeAlias = "Unknown | Text | Items | Fields"
Foreseen: TypeAlias = "JSON | Partial"
"""A value as far as it is known before the run."""
_PARTIAL = (Unknown, Text, Items, Fields)


def is_known(value: Foreseen) -> bool:
    """Whether the value is fully known."""
    return not isinstance(value, _PARTIAL)


def list_of(items: Sequence[Foreseen]) -> Foreseen:
    """The list of these items."""
    return Items(tuple(items)) if any(isinstance(item, _PARTIAL) for item in items) else list(items)  # pyright: ignore[reportReturnType]


def dict_of(pairs: Sequence[tuple[str, Foreseen]]) -> Foreseen:
    """The dict of these keys and values."""
    if any(isinstance(value, _PARTIAL) for _, value in pairs):
        return Fields(tuple(pairs))
    return dict(pairs)  # pyright: ignore[reportReturnType]


def text_of(parts: Sequence[str | Unknown]) -> str | Text:
    """The text made of these parts, with neighbouring texts joined.

    >>> text_of(["a", "b"]), text_of(["a", "", Unknown("X result")])
    ('ab', Text(parts=('a', Unknown(what='X result', step=None, path=(), kind=None))))
    """
    pieces: list[str | Unknown] = []
    texts: list[str] = []
    for part in parts:
        if isinstance(part, str):
            texts.append(part)
            continue
        if any(texts):
            pieces.append("".join(texts))
        texts = []
        pieces.append(part)
    if not pieces:
        return "".join(texts)
    if any(texts):
        pieces.append("".join(texts))
    return Text(tuple(pieces))


def parts_of_text(value: Foreseen) -> tuple[str | Unknown, ...]:
    """What a value inside a text contributes to it."""
    match value:
        case Unknown():
            return (value,)
        case Text(parts=parts):
            return parts
        case Items():
            return (Unknown("a list of " + str(next(unknowns_of(value)))[1:-1], kind="text"),)
        case Fields():
            return (Unknown("an object of " + str(next(unknowns_of(value)))[1:-1], kind="text"),)
        case _:
            return (to_text(value),)


def unknowns_of(value: Foreseen) -> Iterator[Unknown]:
    """The placeholders in a value, in order."""
    stack: list[Foreseen] = [value]
    while stack:
        current = stack.pop()
        match current:
            case Unknown():
                yield current
            case Text(parts=parts):
                yield from (part for part in parts if isinstance(part, Unknown))
            case Items(items=items):
                stack.extend(reversed(items))
            case Fields(pairs=pairs):
                stack.extend(part for _, part in reversed(pairs))
            case _:
                pass


def at_path(value: Foreseen, path: tuple[PathPart, ...]) -> Foreseen:
    """The value at a dot path; a path into something unknown is unknown."""
    for index, part in enumerate(path):
        match value:
            case Unknown():
                value = value.at(part)
            case Text():
                value = Unknown("a text").at(part)
            case Items(items=items):
                value = walk(list(items), (part,))
            case Fields(pairs=pairs):
                value = walk(dict(pairs), (part,))
            case _:
                return walk(value, path[index:])
    return value


def emptiness(value: Foreseen) -> bool | None:
    """Whether the value is empty; None if that is not known."""
    match value:
        case Unknown():
            return None
        case Text(parts=parts):
            return False if any(isinstance(part, str) and not is_empty(part) for part in parts) else None
        case Items() | Fields():
            return False
        case _:
            return is_empty(value)


def items_foreseen(source: Foreseen) -> Sequence[Foreseen] | None:
    """The items that a FOREACH iterates over; None if they are not known."""
    match source:
        case Unknown() | Text():
            return None
        case Items(items=items):
            return items
        case Fields():
            return (source,)
        case _:
            return items_of(source)


def cast_foreseen(kind: Cast | None, value: Foreseen) -> Foreseen:
    """The value after a cast; one that does not fit stays as it was."""
    if kind is None:
        return value
    match value:
        case Unknown():
            return replace(value, kind=str(kind))
        case Items() | Fields() if kind is Cast.JSON:
            return value
        case Items() if kind is Cast.LIST:
            return value
        case Text() | Items() | Fields():
            return Unknown("a value", kind=str(kind))
        case _:
            return cast_value(kind, value)[0]


def is_same(left: Foreseen, right: Foreseen) -> bool:
    """Whether two values are the same; `1`, `1.0` and `true` are three different values."""
    if left is right:
        return True
    if type(left) is not type(right):
        return False
    if isinstance(left, list | dict):
        return to_text(left) == to_text(right)  # pyright: ignore[reportArgumentType, reportUnknownArgumentType]
    if isinstance(left, Items | Fields):
        return False
    return left == right
