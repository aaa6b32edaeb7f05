"""The values of expressions: their types, equality, text, size, how much work they are, and how one fails.

Beside JSON data there are tuples, sets, dates, datetimes and durations, as CPython has them. Work is counted
in elements and characters, never timed, so that every driver and every replay agree.

A value may hold a part many times over: `[$a, $a]`, forty times, is small in memory and endless in an
argument, an answer or a journal. So a value that an expression or a loop makes has at most `MOST_PARTS`
parts, each counted as often as it stands there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sized
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from itertools import chain
from typing import Any, Final, TypeAlias, cast

from callsheet.diagnostics import Span

DEFAULT_WORK: Final = 5_000_000
"""How much work one expression may do: about two seconds of a slow machine."""
MAX_BITS: Final = 65_536
"""The largest integer, in bits."""
MAX_CHARACTERS: Final = 16 << 20
"""The longest text that an expression may make."""
MOST_PARTS: Final = 1 << 24
"""How many parts a value may have, a text counting as one more for each 16 characters."""
MOST_LEVELS: Final = 240
"""How deep lists and dicts nest in a value."""
type_of: Final = cast("Callable[[Any], type[Any]]", type)
"""The type of a value, as one of any type."""
CONTAINERS: Final = frozenset({list, dict, tuple, set, frozenset})
"""The types of values that have parts."""

_TEXT: Final[frozenset[type]] = frozenset({str})
_ATOMS: Final[frozenset[type]] = frozenset({int, float, bool, type(None)})
_SCALARS: Final = _ATOMS | _TEXT
_DICT: Final[set[type]] = {dict}
_REMEMBERED: Final = 8
"""How many large values are remembered with their sizes."""
_LARGE: Final = 64
"""How many parts a value has at least of which the size is remembered."""
PART: Final = 16
"""What a part is in units of sizes: a character of a text is one of them."""
_MOST: Final = MOST_PARTS * PART
_LONG: Final = 1 << 18
"""How many characters each text in a small value may have: all of them stay far below the limit."""


class FailureKind(StrEnum):
    """Why an expression has no value; named after CPython's exception where it has one."""

    TYPE = "TypeError"
    VALUE = "ValueError"
    KEY = "KeyError"
    INDEX = "IndexError"
    ATTRIBUTE = "AttributeError"
    ZERO = "ZeroDivisionError"
    OVERFLOW = "OverflowError"
    LIMIT = "LimitError"


class ExpressionFailed(Exception):
    """An expression has no value. `span` is the part that failed, where it is known.

    `is_absent` says that a path leads nowhere, which `??` forgives. `words` are what Python's exception says,
    where the message tells more.
    """

    def __init__(
        self, kind: FailureKind, message: str, *, is_absent: bool = False, words: str | None = None
    ) -> None:
        super().__init__(message)
        self.kind, self.message, self.is_absent, self.words = kind, message, is_absent, words
        self.span: Span | None = None


@dataclass(frozen=True, slots=True)
class Kept:
    """A value of a Python program's own world as data: the name of its type, and what it is made from.

    Expressions hand it on and do no more with it; pure code gets the object back. `kind` is `class` (parts:
    the name of the class, its fields, and whether it is true, if the class says that), `Counter`,
    `defaultdict` (the name of its factory, its items), `deque` (its items, its most length), `OrderedDict`,
    `range` (its bounds), `pattern`, `match`, `named` (a named tuple: its name, its fields, its values),
    `iterator` (what is left in it, and what it then fails with), `count`, `enum` (a member of an enumeration:
    its class, its name, its value, and whether it is a text or a number too, as those of StrEnum are), or
    `helper` (a class of the standard library that the interpreter lacks: its name, its parts, and whether it
    is true, as for a class).
    """

    kind: str
    parts: tuple[Any, ...]

    def __repr__(self) -> str:
        """The value as people see it, as Python writes it where that is short.

        >>> Kept("class", ("Page", {"name": "a"})), Kept("enum", ("Size", "BIG", 3, False))
        (Page(name='a'), Size.BIG)
        """
        match self.kind, self.parts:
            case "class", (name, fields, *_):
                named = cast("dict[str, Any]", fields).items()
                return f"{name}({', '.join(f'{field}={value!r}' for field, value in named)})"
            case "enum", (owner, member, *_):
                return f"{owner}.{member}"
            case kind, parts:
                return f"{kind}({', '.join(map(repr, parts))})"

    def __bool__(self) -> bool:
        """Whether it has items, for a container; what its class says, for an object; True for any other."""
        if self.kind in HELD_ITEMS:
            return bool(self.parts[HELD_ITEMS[self.kind]])
        if self.kind == "range":
            return bool(range(*self.parts[0]))
        if self.kind == "enum":
            return bool(self.parts[2]) if self.parts[3] else True
        if self.kind in ("class", "helper") and len(self.parts) > 2:
            return bool(self.parts[2])
        return True

    def __iter__(self) -> Iterator[Any]:
        """What a loop over it goes through. Raises TypeError for what has no items that stay in it."""
        if self.kind == "range":
            return iter(range(*self.parts[0]))
        if self.kind == "named":
            return iter(self.parts[2])
        if self.kind in HELD_ITEMS:
            return iter(self.parts[HELD_ITEMS[self.kind]])
        raise TypeError(f"a {self.kind} is not gone through outside of the code that made it")


