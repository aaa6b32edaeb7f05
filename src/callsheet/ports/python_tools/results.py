"""What a function returns: the JSON schema of its return annotation, the test against it, and its JSON.

A result that does not fit is told by `passes.schema`, as for tools of MCP servers; the test here only says
whether it fits, in a fraction of the time of the call.
"""

from __future__ import annotations

import base64
import dataclasses
import math
import sys
import types
from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime, time, timedelta
from enum import Enum
from pathlib import PurePath
from typing import (
    Annotated,
    Any,
    Literal,
    NamedTuple,
    NotRequired,
    Required,
    TypeAlias,
    Union,
    cast,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
)
from uuid import UUID

from callsheet.ir import JSON
from callsheet.ir.canon import canonical_bytes
from callsheet.passes.fitting import KINDS, Fit, anything_fits, first_misfit, sure_fit, unsure
from callsheet.ports.answers import Answerer, may_report, read_answer
from callsheet.ports.calls import SCHEMA, ToolFailed

MISS: Any = object()
"""Returned by a check that cannot decide; pydantic then does."""

Check: TypeAlias = Callable[[Any], Any]
"""Returns the converted value, or MISS."""


class Simple(NamedTuple):
    """The schema and the check of a type that does not need pydantic."""

    schema: dict[str, Any]
    check: Check


def anything(value: Any) -> Any:
    """Accept every value unchanged."""
    return value


def never(value: Any) -> Any:
    """Leave every value to pydantic."""
    return MISS


def _text(value: Any) -> Any:
    return value if type(value) is str else MISS


def _integer(value: Any) -> Any:
    return value if type(value) is int else MISS


def _boolean(value: Any) -> Any:
    return value if type(value) is bool else MISS


def _nothing(value: Any) -> Any:
    return None if value is None else MISS


def _number(value: Any) -> Any:
    """Leave a whole number as it is written: an int is accepted where a function declares float (PEP 484)."""
    return value if type(value) is float or type(value) is int else MISS


def _array(value: Any) -> Any:
    return cast("list[Any]", value) if type(value) is list else MISS


def _object_schema(value: Any) -> Any:
    return cast("dict[Any, Any]", value) if type(value) is dict else MISS


_PLAIN_ANNOTATIONS: dict[Any, Simple] = {
    str: Simple({"type": "string"}, _text),
    int: Simple({"type": "integer"}, _integer),
    float: Simple({"type": "number"}, _number),
    bool: Simple({"type": "boolean"}, _boolean),
    None: Simple({"type": "null"}, _nothing),
    type(None): Simple({"type": "null"}, _nothing),
    list: Simple({"type": "array"}, _array),
    dict: Simple({"type": "object"}, _object_schema),
    Any: Simple({}, anything),
    object: Simple({}, anything),
}


def simple(annotation: Any) -> Simple | None:
    """The schema and the check of a simple type; None for a type that needs pydantic."""
    if isinstance(annotation, type) and issubclass(annotation, Enum):
        return _enum(annotation)
    try:
        plain = _PLAIN_ANNOTATIONS.get(annotation)
    except TypeError:
        return None
    if plain is not None:
        return plain
    origin, args = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _annotated(args)
    if origin is Literal:
        return _choice(list(args), {value: value for value in args if type(value) in (str, int)})
    if origin is Union or origin is types.UnionType:
        return _union(args)
    if origin is list or (origin is dict and args[0] is str):
        return _container(origin, args[-1])
    return None


def _annotated(args: tuple[Any, ...]) -> Simple | None:
    """An `Annotated` type with descriptions only; any other metadata is left to pydantic."""
    inner = simple(args[0])
    texts = [note if isinstance(note, str) else getattr(note, "documentation", None) for note in args[1:]]
    if inner is None or not all(isinstance(text, str) for text in texts):
        return None
    return Simple({**inner.schema, "description": " ".join(cast("list[str]", texts))}, inner.check)


def _enum(kind: type[Enum]) -> Simple | None:
    members = list(kind)
    return _choice([m.value for m in members], {m.value: m for m in members if type(m.value) in (str, int)})


