"""Plans, steps and conditions in the documented form, as views of the IR, and the documented parser."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from callsheet.diagnostics import Diagnostic, render_all
from callsheet.frontends.ltp import parse
from callsheet.frontends.values.printer import format_condition, format_value, spelled_reference
from callsheet.ir import (
    CallKind,
    Condition,
    DictExpr,
    ListExpr,
    Literal,
    Plan,
    Step,
    Template,
    Value,
    call_kind,
    canonical_tool_name,
    word_of,
)
from callsheet.ir.expr import refs_of
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
