"""Whether a value as written fits a JSON schema, as far as that can be told before the run.

Looks at `type`, `enum`, `const`, the bounds of numbers and lengths, `items`, `properties`,
`required`, `additionalProperties`, `anyOf`, `oneOf`, `allOf` and references within the schema;
all else is taken to fit, and so is every value that only the run will know. A schema may come from a
stranger: what would take more than a bounded number of looks is taken to fit as well.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum, IntEnum
from reprlib import Repr
from typing import Any, cast

from callsheet.ir import JSON, DictExpr, ListExpr, Literal, Ref, Template, Value
from callsheet.ir.types import Scalar

_MAX_DEPTH = 16
_MOST_LOOKS = 10_000
"""How often a value is held against a part of a schema, and a few times more for each of its places."""
_LOOKS_OF_A_PLACE = 16
_LONGEST_POINTER = 1_000
_SHORTLY = Repr()
_SHORTLY.maxstring = _SHORTLY.maxother = 200


class Fit(IntEnum):
    """How well a value fits: the larger, the better."""

    NO = 0
    LOOSELY = 1
    """A text that reads as the number asked for, or a number where text is asked for."""
    YES = 2


class Wrong(Enum):
    """What is wrong with a value."""

    VALUE = "it is not what is asked for"
    MISSING = "a field that must be there is not"
    UNKNOWN = "a field is there that nobody asks for"


@dataclass(frozen=True, slots=True)
class Misfit:
    """One place at which a value does not fit.

    `path` leads there from the value as a whole, which is the empty path (`.rows[0].name`);
    `known` are the fields that an object may have, for an UNKNOWN one.
    """

    wrong: Wrong
    path: str
    value: Value
    fit: Fit = Fit.NO
    wanted: str = ""
    known: tuple[str, ...] = ()


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


def literal_value(said: JSON) -> Value:
    """JSON as the literal that says it.

    >>> literal_value([1])
    ListExpr(items=(Literal(value=1),))
    """
    if isinstance(said, list):
        return ListExpr(tuple(literal_value(item) for item in said))
    if isinstance(said, dict):
        return DictExpr(tuple((name, literal_value(item)) for name, item in said.items()))
    return Literal(said)


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


def _scalar_kind(scalar: Scalar) -> str:
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
    >>> wanted({"type": "integer", "minimum": 1})
    'integer (minimum 1)'
    """
    options: Any = schema.get("enum")
    if isinstance(options, list):
        shown = cast("list[Any]", options)[:8]
        return "one of " + ", ".join(_SHORTLY.repr(option) for option in shown)
    types = _types(schema)
    if types:
        return " or ".join(types) + _bounds_in_words(schema)
    either = _alternatives(schema)
    words = " or ".join(dict.fromkeys(wanted(option) for option in either))
    return words or "another value" + _bounds_in_words(schema)


def fit(value: Value, schema: Mapping[str, Any]) -> Fit:
    """How well the value fits the schema; YES where it cannot be told."""
    return min((found.fit for found in misfits(value, schema, schema)), default=Fit.YES)


def may_take(schema: Mapping[str, Any], root: Mapping[str, Any], kind: str) -> bool:
    """Whether some value of this JSON type may fit; `root` is what references start from.

    >>> may_take({"type": "string"}, {}, "array"), may_take({"anyOf": [{"type": "array"}]}, {}, "array")
    (False, True)
    """
    return _may_take(schema, _Held(root), kind, 0)


def _may_take(schema: Mapping[str, Any], held: _Held, kind: str, depth: int) -> bool:
    schema = _resolved(schema, held.root)
    types, either = _types(schema), _alternatives(schema)
    if not held.look() or depth > _MAX_DEPTH:
        return True
    return (
        (not types or kind in types)
        and all(_may_take(part, held, kind, depth + 1) for part in _schemas(schema.get("allOf")))
        and (not either or any(_may_take(option, held, kind, depth + 1) for option in either))
    )


def misfits(value: Value, schema: Mapping[str, Any], root: Mapping[str, Any]) -> Iterator[Misfit]:
    """Every place at which the value does not fit; `root` is what references start from."""
    yield from _misfits(value, schema, _Held(root, value), "", 0)


class _Held:
    """A value that is held against a schema: what references start from, and how many looks are left."""

    def __init__(self, root: Mapping[str, Any], value: Value | None = None) -> None:
        self.root = root
        self._left = _MOST_LOOKS + (0 if value is None else _LOOKS_OF_A_PLACE * _places(value))
        self._said: dict[int, tuple[bool, JSON]] = {}

    def look(self) -> bool:
        """Look once more; False where that is once too often."""
        self._left -= 1
        return self._left >= 0

    def said(self, value: Value) -> tuple[bool, JSON]:
        """Whether a part of the value is literal throughout, and the JSON that it says."""
        if id(value) not in self._said:
            self._said[id(value)] = literal_json(value)
        return self._said[id(value)]


def _places(value: Value) -> int:
    """How many values a value is made of, itself with them."""
    match value:
        case ListExpr(items=items):
            return 1 + sum(map(_places, items))
        case DictExpr(items=pairs):
            return 1 + sum(_places(item) for _, item in pairs)
        case _:
            return 1


