"""Formats a plan of dependencies as the canonical text of a JSON plan, which parses to an equal plan.

In: a plan of that order. Out: its text. A construct that a JSON plan cannot express is refused with its step.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from callsheet import lazy
from callsheet.diagnostics import CallsheetError, Diagnostic
from callsheet.frontends.dag.fields import ID, INDEX, MOST_RETRIES, MOST_SECONDS, TOOL
from callsheet.frontends.dag.texts import is_variable_name, refuse, written
from callsheet.frontends.unseen import UNSEEN, escape
from callsheet.frontends.values.printer import format_condition
from callsheet.ir import (
    JSON,
    Action,
    Call,
    DictExpr,
    Goto,
    ListExpr,
    Literal,
    OnFail,
    Order,
    Plan,
    Ref,
    Replan,
    Respond,
    Retry,
    Step,
    Template,
    Terminate,
    Value,
    canonical_tool_name,
)
from callsheet.ir.expr import refs_of
from callsheet.ir.operations import CONTROL_WORDS
from callsheet.ir.plan import flat

_LINE = 100
_INDENT = "  "
_ID, _INDEX, _TOOL = re.compile(ID), re.compile(INDEX), re.compile(TOOL)
_UNSEEN = lazy.pattern(f"[{UNSEEN}]")
_dumps = json.JSONEncoder(ensure_ascii=False, allow_nan=False).encode


def format_dag(plan: Plan) -> str:
    """The canonical text of a plan of dependencies.

    Raises CallsheetError (DAG070) with the step for what a JSON plan cannot express: text order,
    jumps, loops, positional arguments, casts.

    >>> print(format_dag(Plan((Step("1", Call("READ"), depends_on=(), title="Read"),), Order.DAG)), end="")
    {
      "steps": [
        {
          "index": "1",
          "title": "Read",
          "tool": "read",
          "args": {},
          "depends_on": []
        }
      ]
    }
    """
    data = plan_data(plan)
    steps = data.pop("steps")
    assert isinstance(steps, list)
    fields = [f"{_INDENT}{_line(name)}: {_value(name, value, _INDENT)}" for name, value in data.items()]
    inside = _INDENT * 2
    rows = ",\n".join(inside + _rows(step, inside) for step in steps if isinstance(step, dict))
    fields.append(f'{_INDENT}"steps": [\n{rows}\n{_INDENT}]' if rows else f'{_INDENT}"steps": []')
    return "{\n" + ",\n".join(fields) + "\n}\n"


def plan_data(plan: Plan) -> dict[str, JSON]:
    """The plan as the data of its JSON text. Raises CallsheetError as `format_dag` does."""
    flat(plan, "the JSON form of dependencies")
    if plan.order is not Order.DAG:
        raise refuse("a plan of text order", "convert it first: callsheet fmt --to dag")
    out: dict[str, JSON] = {}
    if plan.id is not None:
        if _ID.fullmatch(plan.id) is None:
            raise refuse(
                f"the plan's id {plan.id!r}", "an id has 1 to 64 of the characters a-z, 0-9, . _ and -"
            )
        out["id"] = plan.id
    if plan.title is not None:
        out["title"] = plan.title
    if plan.goal is not None:
        out["goal"] = plan.goal
    if plan.variables:
        out["variables"] = {name: _constant(name, value) for name, value in plan.variables}
    out["steps"] = [step_data(step) for step in plan.steps]
    return out


def _constant(name: str, value: Value) -> JSON:
    if is_variable_name(name) is None:
        raise refuse(f"the variable name {name!r}", "a name is made of ASCII letters, digits, _ and -")
    return literal_data(value)


def literal_data(value: Value) -> JSON:
    """A value without references as JSON data. Raises CallsheetError (DAG070) for one with them."""
    match value:
        case Literal(value=str(text)):
            return text
        case Literal():
            return written(value)
        case ListExpr(items=items):
            return [literal_data(item) for item in items]
        case DictExpr(items=pairs):
            return {key: literal_data(item) for key, item in pairs}
        case _:
            raise refuse("a reference in an initial variable", "set the variable in a first step")


# ---------------------------------------------------------------- steps


def step_data(step: Step) -> dict[str, JSON]:
    """A step as the data of its JSON text. Raises CallsheetError (DAG070) with the step's place."""
    try:
        return dict(_fields(step))
    except CallsheetError as error:
        raise CallsheetError([placed(diagnostic, step) for diagnostic in error.diagnostics]) from None


def placed(diagnostic: Diagnostic, step: Step) -> Diagnostic:
    """The error with the id of the step that it concerns."""
    message = (
        diagnostic.message
        if diagnostic.code == "DAG070"
        else f"a JSON plan cannot express this: {diagnostic.message}"
    )
    return Diagnostic(
        "DAG070",
        diagnostic.severity,
        f"{message} (step {step.id})",
        diagnostic.span or step.span,
        diagnostic.help,
        step=step.id,
    )


