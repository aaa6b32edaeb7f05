"""The functions, methods and formats of expressions, with CPython 3.12's results and errors.

In: an environment and values. Out: a value. Whatever can make its result larger than its arguments counts
and limits it before it is made. CPython's exceptions go through: `evaluation` says where they happened.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable, Iterator, Sequence, Sized
from datetime import date, datetime, timedelta
from functools import lru_cache
from typing import Any, Final, cast

from callsheet.ir.inputs import duration_of
from callsheet.ir.linear_patterns import PatternRejected, compile_pattern
from callsheet.machine.expressions.encoding import limited, to_text, too_long
from callsheet.machine.expressions.operators import (
    CONTAINERS,
    LISTS,
    MOST_ITEMS,
    SEQUENCES,
    SETS,
    add,
    is_any,
    sequence,
    spend_on_bits,
    too_many,
)
from callsheet.machine.expressions.values import (
    MAX_CHARACTERS,
    Environment,
    ExpressionFailed,
    FailureKind,
    FailureRecord,
    Kept,
    ordered,
    type_name,
    type_of,
    weight,
    writable,
)

_MOST_DIGITS: Final = 4_300
"""Python reads no integer with more digits from a text."""
_BITS_OF_DIGIT: Final = 3
_WORK_OF_MATCH: Final = 8
"""What finding a match and keeping it takes, beside going through the text."""
_MOST_WIDTH: Final = 10_000
"""The largest width or precision of a format."""

Function = Callable[..., Any]


# ---------------------------------------------------------------- functions


def _sum(env: Environment, values: Any, start: Any = 0) -> Any:
    """`sum` with CPython 3.12's compensated addition of floats."""
    if isinstance(start, str):
        raise TypeError("sum() can't sum strings [use ''.join(seq) instead]")
    total: Any = start
    items = iter(sequence(env, values))
    for item in items:
        if type(total) in (int, bool) and type(item) is float:
            return _float_sum(env, float(total), item, items)
        if type(total) is float and type(item) in (int, float, bool):
            return _float_sum(env, total, item, items)
        total = add(env, total, item)
    return total


def _float_sum(env: Environment, total: float, item: Any, items: Iterator[Any]) -> Any:
    """The rest of a sum from its first float on (Neumaier's algorithm, as CPython has it since 3.12)."""
    lost = 0.0
    while True:
        if type(item) is float:
            made = total + item
            lost += (total - made) + item if abs(total) >= abs(item) else (item - made) + total
            total = made
        elif type(item) in (int, bool):
            total += float(item)
        else:
            rest: Any = add(env, _compensated(total, lost), item)
            for one in items:
                rest = add(env, rest, one)
            return rest
        try:
            item = next(items)
        except StopIteration:
            return _compensated(total, lost)


def _compensated(total: float, lost: float) -> float:
    return total + lost if lost and math.isfinite(lost) else total


def _len(env: Environment, value: Any) -> int:
    return len([*value]) if isinstance(value, Kept) else len(value)


def _beyond_one(items: Sequence[Any]) -> int:
    """The work of comparing each item once, beyond one each: what texts and lists have inside.

    Items that have an order are of one type, so the first one tells.
    """
    return weight(items) - 1 - len(items) if items and is_any(items[0], SEQUENCES) else 0


def hashed(env: Environment, value: Any) -> Any:
    """A value that is to be a key or an element of a set: a tuple is gone through for that."""
    if type_of(value) is tuple:
        env.spend(weight(value))
    return value


def _sorted(env: Environment, values: Any, *, key: Any = None, reverse: Any = False) -> list[Any]:
    items = sequence(env, values)
    env.spend((len(items) + _beyond_one(items)) * len(items).bit_length())
    return sorted(items, key=key, reverse=bool(reverse))


def _extreme(name: str, of: Callable[..., Any]) -> Function:
    def find(env: Environment, *values: Any, **options: Any) -> Any:
        if unknown := set(options) - {"key", "default"}:
            raise TypeError(f"{name}() got an unexpected keyword argument {min(unknown)!r}")
        if len(values) == 1:
            items = sequence(env, values[0])
            if not items and "default" not in options:
                raise ExpressionFailed(FailureKind.VALUE, f"{name}() of nothing: there are no items")
            env.spend(_beyond_one(items))
            return of(items, **options)
        if "default" in options:
            raise TypeError(f"Cannot specify a default for {name}() with multiple positional arguments")
        env.spend(len(values) + _beyond_one(values))
        return of(*values, **options)

    return find


