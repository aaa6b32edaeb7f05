"""Reads the `[[limit]]` tables of a policy file: which settings a limit has, and which go together.

In: parsed TOML, its path in the file. Out: limits; what is wrong with one is recorded with how to write it.
"""

from __future__ import annotations

from collections.abc import Mapping
from sys import float_info
from typing import cast

from callsheet.policy.file_values import (
    Faults,
    Path,
    Reader,
    Table,
    count_value,
    dotted,
    one_of,
    read_table,
    text_value,
    tool_patterns,
    word,
)
from callsheet.policy.model import Limit, Per

_KINDS = ("calls", "sum", "after", "needs", "hours")
"""The settings of which each limit has one."""


def limit_values(value: object, path: Path, faults: Faults) -> tuple[Limit, ...]:
    """The limits of a policy file. Raises ValueError if it is no list of tables."""
    if not isinstance(value, list):
        raise ValueError("a list of tables, each [[limit]]")
    limits: list[Limit] = []
    for number, table in enumerate(cast("list[object]", value)):
        key_path = (*path, number)
        try:
            values = read_table(table, _LIMIT, key_path, faults)
        except ValueError as error:
            faults.add("POL003", f"{dotted(key_path)} must be {error}", key_path)
            continue
        if values.keys() != cast("Mapping[str, object]", table).keys():  # the rest is recorded already
            continue
        wrong = _fault_of_limit(values)
        if wrong is not None:
            faults.add("POL003", f"limit {number + 1} {wrong[0]}", key_path, wrong[1])
        else:
            limits.append(Limit(**{**values, "then": values.get("then", _then_of(values))}))
    return tuple(limits)


def _then_of(values: Table) -> str:
    return "refuse" if "hours" in values or values.get("per", Per.RUN) is not Per.RUN else "ask"


def _fault_of_limit(values: Table) -> tuple[str, str | None] | None:
    """What is wrong with a limit, and how to write it."""
    kinds = [kind for kind in _KINDS if kind in values]
    if not values.get("tools"):
        return "lacks tools", 'say whose calls it limits: tools = ["send_*"]'
    if len(kinds) != 1:
        says = f"has {' and '.join(kinds)}" if kinds else "says nothing"
        return says, "a limit has one of calls, sum (with most), after, needs, hours"
    if values[kinds[0]] == ():
        return f"names no tools in {kinds[0]}", f'say which: {kinds[0]} = ["get_*"]'
    if ("sum" in values) != ("most" in values):
        return "needs both sum and most", 'write sum = "amount" and most = 500'
    if "per" in values and kinds[0] not in ("calls", "sum"):
        return "has per, which is for calls and sum", None
    if "zone" in values and kinds[0] != "hours":
        return "has zone, which is for hours", None
    if values.get("then") == "ask" and _then_of(values) == "refuse":
        hint = "leave out `then`: what depends on the clock or on other runs is refused"
        return "cannot ask", hint
    return None


def _hours(value: object, path: Path, faults: Faults) -> str:
    from callsheet.policy.limits import hours_of  # noqa: PLC0415 - loads time zones only if needed

    text = text_value(value, path, faults)
    hours_of(text)
    return text


def _zone(value: object, path: Path, faults: Faults) -> str:
    from zoneinfo import ZoneInfo  # noqa: PLC0415 - loads time zones only if needed

    name = text_value(value, path, faults)
    try:
        ZoneInfo(name)
    except (ValueError, OSError, LookupError):
        raise ValueError('a time zone such as "Europe/Berlin"') from None
    return name


def _amount(value: object, path: Path, faults: Faults) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 <= value <= float_info.max:
        raise ValueError("a number of at least 0")
    return float(value)


_LIMIT: dict[str, Reader] = {
    "tools": tool_patterns,
    "calls": count_value,
    "sum": text_value,
    "most": _amount,
    "after": tool_patterns,
    "needs": tool_patterns,
    "hours": _hours,
    "zone": _zone,
    "per": one_of(Per),
    "then": word({"ask": "ask", "refuse": "refuse"}),
}