def _choice(values: list[Any], results: dict[Any, Any]) -> Simple | None:
    """One of several strings, or one of several integers."""
    kinds: set[Any] = {type(v) for v in values}
    if len(kinds) != 1 or len(results) != len(values) or not kinds <= {str, int}:
        return None
    kind = kinds.pop()

    def check(value: Any) -> Any:
        return results.get(value, MISS) if type(value) is kind else MISS

    return Simple({"type": "string" if kind is str else "integer", "enum": values}, check)


def _union(args: tuple[Any, ...]) -> Simple | None:
    parts = [simple(arg) for arg in args]
    if any(part is None for part in parts):
        return None
    checks = tuple(part.check for part in cast("list[Simple]", parts))

    def check(value: Any) -> Any:
        for one in checks:
            result = one(value)
            if result is not MISS:
                return result
        return MISS

    return Simple({"anyOf": [cast("Simple", part).schema for part in parts]}, check)


def _container(kind: type, item: Any) -> Simple | None:
    """A list of such items, or a dict with such values."""
    inner = simple(item)
    if inner is None:
        return None
    if inner.check is anything:
        return _PLAIN_ANNOTATIONS[kind]
    one = inner.check

    def items(value: Any) -> Any:
        if type(value) is not list:
            return MISS
        out = [one(v) for v in cast("list[Any]", value)]
        return MISS if any(v is MISS for v in out) else out

    def members(value: Any) -> Any:
        if type(value) is not dict:
            return MISS
        out = {k: one(v) for k, v in cast("dict[str, Any]", value).items()}
        return MISS if any(v is MISS for v in out.values()) else out

    if kind is list:
        return Simple({"type": "array", "items": inner.schema}, items)
    return Simple({"type": "object", "additionalProperties": inner.schema}, members)


def for_pydantic(annotation: Any) -> Any:
    """The annotation with every `typing.TypedDict` in the form that pydantic needs before Python 3.12."""
    if sys.version_info >= (3, 12):
        return annotation
    if is_typeddict(annotation):
        return _typed_dict(annotation)
    origin, args = get_origin(annotation), get_args(annotation)
    if origin is None or origin is Literal or not args:
        return annotation
    if origin is Annotated:
        return Annotated[(for_pydantic(args[0]), *args[1:])]  # pyright: ignore[reportReturnType, reportInvalidTypeForm]
    new = tuple(for_pydantic(arg) for arg in args)
    if all(a is b for a, b in zip(args, new, strict=True)):
        return annotation
    return Union[new] if origin is types.UnionType or origin is Union else origin[new]  # noqa: UP007


def _typed_dict(kind: Any) -> Any:
    import typing_extensions as te  # noqa: PLC0415 - comes with pydantic, which is needed now

    if isinstance(kind, te._TypedDictMeta):  # pyright: ignore[reportPrivateUsage, reportAttributeAccessIssue, reportUnknownMemberType]
        return kind
    members = (
        member_of(kind, name, hint) for name, hint in get_type_hints(kind, include_extras=True).items()
    )
    fields = {
        name: (te.Required if is_required else te.NotRequired)[for_pydantic(hint)]
        for name, hint, is_required in members
    }
    return te.TypedDict(kind.__name__, fields)  # pyright: ignore[reportGeneralTypeIssues, reportCallIssue, reportArgumentType]


def member_of(kind: Any, name: str, hint: Any) -> tuple[str, Any, bool]:
    """A field of a TypedDict, whose NotRequired may stand in an annotation that was a text."""
    origin = get_origin(hint)
    if origin is NotRequired or origin is Required:
        return name, get_args(hint)[0], origin is Required
    return name, hint, name in kind.__required_keys__


_TEXTS = (str, bytes, bytearray, date, time, UUID, PurePath)


def _is_decimal(kind: Any) -> bool:
    """Whether a type is `decimal.Decimal`, or one of its kind; nobody has one who has not imported it."""
    decimal: Any = sys.modules.get("decimal")
    return decimal is not None and issubclass(kind, decimal.Decimal)


