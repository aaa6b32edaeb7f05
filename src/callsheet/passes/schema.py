"""Validates the values written in a plan against JSON schemas, as far as they are known before the run.

Values that are partly unknown are read here: by `type`, `enum`, `const`, the constraints of `constraints.py`,
`prefixItems`, `items`, `properties`, `required`, `additionalProperties`, `anyOf`, `oneOf`, `allOf` and
references within the schema. Everything else counts as fitting, and so does a value that is known only at run
time. Known values are judged by all of JSON Schema (`json_schema`). Schemas are untrusted, so the work is
bounded; whatever is not checked for that reason counts as fitting too.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from enum import Enum, IntEnum
from reprlib import Repr
from typing import Any, cast

from callsheet.ir import JSON, DictExpr, ListExpr, Literal, Ref, Template, Value
from callsheet.ir.expr import Scalar
from callsheet.lazy import dataclass
from callsheet.passes.json_schema import (
    Rejection,
    constraints_in_words,
    has_equal_items,
    is_equal,
    judge_of,
    keeps_constraints,
)

_MAX_DEPTH = 16
_MOST_LOOKS = 10_000
"""Most comparisons of a value with a part of a schema, besides `_LOOKS_OF_A_PLACE` for each nested value."""
_LOOKS_OF_A_PLACE = 16
_LONGEST_POINTER = 1_000
_SHORTLY = Repr()
_SHORTLY.maxstring = _SHORTLY.maxother = 200


class Fit(IntEnum):
    """How well a value fits; larger is better."""

    NO = 0
    LOOSELY = 1
    """A string that parses as the required number, or a number where a string is required."""
    YES = 2


class Wrong(Enum):
    """The kinds of misfit."""

    VALUE = "it is not what is asked for"
    MISSING = "a field that must be there is not"
    UNKNOWN = "a field is there that nobody asks for"


@dataclass(frozen=True, slots=True)
class Misfit:
    """One place at which a value does not fit.

    `path` leads there from the whole value (`.rows[0].name`; empty for the value itself);
    `known` are the fields that the object may have, if the fault is UNKNOWN.
    """

    wrong: Wrong
    path: str
    value: Value
    fit: Fit = Fit.NO
    wanted: str = ""
    known: tuple[str, ...] = ()

    @property
    def verdict(self) -> str:
        """What is wrong with the place, in a few words."""
        match self.wrong:
            case Wrong.VALUE:
                return f"should be {self.wanted}"
            case Wrong.MISSING:
                return "is missing"
            case Wrong.UNKNOWN:
                return "is undeclared"


def literal_json(value: Value, depth: int = 0) -> tuple[bool, JSON]:
    """Whether the value consists of literals only, and its JSON if so."""
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


def literal_value(data: JSON) -> Value:
    """JSON as a literal value of the IR.

    >>> literal_value([1])
    ListExpr(items=(Literal(value=1),))
    """
    if isinstance(data, list):
        return ListExpr(tuple(literal_value(item) for item in data))
    if isinstance(data, dict):
        return DictExpr(tuple((name, literal_value(item)) for name, item in data.items()))
    return Literal(data)


def kind_of(value: Value) -> str | None:
    """The JSON type of a value, None if it is known only at run time."""
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
    """A description of what a schema accepts, for messages.

    >>> wanted({"type": ["string", "null"]}), wanted({"enum": ["a", "b"]})
    ('string or null', "one of 'a', 'b'")
    >>> wanted({"type": "integer", "minimum": 1})
    'integer (minimum 1)'
    >>> wanted({"anyOf": [{"required": ["from", "to"]}, {"required": ["day"]}]})
    'object with from and to or object with day'
    """
    options: Any = schema.get("enum")
    if isinstance(options, list):
        shown = cast("list[Any]", options)[:8]
        return "one of " + ", ".join(_SHORTLY.repr(option) for option in shown)
    types = _types(schema)
    if types:
        return " or ".join(types) + constraints_in_words(schema)
    either = _alternatives(schema)
    words = " or ".join(dict.fromkeys(wanted(option) for option in either))
    needed: Any = schema.get("required")
    if not words and isinstance(needed, list) and needed:
        words = f"object with {' and '.join(map(str, cast('list[Any]', needed)[:8]))}"
    return words or "another value" + constraints_in_words(schema)


def fit(value: Value, schema: Mapping[str, Any]) -> Fit:
    """How well the value fits the schema; YES if that is unknown before the run."""
    return min((found.fit for found in misfits(value, schema, schema)), default=Fit.YES)


def may_take(schema: Mapping[str, Any], root: Mapping[str, Any], kind: str) -> bool:
    """Whether some value of this JSON type may fit; `root` is the document that references point into.

    >>> may_take({"type": "string"}, {}, "array"), may_take({"anyOf": [{"type": "array"}]}, {}, "array")
    (False, True)
    """
    return _may_take(schema, _Context(root), kind, 0)


def _may_take(schema: Mapping[str, Any], context: _Context, kind: str, depth: int) -> bool:
    schema = _resolved(schema, context.root)
    types, either = _types(schema), _alternatives(schema)
    if not context.look() or depth > _MAX_DEPTH:
        return True
    return (
        (not types or kind in types)
        and all(_may_take(part, context, kind, depth + 1) for part in _schemas(schema.get("allOf")))
        and (not either or any(_may_take(option, context, kind, depth + 1) for option in either))
    )


def misfits(value: Value, schema: Mapping[str, Any], root: Mapping[str, Any]) -> Iterator[Misfit]:
    """Every place at which the value does not fit; `root` is the document that references point into."""
    read = _misfits(value, schema, _Context(root, value), "", 0)
    judge = judge_of(schema, root)
    known, data = (False, None) if judge is None else literal_json(value)
    rejected = judge.rejections(data) if judge is not None and known else None
    if rejected is None:
        yield from read
    elif rejected:
        yield from _judged(value, list(read), rejected)


def is_judged(schema: Mapping[str, Any]) -> bool:
    """Whether a schema asks for more than `misfits` reads in a value that is partly unknown."""
    return judge_of(schema, schema) is not None


def _judged(value: Value, read: list[Misfit], rejected: list[Rejection]) -> Iterator[Misfit]:
    """The misfits of a known value that is rejected: as they were read, which says most, and all others."""
    paths = [_path_text(rejection.path) for rejection in rejected]
    own = [misfit for misfit in read if any(_are_related(misfit.path, path) for path in paths)]
    yield from own
    told = {misfit.path for misfit in own}
    for rejection, path in zip(rejected, paths, strict=True):
        for misfit in _misfits_of(value, rejection, path):
            if not any(_are_related(misfit.path, other) for other in told):
                told.add(misfit.path)
                yield misfit


def _misfits_of(value: Value, rejection: Rejection, path: str) -> Iterator[Misfit]:
    part = _part(value, rejection.path)
    match rejection.keyword:
        case "required" if rejection.names:
            for name in rejection.names:
                yield Misfit(Wrong.MISSING, f"{path}.{name}", part)
        case "additionalProperties" if rejection.path and not rejection.message:
            yield Misfit(Wrong.UNKNOWN, path, part, known=rejection.names)
        case "type" | "enum":
            yield Misfit(Wrong.VALUE, path, part, wanted=wanted(rejection.schema))
        case keyword if constraints_in_words({keyword: rejection.schema.get(keyword)}):
            yield Misfit(Wrong.VALUE, path, part, wanted=wanted(rejection.schema))
        case keyword:
            why = f": {rejection.message}" if rejection.message else ""
            yield Misfit(Wrong.VALUE, path, part, wanted=f"valid by `{keyword}` of its schema{why}")


def _path_text(path: Iterable[str | int]) -> str:
    return "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in path)


def _are_related(one: str, other: str) -> bool:
    """Whether one path leads to a place within the other's."""
    short, long = sorted((one, other), key=len)
    return long.startswith(short) and long[len(short) : len(short) + 1] in ("", ".", "[")