def _any(env: Environment, values: Any) -> bool:
    if isinstance(values, Sized):
        env.spend(len(values))
    return any(cast("Iterable[Any]", values))


def _all(env: Environment, values: Any) -> bool:
    if isinstance(values, Sized):
        env.spend(len(values))
    return all(cast("Iterable[Any]", values))


def _zip(env: Environment, *sources: Any, strict: Any = False) -> list[Any]:
    given = [ordered(env, one) if is_any(one, SETS) else one for one in sources]
    sizes = [len(one) for one in given if isinstance(one, Sized)]
    env.spend(min(sizes, default=0) * max(1, len(sources)))
    return list(zip(*given, strict=bool(strict)))


def _enumerate(env: Environment, source: Any, start: Any = 0) -> list[Any]:
    return list(enumerate(sequence(env, source), start))


def _range(env: Environment, *bounds: Any) -> list[int]:
    numbers = range(*bounds)
    if len(numbers) > MOST_ITEMS:
        raise too_many()
    env.spend(len(numbers))
    return list(numbers)


def _reversed(env: Environment, source: Any) -> list[Any]:
    if is_any(source, SETS):
        raise TypeError("'set' object is not reversible")
    reversed(source)
    return sequence(env, source)[::-1]


def _round(env: Environment, number: Any, ndigits: Any = None) -> Any:
    if not isinstance(number, (int, float)):
        raise TypeError(f"type {type_name(number)} doesn't define __round__ method")
    if isinstance(number, int):
        spend_on_bits(env, number.bit_length() ** 2)
    return round(number) if ndigits is None else round(number, ndigits)


def _int(env: Environment, value: Any = 0, base: Any = None) -> int:
    if isinstance(value, (datetime, date, timedelta)):
        raise TypeError(f"int() takes a text or a number, not {type_name(value)}")
    if isinstance(value, str):
        spend_on_bits(env, (_BITS_OF_DIGIT * min(len(value), _MOST_DIGITS)) ** 2)
    return int(value) if base is None else int(value, base)


def _str(env: Environment, value: Any = "") -> str:
    """`str(x)` is the text that `"${x}"` has, and "null" for None."""
    return "null" if value is None else to_text(env, value)


def _pystr(env: Environment, value: Any) -> str:
    """`pystr(x)` is the text that Python's `str(x)` gives: "None", "True", a list as Python writes it."""
    env.spend(weight(value))
    return limited(env, str(value))


def _pyrepr(env: Environment, value: Any) -> str:
    """`pyrepr(x)` is the text that Python's `repr(x)` gives."""
    env.spend(weight(value))
    return limited(env, repr(value))


def _list(env: Environment, source: Any = ()) -> list[Any]:
    return sequence(env, source)


def _tuple(env: Environment, source: Any = ()) -> tuple[Any, ...]:
    return tuple(sequence(env, source))


def _set(env: Environment, source: Any = ()) -> set[Any]:
    if is_any(source, SETS):
        env.spend(len(source))
        return set(source)
    return {hashed(env, item) for item in sequence(env, source)}


def _dict(env: Environment, source: Any = (), /, **named: Any) -> dict[Any, Any]:
    pairs: Any = source if is_any(source, (dict,)) else sequence(env, source)
    env.spend(len(pairs))
    if not is_any(source, (dict,)):
        for pair in pairs:
            if is_any(pair, LISTS) and pair:
                hashed(env, pair[0])
    return {**dict(pairs), **named}


# ---------------------------------------------------------------- dates, patterns, JSON


def _duration(env: Environment, text: Any = None, **parts: Any) -> timedelta:
    """`duration("1h30m")`, `duration("P1DT2H")`, or `duration(days=2, hours=1)`."""
    if text is None:
        if not parts:
            raise TypeError('duration() needs a text, as in duration("2d"), or parts, as in duration(days=2)')
        return timedelta(**parts)
    if isinstance(text, timedelta):
        return text
    if not isinstance(text, str) or parts:
        raise TypeError(f"duration() takes a text such as 1h30m, or parts by name, not {type_name(text)}")
    return duration_of(text)