def _fields(step: Step) -> Iterator[tuple[str, JSON]]:
    if _INDEX.fullmatch(step.id) is None:
        raise refuse(f"the index {step.id!r}", "an index has 1 to 64 characters and no line ends")
    if step.foreach is not None:
        raise refuse("?FOREACH", "loop in LTP text, or give each item a step of its own")
    if step.group is not None:
        raise refuse("a group", "steps that do not depend on one another run concurrently anyway")
    if step.depends_on is None:
        raise refuse("a step without its dependencies")
    yield "index", step.id
    yield "title", step.title or ""
    tool, args = _call(step.action)
    yield "tool", tool
    yield "args", args
    yield "depends_on", list(dict.fromkeys(step.depends_on))
    if step.output is not None:
        if step.output.cast is not None:
            raise refuse(
                f"the cast :{step.output.cast}", "remove it, or convert the value in a step: @SELECT, @CALC"
            )
        if is_variable_name(step.output.var) is None:
            raise refuse(f"the variable name {step.output.var!r}")
        yield "result_variable", step.output.var
    if step.condition is not None:
        odd = next((ref.name for ref in refs_of(step.condition) if "-" in ref.name), None)
        if odd is not None:
            raise refuse(f"the variable {odd} in a condition", "take a name without -")
        yield "when", format_condition(step.condition)
    if step.on_fail is not None:
        yield "on_fail", _on_fail(step.on_fail)


def _call(action: Action) -> tuple[str, dict[str, JSON]]:
    match action:
        case Call(tool=tool, positional=positional, named=named):
            if positional:
                raise refuse("arguments without a name", "name each one: @TOOL (name=value)")
            name = tool.lower()
            if _TOOL.fullmatch(name) is None or canonical_tool_name(name) != tool or tool in CONTROL_WORDS:
                raise refuse(f"a call of the tool {tool!r}", "give the tool another name in the tool table")
            odd = next((key for key, _ in named if "${" in key), None)
            if odd is not None:
                raise refuse(f"the argument name {odd!r}")
            return name, {key: written(value) for key, value in named}
        case Respond(values=values):
            return "respond", {"values": [written(value) for value in values]}
        case Terminate():
            raise refuse("TERMINATE", "a graph ends when its steps are done; a failure may end it: on_fail")
        case Goto():
            raise refuse(
                "GOTO", "a graph has no jumps: give the other way a step of its own, with a condition"
            )
        case Replan():
            raise refuse(
                "RE-PLAN",
                "a graph has no RE-PLAN; the option --replan of its run asks for a new plan when it fails",
            )


def _on_fail(on_fail: OnFail) -> dict[str, JSON]:
    out: dict[str, JSON] = dict(_retry(on_fail.retry)) if on_fail.retry is not None else {}
    match on_fail.then:
        case Goto(target=target):
            raise refuse(f"ON_FAIL GOTO {target}", "a graph has no jumps")
        case Terminate(values=values):
            out["terminate"] = _message(values)
        case None:
            pass
    if not out:
        raise refuse("an ON_FAIL that does nothing")
    return out


def _message(values: tuple[Value, ...]) -> str:
    match values:
        case ():
            return ""
        case ((Literal(value=str()) | Ref() | Template()) as value,):
            text = written(value)
            if isinstance(text, str) and text:
                return text
        case _:
            pass
    raise refuse("a message that is not one text", 'put it into one text: "… ${name} …"')


def _retry(retry: Retry) -> Iterator[tuple[str, JSON]]:
    waits = (("delay", retry.delay), ("backoff", retry.backoff))
    if not 0 <= retry.count <= MOST_RETRIES:
        raise refuse(f"{retry.count} retries")
    yield "retry", retry.count
    for name, value in waits:
        if value is None:
            continue
        if not 0 <= value <= MOST_SECONDS:
            raise refuse(f"a {name} of {value}")
        yield name, value


# ---------------------------------------------------------------- layout


def json_rows(fields: dict[str, JSON], indent: str = "") -> str:
    """An object as JSON text, each field on a line of its own; short values on one line."""
    return _rows(fields, indent)


def _rows(fields: dict[str, JSON], indent: str) -> str:
    """An object with one field on each line."""
    inside = indent + _INDENT
    rows = [f"{inside}{_line(name)}: {_value(name, value, inside)}" for name, value in fields.items()]
    return "{\n" + ",\n".join(rows) + f"\n{indent}}}"


def _value(name: str, value: JSON, indent: str) -> str:
    """The value of a field after its name, on the same line if it fits."""
    line = _line(value)
    if not value or not isinstance(value, dict | list) or len(indent) + len(name) + len(line) <= _LINE:
        return line
    inside = indent + _INDENT
    if isinstance(value, dict):
        return _rows(value, indent)
    return "[\n" + ",\n".join(inside + _value("", item, inside) for item in value) + f"\n{indent}]"


def _line(value: JSON) -> str:
    return _UNSEEN.sub(escape, _dumps(value))