def _part(value: Value, path: Iterable[str | int]) -> Value:
    """The nested value at a path; the nearest one around it that there is."""
    for key in path:
        match value:
            case ListExpr(items=items) if isinstance(key, int):
                value = items[key]
            case DictExpr(items=pairs):
                value = next((item for name, item in pairs if name == key), value)
            case _:
                return value
    return value


class _Context:
    """The context of one validation: root document, budget of comparisons, cache of literals."""

    def __init__(self, root: Mapping[str, Any], value: Value | None = None) -> None:
        self.root = root
        self._left = _MOST_LOOKS + (0 if value is None else _LOOKS_OF_A_PLACE * _places(value))
        self._literals: dict[int, tuple[bool, JSON]] = {}
        self._repeating: dict[int, bool] = {}

    def look(self) -> bool:
        """Count one comparison; False once the budget is spent."""
        self._left -= 1
        return self._left >= 0

    def literal_of(self, value: Value) -> tuple[bool, JSON]:
        """`literal_json` of a part of the value, computed once."""
        if id(value) not in self._literals:
            self._literals[id(value)] = literal_json(value)
        return self._literals[id(value)]

    def repeats(self, value: Value) -> bool:
        """Whether a literal list has two equal items, computed once."""
        if id(value) not in self._repeating:
            known, data = self.literal_of(value)
            self._repeating[id(value)] = known and has_equal_items(data)
        return self._repeating[id(value)]


def _places(value: Value) -> int:
    """The number of nested values, including the value itself."""
    match value:
        case ListExpr(items=items):
            return 1 + sum(map(_places, items))
        case DictExpr(items=pairs):
            return 1 + sum(_places(item) for _, item in pairs)
        case _:
            return 1