HELD_ITEMS: Final[Mapping[str, int]] = {"Counter": 0, "OrderedDict": 0, "defaultdict": 1, "deque": 0}
"""Which of the parts of a kept container are its items."""


class FailureRecord(dict[str, Any]):
    """A failure as a value, as `$error` and ON_FAIL CONTINUE give it: its fields can be read, but no more."""


Size: TypeAlias = "tuple[int, int]"
"""How many parts a value has when it is written out, in sixteenths, and how deep they nest.

Nothing is rounded, so what holds two values is as large as both together, in whatever way it is measured.
"""


class Sizes:
    """Measures values; remembers the last large ones, so that those made of them need not be gone through.

    What is remembered may be larger than the value, so nothing is refused by it: that takes the exact size,
    which is the same on every machine and in every replay.
    """

    __slots__ = ("_known",)

    def __init__(self) -> None:
        self._known: dict[int, tuple[Any, Size]] = {}

    def of(self, value: Any) -> Size:
        """What the size of a value does not exceed. Raises ExpressionFailed if it is beyond the limits."""
        known = self._known.get(id(value))
        if known is not None:
            return known[1]
        units = scalar_units(value)
        if units:
            return units, 0
        try:
            size = _allowed(_measured(value, {key: one[1] for key, one in self._known.items()}, 0))
        except ExpressionFailed:
            size = _exact(value)
        self._remember(value, size)
        return size

    def admit(self, value: Any, size: Size | None = None) -> None:
        """Check a value that was made; `size` is one that it does not exceed. Raises ExpressionFailed."""
        if size is None:
            self.of(value)
        else:
            is_over = size[0] > _MOST or size[1] > MOST_LEVELS
            self._remember(value, _exact(value) if is_over else size)

    def _remember(self, value: Any, size: Size) -> None:
        if size[0] < _LARGE * PART:
            return
        known = self._known
        if len(known) >= _REMEMBERED:
            del known[next(iter(known))]
        known[id(value)] = value, size


def scalar_units(value: Any) -> int:
    """How large a text, a number, a bool or None is, in units of `Size`; 0 for any other value."""
    kind = type_of(value)
    if kind is str:
        return PART + len(value)
    return PART if kind in _ATOMS else 0


def _exact(value: Any) -> Size:
    """The size of a value. Raises ExpressionFailed if it is beyond the limits."""
    return _allowed(_measured(value, {}, 0))


def _allowed(size: Size) -> Size:
    units, levels = size
    if units > _MOST:
        raise _too_large()
    if levels > MOST_LEVELS:
        raise _too_deep()
    return size


