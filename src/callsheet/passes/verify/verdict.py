"""The result types of verification: violations, obligations of the runtime, and labels of steps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from callsheet.diagnostics import Span
from callsheet.ir.labels import LITERAL, Label
from callsheet.policy.calls import Obligation, Rule


@dataclass(frozen=True, slots=True)
class Violation:
    """One reason to refuse a plan.

    `step` is the id of the step, None for the whole plan. `argument` is the name of the argument, `flow` the
    path of the data as texts (`S2 $a`, `S4 query`, `outside`), `help` the suggested fix.
    """

    step: str | None
    rule: Rule
    message: str
    argument: str | None = None
    flow: tuple[str, ...] = ()
    help: str | None = None
    span: Span | None = None

    def __str__(self) -> str:
        path = f" ({' → '.join(self.flow)})" if self.flow else ""
        return f"{self.step or 'plan'}: {self.message}{path}"


@dataclass(frozen=True, slots=True)
class StepLabels:
    """The labels of a step.

    `reads` are the labels of the variables it reads, `pc` is the label of what controls whether it is
    executed, `result` that of its result. `because` are the ids of the steps whose values it reads directly.
    """

    step: str
    reads: tuple[tuple[str, Label], ...] = ()
    pc: Label = LITERAL
    result: Label = LITERAL
    because: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Verdict:
    """The outcome of verification: the plan may run if it has no violations and the obligations are met."""

    violations: tuple[Violation, ...] = ()
    obligations: tuple[Obligation, ...] = ()
    steps: Sequence[StepLabels] = ()

    @property
    def ok(self) -> bool:
        """Whether there are no violations."""
        return not self.violations
