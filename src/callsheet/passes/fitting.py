"""Whether JSON data fits a schema, told at once for nearly all data that does.

In: data and a schema. Out: the first place that does not fit. A schema becomes a test of plain Python, which
takes a fraction of the time of reading the data as a value; only what the test is not sure of is judged by
`passes.schema`. The work of a test grows with the data alone, whatever a foreign schema is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from callsheet.ir import JSON

if TYPE_CHECKING:
    from callsheet.passes.schema import Misfit

Fit: TypeAlias = Callable[[Any], bool]
"""Whether JSON data certainly fits a schema."""

Kinds: TypeAlias = Mapping[str, frozenset[type]]

KINDS: Kinds = {
    "string": frozenset({str}),
    "integer": frozenset({int}),
    "number": frozenset({int, float}),
    "boolean": frozenset({bool}),
    "null": frozenset({type(None)}),
    "array": frozenset({list}),
    "object": frozenset({dict}),
}
"""The Python types of the data of each type of JSON Schema."""
_SAYS_NOTHING = frozenset(
    (
        *("title", "description", "default", "examples", "format", "$comment", "$defs", "definitions"),
        *("deprecated", "readOnly", "writeOnly"),
    )
)
_OF_OBJECTS = frozenset(("properties", "required", "additionalProperties"))
_OF_PARTS = _OF_OBJECTS | {"items"}
_KNOWN = frozenset(("type", "enum", "anyOf", "$ref")) | _OF_PARTS
_SCALARS = frozenset[type]({str, int, float, bool, type(None)})
_NONE = frozenset[type]()
_CODED = frozenset("/~%")
"""A pointer with one of these names a part of a part, or a name that is written otherwise."""
_MOST_TESTS = 512
_DEEPEST = 32
"""A schema that is nested deeper is not made a test."""


def anything_fits(value: object) -> bool:
    """The test of a schema that says nothing."""
    return True


def unsure(value: object) -> bool:
    """The test of a schema that leaves all values to `passes.schema`."""
    return False


_TESTS: dict[int, tuple[Mapping[str, Any], Fit]] = {}
"""By the identity of the schema, which is kept so that no identity is used again."""


def first_misfit(data: JSON, schema: Mapping[str, Any]) -> Misfit | None:
    """The first place at which data does not fit a schema."""
    known = _TESTS.get(id(schema))
    if known is None:
        if len(_TESTS) >= _MOST_TESTS:
            _TESTS.clear()
        known = _TESTS[id(schema)] = schema, sure_fit(schema)
    try:
        if known[1](data):
            return None
    except RecursionError:
        pass
    from callsheet.passes.schema import literal_value, misfits  # noqa: PLC0415 - only where it is not sure

    return next(misfits(literal_value(data), schema, schema), None)


def sure_fit(schema: Mapping[str, Any], kinds: Kinds = KINDS, *, is_own: bool = False) -> Fit:
    """The test of a schema, with the data that is of each type: what it takes fits, other data may fit.

    Of a schema that `is_own`, which the program has made, a part may be looked at for several alternatives.

    >>> fits = sure_fit({"type": "array", "items": {"type": "integer"}})
    >>> fits([1, 2]), fits([1, "2"]), fits([True]), fits(None)
    (True, False, False, False)
    >>> sure_fit({"type": "string", "minLength": 2})("two")
    False
    """
    whole = {name: part for name, part in schema.items() if name != "$schema"}
    return _Tests(schema, kinds, is_own=is_own).of(whole, 0)


class _Tests:
    """The tests of the parts of one document; one part may be within itself."""

    def __init__(self, root: Mapping[str, Any], kinds: Kinds, *, is_own: bool) -> None:
        self._root = root
        self._kinds = kinds
        self._is_own = is_own
        self._of_reference: dict[str, Fit] = {}

    def of(self, schema: object, depth: int) -> Fit:
        if not isinstance(schema, Mapping) or depth > _DEEPEST:
            return unsure
        given = cast("Mapping[str, Any]", schema)
        part = {name: each for name, each in given.items() if name not in _SAYS_NOTHING}
        if not part.keys() <= _KNOWN:
            return unsure
        if "$ref" in part:
            return self._referred(part["$ref"], depth) if len(part) == 1 else unsure
        if "anyOf" in part:
            return self._any_of(part["anyOf"], depth) if len(part) == 1 else unsure
        kind = part.pop("type", None)
        kinds = self._kinds.get(kind, _NONE) if isinstance(kind, str) else _SCALARS if kind is None else _NONE
        if part.keys() == {"enum"}:
            return _one_of(part["enum"], kinds & _SCALARS)
        if kind == "object":
            return self._object(part, depth)
        if kind == "array" and part:
            return self._array(part, depth)
        if part or not kinds:
            return unsure
        return anything_fits if kind is None else lambda value: type(value) in kinds

    def _referred(self, pointer: object, depth: int) -> Fit:
        start, _, name = pointer.partition("#/$defs/") if isinstance(pointer, str) else ("", "", "")
        if start or not name or not _CODED.isdisjoint(name):
            return unsure
        if name not in self._of_reference:
            made: list[Fit] = []
            self._of_reference[name] = lambda value: bool(made) and made[0](value)
            made.append(self.of(_table(self._root.get("$defs")).get(name), depth + 1))
            self._of_reference[name] = made[0]
        return self._of_reference[name]

    def _any_of(self, given: object, depth: int) -> Fit:
        """One alternative at most of a foreign schema may have parts, so that none is looked at twice."""
        options = cast("list[Any]", given) if isinstance(given, list) else []
        if not self._is_own and sum(not _is_flat(_table(each)) for each in options) > 1:
            return unsure
        tests = [self.of(each, depth + 1) for each in options]
        return lambda value: any(fits(value) for fits in tests)

    def _array(self, part: Mapping[str, Any], depth: int) -> Fit:
        if len(part) > 1 or "items" not in part:
            return unsure
        each = self.of(part["items"], depth + 1)
        return lambda value: type(value) is list and all(map(each, cast("list[Any]", value)))

    def _object(self, part: Mapping[str, Any], depth: int) -> Fit:
        properties, required = part.get("properties", {}), part.get("required", [])
        if (
            not part.keys() <= _OF_OBJECTS
            or not isinstance(properties, Mapping)
            or not isinstance(required, list)
        ):
            return unsure
        fields = cast("Mapping[str, Any]", properties)
        tests = {name: self.of(each, depth + 1) for name, each in fields.items()}
        needed = frozenset(name for name in cast("list[Any]", required) if isinstance(name, str))
        more: Any = part.get("additionalProperties", True)
        others = (anything_fits if more else unsure) if isinstance(more, bool) else self.of(more, depth + 1)

        def fits(value: Any) -> bool:
            if type(value) is not dict:
                return False
            given = cast("dict[str, Any]", value)
            return needed <= given.keys() and all(
                tests.get(name, others)(each) for name, each in given.items()
            )

        return fits


def _table(value: object) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", value) if isinstance(value, Mapping) else {}


def _is_flat(schema: Mapping[str, Any]) -> bool:
    """Whether a schema says nothing of parts of a value."""
    return _OF_PARTS.isdisjoint(schema) and "anyOf" not in schema and "$ref" not in schema


def _one_of(options: object, kinds: frozenset[type]) -> Fit:
    """The test of an `enum` with a type; only what is neither a list nor an object is sure to fit."""
    given = cast("list[Any]", options) if isinstance(options, list) else []
    known: set[tuple[type, Any]] = {(type(each), each) for each in given if type(each) in kinds}  # pyright: ignore[reportUnknownArgumentType]
    return lambda value: type(value) in kinds and (type(value), value) in known