def _measured(value: Any, seen: dict[int, Size], level: int) -> Size:
    """The size of a value, each part gone through once. Raises ExpressionFailed beyond the limits."""
    if type(value) not in CONTAINERS and (units := scalar_units(value)):
        return units, 0
    found = seen.get(id(value))
    if found is not None:
        return found
    if level > MOST_LEVELS:
        raise _too_deep()
    if isinstance(value, dict):
        members = cast("dict[Any, Any]", value)
        units, levels = _together(members.values(), seen, level)
        keys, deepest = _together(members.keys(), seen, level)
        size = PART + keys + units, 1 + max(levels, deepest)
    elif isinstance(value, (list, tuple, set, frozenset)):
        units, levels = _together(cast("Collection[Any]", value), seen, level)
        size = PART + units, 1 + levels
    elif isinstance(value, Kept):
        units, levels = _together(value.parts, seen, level)
        size = PART + units, 1 + levels
    else:
        return PART, 0
    seen[id(cast("object", value))] = size
    return size


def _together(items: Collection[Any], seen: dict[int, Size], level: int) -> Size:
    kinds = set(map(type, items))
    if kinds <= _ATOMS:
        return PART * len(items), 0
    if kinds <= _SCALARS:
        return PART * len(items) + _characters(items), 0
    if kinds == _DICT and (units := _records(cast("Collection[dict[Any, Any]]", items))):
        return units, 1
    units = levels = 0
    for item in items:
        more, deep = _measured(item, seen, level + 1)
        units += more
        levels = max(levels, deep)
        if units > _MOST:
            raise _too_large()
    return units, levels


def _characters(items: Iterable[Any]) -> int:
    return sum([len(item) for item in items if type(item) is str])


def _records(items: Collection[dict[Any, Any]]) -> int:
    """The size of dicts of scalars, as the items of most large lists are, and 0 if they are others."""
    members = sum(map(len, items))
    if members > MOST_PARTS:
        raise _too_large()
    texts = [one for one in _all(map(dict[Any, Any].values, items)) if type(one) not in _ATOMS]
    shapes = Counter(map(tuple, items))
    if not _TEXT.issuperset(map(type, texts)) or not _TEXT.issuperset(map(type, _all(shapes))):
        return 0
    names = sum(sum(map(len, shape)) * count for shape, count in shapes.items())
    return PART * (len(items) + 2 * members) + sum(map(len, texts)) + names


_all = chain.from_iterable


def is_small(value: Any) -> bool:
    """Whether a list, tuple or dict has few parts and no long texts, which is cheap to see."""
    return _left(value, _LARGE) >= 0


def _left(value: Any, left: int) -> int:
    """What a container leaves of so many parts; less than 0 if they do not suffice."""
    kind = type_of(value)
    if kind is dict:
        left -= 2 * len(value)
        if left < 0:
            return -1
        for key in value:
            if type(key) is not str or len(key) > _LONG:
                return -1
        value = value.values()
    elif kind is list or kind is tuple:
        left -= len(value)
        if left < 0:
            return -1
    else:
        return -1
    for one in value:
        kind = type_of(one)
        if kind is str:
            if len(one) > _LONG:
                return -1
        elif kind not in _ATOMS:
            left = _left(one, left)
            if left < 0:
                return -1
    return left


def _too_large() -> ExpressionFailed:
    return ExpressionFailed(
        FailureKind.LIMIT,
        f"a value may have at most {MOST_PARTS:,} parts, counting each as often as it stands there;"
        " keep what is needed of it, or let a tool write it to a file",
    )


def _too_deep() -> ExpressionFailed:
    return ExpressionFailed(
        FailureKind.LIMIT,
        f"lists and dicts may nest at most {MOST_LEVELS} deep; put the parts in one list",
    )


@dataclass(slots=True)
class Environment:
    """What an evaluation has beside the variables: the statement's clock, and the work that is left.

    `now` is the time of the event before the statement, with its time zone (decision 12).
    """

    now: datetime
    work: int = DEFAULT_WORK
    sizes: Sizes = field(default_factory=Sizes)

    def spend(self, amount: int) -> None:
        """Count work. Raises ExpressionFailed when none is left."""
        self.work -= amount
        if self.work < 0:
            raise ExpressionFailed(
                FailureKind.LIMIT, "the expression does too much work; split its data, or compute in a tool"
            )


