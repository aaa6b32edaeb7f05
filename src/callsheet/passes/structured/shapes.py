"""What is known of a value before the run: a lattice of shapes, from types, JSON Schemas and literals.

A `Shape` is a union of kinds. What is not known is `Basic.JSON`, which fits everywhere; beside it only null
and failures are kept, since they are what a plan must say something about.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import chain
from typing import Any, TypeAlias, assert_never, cast

from callsheet.ir.types import Basic, DictOf, ListOf, Maybe, Named, OneOf, Record, Type


class Special(StrEnum):
    """Kinds of values that no type of an input has a name for."""

    NULL = "null"
    FAILURE = "a failure"
    """What ON_FAIL CONTINUE stores in place of a result."""
    FUNCTION = "a lambda"


@dataclass(frozen=True, slots=True)
class Options:
    """One of these literals."""

    values: tuple[str | int | bool, ...]


@dataclass(frozen=True, slots=True)
class Items:
    """A list, tuple or set of items of one shape; of an empty one the item is `NOTHING`."""

    kind: str
    item: Shape


@dataclass(frozen=True, slots=True)
class Tuple:
    """A tuple of so many values."""

    items: tuple[Shape, ...]


@dataclass(frozen=True, slots=True)
class Table:
    """A dict of which it is not known which keys it has; `key` is None where that may be anything."""

    value: Shape
    key: Shape | None = None


@dataclass(frozen=True, slots=True)
class Known:
    """A field: its shape, whether it may be absent, and the `format` that its JSON Schema gives a text."""

    shape: Shape
    may_be_absent: bool = False
    format: str = ""


@dataclass(frozen=True, slots=True)
class Fields:
    """A dict with these fields; `is_open` says that others are expected too.

    `of` says what it is, for messages: `a Ticket`, `the result of @READ`.
    """

    fields: Mapping[str, Known] = field(hash=False)
    is_open: bool = False
    of: str = field(default="the record", compare=False)


Kind: TypeAlias = "Basic | Special | Options | Items | Tuple | Table | Fields"


@dataclass(frozen=True, slots=True)
class Shape:
    """One of several kinds of values; none of them for a value that there cannot be."""

    kinds: tuple[Kind, ...]

    @property
    def may_be_null(self) -> bool:
        """Whether null is one of the kinds."""
        return Special.NULL in self.kinds

    @property
    def may_fail(self) -> bool:
        """Whether a failure is one of the kinds."""
        return Special.FAILURE in self.kinds

    @property
    def is_unknown(self) -> bool:
        """Whether nothing is known, null and failures aside."""
        return Basic.JSON in self.kinds

    def without(self, *kinds: Kind) -> Shape:
        """The shape with these kinds left out."""
        if not any(kind in self.kinds for kind in kinds):
            return self
        return Shape(tuple(kind for kind in self.kinds if kind not in kinds))


NOTHING = Shape(())
ANY = Shape((Basic.JSON,))
NULL = Shape((Special.NULL,))
FAILURE = Shape((Special.FAILURE,))
STR, INT, FLOAT, BOOL = (Shape((kind,)) for kind in (Basic.STR, Basic.INT, Basic.FLOAT, Basic.BOOL))
DATE, DATETIME, DURATION = (Shape((kind,)) for kind in (Basic.DATE, Basic.DATETIME, Basic.DURATION))
NUMBER = Shape((Basic.INT, Basic.FLOAT))

FAILURE_FIELDS: Mapping[str, Shape] = {
    "error": STR, "message": STR, "kind": STR, "step": STR, "attempts": INT,
    "fields": ANY,
}  # fmt: skip
"""The fields of a failure as a value."""

_MOST_KINDS = 8
_BESIDE_UNKNOWN = (Special.NULL, Special.FAILURE)
"""What is known of a value of which nothing else is."""


def list_of(item: Shape) -> Shape:
    """A list of such items."""
    return Shape((Items("list", item),))


def join(*shapes: Shape) -> Shape:
    """A value of any of these shapes.

    >>> text(join(INT, NULL, INT))
    'int or null'
    """
    if len(shapes) == 2 and (shapes[0] is shapes[1] or shapes[0] == shapes[1]):
        return shapes[0]
    made: list[Kind] = []
    alike: dict[object, list[Kind]] = {}
    is_unknown = False
    for shape in shapes:
        for kind in shape.kinds:
            sort = None if is_unknown else _sort(kind)
            if sort is not None and sort in alike:
                alike[sort].append(kind)
            elif (sort is not None or kind not in made) and (not is_unknown or kind in _BESIDE_UNKNOWN):
                made.append(kind)
                if sort is not None:
                    alike[sort] = [kind]
                if not is_unknown and (kind is Basic.JSON or len(made) > _MOST_KINDS):
                    is_unknown = True
                    made = [Basic.JSON, *(kind for kind in made if kind in _BESIDE_UNKNOWN)]
    if is_unknown:
        return Shape(tuple(made))
    return Shape(tuple([kind if (sort := _sort(kind)) is None else _merged(alike[sort]) for kind in made]))


def _sort(kind: Kind) -> object:
    """What kinds have in common of which a shape has only one, joined of all; None for a kind of its own."""
    if isinstance(kind, Items):
        return kind.kind
    return type(kind) if isinstance(kind, Table | Options) else None


def _merged(kinds: list[Kind]) -> Kind:
    """Kinds of one sort in one."""
    first = kinds[0]
    if len(kinds) == 1:
        return first
    match first:
        case Items(kind=kind):
            return Items(kind, join(*(one.item for one in reversed(kinds) if isinstance(one, Items))))
        case Table():
            tables = [one for one in reversed(kinds) if isinstance(one, Table)]
            keys = [one.key for one in tables if one.key is not None]
            key = join(*keys) if len(keys) == len(tables) else None
            return Table(join(*(one.value for one in tables)), key)
        case Options():
            options = [one.values for one in kinds if isinstance(one, Options)]
            return Options(tuple(dict.fromkeys(chain.from_iterable(options))))
        case _:
            return first


def widened(shape: Shape) -> Shape:
    """The shape with literals forgotten: what a variable that starts with this value may hold later."""
    return join(*(_widened(kind) for kind in shape.kinds)) if shape.kinds else shape


def _widened(kind: Kind) -> Shape:
    if isinstance(kind, Options):
        return join(*(literal(value, is_exact=False) for value in kind.values))
    if isinstance(kind, Items) and not kind.item.kinds:
        return list_of(ANY) if kind.kind == "list" else Shape((Items(kind.kind, ANY),))
    if isinstance(kind, Fields) and not kind.fields:
        return Shape((Table(ANY),))
    return Shape((kind,))


def literal(value: object, *, is_exact: bool = True) -> Shape:
    """The shape of a constant of a plan; texts are kept with `is_exact`."""
    match value:
        case None:
            return NULL
        case bool():
            return BOOL
        case int():
            return INT
        case float():
            return FLOAT
        case str():
            return Shape((Options((value,)),)) if is_exact else STR
        case list():
            items = cast("list[object]", value)
            return list_of(join(*(literal(one, is_exact=is_exact) for one in items)) if items else NOTHING)
        case dict():
            fields = cast("dict[str, object]", value)
            return Shape((Fields({name: Known(literal(one)) for name, one in fields.items()}),))
        case _:
            return ANY


# ---------------------------------------------------------------- from types


def of_type(of: Type, named: Mapping[str, Record], _inside: tuple[str, ...] = ()) -> Shape:
    """The shape of a type; an unknown or recursive name is not known."""
    match of:
        case Basic():
            return Shape((of,))
        case ListOf(item=item):
            return list_of(of_type(item, named, _inside))
        case DictOf(value=value):
            return Shape((Table(of_type(value, named, _inside), STR),))
        case OneOf(values=values):
            return Shape((Options(values),))
        case Maybe(of=inner):
            return join(of_type(inner, named, _inside), NULL)
        case Named(name=name):
            if name in _inside or name not in named:
                return ANY
            return _of_record(named[name], named, (*_inside, name), f"a {name}")
        case Record():
            return _of_record(of, named, _inside, "the record")
    assert_never(of)


def _of_record(record: Record, named: Mapping[str, Record], inside: tuple[str, ...], of: str) -> Shape:
    fields = {
        name: Known(of_type(kind, named, inside), isinstance(kind, Maybe)) for name, kind in record.fields
    }
    return Shape((Fields(fields, of=of),))


# ---------------------------------------------------------------- from JSON Schemas

_MOST_DEPTH = 12
_MOST_PARTS = 2_000
_BASICS = {"string": STR, "integer": INT, "number": NUMBER, "boolean": BOOL, "null": NULL}


def of_schema(schema: Mapping[str, Any], of: str) -> Shape:
    """The shape that a JSON Schema describes, as far as it is read: not known beyond that.

    `of` names the value in messages. Schemas are untrusted: the work is bounded.
    """
    return _Schema(schema, of).shape(schema, 0, ())


class _Schema:
    def __init__(self, root: Mapping[str, Any], of: str) -> None:
        self.root, self.of = root, of
        self.left = _MOST_PARTS

    def shape(self, schema: Any, depth: int, inside: tuple[str, ...]) -> Shape:
        self.left -= 1
        if not isinstance(schema, Mapping) or depth > _MOST_DEPTH or self.left < 0:
            return ANY
        known = cast("Mapping[str, Any]", schema)
        pointer: Any = known.get("$ref")
        if isinstance(pointer, str):
            return ANY if pointer in inside else self.referred(pointer, depth, (*inside, pointer))
        if "allOf" in known or "not" in known or "if" in known:
            return ANY
        either: Any = known.get("anyOf") or known.get("oneOf")
        if isinstance(either, list):
            return join(*(self.shape(one, depth + 1, inside) for one in cast("list[Any]", either)[:20]))
        return self.own(known, depth, inside)

    def own(self, schema: Mapping[str, Any], depth: int, inside: tuple[str, ...]) -> Shape:
        values: Any = [schema["const"]] if "const" in schema else schema.get("enum")
        if isinstance(values, list) and values:
            return _of_values(cast("list[Any]", values))
        declared: Any = schema.get("type")
        names = cast("list[Any]", declared) if isinstance(declared, list) else [declared]
        if declared is None and "properties" in schema:
            names = ["object"]
        shapes: list[Shape] = []
        for name in names:
            if name == "array":
                first: Any = schema.get("prefixItems")
                shapes.append(list_of(ANY if first else self.shape(schema.get("items"), depth + 1, inside)))
            elif name == "object":
                shapes.append(self.object(schema, depth, inside))
            else:
                shapes.append(_BASICS.get(name, ANY) if isinstance(name, str) else ANY)
        return join(*shapes)

    def object(self, schema: Mapping[str, Any], depth: int, inside: tuple[str, ...]) -> Shape:
        properties: Any = schema.get("properties")
        more: Any = schema.get("additionalProperties")
        if not isinstance(properties, Mapping) or not properties:
            return Shape((Table(self.shape(more, depth + 1, inside), STR),))
        needed: Any = schema.get("required")
        required = cast("list[Any]", needed) if isinstance(needed, list) else None
        fields = {
            name: Known(
                self.shape(part, depth + 1, inside),
                required is not None and name not in required,
                format_of(part),
            )
            for name, part in cast("Mapping[str, Any]", properties).items()
        }
        is_open = "patternProperties" in schema or more not in (None, False)
        return Shape((Fields(fields, is_open, self.of),))

    def referred(self, pointer: str, depth: int, inside: tuple[str, ...]) -> Shape:
        target: Any = self.root if pointer.startswith("#") and len(pointer) < 1_000 else None
        for part in pointer[2:].split("/") if len(pointer) > 1 else ():
            key = part.replace("~1", "/").replace("~0", "~")
            target = cast("Mapping[str, Any]", target).get(key) if isinstance(target, Mapping) else None
        return self.shape(target, depth + 1, inside)


FORMATS: Mapping[str, str] = {"date-time": "2026-05-31T09:00:00", "date": "2026-05-31"}
"""Formats of texts in JSON Schemas that plans compare, each with an example."""


def format_of(schema: object) -> str:
    """The one of `FORMATS` that a schema gives a text, perhaps beside null; else empty.

    >>> format_of({"anyOf": [{"type": "string", "format": "date"}, {"type": "null"}]})
    'date'
    """
    if not isinstance(schema, Mapping):
        return ""
    known = cast("Mapping[str, Any]", schema)
    either: Any = known.get("anyOf")
    if isinstance(either, list):
        options = cast("list[Any]", either)[:3]
        found = {format_of(one) for one in options if one != {"type": "null"}}
        return found.pop() if len(found) == 1 else ""
    given: Any = known.get("format")
    return given if isinstance(given, str) and given in FORMATS else ""


def _of_values(values: list[Any]) -> Shape:
    texts = tuple(one for one in values if isinstance(one, str))
    others = [literal(one) for one in values if not isinstance(one, str)]
    return join(*([Shape((Options(texts),))] if texts else []), *others)


# ---------------------------------------------------------------- relations


def may_be(wanted: Shape, have: Shape) -> bool:
    """Whether some value of the shape `have`, null and failures aside, may be one of `wanted`."""
    kinds = have.without(Special.NULL, Special.FAILURE).kinds
    return not kinds or any(_may_be(want, kind) for kind in kinds for want in wanted.kinds)


def _may_be(want: Kind, have: Kind) -> bool:
    if want is Basic.JSON or have is Basic.JSON or want == have:
        return True
    if isinstance(want, Options) or isinstance(have, Options):
        return _may_be_option(want, have)
    if want in _NUMBERS and have in _NUMBERS:
        return True
    if isinstance(want, Items):
        return _may_be_items(want, have)
    if isinstance(want, Table):
        if isinstance(have, Table):
            return may_be(want.value, have.value)
        return isinstance(have, Fields) and all(
            may_be(want.value, known.shape) for known in have.fields.values()
        )
    if isinstance(want, Fields):
        return isinstance(have, Table) or (
            isinstance(have, Fields)
            and all(_fits_field(known, have, name) for name, known in want.fields.items())
        )
    return False


_NUMBERS = (Basic.INT, Basic.FLOAT)


def _may_be_option(want: Kind, have: Kind) -> bool:
    if isinstance(want, Options):
        if isinstance(have, Options):
            return any(one in want.values for one in have.values)
        return any(_basic_of(value) is have for value in want.values)
    return isinstance(have, Options) and any(_may_be(want, _basic_of(value)) for value in have.values)


def _may_be_items(want: Items, have: Kind) -> bool:
    if isinstance(have, Tuple):
        return want.kind in ("list", "tuple") and all(may_be(want.item, one) for one in have.items)
    if not isinstance(have, Items) or not (
        want.kind == have.kind or (want.kind, have.kind) == ("list", "tuple")
    ):
        return False
    return not have.item.kinds or may_be(want.item, have.item)


def _fits_field(wanted: Known, have: Fields, name: str) -> bool:
    known = have.fields.get(name)
    if known is None:
        return wanted.may_be_absent or have.is_open
    return may_be(wanted.shape, known.shape)


def is_within(wanted: Shape, have: Shape) -> bool:
    """Whether all that `have` may be is something that `wanted` says."""
    if wanted.is_unknown:
        return all(kind in wanted.kinds for kind in have.kinds if isinstance(kind, Special))
    return all(kind in wanted.kinds or any(_within(one, kind) for one in wanted.kinds) for kind in have.kinds)


def _within(wanted: Kind, have: Kind) -> bool:
    if isinstance(have, Options):
        return all(_basic_of(value) is wanted for value in have.values)
    if isinstance(wanted, Items):
        return isinstance(have, Items) and wanted.kind == have.kind and is_within(wanted.item, have.item)
    if isinstance(wanted, Table):
        if isinstance(have, Table):
            return is_within(wanted.value, have.value)
        return isinstance(have, Fields) and all(
            is_within(wanted.value, known.shape) for known in have.fields.values()
        )
    return False


def _basic_of(value: str | int) -> Basic:
    if isinstance(value, bool):
        return Basic.BOOL
    return Basic.INT if isinstance(value, int) else Basic.STR


def family(kind: Kind) -> str:
    """What a kind of values can be equal to: numbers to numbers, each other sort to itself."""
    match kind:
        case Basic.INT | Basic.FLOAT:
            return "a number"
        case Basic() | Special():
            return kind.value
        case Options(values=values):
            sorts = {family(_basic_of(value)) for value in values}
            return sorts.pop() if len(sorts) == 1 else Basic.JSON.value
        case Items(kind=sort):
            return sort
        case Tuple():
            return "tuple"
        case Table() | Fields():
            return "dict"
    assert_never(kind)


def families(shape: Shape) -> set[str]:
    """The families of a value, null aside; None is not among them."""
    return {family(kind) for kind in shape.kinds} - {Special.NULL.value}


# ---------------------------------------------------------------- words


def text(shape: Shape) -> str:
    """A shape for a message.

    >>> text(list_of(join(STR, NULL)))
    'list[str or null]'
    """
    if not shape.kinds:
        return "nothing"
    kinds = shape.kinds
    if Basic.FLOAT in kinds and Basic.INT in kinds:
        kinds = tuple(kind for kind in kinds if kind is not Basic.INT)
    return " or ".join(_words(kind) for kind in sorted(kinds, key=lambda kind: kind is Special.NULL))


def _words(kind: Kind) -> str:
    match kind:
        case Basic() | Special():
            return kind.value
        case Options(values=values):
            shown = " | ".join(f'"{one}"' if isinstance(one, str) else str(one) for one in values[:6])
            return shown + (" | …" if len(values) > 6 else "")
        case Items(kind=sort, item=item):
            return f"{sort}[{text(item)}]" if item.kinds else f"an empty {sort}"
        case Tuple(items=items):
            return f"({', '.join(text(one) for one in items)})"
        case Table():
            return "dict"
        case Fields(fields=fields):
            names = list(fields)
            more = ", …" if len(names) > 4 else ""
            return "{" + ", ".join(names[:4]) + more + "}"
    assert_never(kind)
