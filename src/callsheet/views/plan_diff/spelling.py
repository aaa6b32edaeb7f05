"""Renders the parts of a plan in a diff: as LTP text, with invisible characters escaped.

In: one side of a change, or a step. Out: its lines, each safe on a terminal. What LTP text cannot express
(an invalid name, a title of a step) is described.
"""

from __future__ import annotations

from dataclasses import replace

from callsheet.diagnostics import CallsheetError
from callsheet.frontends.ltp import format_step
from callsheet.frontends.values import format_condition, format_value
from callsheet.ir import (
    And,
    Call,
    Compare,
    DictExpr,
    Foreach,
    Goto,
    IsEmpty,
    ListExpr,
    Literal,
    Not,
    NotEmpty,
    OnFail,
    Or,
    Plan,
    Ref,
    Replan,
    Respond,
    Retry,
    Step,
    Template,
    Terminate,
)
from callsheet.ir.diff import Change, Node, Part
from callsheet.views.columns import CUT, cut, escaped
from callsheet.views.describe import (
    describe_action,
    describe_condition,
    describe_failure,
    describe_guard,
    describe_step,
    describe_value,
)

_MOST = 1_000
_MOST_MEMBERS = 8


def lines_of(text: str) -> tuple[str, ...]:
    """Returns the lines of a text, each escaped."""
    return tuple(escaped(line) for line in text.split("\n"))


def spelled_step(step: Step) -> tuple[str, ...]:
    """Returns the lines of a step with everything but comments and remarks."""
    bare = replace(step, comments=(), remark=None, title=None, depends_on=None)
    try:
        text = format_step(bare)
    except CallsheetError:
        text = describe_step(bare)
    if step.depends_on is not None:
        text += f"  after {', '.join(step.depends_on) or 'nothing'}"
    if step.title is not None:
        text += f"  ({step.title})"
    return lines_of(text)


def spelled_side(change: Change, node: Node, plan: Plan) -> tuple[str, ...]:
    """Returns the lines of one side of a change; none if that side is empty."""
    if change.part is Part.GROUP:
        return (_members(plan, node) if isinstance(node, int) else "alone",)
    if node is None:
        return ()
    if isinstance(node, str):
        return lines_of(_word(change.part, node))
    if isinstance(node, int):
        return (str(node),)
    if isinstance(node, tuple):
        return (escaped(", ".join(node)) or "nothing",)
    return lines_of(_spell(node))


def _word(part: Part, word: str) -> str:
    match part:
        case Part.TOOL:
            return f"@{word}"
        case Part.OUTPUT | Part.LOOP_VARIABLE:
            return f"${word}"
        case Part.CAST:
            return f":{word}"
        case Part.TARGET:
            return f"GOTO {word}"
        case _:
            return word


def _spell(node: Node) -> str:
    try:
        return _as_ltp(node)
    except CallsheetError:
        return _described(node)


def _as_ltp(node: Node) -> str:
    match node:
        case Literal() | Ref() | Template() | ListExpr() | DictExpr():
            return format_value(node)
        case Compare() | IsEmpty() | NotEmpty() | Not() | And() | Or():
            return format_condition(node)
        case Call() | Respond() | Terminate() | Goto() | Replan():
            return format_step(Step("S1", node)).removeprefix("S1: ")
        case Foreach(var=var, source=source):
            return f"${var} IN {format_value(source)}"
        case Retry(count=count, delay=delay, backoff=backoff):
            options = {"delay": delay, "backoff": backoff}
            parts = [f"{name}={value!r}" for name, value in options.items() if value is not None]
            return f"@RETRY({', '.join([str(count), *parts])})"
        case OnFail():
            return describe_failure(node) or "nothing"
        case _:
            return str(node)


def _described(node: Node) -> str:
    match node:
        case Literal() | Ref() | Template() | ListExpr() | DictExpr():
            return describe_value(node, _MOST)
        case Compare() | IsEmpty() | NotEmpty() | Not() | And() | Or():
            return describe_condition(node)
        case Call() | Respond() | Terminate() | Goto() | Replan():
            return describe_action(node)
        case Foreach():
            return describe_guard(Step("S1", Goto("S1"), foreach=node)).removeprefix("FOREACH ")
        case _:
            return str(node)


def _members(plan: Plan, group: int) -> str:
    ids = [escaped(step.id) for step in plan.steps if step.group == group]
    shown = ids if len(ids) <= _MOST_MEMBERS else [*ids[:_MOST_MEMBERS], CUT]
    return f"@PARALLEL {{ {' '.join(shown)} }}"


def label_of(change: Change) -> str:
    """Returns the label of a change: `url`, `argument 2`, `$limit`, `condition`."""
    match change.part, change.name:
        case Part.ARGUMENT, int(number):
            return f"argument {number}"
        case Part.VARIABLE, str(name):
            return cut(escaped(f"${name}"), 60)
        case Part.ARGUMENT, str(name):
            return cut(escaped(name), 60)
        case Part.ON_FAIL, _:
            return "ON_FAIL"
        case part, _:
            return str(part)