def type_name(value: Any) -> str:
    """The name of a value's type, as in annotations of version 2.

    >>> type_name(None), type_name(timedelta(1))
    ('None', 'duration')
    """
    if value is None:
        return "None"
    if isinstance(value, timedelta):
        return "duration"
    if isinstance(value, Kept):
        return str(value.parts[0]) if value.kind == "class" else value.kind
    return type(value).__name__


def fields_of(value: Mapping[Any, Any]) -> str:
    """The fields that a dict has, for a message: what there is instead of what was looked for."""
    names = [str(key) if isinstance(key, str) else repr(key) for key in list(value)[:12]]
    if not names:
        return "it has no fields"
    more = len(value) - len(names)
    return f"there is {', '.join(names)}" + (f" and {more} more" if more > 0 else "")


def weight(value: Any) -> int:
    """How many elements and characters (64 to one; 16 to one in a container) comparing or copying may touch.

    What is more than an expression may do is not counted any further.
    """
    if not isinstance(value, Sized):
        return 1
    if isinstance(value, str):
        return 1 + (len(value) >> 6)
    try:
        return _measured(value, {}, 0)[0] // PART
    except ExpressionFailed:
        return DEFAULT_WORK + 1


def writable(value: Any) -> None:
    """Check that a value is not too large to be written into a text. Raises ExpressionFailed."""
    if type_of(value) not in _ATOMS and weight(value) > DEFAULT_WORK:
        raise ExpressionFailed(
            FailureKind.LIMIT,
            f"what a text shows may have at most {DEFAULT_WORK:,} parts; write what is needed of it",
        )


_NUMBERS: Final = (int, float)


def _family(value: Any) -> object:
    """What values compare with: numbers with numbers, each other type with itself."""
    kind = type_of(value)
    if kind in _NUMBERS:
        return int
    return frozenset if kind is set else kind


def equals(env: Environment, left: Any, right: Any) -> bool:
    """`left == right`. Raises ExpressionFailed for values that cannot be equal, unless one is None.

    These are values of different types, and times with and without an offset (decision 11).
    """
    kind = type_of(left)
    if kind is type(right):
        if kind in (list, dict, tuple, set):
            env.spend(min(weight(left), weight(right)))
        elif kind is datetime and (left.utcoffset() is None) != (right.utcoffset() is None):
            raise ExpressionFailed(
                FailureKind.TYPE,
                "a datetime with an offset and one without are compared, which would never be equal;"
                ' write an offset in both, as in datetime("2026-11-28T09:00:00Z")',
            )
        return bool(left == right)
    if left is None or right is None:
        return False
    if _family(left) is not _family(right):
        raise ExpressionFailed(
            FailureKind.TYPE,
            f"{type_name(left)} and {type_name(right)} are compared, which would never be equal;"
            " convert one of them",
        )
    return bool(left == right)


def contains(env: Environment, item: Any, container: Any) -> bool:
    """`item in container`, counted. Raises TypeError as CPython does."""
    if isinstance(container, (dict, set, frozenset)):
        if type_of(item) is tuple:
            env.spend(weight(item))
        hash(item)
    elif isinstance(container, Sized):
        env.spend(1 + (len(container) >> 4) if isinstance(container, str) else weight(container))
    return item in container


def elements(env: Environment, source: Any, cost: int) -> Iterable[Any]:
    """What a comprehension goes through, its work counted at once; a set in sorted order.

    `cost` is the number of nodes that each element evaluates. Raises TypeError as CPython does.
    """
    if isinstance(source, (set, frozenset)):
        source = ordered(env, cast("AbstractSet[Any]", source))
    if isinstance(source, Sized):
        env.spend(len(source) * cost)
    else:
        iter(source)
    return cast("Iterable[Any]", source)


def ordered(env: Environment, values: AbstractSet[Any]) -> list[Any]:
    """The elements of a set in sorted order; a set that has none is a failure (decision 11)."""
    env.spend(len(values))
    return in_order(values)


def in_order(values: AbstractSet[Any]) -> list[Any]:
    """The elements of a set, sorted. Raises ExpressionFailed if they have no order."""
    try:
        return sorted(values)
    except TypeError:
        raise ExpressionFailed(
            FailureKind.TYPE, "the elements of this set have no order, so there is none to go through them in"
        ) from None