def _misfits(
    value: Value, schema: Mapping[str, Any], context: _Context, path: str, depth: int
) -> Iterator[Misfit]:
    kind = kind_of(value)
    schema = _resolved(schema, context.root)
    if kind is None or not context.look() or depth > _MAX_DEPTH:
        return
    for part in _schemas(schema.get("allOf")):
        yield from _misfits(value, part, context, path, depth + 1)
    either = _alternatives(schema)
    if either:
        yield from _best(value, either, context, path, depth)
        return
    own = min(_fit_type(value, kind, _types(schema)), _fit_options(value, schema, context))
    if own is Fit.YES and not keeps_constraints(value, schema, context.repeats):
        own = Fit.NO
    if own is not Fit.YES:
        yield Misfit(Wrong.VALUE, path, value, own, wanted(schema))
    if own is Fit.NO:
        return
    match value:
        case ListExpr(items=items):
            first, every = _first_items(schema), _schema(schema.get("items"))
            for number, item in enumerate(items):
                item_schema = first[number] if number < len(first) else every
                yield from _misfits(item, item_schema, context, f"{path}[{number}]", depth + 1)
        case DictExpr():
            yield from _fields(value, schema, context, path, depth)
        case _:
            pass


def _best(
    value: Value, either: list[Mapping[str, Any]], context: _Context, path: str, depth: int
) -> list[Misfit]:
    """The misfits of the best alternative; one misfit naming all alternatives if none fits."""
    tried = [list(_misfits(value, option, context, path, depth + 1)) for option in either]
    best = max(tried, key=lambda found: min((m.fit for m in found), default=Fit.YES))
    if len(either) == 1 or all(found.fit is not Fit.NO for found in best):
        return best
    wants = " or ".join(dict.fromkeys(wanted(_resolved(option, context.root)) for option in either))
    return [Misfit(Wrong.VALUE, path, value, Fit.NO, wants)]


def _first_items(schema: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The schemas of the first items of a list, one each; `items` is that of the others."""
    found: Any = schema.get("prefixItems")
    return [_schema(part) for part in cast("list[Any]", found)] if isinstance(found, list) else []


def _fields(
    value: DictExpr, schema: Mapping[str, Any], context: _Context, path: str, depth: int
) -> Iterator[Misfit]:
    known = _schema(schema.get("properties"))
    for key, item in value.items:
        if key in known:
            yield from _misfits(item, _schema(known[key]), context, f"{path}.{key}", depth + 1)
        elif "patternProperties" in schema:
            continue
        elif schema.get("additionalProperties") is False:
            yield Misfit(Wrong.UNKNOWN, f"{path}.{key}", item, known=tuple(known))
        else:
            every = _schema(schema.get("additionalProperties"))
            yield from _misfits(item, every, context, f"{path}.{key}", depth + 1)
    there = {key for key, _ in value.items}
    required: Any = schema.get("required")
    for key in cast("list[Any]", required) if isinstance(required, list) else ():
        if isinstance(key, str) and key not in there:
            yield Misfit(Wrong.MISSING, f"{path}.{key}", value)


def _resolved(schema: Mapping[str, Any], root: Mapping[str, Any]) -> Mapping[str, Any]:
    """The schema with references followed; a reference that cannot be resolved accepts anything."""
    for _ in range(_MAX_DEPTH):
        pointer: Any = schema.get("$ref")
        if not isinstance(pointer, str):
            return schema
        target: Any = root if pointer.startswith("#") and len(pointer) <= _LONGEST_POINTER else None
        for part in pointer[2:].split("/") if len(pointer) > 1 else ():
            key = part.replace("~1", "/").replace("~0", "~")
            target = cast("Mapping[str, Any]", target).get(key) if isinstance(target, Mapping) else None
        schema = _schema(target)
    return {}


def _schema(value: object) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", value) if isinstance(value, Mapping) else {}


_TYPES = frozenset({"null", "boolean", "integer", "number", "string", "array", "object"})


def _types(schema: Mapping[str, Any]) -> tuple[str, ...]:
    """The types that a schema names; none, which accepts any, if one of them is no type of JSON Schema."""
    declared: Any = schema.get("type")
    names = cast("list[Any]", declared) if isinstance(declared, list) else [declared]
    return tuple(names) if all(isinstance(name, str) and name in _TYPES for name in names) else ()


def _alternatives(schema: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    declared: Any = schema.get("anyOf") or schema.get("oneOf")
    return _schemas(declared)


def _schemas(value: object) -> list[Mapping[str, Any]]:
    if not isinstance(value, list):
        return []
    return [cast("Mapping[str, Any]", o) for o in cast("list[Any]", value) if isinstance(o, Mapping)]


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


def _fit_options(value: Value, schema: Mapping[str, Any], context: _Context) -> Fit:
    options: Any = schema.get("enum")
    if not isinstance(options, list):
        options = [schema["const"]] if "const" in schema else None
    if options is None:
        return Fit.YES
    known, literal = context.literal_of(value)
    if not known:
        return Fit.YES
    return Fit.YES if any(is_equal(option, literal) for option in cast("list[Any]", options)) else Fit.NO