def result_schema(annotation: Any, around: tuple[Any, ...] = ()) -> dict[str, Any]:  # noqa: PLR0911 - a case for each kind of type
    """The schema of what `to_json` makes of a value of a type, without pydantic; {} where it is not known.

    `around` are the types whose fields are being described: one inside itself is not described again.

    >>> result_schema(tuple[date, ...])
    {'type': 'array', 'items': {'type': 'string'}}
    """
    known = simple(annotation)
    if known is not None:
        return known.schema
    origin, args = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        changed = any(hasattr(note, "__get_pydantic_core_schema__") for note in args[1:])
        return {} if changed else result_schema(args[0], around)
    if origin is Literal:
        return {"enum": [one.value if isinstance(one, Enum) else one for one in args]}
    if origin is Union or origin is types.UnionType:
        parts = [result_schema(one, around) for one in args]
        return {"anyOf": parts} if all(parts) else {}
    kind = annotation if origin is None else origin
    if not isinstance(kind, type) or kind in around or len(around) > _MOST_NESTED:
        return {}
    members = _members(kind)
    if members is not None:
        properties = {name: result_schema(hint, (*around, kind)) for name, hint, _ in members}
        required = [name for name, _, is_required in members if is_required]
        return {"type": "object", "properties": properties, "required": required}
    if issubclass(kind, _TEXTS) or _is_decimal(kind):
        return {"type": "string"}
    if issubclass(kind, timedelta):
        return {"type": "number"}
    if issubclass(kind, Mapping):
        return {"type": "object", "additionalProperties": result_schema(args[1], around) if args[1:] else {}}
    if issubclass(kind, list | tuple | set | frozenset | Sequence):
        items = {arg for arg in args if arg is not Ellipsis}
        return {"type": "array", "items": result_schema(items.pop(), around) if len(items) == 1 else {}}
    return {}


_MOST_NESTED = 8


_KINDS = {**KINDS, "integer": frozenset({int, bool}), "number": frozenset({int, float, bool})}
"""As annotations of Python have it, where `True` is an `int`."""


class Returned(NamedTuple):
    """What a tool says that it returns: `schema` of the JSON, and the test against it.

    `has_effect` states that a call may change something: it is not repeated for a result that does not fit.
    `said_by` is what declares it, in words.
    """

    tool: str
    schema: Mapping[str, Any]
    fits: Fit
    has_effect: bool
    said_by: str = "return annotation"

    def check(self, value: JSON) -> None:
        """Raise ToolFailed, of the kind SCHEMA, with the place at which the result does not fit."""
        misfit = None if self.fits(value) else first_misfit(value, self.schema)
        if misfit is None:
            return
        why = f"the result{misfit.path} of @{self.tool} {misfit.verdict}: its {self.said_by} says so"
        raise ToolFailed(why, final=self.has_effect, kind=SCHEMA)


def annotated_result(tool: str, schema: Mapping[str, Any], *, has_effect: bool) -> Returned | None:
    """The test of results by the schema of an annotation; None where any value fits."""
    fits = sure_fit(schema, _KINDS, is_own=True)
    return None if fits is anything_fits else Returned(tool, schema, fits, has_effect)


def described_result(tool: str, schema: Mapping[str, Any], *, has_effect: bool) -> Returned | None:
    """The test of results by a schema of any kind; None for one that says nothing."""
    return Returned(tool, schema, unsure, has_effect, "schema") if schema else None


def _members(kind: Any) -> list[tuple[str, Any, bool]] | None:
    """The fields of a type that becomes an object: name, type, whether it is always there; else None."""
    try:
        hints = get_type_hints(kind, include_extras=True)
    except Exception:  # a name that is not there: calls work all the same
        return None
    if is_typeddict(kind):
        return [member_of(kind, name, hint) for name, hint in hints.items()]
    if dataclasses.is_dataclass(kind):
        return [(one.name, hints.get(one.name, Any), True) for one in dataclasses.fields(kind)]
    if hasattr(kind, "_asdict"):
        return [(name, hints.get(name, Any), True) for name in kind._fields]
    fields: Mapping[str, Any] | None = getattr(kind, "model_fields", None)
    if not isinstance(fields, Mapping) or not hasattr(kind, "model_dump"):
        return None
    return _members_of_model(kind, fields)


def _members_of_model(kind: Any, fields: Mapping[str, Any]) -> list[tuple[str, Any, bool]] | None:
    """The fields of a model of pydantic as `model_dump` writes them; what serializers make is not known."""
    decorators: Any = getattr(kind, "__pydantic_decorators__", None)
    if getattr(kind, "__pydantic_root_model__", False) or getattr(decorators, "model_serializers", None):
        return None
    serializers: Any = getattr(decorators, "field_serializers", {}).values()
    written = {name for one in serializers for name in one.info.fields}
    members: list[tuple[str, Any, bool]] = []
    for name, one in fields.items():
        if one.exclude or getattr(one, "exclude_if", None) is not None:
            continue
        is_written = name in written or "*" in written
        is_written = is_written or any(hasattr(note, "__get_pydantic_core_schema__") for note in one.metadata)
        hint = Any if is_written else one.annotation
        members.append((one.serialization_alias or one.alias or name, hint, True))
    computed: Mapping[str, Any] = getattr(kind, "model_computed_fields", {})
    members += [(one.alias or name, Any, True) for name, one in computed.items()]
    return members


