"""Turns a type annotation into a JSON schema and a conversion of values.

Simple types (strings, numbers, lists, objects, choices) need no library; pydantic handles every other type.
A simple check accepts only values that pydantic would accept unchanged and leaves the rest to pydantic, so
that the meaning of a type does not depend on which one is used.
"""

from __future__ import annotations

import sys
import types
from collections.abc import Callable
from enum import Enum
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
    if origin is list:
        return _list_of(args[0])
    if origin is dict and args[0] is str:
        return _dict_of(args[1])
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


def _list_of(item: Any) -> Simple | None:
    inner = simple(item)
    if inner is None:
        return None
    if inner.check is anything:
        return _PLAIN_ANNOTATIONS[list]
    one = inner.check

    def check(value: Any) -> Any:
        if type(value) is not list:
            return MISS
        out = [one(v) for v in cast("list[Any]", value)]
        return MISS if any(v is MISS for v in out) else out

    return Simple({"type": "array", "items": inner.schema}, check)


def _dict_of(item: Any) -> Simple | None:
    inner = simple(item)
    if inner is None:
        return None
    if inner.check is anything:
        return _PLAIN_ANNOTATIONS[dict]
    one = inner.check

    def check(value: Any) -> Any:
        if type(value) is not dict:
            return MISS
        out = {k: one(v) for k, v in cast("dict[str, Any]", value).items()}
        return MISS if any(v is MISS for v in out.values()) else out

    return Simple({"type": "object", "additionalProperties": inner.schema}, check)


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
