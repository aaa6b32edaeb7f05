"""The canonical JSON form of plan trees: each node as an object of its fields, and back.

A node is `{"is": its class, …}` without places, comments and fields that have their default value. The types
of the fields say what may stand where, so data of another form is refused with its place.
"""

from __future__ import annotations

import sys
import typing
from dataclasses import MISSING, fields, is_dataclass
from enum import StrEnum
from types import NoneType, UnionType
from typing import Any, Union, cast

from callsheet.ir import expr, expression, tree, types
from callsheet.ir.strict_json import Refused, described, read_array, read_each, read_object, read_text
from callsheet.ir.tree import Tree

Json = Any
_TAG = "is"


def tree_to_json(plan: Tree) -> Json:
    """A tree as JSON data, which `tree_from_json` converts back to an equal tree."""
    return _encode(plan)


def tree_from_json(data: object) -> Tree:
    """The tree that JSON data represents. Raises Refused for data of another form."""
    return cast("Tree", _decode(data, Tree))


def node_to_json(node: object) -> Json:
    """A statement, an expression, a type or another part of a tree as JSON data, without places."""
    return _encode(node)


def _encode(value: Any) -> Json:
    if isinstance(value, StrEnum):
        return value.value
    if value is None or isinstance(value, str | bool | int | float):
        return value
    if isinstance(value, tuple):
        return [_encode(one) for one in cast("tuple[Any, ...]", value)]
    if not is_dataclass(value):  # the default of an input, which is JSON
        return value
    out: dict[str, Json] = {_TAG: type(value).__name__}
    for part in fields(value):
        inner = getattr(value, part.name)
        if part.compare and not _is_default(inner, part.default):
            out[part.name] = {"json": inner} if part.type == "JSON" else _encode(inner)
    return out


def _is_default(value: Any, default: Any) -> bool:
    return default is not MISSING and type(value) is type(default) and value == default


_MODULES = (types, tree, expr, expression)
_HINTS: dict[type, dict[str, Any]] = {}


def _hints_of(node: type) -> dict[str, Any]:
    found = _HINTS.get(node)
    if found is None:
        names: dict[str, Any] = {}
        for module in _MODULES:
            names.update(vars(module))
        names.update(vars(sys.modules[node.__module__]))
        found = _HINTS[node] = typing.get_type_hints(node, names)
    return found


def _decode(data: object, hint: Any) -> Any:
    origin = typing.get_origin(hint)
    if origin is Union or origin is UnionType:
        return _decode_union(data, typing.get_args(hint))
    if origin is tuple:
        return _decode_tuple(data, typing.get_args(hint))
    if isinstance(hint, type) and issubclass(hint, StrEnum):
        return _decode_word(data, hint)
    if isinstance(hint, type) and is_dataclass(hint):
        return _decode_node(data, hint)
    if hint is float and type(data) is int:
        return data
    if isinstance(hint, type) and type(data) is hint:
        return data
    raise Refused(f"expected a value of another type, found {described(data)}")


def _decode_union(data: object, hints: tuple[Any, ...]) -> Any:
    if isinstance(data, dict):
        name = cast("dict[str, Json]", data).get(_TAG)
        for hint in hints:
            if isinstance(hint, type) and is_dataclass(hint) and hint.__name__ == name:
                return _decode_node(cast("object", data), hint)
        raise Refused(f"unknown or misplaced {described(name)}")
    if data is None and NoneType in hints:
        return None
    words = [hint for hint in hints if isinstance(hint, type) and issubclass(hint, StrEnum)]
    if isinstance(data, str) and str not in hints:
        for word in words:
            if data in set(word):
                return word(data)
    for hint in hints:
        if isinstance(hint, type) and type(data) is hint:
            return data
    wrapped = [hint for hint in hints if not isinstance(hint, type) and hint is not None]
    for hint in wrapped:
        return _decode(data, hint)
    if float in hints and type(data) is int:
        return data
    raise Refused(f"expected a value of another type, found {described(data)}")


def _decode_tuple(data: object, hints: tuple[Any, ...]) -> tuple[Any, ...]:
    items = read_array(data)
    if hints[-1] is Ellipsis:
        return read_each(lambda item: _decode(item, hints[0]), items)
    if len(items) != len(hints):
        raise Refused(f"expected {len(hints)} items, found {len(items)}")
    return tuple(_decode(item, hint) for item, hint in zip(items, hints, strict=True))


def _decode_word(data: object, word: type[StrEnum]) -> StrEnum:
    text = read_text(data)
    if text not in set(word):
        raise Refused(f"expected {' or '.join(word)}, found {described(text)}")
    return word(text)


def _decode_node(data: object, node: type) -> Any:
    given = read_object(data)
    if given.get(_TAG) != node.__name__:
        raise Refused(f"expected a {node.__name__}, found {described(given.get(_TAG))}")
    hints = _hints_of(node)
    known = {part.name: part for part in fields(node) if part.compare}
    made: dict[str, Any] = {}
    for name, value in given.items():
        if name == _TAG:
            continue
        if name not in known:
            raise Refused(f"unknown field {name!r}")
        try:
            made[name] = _json(value) if known[name].type == "JSON" else _decode(value, hints[name])
        except Refused as refused:
            raise refused.within(name) from None
    for name, part in known.items():
        if name not in made and part.default is MISSING and part.default_factory is MISSING:
            raise Refused(f"the field {name!r} is missing")
    return node(**made)


def _json(data: object) -> Json:
    given = read_object(data, frozenset({"json"}))
    if "json" not in given:
        raise Refused("the field is missing").within("json")
    return given["json"]
