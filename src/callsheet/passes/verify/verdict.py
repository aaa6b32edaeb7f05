"""What the proof says of a plan: whether it may run, what speaks against it, what has to be seen to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from callsheet.diagnostics import Span
from callsheet.ir.labels import LITERAL, Label
from callsheet.policy.calls import Obligation, Rule


@dataclass(frozen=True, slots=True)
class Violation:
    """One thing that refuses a plan.

    `step` is its id, None for the plan as a whole. `argument` is the name of the argument it is about, `flow`
    the way of the data as texts (`S2 $a`, `S4 query`, `outside`), `help` what to change.
    """

    step: str | None
    rule: Rule
    message: str
    argument: str | None = None
    flow: tuple[str, ...] = ()
    help: str | None = None
    span: Span | None = None

    def __str__(self) -> str:
        way = f" ({' → '.join(self.flow)})" if self.flow else ""
        return f"{self.step or 'plan'}: {self.message}{way}"


@dataclass(frozen=True, slots=True)
class StepLabels:
    """What the analysis knows of a step.

    `reads` are the labels of the variables it reads, `way` is the label of what decides whether it is done,
    `result` that of what it gives. `because` names the steps that the result has its label from.
    """

    step: str
    reads: tuple[tuple[str, Label], ...] = ()
    way: Label = LITERAL
    result: Label = LITERAL
    because: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Verdict:
    """The outcome of a proof: the plan may run if nothing speaks against it and the obligations are met."""

    violations: tuple[Violation, ...] = ()
    obligations: tuple[Obligation, ...] = ()
    steps: Sequence[StepLabels] = ()

    @property
    def ok(self) -> bool:
        """Whether nothing speaks against the plan."""
        return not self.violations
