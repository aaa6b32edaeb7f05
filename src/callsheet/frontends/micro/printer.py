"""Formats a plan as Micro-CLI, which parses to an equal plan.

In: a plan in text order whose steps are S1, S2, … Out: its text. A construct that Micro-CLI cannot express
is refused with its step.
"""

from __future__ import annotations

from typing import assert_never

from callsheet import lazy
from callsheet.diagnostics import CallsheetError
from callsheet.frontends.ltp.words import CONTROL_SPELLINGS, RESERVED
from callsheet.frontends.micro.commands import HEAD
from callsheet.frontends.micro.verbs import VERBS, Named, spell
from callsheet.frontends.values import format_value
from callsheet.frontends.values.printer import (
    LINES,
    about_lines,
    comment_lines,
    format_name,
    is_name,
    placed,
    step_lines,
)
from callsheet.frontends.values.reader import LABEL
from callsheet.ir import (
    Action,
    And,
    Call,
    Compare,
    Condition,
    Goto,
    IsEmpty,
    Not,
    NotEmpty,
    OnFail,
    Or,
    Plan,
    Replan,
    Respond,
    Step,
    Terminate,
    Value,
)
from callsheet.ir.plan import flat

_TOOL = lazy.pattern(r"[A-Z0-9_]+")
_PLAIN_TOOL = lazy.pattern(r"[A-Z][A-Z0-9_]*")
_TARGET = lazy.pattern(LABEL)
_SMALL_STEP = lazy.pattern(r"s\d+")
_INSIDE = "    "
"""The indentation of the lines of a multi-line string, relative to its command."""


def format_micro(plan: Plan) -> str:
    """The Micro-CLI of a plan in text order.

    Raises CallsheetError (MIC070) with the step for what Micro-CLI cannot express: ids other
    than S1, S2, … in their order, a DAG plan, initial variables, a plan without steps.

    >>> print(format_micro(Plan((Step("S1", Call("MEMORY_STATS")), Step("S2", Respond(()))))), end="")
    memory_stats
    respond
    """
    if plan.tree is not None:
        from callsheet.frontends.micro.blocks import format_blocks  # noqa: PLC0415 - only for version 2

        return format_blocks(plan)
    flat(plan, "Micro-CLI")
    if not plan.steps:
        raise _refuse("a plan without steps", "add a step")
    lines = list(about_lines(plan, _refuse))
    comments = plan.steps[0].comments if plan.steps else plan.comments
    if lines or any(HEAD.match(line) for comment in comments for line in LINES.split(comment)):
        lines.append("")
    _check_ids(plan.steps)
    lines.extend(step_lines(plan.steps, _step, _refuse))
    lines.extend(comment_lines(plan.comments))
    return "\n".join([*lines, ""])


def _refuse(what: str, help_: str | None = None) -> CallsheetError:
    return CallsheetError.single("MIC070", f"Micro-CLI cannot express {what}", help=help_)


def _check_ids(steps: tuple[Step, ...]) -> None:
    for number, step in enumerate(steps, 1):
        if step.id != f"S{number}":
            hint = f"commands are numbered: it would be S{number}"
            raise placed(_refuse(f"the id of the step {step.id!r}", hint), step)


def _step(step: Step, indent: str) -> str:
    if step.depends_on is not None:
        raise _refuse(f"the dependencies of {step.id}", "write the plan as a JSON DAG plan")
    if step.title is not None:
        raise _refuse(f"the title of {step.id}", "write it as a comment")
    inside = indent + _INSIDE
    out: list[str] = []
    try:
        if step.foreach is not None:
            var = _name(step.foreach.var, step)
            out.append(f"foreach ${var} in {format_value(step.foreach.source, inside)} :")
        if step.condition is not None:
            out.append(f"?if {_condition(step.condition, inside)} :")
        out.append(_action(step.action, inside, step))
        if step.output is not None:
            cast = "" if step.output.cast is None else f":{step.output.cast}"
            out.append(f"> {_name(step.output.var, step)}{cast}")
        if step.on_fail is not None:
            out.append(_on_fail(step.on_fail, inside, step))
    except CallsheetError as error:
        if error.diagnostics[0].code == "MIC070":
            raise
        cause = error.diagnostics[0]
        raise _refuse(f"the step {step.id}: {cause.message}", cause.help) from None
    if step.remark is not None:
        out.append(" # " + " ".join(LINES.split(step.remark)))
    return " ".join(out).rstrip()


