"""Transforms: pure functions of their arguments that need no model, always end and only read.

In: what a step gives `@SELECT`, `@CALC` and `@FORMAT`. Out: a value, or ToolFailed with a text that
points to the place. Importing this is cheap: JMESPath and RE2 are loaded by the first query.
"""

from __future__ import annotations

from callsheet.diagnostics.wanted import wanted
from callsheet.ir import JSON
from callsheet.machine.values import to_text
from callsheet.ports.transforms.fault import Fault
from callsheet.ports.transforms.tools import (
    ORIGIN,
    fault_of_literal,
    literal_check,
    transform_facts,
    transform_tools,
    work_out,
)

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
    """What a JMESPath query finds in data; data that is the text of a JSON list or object is parsed.

    The result shares nothing with `data`. Raises ToolFailed for a query that cannot be read, does
    not fit the data, or does or gives too much.

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
    """The value of an arithmetic expression: an int where it is whole, else the nearest float.

    A comparison gives true or false. Raises ToolFailed for what is no expression or too large.

    >>> calc("0.1 + 0.2"), calc("6 / 2"), calc("round(sum([1, 2, 4]) / 3, 2)"), calc("2 > 1.5")
    (0.3, 3, 2.33, True)
    """
    from callsheet.ports.transforms.arithmetic import worked_out  # noqa: PLC0415 - not for a declaration

    try:
        return worked_out(expression)
    except Fault as fault:
        raise fault.failure(expression if isinstance(expression, str) else "") from None


def format_text(text: JSON) -> str:
    """The text itself; of any other value its compact JSON, and nothing of null.

    >>> format_text("a"), format_text([1, "b"]), format_text(None)
    ('a', '[1,"b"]', '')
    """
    return to_text(text)
