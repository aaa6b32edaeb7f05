"""Whether a value as written fits a JSON schema, as far as that can be told before the run.

Looks at `type`, `enum`, `const`, `items`, `properties` and `anyOf`; all else is taken to fit.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import Any, cast

from callsheet.ir import JSON, DictExpr, ListExpr, Literal, Ref, Template, Value

_MAX_DEPTH = 16


class Fit(IntEnum):
    """How well a value fits: the larger, the better."""

    NO = 0
    LOOSELY = 1
    """A text that reads as the number asked for, or a number where text is asked for."""
    YES = 2


def literal_json(value: Value, depth: int = 0) -> tuple[bool, JSON]:
    """Whether a value is literal throughout, and the JSON that it says."""
    if depth > _MAX_DEPTH:
        return False, None
    match value:
        case Literal(value=scalar):
            return True, scalar
        case ListExpr(items=items):
            parts = [literal_json(item, depth + 1) for item in items]
            return all(known for known, _ in parts), [part for _, part in parts]
        case DictExpr(items=pairs):
            fields = {key: literal_json(item, depth + 1) for key, item in pairs}
            return all(known for known, _ in fields.values()), {k: part for k, (_, part) in fields.items()}
        case Ref() | Template():
            return False, None


def kind_of(value: Value) -> str | None:
    """The JSON type that a value will have, None where only the run can tell."""
    match value:
        case Literal(value=scalar):
            return _scalar_kind(scalar)
        case Template():
            return "string"
        case ListExpr():
            return "array"
        case DictExpr():
            return "object"
        case Ref():
            return None


def _scalar_kind(scalar: bool | float | str | None) -> str:
    if scalar is None:
        return "null"
    if isinstance(scalar, bool):
        return "boolean"
    if isinstance(scalar, str):
        return "string"
    return "integer" if isinstance(scalar, int) or scalar.is_integer() else "number"


def wanted(schema: Mapping[str, Any]) -> str:
    """What a schema asks for, in words.

    >>> wanted({"type": ["string", "null"]}), wanted({"enum": ["a", "b"]})
    ('string or null', "one of 'a', 'b'")
    """
    options: Any = schema.get("enum")
    if isinstance(options, list):
        shown = cast("list[Any]", options)[:8]
        return "one of " + ", ".join(repr(option) for option in shown)
    types = _types(schema)
    if types:
        return " or ".join(types)
    either = _alternatives(schema)
    return " or ".join(dict.fromkeys(wanted(option) for option in either)) if either else "another value"


def fit(value: Value, schema: Mapping[str, Any], depth: int = 0) -> Fit:
    """How well the value fits the schema; YES where it cannot be told."""
    kind = kind_of(value)
    if kind is None or depth > _MAX_DEPTH:
        return Fit.YES
    either = _alternatives(schema)
    if either:
        return max(fit(value, option, depth + 1) for option in either)
    worst = min(_fit_type(value, kind, _types(schema)), _fit_options(value, schema))
    if worst is Fit.NO:
        return worst
    match value:
        case ListExpr(items=items):
            inner: Any = schema.get("items")
            if isinstance(inner, Mapping):
                every = cast("Mapping[str, Any]", inner)
                worst = min([worst, *(fit(item, every, depth + 1) for item in items)])
        case DictExpr(items=pairs):
            known: Any = schema.get("properties")
            if isinstance(known, Mapping):
                named = cast("Mapping[str, Any]", known)
                fits = (fit(item, _schema(named.get(key)), depth + 1) for key, item in pairs)
                worst = min([worst, *fits])
        case _:
            pass
    return worst


def _schema(found: object) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", found) if isinstance(found, Mapping) else {}


def _types(schema: Mapping[str, Any]) -> tuple[str, ...]:
    found: Any = schema.get("type")
    if isinstance(found, str):
        return (found,)
    if isinstance(found, list):
        return tuple(t for t in cast("list[Any]", found) if isinstance(t, str))
    return ()


def _alternatives(schema: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    found: Any = schema.get("anyOf") or schema.get("oneOf")
    if not isinstance(found, list):
        return []
    return [cast("Mapping[str, Any]", o) for o in cast("list[Any]", found) if isinstance(o, Mapping)]


def _fit_type(value: Value, kind: str, types: tuple[str, ...]) -> Fit:
    if not types or kind in types or (kind == "integer" and "number" in types):
        return Fit.YES
    if kind in ("integer", "number") and "string" in types:
        return Fit.LOOSELY
    if isinstance(value, Template):
        return Fit.LOOSELY if {"integer", "number", "boolean"} & set(types) else Fit.NO
    text = value.value if isinstance(value, Literal) else None
    if isinstance(text, str) and {"integer", "number"} & set(types) and _reads_as_number(text):
        return Fit.LOOSELY
    return Fit.NO


def _reads_as_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _fit_options(value: Value, schema: Mapping[str, Any]) -> Fit:
    options: Any = schema.get("enum")
    if not isinstance(options, list):
        options = [schema["const"]] if "const" in schema else None
    if options is None:
        return Fit.YES
    known, said = literal_json(value)
    if not known:
        return Fit.YES
    matches = any(type(option) is type(said) and option == said for option in cast("list[Any]", options))
    return Fit.YES if matches else Fit.NO
