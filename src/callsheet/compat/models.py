"""Plans, steps and conditions in the documented form, as views of the IR, and back to the IR.

In: documented steps, unchanged or modified. Out: the plan. Unchanged parts are the original nodes; new
texts are parsed like quoted texts.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, cast

from callsheet.diagnostics import Diagnostic, render_all
from callsheet.diagnostics.wrong_type import wanted
from callsheet.frontends.ltp import parse
from callsheet.frontends.values import Reader, read_value
from callsheet.frontends.values.printer import format_condition, format_value, spelled_reference
from callsheet.ir import (
    Action,
    Call,
    CallKind,
    Condition,
    DictExpr,
    Goto,
    ListExpr,
    Literal,
    Output,
    Plan,
    Replan,
    Respond,
    Step,
    Template,
    Terminate,
    Value,
    call_kind,
    canonical_tool_name,
    executor_name,
    word_of,
)
from callsheet.ir.expr import refs_of
from callsheet.ir.operations import EXECUTOR_NAMES
from callsheet.machine import ToolFacts
from callsheet.machine.closures import compile_condition


def tool_of(step: Step) -> str:
    """The tool with its `@`, or the control word."""
    return word_of(step.action)


def args_of(step: Step) -> dict[str, Any]:
    """The arguments by name, positional ones as `arg0`, `arg1`, …"""
    jump = step.course.jump
    if jump is not None:
        return {"target": jump.target}
    return {name: to_documented(value) for name, value in named_values(step).items()}


def named_values(step: Step) -> dict[str, Value]:
    """The values of the action, by their names in the documented form."""
    if step.call is not None:
        values = {f"arg{i}": value for i, value in enumerate(step.call.positional)}
        values.update(step.call.named)
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


class LTPCondition:
    """A condition of a step; `evaluate` applies it to variables."""

    def __init__(self, condition: Condition) -> None:
        self.ir = condition

    def evaluate(self, variables: Mapping[str, Any]) -> bool:
        """Whether the condition holds; names are looked up with and without `$`, unset ones are null.

        >>> from callsheet.compat import LTPParser
        >>> step = LTPParser.parse('S1: ?IF ($n > 5) THEN @RESPOND ("many")').steps[0]
        >>> step.condition.evaluate({"n": 7}), step.condition.evaluate({"$n": "3"})
        (True, False)
        """
        names: dict[str, int] = {}
        test = compile_condition(self.ir, lambda name: names.setdefault(name, len(names)))
        return test([variables.get(name, variables.get(f"${name}")) for name in names])

    def __eq__(self, other: object) -> bool:
        return isinstance(other, LTPCondition) and other.ir == self.ir

    def __hash__(self) -> int:
        return hash(self.ir)

    def __str__(self) -> str:
        return format_condition(self.ir)

    def __repr__(self) -> str:
        return f"LTPCondition({str(self)!r})"


@dataclass(slots=True)
class LTPStep:
    """A step in the documented form; its fields may be changed, and new steps created.

    `tool` is the tool with its `@`, or a control word. `args` has literals as Python values and values with
    references as text (`"$page.title"`, `"about $x"`); positional values are under `arg0`, `arg1`, … A text
    that is put there is parsed like a quoted text in a plan. `parallel_group` is `par_0`, `par_1`, … for the
    steps of a group, and empty outside. `ir` is the step that this one was read from; it keeps what these
    fields do not (FOREACH, ON_FAIL, the cast of the output).
    """

    id: str
    tool: str
    args: dict[str, Any] = field(default_factory=dict[str, Any])
    output_var: str | None = None
    condition: LTPCondition | None = None
    parallel_group: str = ""
    ir: Step | None = field(default=None, repr=False, compare=False)

    @classmethod
    def of(cls, step: Step) -> LTPStep:
        """The documented view of a step."""
        return cls(
            step.id,
            tool_of(step),
            args_of(step),
            output_of(step),
            None if step.condition is None else LTPCondition(step.condition),
            "" if step.group is None else f"par_{step.group}",
            step,
        )

    @property
    def is_llm_op(self) -> bool:
        """Whether a language model carries it out."""
        return self._kind is CallKind.MODEL

    @property
    def is_agent(self) -> bool:
        """Whether a sub-agent carries it out."""
        return self._kind is CallKind.AGENT

    @property
    def is_respond(self) -> bool:
        """Whether it ends the plan with an answer."""
        return canonical_tool_name(self.tool) == "RESPOND"

    @property
    def _kind(self) -> CallKind:
        return call_kind(canonical_tool_name(self.tool))


@dataclass(slots=True)
class LTPPlan:
    """A plan in the documented form: steps that may be removed, added and changed.

    `diagnostics` are the hints and warnings from parsing; `source` is the parsed plan.
    """

    steps: list[LTPStep] = field(default_factory=list[LTPStep])
    diagnostics: tuple[Diagnostic, ...] = ()
    source: Plan | None = field(default=None, repr=False, compare=False)

    @classmethod
    def of(cls, plan: Plan, diagnostics: tuple[Diagnostic, ...] = ()) -> LTPPlan:
        """The documented view of a plan."""
        return cls([LTPStep.of(step) for step in plan.steps], diagnostics, plan)


_log = logging.getLogger(__name__)


class LTPParser:
    """Parses LTP text."""

    @staticmethod
    def parse(raw: str) -> LTPPlan | None:
        """The plan in a text; None, with the diagnostics in the log, if it has errors or no step.

        For None (a model without an answer) it returns None too; nothing is raised.

        >>> LTPParser.parse('S1: @RESPOND ("hello")').steps[0].tool
        '@RESPOND'
        """
        result = parse(raw if isinstance(raw, str) else "")  # pyright: ignore[reportUnnecessaryIsInstance]
        if result.plan is None:
            _log.warning("the plan does not parse:\n%s", render_all(result.diagnostics, result.source))
            return None
        return LTPPlan.of(result.plan, result.diagnostics)


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
