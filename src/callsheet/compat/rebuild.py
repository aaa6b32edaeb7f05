"""Converts the documented form back to the IR that is checked, verified and run.

In: documented steps, unchanged or modified. Out: the plan. Unchanged parts are the original nodes; new
texts are parsed like quoted texts.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, cast

from callsheet.compat.documented_form import named_values
from callsheet.compat.models import LTPPlan, LTPStep
from callsheet.diagnostics.wrong_type import wanted
from callsheet.frontends.values import Reader, read_value
from callsheet.ir import (
    Action,
    Call,
    DictExpr,
    Goto,
    ListExpr,
    Literal,
    Output,
    Plan,
    Replan,
    Respond,
    Step,
    Terminate,
    Value,
    canonical_tool_name,
)

_POSITIONAL = re.compile(r"arg\d+")
_GROUP = re.compile(r"par_(\d+)")


def plan_of(plan: LTPPlan) -> Plan:
    """The plan with the current documented steps.

    Raises ValueError for a field with a value that no step can have, and for None, which `LTPParser.parse`
    and `LTPCompiler.compile` return if there is no plan.
    """
    if plan is None:  # pyright: ignore[reportUnnecessaryComparison] - untyped callers pass it
        raise ValueError(
            "the plan is None, which LTPCompiler.compile and LTPParser.parse return if there is no plan"
        )
    wanted("plan", plan, LTPPlan, "a plan of LTPParser or LTPCompiler")
    source = plan.source or Plan(())
    return replace(source, steps=tuple(step_of(step) for step in plan.steps))


def step_of(step: LTPStep) -> Step:
    """The step with the current fields."""
    if step.ir is None:
        read, before = None, LTPStep("", "")
        result = Step(step.id, _action(step, None))
    else:
        read, before = step.ir, LTPStep.of(step.ir)
        if step == before:
            return step.ir
        is_same = step.tool == before.tool and step.args == before.args
        result = replace(read, id=step.id, action=read.action if is_same else _action(step, before))
    if step.output_var != before.output_var:
        result = replace(result, output=_output(step, read))
    if step.condition != before.condition:
        result = replace(result, condition=None if step.condition is None else step.condition.ir)
    if step.parallel_group != before.parallel_group:
        result = replace(result, group=_group(step))
    return result


def _action(step: LTPStep, before: LTPStep | None) -> Action:
    word = step.tool.removeprefix("@").upper()
    if word == "GOTO":
        return Goto(str(step.args.get("target", "")))
    values = _values(step, before)
    match word:
        case "RESPOND":
            return Respond(tuple(values.values()))
        case "TERMINATE":
            return Terminate(tuple(values.values()))
        case "RE-PLAN" | "REPLAN":
            return Replan(tuple(values.values()))
        case _:
            positional = tuple(value for name, value in values.items() if _POSITIONAL.fullmatch(name))
            named = tuple((n, value) for n, value in values.items() if not _POSITIONAL.fullmatch(n))
            return Call(canonical_tool_name(word), positional, named)


def _values(step: LTPStep, before: LTPStep | None) -> dict[str, Value]:
    """The arguments as values; unchanged ones are the original nodes."""
    read: Mapping[str, Value] = {} if step.ir is None else named_values(step.ir)
    known = {} if before is None else before.args
    return {
        name: read[name] if name in read and known.get(name) == value else _value(name, value)
        for name, value in step.args.items()
    }


def _value(name: str, value: object) -> Value:
    """A Python value as a value of the IR; references in its texts are parsed."""
    if isinstance(value, str):
        return read_value(Reader(json.dumps(value, ensure_ascii=False)))
    if value is None or isinstance(value, bool | int | float):
        return Literal(value)
    if isinstance(value, list | tuple):
        items = cast("list[object]", value)
        return ListExpr(tuple(_value(name, item) for item in items))
    if isinstance(value, Mapping):
        pairs = cast("Mapping[object, Any]", value)
        return DictExpr(tuple((str(key), _value(name, item)) for key, item in pairs.items()))
    raise ValueError(f"the argument {name} is of type {type(value).__name__}, which a plan cannot contain")


def _output(step: LTPStep, read: Step | None) -> Output | None:
    if step.output_var is None:
        return None
    name = step.output_var.removeprefix("$")
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
        raise ValueError(f"output_var of {step.id} is {step.output_var!r}, which is not a variable")
    return Output(name, read.output.cast if read is not None and read.output is not None else None)


def _group(step: LTPStep) -> int | None:
    if not step.parallel_group:
        return None
    match = _GROUP.fullmatch(step.parallel_group)
    if match is None:
        raise ValueError(
            f"parallel_group of {step.id} is {step.parallel_group!r}; groups are par_0, par_1, …"
        )
    return int(match[1])
