"""The shapes that operators, functions and methods of expressions give, by the shapes of their operands."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from callsheet.frontends.expressions.names import VERSION_1
from callsheet.ir.expression import BinaryOp
from callsheet.ir.types import Basic
from callsheet.passes.structured.shapes import (
    ANY,
    BOOL,
    DATE,
    DATETIME,
    DURATION,
    FLOAT,
    INT,
    NOTHING,
    NULL,
    NUMBER,
    STR,
    Fields,
    Items,
    Kind,
    Known,
    Options,
    Shape,
    Special,
    Table,
    Tuple,
    families,
    family,
    join,
    list_of,
)

NUM, LIST, TUPLE, SET, DICT = "a number", "list", "tuple", "set", "dict"
TEXT, TRUTH, DAY, TIME, SPAN = "str", "bool", "date", "datetime", "duration"
UNKNOWN = Basic.JSON.value


# ---------------------------------------------------------------- operators

_SAME = "same"
_TABLE: Final[dict[BinaryOp, dict[tuple[str, str], Shape | str]]] = {
    BinaryOp.ADD: {
        (TEXT, TEXT): STR,
        (LIST, LIST): _SAME,
        (TUPLE, TUPLE): Shape((Items("tuple", ANY),)),
        (DAY, SPAN): DATE,
        (SPAN, DAY): DATE,
        (TIME, SPAN): DATETIME,
        (SPAN, TIME): DATETIME,
        (SPAN, SPAN): DURATION,
    },
    BinaryOp.SUBTRACT: {
        (DAY, DAY): DURATION,
        (TIME, TIME): DURATION,
        (DAY, SPAN): DATE,
        (TIME, SPAN): DATETIME,
        (SPAN, SPAN): DURATION,
        (SET, SET): _SAME,
    },
    BinaryOp.MULTIPLY: {
        (TEXT, NUM): STR,
        (NUM, TEXT): STR,
        (LIST, NUM): _SAME,
        (NUM, LIST): _SAME,
        (TUPLE, NUM): Shape((Items("tuple", ANY),)),
        (SPAN, NUM): DURATION,
        (NUM, SPAN): DURATION,
    },
    BinaryOp.DIVIDE: {(SPAN, SPAN): FLOAT, (SPAN, NUM): DURATION},
    BinaryOp.FLOOR: {(SPAN, SPAN): INT, (SPAN, NUM): DURATION},
    BinaryOp.REMAINDER: {(SPAN, SPAN): DURATION},
    BinaryOp.POWER: {},
    BinaryOp.UNION: {(SET, SET): _SAME, (DICT, DICT): Shape((Table(ANY),))},
    BinaryOp.INTERSECTION: {(SET, SET): _SAME},
    BinaryOp.DIFFERENCE: {(SET, SET): _SAME},
}
_BITS = {BinaryOp.UNION, BinaryOp.INTERSECTION, BinaryOp.DIFFERENCE}


def binary(op: BinaryOp, left: Shape, right: Shape) -> Shape | None:
    """The shape of `left op right`, null and failures aside; None if no values of these shapes have it."""
    found: list[Shape] = []
    for one in left.kinds:
        for two in right.kinds:
            if Special.NULL in (one, two):
                continue
            made = _pair(op, one, two)
            if made is not None:
                found.append(made)
    if found:
        return join(*found)
    is_null = not left.without(Special.NULL).kinds or not right.without(Special.NULL).kinds
    return ANY if is_null else None


def _pair(op: BinaryOp, one: Kind, two: Kind) -> Shape | None:
    first, second = family(one), family(two)
    if UNKNOWN in (first, second) or Special.FAILURE.value in (first, second):
        return ANY
    if {first, second} <= {NUM, TRUTH}:
        is_whole = not {one, two} & {Basic.FLOAT}
        if op in _BITS:
            return (BOOL if first == second == TRUTH else INT) if is_whole else None
        if op is BinaryOp.DIVIDE:
            return FLOAT
        if op is BinaryOp.POWER:
            return NUMBER
        return INT if is_whole else FLOAT
    names = tuple(NUM if name == TRUTH else name for name in (first, second))
    if op is BinaryOp.MULTIPLY and Basic.FLOAT in (one, two) and {TEXT, LIST, TUPLE} & {first, second}:
        return None
    made = _TABLE[op].get((names[0], names[1]))
    if isinstance(made, str):
        if first == second:
            return join(Shape((one,)), Shape((two,)))
        return Shape((one,)) if first == LIST else Shape((two,))
    return made


# ---------------------------------------------------------------- what can be gone through


def items_of(shape: Shape) -> Shape | None:
    """The shape of the elements, null and failures aside; None if there are none to go through."""
    found = [_items(kind) for kind in shape.without(Special.NULL, Special.FAILURE).kinds]
    there = [one for one in found if one is not None]
    return join(*there) if there or not found else None


def _items(kind: Kind) -> Shape | None:
    match kind:
        case Basic.JSON:
            return ANY
        case Items(item=item):
            return item
        case Tuple(items=items):
            return join(*items) if items else NOTHING
        case Table(key=key):
            return ANY if key is None else key
        case Fields():
            return STR
        case Basic.STR:
            return STR
        case Options():
            return STR if family(kind) == TEXT else None
        case _:
            return None


# ---------------------------------------------------------------- functions


class Signature(NamedTuple):
    """How a function is called: how many values, which names, what each value must be, what it gives.

    `takes` are families for the first values, an empty one for anything; the last goes for all further ones.
    """

    least: int
    most: int | None
    gives: Callable[[tuple[Shape, ...]], Shape]
    takes: tuple[frozenset[str], ...] = ()
    names: frozenset[str] | None = frozenset()


ITERABLE: Final = frozenset({TEXT, LIST, TUPLE, SET, DICT})
_NUMBERS: Final = frozenset({NUM, TRUTH})
_ANYTHING: Final = frozenset[str]()


def _item(given: tuple[Shape, ...]) -> Shape:
    return (items_of(given[0]) or ANY) if given else ANY


def _extreme(given: tuple[Shape, ...]) -> Shape:
    return _item(given) if len(given) == 1 else join(*given)


def _sum(given: tuple[Shape, ...]) -> Shape:
    item = _item(given).without(Special.NULL)
    if len(given) > 1:
        return ANY
    return join(INT, item) if item.kinds and families(item) <= {NUM} else ANY if item.kinds else INT


def _dict(given: tuple[Shape, ...]) -> Shape:
    return given[0] if given and families(given[0]) == {DICT} else Shape((Table(ANY),))


def _rounded(given: tuple[Shape, ...]) -> Shape:
    return INT if len(given) == 1 else NUMBER


_MATCH = Shape(
    (
        Fields(
            {
                "text": Known(STR),
                "start": Known(INT),
                "end": Known(INT),
                "groups": Known(list_of(ANY)),
                "named": Known(Shape((Table(ANY),))),
            },
            of="a match",
        ),
        Special.NULL,
    )
)


def _list(given: tuple[Shape, ...]) -> Shape:
    return list_of(_item(given) if given else NOTHING)


def _tuple(given: tuple[Shape, ...]) -> Shape:
    return Shape((Items("tuple", _item(given)),))


def _set(given: tuple[Shape, ...]) -> Shape:
    return Shape((Items("set", _item(given) if given else NOTHING),))


def _zip(given: tuple[Shape, ...]) -> Shape:
    return list_of(Shape((Tuple(tuple(items_of(one) or ANY for one in given)),)))


def _enumerate(given: tuple[Shape, ...]) -> Shape:
    return list_of(Shape((Tuple((INT, _item(given))),)))


def _abs(given: tuple[Shape, ...]) -> Shape:
    return INT if families(given[0]) == {TRUTH} else given[0]


def _always(shape: Shape) -> Callable[[tuple[Shape, ...]], Shape]:
    return lambda given: shape


_DATE_PARTS = frozenset({"year", "month", "day", "hour", "minute", "second", "microsecond"})
_SPAN_PARTS = frozenset({"weeks", "days", "hours", "minutes", "seconds", "milliseconds", "microseconds"})

FUNCTIONS: Final[Mapping[str, Signature]] = {
    "len": Signature(1, 1, _always(INT), (ITERABLE,)),
    "sum": Signature(1, 2, _sum, (ITERABLE, _ANYTHING), frozenset({"start"})),
    "min": Signature(1, None, _extreme, (_ANYTHING,), frozenset({"key", "default"})),
    "max": Signature(1, None, _extreme, (_ANYTHING,), frozenset({"key", "default"})),
    "sorted": Signature(1, 1, _list, (ITERABLE,), frozenset({"key", "reverse"})),
    "any": Signature(1, 1, _always(BOOL), (ITERABLE,)),
    "all": Signature(1, 1, _always(BOOL), (ITERABLE,)),
    "zip": Signature(0, None, _zip, (ITERABLE,), frozenset({"strict"})),
    "enumerate": Signature(1, 2, _enumerate, (ITERABLE, _NUMBERS), frozenset({"start"})),
    "range": Signature(1, 3, _always(list_of(INT)), (_NUMBERS,)),
    "reversed": Signature(1, 1, _list, (ITERABLE - {SET},)),
    "round": Signature(1, 2, _rounded, (_NUMBERS,), frozenset({"ndigits"})),
    "abs": Signature(1, 1, _abs, (frozenset({NUM, TRUTH, SPAN}),)),
    "int": Signature(0, 2, _always(INT), (frozenset({NUM, TRUTH, TEXT}), _NUMBERS), frozenset({"base"})),
    "float": Signature(0, 1, _always(FLOAT), (frozenset({NUM, TRUTH, TEXT}),)),
    "str": Signature(0, 1, _always(STR)),
    "bool": Signature(0, 1, _always(BOOL)),
    "list": Signature(0, 1, _list, (ITERABLE,)),
    "tuple": Signature(0, 1, _tuple, (ITERABLE,)),
    "set": Signature(0, 1, _set, (ITERABLE,)),
    "dict": Signature(0, 1, _dict, (ITERABLE - {TEXT},), None),
    "date": Signature(1, 3, _always(DATE), (frozenset({TEXT, NUM, DAY, TIME}),)),
    "datetime": Signature(0, 7, _always(DATETIME), (frozenset({TEXT, NUM, DAY, TIME}),), _DATE_PARTS),
    "duration": Signature(0, 1, _always(DURATION), (frozenset({TEXT, SPAN}),), _SPAN_PARTS),
    "now": Signature(0, 0, _always(DATETIME)),
    "today": Signature(0, 0, _always(DATE)),
    "match": Signature(2, 2, _always(_MATCH), (frozenset({TEXT}),)),
    "find_all": Signature(2, 2, _always(list_of(ANY)), (frozenset({TEXT}),)),
    "json": Signature(1, 1, _always(ANY), (frozenset({TEXT}),)),
    "pystr": Signature(1, 1, _always(STR)),
    "pyrepr": Signature(1, 1, _always(STR)),
    **dict.fromkeys(("v1.value", "v1.int", "v1.float", "v1.bool", "v1.json"), Signature(1, 1, _always(ANY))),
    **dict.fromkeys(("v1.list", "v1.elements"), Signature(1, 1, _always(list_of(ANY)))),
    "v1.path": Signature(1, None, _always(ANY)),
    "v1.text": Signature(1, None, _always(STR)),
    "v1.joined": Signature(0, None, _always(STR)),
    "v1.empty": Signature(1, 1, _always(BOOL)),
    **dict.fromkeys(
        ("v1.equal", "v1.contains", "v1.greater", "v1.less", "v1.at_least", "v1.at_most"),
        Signature(2, 2, _always(BOOL)),
    ),
}
"""The functions of `frontends.expressions.names`; others are not known."""
NULL_TAKERS: Final = VERSION_1 | {"str", "pystr", "pyrepr", "bool", "min", "max", "any", "all"}
"""The functions that take null for a value."""


# ---------------------------------------------------------------- methods

_TEXTS = {
    **dict.fromkeys(("split", "rsplit", "splitlines"), list_of(STR)),
    **dict.fromkeys(("partition", "rpartition"), Shape((Tuple((STR, STR, STR)),))),
    **dict.fromkeys(("find", "rfind", "index", "rindex", "count"), INT),
    **dict.fromkeys(("startswith", "endswith"), BOOL),
}
_OF_DATES = {
    "isoformat": STR,
    "strftime": STR,
    "weekday": INT,
    "isoweekday": INT,
    "date": DATE,
    "timestamp": FLOAT,
    "astimezone": DATETIME,
}


def method(kind: Kind, name: str, given: tuple[Shape, ...], key: object) -> Shape:
    """What a method of a kind gives that has it; `key` is its first argument if that is a literal."""
    sort = family(kind)
    if sort == TEXT:
        return BOOL if name.startswith("is") else _TEXTS.get(name, STR)
    if sort == DICT:
        return _of_dict(kind, name, given, key)
    if sort in (LIST, TUPLE):
        return Shape((kind,)) if name == "copy" else INT
    if sort == SET:
        return BOOL if name.startswith("is") else Shape((Items("set", ANY),))
    if sort in (DAY, TIME):
        return _OF_DATES.get(name, Shape((kind,)))
    return FLOAT if sort == SPAN else ANY


def _of_dict(kind: Kind, name: str, given: tuple[Shape, ...], key: object) -> Shape:
    value, keys = ANY, STR
    if isinstance(kind, Table):
        value, keys = kind.value, ANY if kind.key is None else kind.key
    elif isinstance(kind, Fields) and not kind.is_open and kind.fields:
        value = join(*(known.shape for known in kind.fields.values()))
    match name:
        case "get":
            known = kind.fields.get(key) if isinstance(kind, Fields) and isinstance(key, str) else None
            found = known.shape if known is not None else value
            return join(found, given[1] if len(given) > 1 else NULL)
        case "keys":
            return list_of(keys)
        case "values":
            return list_of(value)
        case "items":
            return list_of(Shape((Tuple((keys, value)),)))
        case _:
            return Shape((kind,))


PARTS: Final[Mapping[Kind, frozenset[str]]] = {
    Basic.DATE: frozenset({"year", "month", "day"}),
    Basic.DATETIME: _DATE_PARTS,
    Basic.DURATION: frozenset({"days", "seconds", "microseconds"}),
}
"""The fields of dates and durations, all of them numbers."""


def method_names(kind: Kind, methods: Mapping[str, frozenset[str]]) -> frozenset[str] | None:
    """The methods of a kind; None if they are not known."""
    sort = family(kind)
    if sort in (UNKNOWN, Special.FAILURE.value):
        return None
    return methods.get(sort, frozenset())