def _name(name: str, step: Step) -> str:
    if not is_name(name):
        raise _refuse(f"the variable name {name!r} in {step.id}", "names are ASCII letters, digits and _")
    return name


# ---------------------------------------------------------------- parts of a command


def _action(action: Action, indent: str, step: Step) -> str:
    match action:
        case Call():
            return _call(action, indent, step)
        case Respond(values=values):
            return _words("respond", values, (), indent)
        case Terminate(values=values):
            return _words("terminate", values, (), indent)
        case Replan(values=values):
            return _words("replan", values, (), indent)
        case Goto(target=target):
            return f"goto {_target(target, step)}"
    assert_never(action)


def _target(target: str, step: Step) -> str:
    if not _TARGET.fullmatch(target) or _SMALL_STEP.fullmatch(target):
        raise _refuse(f"the target {target!r} in {step.id}", "steps are called S1, S2, …")
    return target


def _call(call: Call, indent: str, step: Step) -> str:
    spelled = spell(call)
    if spelled is not None:
        return _words(*spelled, indent)
    tool = call.tool
    if not _TOOL.fullmatch(tool) or tool in RESERVED or tool in CONTROL_SPELLINGS:
        raise _refuse(f"a call of the tool {tool!r} in {step.id}", "give it another name in the tool table")
    is_plain = "_" in tool and _PLAIN_TOOL.fullmatch(tool) and tool.lower() not in VERBS
    word = tool.lower() if is_plain else f"@{tool}"
    return _words(word, call.positional, call.named, indent)


def _words(word: str, values: tuple[Value, ...], named: Named, indent: str) -> str:
    out = [word, *(format_value(value, indent) for value in values)]
    for name, value in named:
        out.append(f"{format_name(name)}={format_value(value, indent)}")
    return " ".join(out)


def _condition(condition: Condition, indent: str) -> str:
    match condition:
        case Compare(op=op, left=left, right=right):
            return f"{format_value(left, indent)} {op} {format_value(right, indent)}"
        case IsEmpty(value=value):
            return f"{format_value(value, indent)} empty"
        case NotEmpty(value=value):
            return f"{format_value(value, indent)} notempty"
        case Not(condition=inner):
            return f"not ({_condition(inner, indent)})"
        case And(conditions=inner):
            return _junction(" and ", inner, indent)
        case Or(conditions=inner):
            return _junction(" or ", inner, indent)
    assert_never(condition)


def _junction(word: str, conditions: tuple[Condition, ...], indent: str) -> str:
    if not conditions:
        raise _refuse("an AND or an OR of no conditions")
    written = ((c, _condition(c, indent)) for c in conditions)
    return word.join(f"({text})" if isinstance(c, And | Or) else text for c, text in written)


def _on_fail(on_fail: OnFail, indent: str, step: Step) -> str:
    out = ["ON_FAIL"]
    retry = on_fail.retry
    if retry is not None:
        out.append(f"retry {retry.count}")
        options = (("delay", retry.delay), ("backoff", retry.backoff))
        out += [f"{name}={value!r}" for name, value in options if value is not None]
    if on_fail.then is not None:
        out.append(_action(on_fail.then, indent, step))
    if len(out) == 1:
        raise _refuse(f"an ON_FAIL that does nothing in {step.id}")
    return " ".join(out)
