"""Converts the parts of a step to the documented form: tool, arguments, output.

In: a step of the IR. Out: texts and Python values.
"""

from __future__ import annotations

from typing import Any

from callsheet.frontends.values.printer import format_value, spelled_reference
from callsheet.ir import (
    Call,
    DictExpr,
    Goto,
    ListExpr,
    Literal,
    Step,
    Template,
    Value,
    word_of,
)
from callsheet.ir.expr import refs_of


def tool_of(step: Step) -> str:
    """The tool with its `@`, or the control word."""
    return word_of(step.action)


def args_of(step: Step) -> dict[str, Any]:
    """The arguments by name, positional ones as `arg0`, `arg1`, …"""
    if isinstance(step.action, Goto):
        return {"target": step.action.target}
    return {name: to_documented(value) for name, value in named_values(step).items()}


def named_values(step: Step) -> dict[str, Value]:
    """The values of the action, by their names in the documented form."""
    if isinstance(step.action, Call):
        values = {f"arg{i}": value for i, value in enumerate(step.action.positional)}
        values.update(step.action.named)
        return values
    return {f"arg{i}": value for i, value in enumerate(step.values())}


def output_of(step: Step) -> str | None:
    """The variable of the result with its `$`."""
    return None if step.output is None else f"${step.output.var}"


def to_documented(value: Value) -> Any:
    """A value without references as a Python value, any other as its text in a plan."""
    match value:
        case Literal(value=scalar):
            return scalar
        case ListExpr(items=items) if not any(refs_of(value)):
            return [to_documented(item) for item in items]
        case DictExpr(items=pairs) if not any(refs_of(value)):
            return {key: to_documented(item) for key, item in pairs}
        case Template(parts=parts):
            after = (part if isinstance(part, str) else "" for part in (*parts[1:], ""))
            return "".join(
                part if isinstance(part, str) else spelled_reference(part, following)
                for part, following in zip(parts, after, strict=True)
            )
        case _:
            return format_value(value)
