"""Prints a plan as canonical LTP text, which parses back to an equal plan.

In: a plan in text order. Out: its text, or an error that names what LTP text cannot express.
"""

from __future__ import annotations

from typing import assert_never

from callsheet import lazy
from callsheet.frontends.ltp.document import VERSION
from callsheet.frontends.ltp.words import RESERVED
from callsheet.frontends.values.printer import (
    LINES,
    about_lines,
    comment_lines,
    format_condition,
    format_name,
    format_value,
    is_name,
    refuse,
    step_lines,
)
from callsheet.frontends.values.reader import LABEL
from callsheet.ir import (
    Action,
    Call,
    Goto,
    OnFail,
    Plan,
    Replan,
    Respond,
    Retry,
    Step,
    Terminate,
    Value,
)
from callsheet.ir.plan import flat

_LABEL = lazy.pattern(LABEL)
_TOOL = lazy.pattern(r"[A-Z0-9_]+")
_INSIDE = "    "
"""The indent of the lines of a multi-line text relative to its step."""


def format_plan(plan: Plan) -> str:
    """The canonical text of a plan in text order.

    Raises CallsheetError (LTP070) that names what LTP text cannot express: a DAG plan, initial variables,
    invalid names, a plan without steps.

    >>> print(format_plan(Plan((Step("S1", Respond(())),))), end="")
    # ltp: 1
    PLAN_START
    S1: @RESPOND
    PLAN_END
    """
    flat(plan, "version 1 of the language")
    if not plan.steps:
        raise refuse("a plan without steps", "add a step")
    lines = [f"# ltp: {VERSION}", *about_lines(plan, refuse), "PLAN_START"]
    lines.extend(step_lines(plan.steps, format_step, refuse))
    lines.extend(comment_lines(plan.comments))
    lines.append("PLAN_END\n")
    return "\n".join(lines)


def format_step(step: Step, indent: str = "") -> str:
    """The canonical text of one step, without its comments.

    Raises CallsheetError (LTP070) for an invalid id or name, dependencies, or a title.
    """
    if not _LABEL.fullmatch(step.id):
        raise refuse(f"the step id {step.id!r}", "an id is made of ASCII letters, digits, _ and -")
    if step.depends_on is not None:
        raise refuse(f"the dependencies of {step.id}", "write the plan as a JSON DAG plan")
    if step.title is not None:
        raise refuse(f"the title of {step.id}", "write it as a comment")
    inside = indent + _INSIDE
    out = [f"{step.id}:"]
    if step.foreach is not None:
        out.append(
            f"?FOREACH (${_name(step.foreach.var)} IN {format_value(step.foreach.source, inside)}) THEN"
        )
    if step.condition is not None:
        out.append(f"?IF ({format_condition(step.condition, inside)}) THEN")
    out.append(_action(step.action, inside))
    if step.output is not None:
        cast = f":{step.output.cast}" if step.output.cast else ""
        out.append(f"> ${_name(step.output.var)}{cast}")
    if step.on_fail is not None:
        out.append(_on_fail(step.on_fail, inside))
    if step.remark is not None:
        out.append(" # " + " ".join(LINES.split(step.remark)))
    return " ".join(out).rstrip()


def _name(name: str) -> str:
    if not is_name(name):
        raise refuse(f"the variable name {name!r}", "a name is made of ASCII letters, digits and _")
    return name


def _action(action: Action, indent: str) -> str:
    match action:
        case Call(tool=tool, positional=positional, named=named):
            if not _TOOL.fullmatch(tool) or tool in RESERVED:
                raise refuse(f"a call of the tool {tool!r}", "give the tool another name in the tool table")
            values = [format_value(v, indent) for v in positional]
            values += [f"{format_name(name)}={format_value(v, indent)}" for name, v in named]
            return f"@{tool} ({', '.join(values)})" if values else f"@{tool}"
        case Respond(values=values):
            return _values("@RESPOND", values, indent)
        case Terminate(values=values):
            return _values("TERMINATE", values, indent)
        case Replan(values=values):
            return _values("RE-PLAN", values, indent)
        case Goto(target=target):
            if not _LABEL.fullmatch(target):
                raise refuse(f"the step id {target!r}", "an id is made of ASCII letters, digits, _ and -")
            return f"GOTO {target}"
    assert_never(action)


def _values(word: str, values: tuple[Value, ...], indent: str) -> str:
    if not values:
        return word
    return f"{word} ({', '.join(format_value(v, indent) for v in values)})"


def _on_fail(on_fail: OnFail, indent: str) -> str:
    out = ["ON_FAIL"]
    if on_fail.retry is not None:
        out.append(_retry(on_fail.retry))
    if on_fail.then is not None:
        out.append(_action(on_fail.then, indent))
    if len(out) == 1:
        raise refuse("an ON_FAIL that does nothing")
    return " ".join(out)


def _retry(retry: Retry) -> str:
    options = [str(retry.count)]
    if retry.delay is not None:
        options.append(f"delay={retry.delay!r}")
    if retry.backoff is not None:
        options.append(f"backoff={retry.backoff!r}")
    return f"@RETRY({', '.join(options)})"
