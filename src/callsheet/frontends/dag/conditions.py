"""Parses the condition of a step, `when`: a condition of LTP text in a JSON string, with `$x` or `${x}`.

In: a scalar of the tree. Out: a `Condition` whose spans refer to the source, or None after all
errors were reported. Spellings that cause a hint in LTP text are accepted without one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from callsheet.diagnostics import Severity, Span
from callsheet.frontends.dag.report import Report
from callsheet.frontends.dag.texts import Texts
from callsheet.frontends.tree import Scalar
from callsheet.frontends.values.conditions import read_condition
from callsheet.frontends.values.reader import Reader, Stop, shown
from callsheet.ir import (
    And,
    Compare,
    Condition,
    DictExpr,
    IsEmpty,
    ListExpr,
    Literal,
    Not,
    NotEmpty,
    Or,
    Ref,
    Template,
    Value,
)


def read_when(scalar: Scalar, texts: Texts, report: Report, step: str | None) -> Condition | None:
    """The condition in a string; None after an error."""
    reader = Reader(str(scalar.value))
    reader.depth = 1  # a newline is white space, as inside brackets
    condition: Condition | None = None
    try:
        condition = read_condition(reader)
        if reader.skip():
            rest = reader.text[reader.pos :]
            reader.error(
                "LTP040",
                f"a condition cannot continue with {shown(rest)}",
                reader.pos,
                len(reader.text),
                help="join conditions with AND and OR",
            )
    except Stop:
        pass
    places = texts.places(scalar)
    for diagnostic in reader.diagnostics:
        if diagnostic.severity is Severity.ERROR:
            span = diagnostic.span or Span(0, 0)
            if span.start == span.end:
                span = Span(max(0, span.start - 1), span.end)
            report.error(diagnostic.code, diagnostic.message, places.span(*span), diagnostic.help, step=step)
    if reader.errors or condition is None:
        return None
    return _moved(condition, lambda span: None if span is None else places.span(*span))


_Move = Callable[[Span | None], Span | None]


def _moved(condition: Condition, move: _Move) -> Condition:
    """The condition with all spans mapped by `move`."""
    match condition:
        case Compare(left=left, right=right):
            return replace(
                condition, left=_value(left, move), right=_value(right, move), span=move(condition.span)
            )
        case IsEmpty(value=value) | NotEmpty(value=value):
            return replace(condition, value=_value(value, move), span=move(condition.span))
        case Not(condition=inner):
            return Not(_moved(inner, move), move(condition.span))
        case And(conditions=inner):
            return And(tuple(_moved(c, move) for c in inner), move(condition.span))
        case Or(conditions=inner):
            return Or(tuple(_moved(c, move) for c in inner), move(condition.span))


def _value(value: Value, move: _Move) -> Value:
    match value:
        case Literal() | Ref():
            return replace(value, span=move(value.span))
        case Template(parts=parts):
            moved = tuple(
                part if isinstance(part, str) else replace(part, span=move(part.span)) for part in parts
            )
            return Template(moved, move(value.span))
        case ListExpr(items=items):
            return ListExpr(tuple(_value(item, move) for item in items), move(value.span))
        case DictExpr(items=pairs):
            return DictExpr(tuple((key, _value(item, move)) for key, item in pairs), move(value.span))
