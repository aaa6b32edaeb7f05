"""The table of query functions beyond those of JMESPath: their arguments and limits.

The value to work on is the first argument, as in JMESPath's own `contains` and `starts_with`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from callsheet.ports.transforms import dates, patterns, values
from callsheet.ports.transforms.fault import Fault
from callsheet.ports.transforms.work import Work

Kinds = frozenset[str]

_TEXT = frozenset({"string"})
_MAYBE_TEXT = frozenset({"string", "null"})
_NUMBER = frozenset({"number"})
_MAYBE_NUMBER = frozenset({"number", "null"})
_LIST = frozenset({"array"})
_ANY = frozenset({"string", "number", "boolean", "array", "object", "null"})
_EXPRESSION = frozenset({"expression"})


@dataclass(frozen=True, slots=True)
class Function:
    """A function: the kinds that each argument may have, and how many are required.

    `pattern` and `format` are the positions of arguments that are validated before the run if they are
    literal; `more` means that the last kind may be repeated.
    """

    call: Callable[..., Any]
    kinds: tuple[Kinds, ...]
    least: int
    more: bool = False
    pattern: int | None = None
    format: int | None = None

    def check_count(self, name: str, count: int) -> None:
        """Raise Fault if the function does not take this number of arguments."""
        most = len(self.kinds)
        if count < self.least or (count > most and not self.more):
            wanted = plural(most) if most == self.least else f"{self.least} to {plural(most)}"
            wanted = f"at least {plural(self.least)}" if self.more else wanted
            raise Fault(f"{name}() takes {wanted}, not {count}")

    def check_literal(self, place: int, literal: object) -> None:
        """Raise Fault for an invalid literal pattern or date format."""
        if isinstance(literal, str) and place == self.pattern:
            patterns.compiled(literal)
        elif isinstance(literal, str) and place == self.format:
            dates.parts_of(literal)

    def check_kinds(self, name: str, given: list[Any]) -> None:
        """Raise Fault for an argument of the wrong kind."""
        for place, value in enumerate(given):
            kinds = self.kinds[min(place, len(self.kinds) - 1)]
            kind = kind_of(value)
            if kind not in kinds:
                raise Fault(f"argument {place + 1} of {name}() is {kind}, not {' or '.join(sorted(kinds))}")


def plural(count: int) -> str:
    """A number of arguments, as text."""
    return "1 argument" if count == 1 else f"{count} arguments"


def kind_of(value: object) -> str:
    """The JMESPath type of a value."""
    if isinstance(value, bool):
        return "boolean"
    return _KINDS.get(type(value), "null" if value is None else "expression")


_KINDS: dict[type, str] = {str: "string", int: "number", float: "number", list: "array", dict: "object"}


def _group_by(work: Work, items: list[Any] | None, expression: Any) -> Any:
    if items is None:
        return None
    keys = [expression.visit(expression.expression, item) for item in items]
    work.charge_values(keys)
    return values.grouped(work, items, keys)


FUNCTIONS: dict[str, Function] = {
    "match": Function(patterns.match, (_MAYBE_TEXT, _TEXT), 2, pattern=1),
    "extract": Function(patterns.extract, (_MAYBE_TEXT, _TEXT), 2, pattern=1),
    "extract_all": Function(patterns.extract_all, (_MAYBE_TEXT, _TEXT), 2, pattern=1),
    "split_pattern": Function(patterns.split_pattern, (_MAYBE_TEXT, _TEXT), 2, pattern=1),
    "replace_pattern": Function(patterns.replace_pattern, (_MAYBE_TEXT, _TEXT, _TEXT), 3, pattern=1),
    "split": Function(values.split, (_MAYBE_TEXT, _TEXT), 2),
    "replace": Function(values.replace, (_MAYBE_TEXT, _TEXT, _TEXT), 3),
    "lower": Function(values.lower, (_MAYBE_TEXT,), 1),
    "upper": Function(values.upper, (_MAYBE_TEXT,), 1),
    "trim": Function(values.trim, (_MAYBE_TEXT, _TEXT), 1),
    "to_number": Function(values.to_number, (_ANY,), 1),
    "from_json": Function(values.from_json, (_MAYBE_TEXT,), 1),
    "round": Function(values.round_, (_MAYBE_NUMBER, _NUMBER), 1),
    "parse_date": Function(dates.parse_date, (_ANY, _TEXT), 1, format=1),
    "format_date": Function(dates.format_date, (_ANY, _TEXT), 2, format=1),
    "days_between": Function(dates.days_between, (_ANY, _ANY), 2),
    "add_days": Function(dates.add_days, (_ANY, _NUMBER), 2),
    "unique": Function(values.unique, (_LIST | {"null"},), 1),
    "group_by": Function(_group_by, (_LIST | {"null"}, _EXPRESSION), 2),
    "items": Function(values.pairs, (frozenset({"object", "null"}),), 1),
    "zip": Function(values.zip_, (_LIST, _LIST), 2, more=True),
    "range": Function(values.range_, (_NUMBER, _NUMBER, _NUMBER), 1),
}
