"""Values on their way into pure code and out of it; they keep their types.

JSON data, tuples, sets, bytes, dates, times, durations, time zones and decimals go as they are. What belongs
to the program's own world (an instance of its class, a Counter, a compiled pattern, a match) is carried as
`Kept`: outside it is data that can be recorded, and the next piece of the program gets the object back.
"""

from __future__ import annotations

import re
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Iterable, Mapping
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from typing import Any, Final, NamedTuple, cast

from callsheet.frontends.pure_code.helpers import has_helper
from callsheet.machine.expressions.values import Kept

_MARK: Final = "\x00kept"
_PLAIN: Final = (
    type(None), bool, int, float, str, bytes, date, datetime, time, timedelta, timezone, Decimal,
)  # fmt: skip
_PLAIN_SET: Final = frozenset(_PLAIN)
_DEEPEST: Final = 400


class NotAValue(Exception):
    """A value that cannot go into pure code; the message names its type and the path to it."""


class Given(NamedTuple):
    """Named values as the interpreter takes them; `has_kept` says that objects have to be made from some.

    `helpers` are the classes of those among these that the standard library has and the interpreter lacks.
    """

    values: dict[str, Any]
    has_kept: bool
    has_sets: bool
    helpers: frozenset[str] = frozenset()


def given(inputs: Mapping[str, Any]) -> Given:
    """Values on their way in; an object that two names share is shared inside too.

    Raises NotAValue for one that code cannot have.
    """
    if all(map(_goes_as_it_is, inputs.values())):
        return Given(dict(inputs), False, False)
    walk = _Walk()
    values = {name: walk.convert(value, name, 0) for name, value in inputs.items()}
    return Given(values, walk.has_kept, walk.has_sets, frozenset(walk.helpers))


def _goes_as_it_is(value: Any) -> bool:
    """Whether a value has only JSON data, tuples and plain values in it, which need no conversion."""
    if type(value) in _PLAIN_SET:
        return True
    stack: list[Any] = [value]
    seen: set[int] = set()
    while stack:
        one = stack.pop()
        kind = cast("type[Any]", type(one))
        if kind is dict:
            parts = (*one, *one.values())
        elif kind is list or kind is tuple:
            parts = one
        else:
            return False
        if id(one) in seen:
            continue
        seen.add(id(one))
        if len(seen) > _DEEPEST and not stack and len(parts) == 1:
            return False  # it may be a long chain, which the other way counts
        stack.extend([part for part in parts if type(part) not in _PLAIN_SET])
    return True


class _Walk:
    """Converts values; a container that occurs twice is converted once."""

    def __init__(self) -> None:
        self.has_kept = self.has_sets = False
        self.done: dict[int, Any] = {}
        self.helpers: set[str] = set()

    def convert(self, value: Any, path: str, depth: int) -> Any:
        kind = cast("type[Any]", type(value))
        if kind in _PLAIN:
            return value
        known = self.done.get(id(value))
        if known is not None:
            return known
        if depth > _DEEPEST:
            raise NotAValue(f"{path[:60]}… is nested in more than {_DEEPEST} others")
        if isinstance(value, Kept):
            self.done[id(value)] = made = self._kept(value.kind, value.parts, path, depth)
            return made
        if isinstance(value, Mapping):
            return self._mapping(cast("Mapping[Any, Any]", value), path, depth)
        if isinstance(value, (list, tuple, set, frozenset)):
            return self._sequence(cast("Iterable[Any]", value), path, depth)
        if isinstance(value, deque):
            items = cast("deque[Any]", value)
            return self._kept("deque", (list(items), items.maxlen), path, depth)
        if isinstance(value, re.Pattern):
            pattern = cast("re.Pattern[Any]", value)
            return self._kept("pattern", (pattern.pattern, pattern.flags), path, depth)
        for plain in _PLAIN:  # an enumeration of texts, a subclass of int
            if isinstance(value, plain):
                return cast("Any", plain)(value) if plain in (int, float, str, bytes) else value
        raise NotAValue(f"{path} is of type {kind.__name__}, which code cannot be given")

    def _mapping(self, value: Mapping[Any, Any], path: str, depth: int) -> Any:
        if isinstance(value, Counter):
            return self._kept("Counter", (dict(value),), path, depth)
        if isinstance(value, defaultdict):
            factory = value.default_factory
            name = None if factory is None else getattr(factory, "__name__", "")
            return self._kept("defaultdict", (name, dict(value)), path, depth)
        if isinstance(value, OrderedDict):
            return self._kept("OrderedDict", (dict(value),), path, depth)
        result: dict[Any, Any] = {}
        self.done[id(value)] = result
        for key, item in value.items():
            result[self.convert(key, path, depth + 1)] = self.convert(item, f"{path}[{key!r}]", depth + 1)
        return result

    def _sequence(self, value: Iterable[Any], path: str, depth: int) -> Any:
        if isinstance(value, list):
            result: list[Any] = []
            self.done[id(cast("Any", value))] = result
            for at, item in enumerate(value):
                result.append(self.convert(item, f"{path}[{at}]", depth + 1))
            return result
        items = [self.convert(item, f"{path}[{at}]", depth + 1) for at, item in enumerate(value)]
        if isinstance(value, tuple):
            return tuple(items)
        self.has_sets = True
        return frozenset(items) if isinstance(value, frozenset) else set(items)

    def _kept(self, kind: str, parts: tuple[Any, ...], path: str, depth: int) -> Any:
        self.has_kept = True
        if kind == "helper":
            if not has_helper(str(parts[0])):
                raise NotAValue(f"{path} is of type {parts[0]}, which code cannot be given")
            self.helpers.add(str(parts[0]))
        return (_MARK, kind, *(self.convert(part, path, depth + 1) for part in parts))


def taken(value: Any) -> Any:
    """A value that came out, with its `Kept` parts; what is shared in it stays shared."""
    return _taken(value, {})


def _taken(value: Any, done: dict[int, tuple[Any, Any]]) -> Any:
    """`done` has what was converted, and what it was made from, so that no identity is used again."""
    if not isinstance(value, (tuple, list, dict)):
        return value
    known = done.get(id(cast("Any", value)))
    if known is not None:
        return known[0]
    made: Any
    if isinstance(value, tuple):
        items = cast("tuple[Any, ...]", value)
        if items and items[0] == _MARK:
            made = Kept(items[1], tuple(_taken(part, done) for part in items[2:]))
        else:
            made = tuple(_taken(item, done) for item in items)
        done[id(items)] = made, items
    elif isinstance(value, list):
        parts = cast("list[Any]", value)
        made = []
        done[id(parts)] = made, parts
        made.extend(_taken(item, done) for item in parts)
    else:
        table = cast("dict[Any, Any]", value)
        made = {}
        done[id(table)] = made, table
        made.update({_taken(key, done): _taken(item, done) for key, item in table.items()})
    return made