def _date(env: Environment, *given: Any) -> date:
    """`date("2026-11-28")`, `date(2026, 11, 28)`, or the day of a datetime."""
    if len(given) == 1 and isinstance(given[0], datetime):
        return given[0].date()
    if len(given) == 1 and isinstance(given[0], date):
        return given[0]
    if len(given) == 1 and isinstance(given[0], str):
        return date.fromisoformat(given[0])
    return date(*given)


def _datetime(env: Environment, *given: Any, **parts: Any) -> datetime:
    """`datetime("2026-11-28T12:00:00Z")`, `datetime(2026, 11, 28, 12)`, or the beginning of a day."""
    if len(given) == 1 and not parts:
        (only,) = given
        if isinstance(only, datetime):
            return only
        if isinstance(only, date):
            return datetime(only.year, only.month, only.day)
        if isinstance(only, str):
            return datetime.fromisoformat(only)
    if unknown := set(parts) - {"hour", "minute", "second", "microsecond", "year", "month", "day"}:
        raise TypeError(f"datetime() has no argument {min(unknown)}")
    return datetime(*given, **parts)


def _now(env: Environment) -> datetime:
    return env.now


def _today(env: Environment) -> date:
    return env.now.date()


@lru_cache(maxsize=256)
def _pattern(text: str) -> Any:
    try:
        return compile_pattern(text)
    except PatternRejected as error:
        raise ValueError(f"{text!r} is no pattern: {error}") from None


def _searched(env: Environment, pattern: Any, text: Any) -> tuple[Any, str]:
    if not isinstance(pattern, str) or not isinstance(text, str):
        raise TypeError(f"a pattern and a text are needed, not {type_name(pattern)} and {type_name(text)}")
    env.spend(1 + (len(text) >> 2) + len(pattern))
    return _pattern(pattern), text


def _match(env: Environment, pattern: Any, text: Any) -> Any:
    """The first match of a pattern of RE2: `{"text", "start", "end", "groups", "named"}`, or None."""
    compiled, subject = _searched(env, pattern, text)
    found = compiled.search(subject)
    if found is None:
        return None
    return {
        "text": found.group(0),
        "start": found.start(),
        "end": found.end(),
        "groups": list(found.groups()),
        "named": dict(found.groupdict()),
    }


def _find_all(env: Environment, pattern: Any, text: Any) -> list[Any]:
    """All matches of a pattern of RE2, as Python's `re.findall` gives them."""
    compiled, subject = _searched(env, pattern, text)
    found: list[Any] = []
    for one in compiled.finditer(subject):
        env.spend(_WORK_OF_MATCH)
        groups = [part or "" for part in one.groups()]
        found.append(one.group() if not groups else groups[0] if len(groups) == 1 else tuple(groups))
    return found


def _json(env: Environment, text: Any) -> Any:
    """The value that a text says in JSON."""
    if not isinstance(text, str):
        raise TypeError(f"json() reads a text, not {type_name(text)}")
    env.spend(1 + (len(text) >> 2))
    try:
        return json.loads(text, parse_constant=_refused)
    except RecursionError:
        raise ValueError("this JSON nests too deep") from None