_PLAIN_RESULTS = frozenset({str, int, bool, type(None)})


def to_json(value: object) -> JSON:
    """The value as JSON data.

    Dataclasses, named tuples and pydantic models become objects; enum members their values; dates and times
    ISO 8601 strings; durations seconds; UUIDs, decimals and paths strings; bytes base64; tuples lists; sets
    lists sorted by the JSON of their items. Raises ToolFailed for anything else, for numbers that are not
    finite and for values nested too deeply.

    >>> to_json({"when": date(2026, 1, 31), "tags": {"b", "a"}})
    {'when': '2026-01-31', 'tags': ['a', 'b']}
    """
    if type(value) in _PLAIN_RESULTS:
        return cast("JSON", value)
    try:
        return _convert(value)
    except RecursionError:
        raise ToolFailed("the result is nested too deeply to be JSON, or contains itself") from None


def value_returned(value: object, declared: Returned | None = None) -> JSON:
    """What a function returned, as JSON.

    Raises ToolFailed if it reports a failure, has no JSON form, or is not what is declared. The result of an
    MCP call that the function hands on is not what its annotation is about.
    """
    read = read_answer(value, Answerer.FUNCTION) if may_report(value) else value
    made = to_json(read)
    if declared is not None and read is value:
        declared.check(made)
    return made


def _convert(value: Any) -> JSON:
    kind = cast("Any", type(value))
    if kind in _PLAIN_RESULTS:
        return value
    if kind is dict:
        return {(k if type(k) is str else _key(k)): _convert(v) for k, v in value.items()}
    if kind is list or kind is tuple:
        return [_convert(v) for v in value]
    if kind is float:
        return _finite(value)
    return _convert_other(value)


def _finite(value: float) -> float:
    if math.isfinite(value):
        return value
    raise ToolFailed(f"the result contains {value}, which JSON cannot represent")


def _key(key: Any) -> str:
    """An object key as a string."""
    plain = _convert(key)
    if isinstance(plain, str):
        return plain
    if plain is None or isinstance(plain, list | dict):
        raise ToolFailed(f"the result has a key of type {type(key).__name__}; a key must be a text")
    return str(plain).lower() if isinstance(plain, bool) else str(plain)


def _object_json(value: Any) -> dict[str, JSON]:
    return {_key(k): _convert(v) for k, v in value.items()}


def _list(value: Any) -> list[JSON]:
    return [_convert(v) for v in value]


_WRITERS: tuple[tuple[Any, Callable[[Any], JSON]], ...] = (
    (Enum, lambda v: _convert(v.value)),
    (str, str.__str__),
    (int, int),
    (float, lambda v: _finite(float(v))),
    ((bytes, bytearray, memoryview), lambda v: base64.b64encode(v).decode("ascii")),
    ((datetime, date, time), lambda v: v.isoformat()),
    (timedelta, lambda v: v.total_seconds()),
    ((UUID, PurePath), str),
    (Mapping, _object_json),
    ((set, frozenset), lambda v: sorted(_list(v), key=canonical_bytes)),
    ((list, tuple), _list),
)
"""Converters by type; the first that matches is used."""


def _convert_other(value: Any) -> JSON:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: _convert(getattr(value, f.name)) for f in dataclasses.fields(value)}
    for method, options in (("_asdict", {}), ("model_dump", {"mode": "python", "by_alias": True})):
        dump = getattr(value, method, None)
        if callable(dump) and not isinstance(value, type):
            return _convert(dump(**options))
    for kind, write in _WRITERS:
        if isinstance(value, kind):
            return write(value)
    if _is_decimal(type(value)):
        return str(value)
    raise ToolFailed(f"the result contains a value of type {_type_name(value)}, which JSON cannot represent")


def _type_name(value: object) -> str:
    kind = type(value)
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
