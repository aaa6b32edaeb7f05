"""Transforms: pure, terminating functions that need no model (`@SELECT`, `@CALC`, `@FORMAT`).

In: the arguments of a step. Out: a value, or ToolFailed with a text that points to the fault. Importing
this is cheap: JMESPath and RE2 are loaded by the first query.
"""

from __future__ import annotations

from callsheet.diagnostics.wrong_type import wanted
from callsheet.ir import JSON
from callsheet.machine.values import to_text
from callsheet.ports.transforms.tools import (
    ORIGIN,
    fault_of_literal,
    literal_check,
    transform_facts,
    transform_tools,
    work_out,
)
from callsheet.ports.transforms.work import Fault

__all__ = [
    "ORIGIN",
    "Fault",
    "calc",
    "fault_of_literal",
    "format_text",
    "literal_check",
    "select",
    "transform_facts",
    "transform_tools",
    "work_out",
]


def select(data: JSON, query: str) -> JSON:
    """The result of a JMESPath query; if `data` is the JSON text of a list or object, it is parsed first.

    The result shares nothing with `data`. Raises ToolFailed for a query that is invalid, does not fit the
    data, or exceeds the limits on work and size.

    >>> select([{"n": "ab-12"}, {"n": "c"}], "[?match(n, '[0-9]+')].upper(n)")
    ['AB-12']
    """
    from callsheet.ports.transforms.query import search  # noqa: PLC0415 - brings JMESPath
    from callsheet.ports.transforms.work import Work  # noqa: PLC0415 - as above

    wanted("query", query, str, "the text of a query")
    try:
        return search(data, query, Work())
    except Fault as fault:
        raise fault.failure(query) from None


def calc(expression: str | float) -> int | float | bool:
    """The value of an arithmetic expression: an int if it is whole, else the nearest float.

    A comparison gives a boolean. Raises ToolFailed for an expression that is invalid or too large.

    >>> calc("0.1 + 0.2"), calc("6 / 2"), calc("round(sum([1, 2, 4]) / 3, 2)"), calc("2 > 1.5")
    (0.3, 3, 2.33, True)
    """
    from callsheet.ports.transforms.arithmetic import worked_out  # noqa: PLC0415 - not for a declaration

    try:
        return worked_out(expression)
    except Fault as fault:
        raise fault.failure(expression if isinstance(expression, str) else "") from None


def format_text(text: JSON) -> str:
    """A string as it is, any other value as compact JSON, null as the empty string.

    >>> format_text("a"), format_text([1, "b"]), format_text(None)
    ('a', '[1,"b"]', '')
    """
    return to_text(text)
