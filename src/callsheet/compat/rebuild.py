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

from callsheet.compat.models import LTPPlan, LTPStep, named_values
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
    executor_name,
)
from callsheet.ir.operations import EXECUTOR_NAMES
from callsheet.machine import ToolFacts

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


PARAMETERS: dict[str, tuple[str, ...]] = {
    "WEB_SEARCH": ("query",),
    "FETCH_PAGE": ("url",),
    "EXEC_CODE": ("code", "language"),
    "SHELL_EXEC": ("code",),
    "READ_FILE": ("path",),
    "WRITE_FILE": ("path", "content"),
    "EDIT_FILE": ("path", "old", "new"),
    "SEARCH_FILES": ("pattern",),
    "QUERY_MEMORY": ("query",),
    "STORE_FACT": ("content", "importance"),
    "SET_WM": ("key", "value"),
    "GET_WM": ("key",),
    "INSTALL_PKG": ("language", "packages"),
    "HOST_EXEC": ("command",),
    "HOST_FILE_READ": ("path",),
    "HOST_FILE_LIST": ("path",),
}
REPLAN = "RE-PLAN"
_PACKAGE_NAMES = {
    "FETCH_PAGE": "fetch_webpage",
    "SEARCH_FILES": "search_workspace",
    "SET_WM": "set_working_memory",
    "GET_WM": "get_working_memory",
}
"""The names by which executors of the documented package know tools, where they are not ours."""
_BY_EXECUTOR_NAME = {
    executor.upper(): tool
    for tool, executor in {**EXECUTOR_NAMES, **_PACKAGE_NAMES}.items()
    if tool != "SHELL_EXEC"
} | dict.fromkeys(("RE_PLAN", "REPLAN"), REPLAN)


def documented_tool(name: str) -> str:
    """The documented name of a tool, given as in a plan or as an executor calls it.

    >>> documented_tool("@exec_code"), documented_tool("execute_code"), documented_tool("fetch_webpage")
    ('EXEC_CODE', 'EXEC_CODE', 'FETCH_PAGE')
    """
    tool = canonical_tool_name(name)
    return _BY_EXECUTOR_NAME.get(tool, tool)


def documented_executor_name(tool: str) -> str:
    """The name with which an executor is asked for a tool.

    >>> documented_executor_name("FETCH_PAGE"), documented_executor_name("FETCH_WEBPAGE")
    ('fetch_webpage', 'fetch_webpage')
    """
    return _PACKAGE_NAMES.get(documented_tool(tool)) or executor_name(tool)


def parameters_of(tool: str) -> tuple[str, ...]:
    """The names of a tool's positional arguments, in order."""
    return PARAMETERS.get(documented_tool(tool), ())


def documented_facts(plan: Plan) -> dict[str, ToolFacts]:
    """The facts about a plan's tools that an executor callback carries out.

    Their effects are unknown, so each of them may do anything.
    """
    called = {step.call.tool for step in plan.steps if step.call is not None}
    return {tool: ToolFacts(parameters=parameters_of(tool)) for tool in called}


def argument(call: Call, name: str) -> Value | None:
    """The value of an argument of a documented tool, given by name or position; None if missing."""
    given = dict(call.named)
    if name in given:
        return given[name]
    free = [parameter for parameter in parameters_of(call.tool) if parameter not in given]
    place = free.index(name) if name in free else len(call.positional)
    return call.positional[place] if place < len(call.positional) else None