def _refused(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def _abs(env: Environment, number: Any) -> Any:
    return abs(number)


def _bool(env: Environment, value: Any = False) -> bool:
    return bool(value)


def _float(env: Environment, value: Any = 0.0) -> float:
    return float(value)


def _failed(env: Environment, value: Any) -> bool:
    return isinstance(value, FailureRecord)


def _is_empty(env: Environment, value: Any) -> bool:
    return value is None or (isinstance(value, Sized) and len(value) == 0)


FUNCTIONS: Final[dict[str, Function]] = {
    "FAILED": _failed,
    "IS_EMPTY": _is_empty,
    "len": _len,
    "sum": _sum,
    "min": _extreme("min", min),
    "max": _extreme("max", max),
    "sorted": _sorted,
    "any": _any,
    "all": _all,
    "zip": _zip,
    "enumerate": _enumerate,
    "range": _range,
    "reversed": _reversed,
    "round": _round,
    "abs": _abs,
    "int": _int,
    "float": _float,
    "str": _str,
    "bool": _bool,
    "list": _list,
    "tuple": _tuple,
    "dict": _dict,
    "set": _set,
    "date": _date,
    "datetime": _datetime,
    "duration": _duration,
    "now": _now,
    "today": _today,
    "match": _match,
    "find_all": _find_all,
    "json": _json,
    "pystr": _pystr,
    "pyrepr": _pyrepr,
}
"""The functions by name; the first parameter of each is the environment."""

# ---------------------------------------------------------------- methods

_METHODS: Final[dict[type, str]] = {
    str: "str",
    list: "list",
    tuple: "tuple",
    dict: "dict",
    set: "set",
    frozenset: "set",
    date: "date",
    datetime: "datetime",
    timedelta: "duration",
}
"""The types that have methods, by the name under which `frontends.expressions.names.METHODS` lists them."""
_WIDENING: Final = frozenset({"center", "ljust", "rjust", "zfill"})
_AS_LISTS: Final = frozenset({"keys", "values", "items"})


def method_call(
    env: Environment, methods: dict[str, frozenset[str]], name: str, value: Any, *given: Any, **named: Any
) -> Any:
    """`value.name(…)`. Raises ExpressionFailed where the type has no such method."""
    found = type_of(value)
    kind = _METHODS.get(found)
    if kind is None or name not in methods[kind]:
        absent_ = value is None
        raise ExpressionFailed(
            FailureKind.TYPE if absent_ else FailureKind.ATTRIBUTE,
            f"null has no method {name}" if absent_ else f"{type_name(value)} has no method {name}",
        )
    if isinstance(value, str):
        return _text_method(env, name, value, given, named)
    if is_any(value, CONTAINERS):
        env.spend(weight(value) if name in {"count", "index"} else len(value))
    made = getattr(value, name)(*given, **named)
    return list(made) if name in _AS_LISTS else made


def _text_method(
    env: Environment, name: str, value: str, given: tuple[Any, ...], named: dict[str, Any]
) -> Any:
    env.spend(1 + (len(value) >> 6))
    if name in _WIDENING and given and isinstance(given[0], int) and given[0] > MAX_CHARACTERS:
        raise too_long()
    if name == "expandtabs":
        size = given[0] if given else named.get("tabsize", 8)
        if isinstance(size, int) and value.count("\t") * max(size, 0) + len(value) > MAX_CHARACTERS:
            raise too_long()
    if name == "join" and len(given) == 1 and not named:
        parts = sequence(env, given[0])
        size = sum(len(part) for part in parts if isinstance(part, str)) + len(value) * len(parts)
        if size > MAX_CHARACTERS:
            raise too_long()
        return limited(env, value.join(parts))
    if name == "replace" and len(given) >= 2 and isinstance(given[0], str) and isinstance(given[1], str):
        grown = max(len(given[1]) - len(given[0]), 0)
        if grown and len(value) + (value.count(given[0])) * grown > MAX_CHARACTERS:
            raise too_long()
    made = getattr(value, name)(*given, **named)
    if isinstance(made, str):
        return limited(env, made)
    if is_any(made, LISTS):
        env.spend(len(made))
    return made


# ---------------------------------------------------------------- formats

_SIZES: Final = re.compile(r"\d+")


def formatted(env: Environment, value: Any, spec: str) -> str:
    """`${value:spec}`: Python's format. Raises ExpressionFailed for a width beyond 10,000."""
    if value is None:
        return to_text(env, value)
    is_dated = isinstance(value, (date, datetime))
    if not is_dated and any(int(size) > _MOST_WIDTH for size in _SIZES.findall(spec) if len(size) < 20):
        raise ExpressionFailed(FailureKind.LIMIT, f"a format is at most {_MOST_WIDTH:,} wide")
    if not is_dated and any(len(size) >= 20 for size in _SIZES.findall(spec)):
        raise ExpressionFailed(FailureKind.LIMIT, f"a format is at most {_MOST_WIDTH:,} wide")
    writable(value)
    if isinstance(value, int):
        spend_on_bits(env, 2 * value.bit_length() ** 2)
    return limited(env, format(value, spec))
