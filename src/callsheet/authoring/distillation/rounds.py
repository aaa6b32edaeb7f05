"""What the calls of rounds have in common with items, with each other, and with the lists that loops go over.

In: recorded calls, and items of lists. Out: whether a call is about an item or follows from another one, the
results without what only repeats the question, and the arguments and items of rounds side by side.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from callsheet.authoring.distillation.item_tests import WITHIN
from callsheet.authoring.distillation.picking import related
from callsheet.authoring.distillation.recorded_calls import RecordedCall, texts_in
from callsheet.authoring.distillation.rules import rows_of
from callsheet.authoring.distillation.scopes import Looped
from callsheet.ir import JSON

_SHORTEST = 2


def is_of(call: RecordedCall, items: Sequence[JSON], least: int, *, is_named: bool) -> bool:
    """Whether a call has something of an item, `is_named` in an argument of that name."""
    return any(
        related(value, part) >= least and (not is_named or name == field or name.endswith(f"_{field}"))
        for name, value in call.args.items()
        for row in rows_of(items)
        for field, part in ((whole.rpartition(WITHIN)[2], part) for whole, part in row.items())
    )


def follows(call: RecordedCall, before: Sequence[RecordedCall]) -> bool:
    """Whether a call has something that a change before it has answered."""
    told = {text for one in before for text in texts_in(one.result) if len(text) > _SHORTEST}
    return not told.isdisjoint(texts_in(call.args))


def without_echo(values: tuple[JSON, ...], calls: Sequence[RecordedCall]) -> tuple[JSON, ...]:
    """Results without the fields that only repeat what was asked."""
    tables = [value for value in values if isinstance(value, dict)]
    if len(tables) < len(values):
        return values
    pairs = [*zip(tables, calls, strict=True)]
    echo = {name for name in tables[0] if all(_repeats(name, one, call) for one, call in pairs)}
    return tuple({name: item for name, item in one.items() if name not in echo} for one in tables)


def _repeats(name: str, result: Mapping[str, JSON], call: RecordedCall) -> bool:
    value = result.get(name)
    return not isinstance(value, dict | list | bool | None) and value in call.args.values()


def others_of(looped: Looped, options: Sequence[Looped]) -> list[str]:
    """The lists with the same items that are about as likely as one."""
    if looped.is_prefix:
        return []
    likely = [one for one in options if not one.is_prefix and one.cost < looped.cost + 0.6]
    return [
        *dict.fromkeys(one.code for one in likely if one.items == looped.items and one.code != looped.code)
    ][:2]


def args_of(calls: Sequence[RecordedCall]) -> dict[str, JSON]:
    """The arguments of the calls of a round, named with the place of their call."""
    return {f"{place}.{name}": value for place, call in enumerate(calls) for name, value in call.args.items()}


def by_run(items: Sequence[JSON], times: Sequence[int], counts: Sequence[int]) -> tuple[list[JSON], ...]:
    """The items of each run with which anything was done; `counts` has how many a run had."""
    found, at = list[list[JSON]](), 0
    for count in counts:
        found.append(
            [item for item, n in zip(items[at : at + count], times[at : at + count], strict=True) if n]
        )
        at += count
    return tuple(found)