def _misfits(value: Value, schema: Mapping[str, Any], held: _Held, path: str, depth: int) -> Iterator[Misfit]:
    kind = kind_of(value)
    schema = _resolved(schema, held.root)
    if kind is None or not held.look() or depth > _MAX_DEPTH:
        return
    for part in _schemas(schema.get("allOf")):
        yield from _misfits(value, part, held, path, depth + 1)
    either = _alternatives(schema)
    if either:
        yield from _best(value, either, held, path, depth)
        return
    own = min(_fit_type(value, kind, _types(schema)), _fit_options(value, schema, held))
    if own is Fit.YES and not _keeps_bounds(value, schema):
        own = Fit.NO
    if own is not Fit.YES:
        yield Misfit(Wrong.VALUE, path, value, own, wanted(schema))
    if own is Fit.NO:
        return
    match value:
        case ListExpr(items=items):
            every = _schema(schema.get("items"))
            for number, item in enumerate(items):
                yield from _misfits(item, every, held, f"{path}[{number}]", depth + 1)
        case DictExpr():
            yield from _fields(value, schema, held, path, depth)
        case _:
            pass


def _best(value: Value, either: list[Mapping[str, Any]], held: _Held, path: str, depth: int) -> list[Misfit]:
    """What is wrong by the alternative that fits best; where none does at all, that none does."""
    tried = [list(_misfits(value, option, held, path, depth + 1)) for option in either]
    best = max(tried, key=lambda found: min((m.fit for m in found), default=Fit.YES))
    if len(either) == 1 or all(found.fit is not Fit.NO for found in best):
        return best
    wants = " or ".join(dict.fromkeys(wanted(_resolved(option, held.root)) for option in either))
    return [Misfit(Wrong.VALUE, path, value, Fit.NO, wants)]


def _fields(
    value: DictExpr, schema: Mapping[str, Any], held: _Held, path: str, depth: int
) -> Iterator[Misfit]:
    known = _schema(schema.get("properties"))
    for key, item in value.items:
        if key in known:
            yield from _misfits(item, _schema(known[key]), held, f"{path}.{key}", depth + 1)
        elif "patternProperties" in schema:
            continue
        elif schema.get("additionalProperties") is False:
            yield Misfit(Wrong.UNKNOWN, f"{path}.{key}", item, known=tuple(known))
        else:
            every = _schema(schema.get("additionalProperties"))
            yield from _misfits(item, every, held, f"{path}.{key}", depth + 1)
    there = {key for key, _ in value.items}
    required: Any = schema.get("required")
    for key in cast("list[Any]", required) if isinstance(required, list) else ():
        if isinstance(key, str) and key not in there:
            yield Misfit(Wrong.MISSING, f"{path}.{key}", value)


def _resolved(schema: Mapping[str, Any], root: Mapping[str, Any]) -> Mapping[str, Any]:
    """The schema that a reference within the document leads to; one that leads nowhere takes anything."""
    for _ in range(_MAX_DEPTH):
        pointer: Any = schema.get("$ref")
        if not isinstance(pointer, str):
            return schema
        found: Any = root if pointer.startswith("#") and len(pointer) <= _LONGEST_POINTER else None
        for part in pointer[2:].split("/") if len(pointer) > 1 else ():
            key = part.replace("~1", "/").replace("~0", "~")
            found = cast("Mapping[str, Any]", found).get(key) if isinstance(found, Mapping) else None
        schema = _schema(found)
    return {}


_BOUNDS: tuple[tuple[str, str, Callable[[float, float], bool]], ...] = (
    ("minimum", "number", lambda said, bound: said >= bound),
    ("maximum", "number", lambda said, bound: said <= bound),
    ("exclusiveMinimum", "number", lambda said, bound: said > bound),
    ("exclusiveMaximum", "number", lambda said, bound: said < bound),
    ("minLength", "string", lambda said, bound: said >= bound),
    ("maxLength", "string", lambda said, bound: said <= bound),
    ("minItems", "array", lambda said, bound: said >= bound),
    ("maxItems", "array", lambda said, bound: said <= bound),
)
"""The bound, what it is a bound of, and when it is kept; texts and lists by their length."""


def _keeps_bounds(value: Value, schema: Mapping[str, Any]) -> bool:
    said: int | float
    match value:
        case Literal(value=bool() | None):
            return True
        case Literal(value=str() as text):
            kind, said = "string", len(text)
        case Literal(value=int() | float() as number):
            kind, said = "number", number
        case ListExpr(items=items):
            kind, said = "array", len(items)
        case _:
            return True
    return all(
        keeps(said, bound)
        for name, of, keeps in _BOUNDS
        if of == kind and isinstance(bound := schema.get(name), int | float)
    )


def _bounds_in_words(schema: Mapping[str, Any]) -> str:
    said = [f"{name} {schema[name]}" for name, _, _ in _BOUNDS if isinstance(schema.get(name), int | float)]
    return f" ({', '.join(said)})" if said else ""


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
    return _schemas(found)


def _schemas(found: object) -> list[Mapping[str, Any]]:
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


def _fit_options(value: Value, schema: Mapping[str, Any], held: _Held) -> Fit:
    options: Any = schema.get("enum")
    if not isinstance(options, list):
        options = [schema["const"]] if "const" in schema else None
    if options is None:
        return Fit.YES
    known, said = held.said(value)
    if not known:
        return Fit.YES
    matches = any(type(option) is type(said) and option == said for option in cast("list[Any]", options))
    return Fit.YES if matches else Fit.NO
