"""The types of version 2: what inputs, fields and results are declared as, and their JSON Schema."""

from __future__ import annotations

import json
from collections.abc import Mapping
from enum import StrEnum
from typing import Any, TypeAlias, assert_never

from callsheet.lazy import dataclass


class Basic(StrEnum):
    """A type with a name of its own; `json` is any JSON value."""

    STR = "str"
    INT = "int"
    FLOAT = "float"
    BOOL = "bool"
    DATE = "date"
    DATETIME = "datetime"
    DURATION = "duration"
    JSON = "json"


@dataclass(frozen=True, slots=True)
class ListOf:
    """`list[item]`."""

    item: Type


@dataclass(frozen=True, slots=True)
class DictOf:
    """`dict[str, value]`."""

    value: Type


@dataclass(frozen=True, slots=True)
class OneOf:
    """`"bug" | "feature"`: one of these literals."""

    values: tuple[str | int | bool, ...]


@dataclass(frozen=True, slots=True)
class Maybe:
    """`T?`: the type, or null, or absent."""

    of: Type


@dataclass(frozen=True, slots=True)
class Named:
    """A record that the plan declares with TYPE."""

    name: str


@dataclass(frozen=True, slots=True)
class Record:
    """`{id: int, labels: list[str]?}`; a field of a `Maybe` type may be absent."""

    fields: tuple[tuple[str, Type], ...]


Type: TypeAlias = Basic | ListOf | DictOf | OneOf | Maybe | Named | Record


def names_values(of: Type, named: Mapping[str, Record]) -> bool:
    """Whether a type tests what a value is, not only its form: a union of literals is somewhere in it.

    >>> names_values(ListOf(OneOf(("bug",))), {}), names_values(Basic.INT, {})
    (True, False)
    """
    waiting: list[Type] = [of]
    seen: set[str] = set()
    while waiting:
        match waiting.pop():
            case OneOf():
                return True
            case ListOf(item=inner) | DictOf(value=inner) | Maybe(of=inner):
                waiting.append(inner)
            case Record(fields=fields):
                waiting += [inner for _, inner in fields]
            case Named(name=name) if name not in seen and name in named:
                seen.add(name)
                waiting.append(named[name])
            case Basic() | Named():
                pass
    return False


def type_text(of: Type) -> str:
    """A type as the language writes it.

    >>> type_text(Maybe(ListOf(Basic.STR))), type_text(OneOf(("bug", 1)))
    ('list[str]?', '"bug" | 1')
    """
    match of:
        case Basic():
            return of.value
        case ListOf(item=item):
            return f"list[{type_text(item)}]"
        case DictOf(value=value):
            return f"dict[str, {type_text(value)}]"
        case OneOf(values=values):
            return " | ".join(map(_literal_text, values))
        case Maybe(of=OneOf() as inner):
            return f"({type_text(inner)})?"
        case Maybe(of=inner):
            return f"{type_text(inner)}?"
        case Named(name=name):
            return name
        case Record(fields=fields):
            return "{" + ", ".join(f"{name}: {type_text(kind)}" for name, kind in fields) + "}"
    assert_never(of)


def _literal_text(value: str | int | bool) -> str:
    if isinstance(value, bool):
        return "True" if value else "False"
    if isinstance(value, int):
        return str(value)
    return json.dumps(value, ensure_ascii=False)


_FORMATS = {Basic.DATE: "date", Basic.DATETIME: "date-time", Basic.DURATION: "duration"}
_JSON_NAMES = {Basic.STR: "string", Basic.INT: "integer", Basic.FLOAT: "number", Basic.BOOL: "boolean"}


def json_schema(of: Type, named: Mapping[str, Record]) -> dict[str, Any]:
    """The JSON Schema (draft 2020-12) of a type; `named` has the records that the plan declares.

    >>> json_schema(ListOf(Basic.INT), {})
    {'type': 'array', 'items': {'type': 'integer'}}
    """
    match of:
        case Basic.JSON:
            return {}
        case Basic():
            name = _JSON_NAMES.get(of)
            return {"type": "string", "format": _FORMATS[of]} if name is None else {"type": name}
        case ListOf(item=item):
            return {"type": "array", "items": json_schema(item, named)}
        case DictOf(value=value):
            return {"type": "object", "additionalProperties": json_schema(value, named)}
        case OneOf(values=values):
            return {"enum": list(values)}
        case Maybe(of=inner):
            return {"anyOf": [json_schema(inner, named), {"type": "null"}]}
        case Named(name=name):
            return json_schema(named[name], named)
        case Record(fields=fields):
            needed = [name for name, kind in fields if not isinstance(kind, Maybe)]
            properties = {name: json_schema(kind, named) for name, kind in fields}
            return {"type": "object", "properties": properties, "required": needed}
    assert_never(of)
