"""Plans, steps and conditions in the documented form, as views of the IR."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from callsheet.compat.documented_form import args_of, output_of, tool_of
from callsheet.diagnostics import Diagnostic
from callsheet.frontends.values.printer import format_condition
from callsheet.ir import CallKind, Condition, Plan, Step, call_kind, canonical_tool_name
from callsheet.machine.closures import compile_condition


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
