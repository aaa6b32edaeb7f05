"""The input and output of a pass: `Subject` (a plan with its context) and `Finding`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from callsheet.diagnostics import Diagnostic, Severity, Span, WordFix, did_you_mean
from callsheet.ir import Plan
from callsheet.ir.flow import Flow, Place, Use, uses_of
from callsheet.passes.signatures import ToolSignature

_MOST_SUGGESTIONS = 20


class Suggestion(NamedTuple):
    """A "did you mean" text, and the replacement it proposes."""

    words: str
    swap: WordFix


@dataclass(frozen=True, slots=True)
class Finding:
    """Something wrong with a step (by number), or with the plan as a whole (`step` is None).

    `names` are the subjects of the message (a variable, a target, step ids), for front ends that use
    their own wording; `place` is the part of the step that reads the variable.
    """

    code: str
    severity: Severity
    message: str
    step: int | None = None
    span: Span | None = None
    help: str | Suggestion | None = None
    names: tuple[str, ...] = ()
    place: Place | None = None

    @property
    def hint(self) -> str | None:
        """The help as text."""
        return self.help.words if isinstance(self.help, Suggestion) else self.help

    def diagnostic(self, plan: Plan) -> Diagnostic:
        """The finding as a diagnostic, with the id and the span of its step."""
        step = plan.steps[self.step] if self.step is not None else None
        span = self.span or (step.id_span or step.span if step is not None else None)
        return Diagnostic(
            self.code,
            self.severity,
            self.message,
            span,
            self.hint,
            step=step.id if step is not None else None,
            swap=self.help.swap if isinstance(self.help, Suggestion) else None,
        )


@dataclass(slots=True)
class Subject:
    """The plan being checked, with its control flow, its input variables and the known tools.

    `tools` is None if there is no catalogue; then no tool counts as unknown.
    """

    plan: Plan
    flow: Flow
    inputs: frozenset[str]
    tools: Mapping[str, ToolSignature] | None
    given: dict[str, None] = field(init=False)
    """The variables that have a value before the first step, in a deterministic order."""
    _uses: list[Use] | None = field(default=None, init=False)
    _suggestions: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        names = [name for name, _ in self.plan.variables]
        self.given = dict.fromkeys([*names, *sorted(self.inputs)])

    @property
    def uses(self) -> list[Use]:
        """Every read of a variable that the reading step does not set itself, in text order."""
        if self._uses is None:
            steps = enumerate(self.plan.steps)
            self._uses = [use for number, step in steps for use in uses_of(step, number)]
        return self._uses

    def suggest(self, word: str, known: Iterable[str], mark: str = "") -> Suggestion | None:
        """A "did you mean" with `mark` before each name; None if nothing is near, or after many of them.

        The number of suggestions per plan is bounded, since each is a comparison with all known names.
        """
        self._suggestions += 1
        if self._suggestions > _MOST_SUGGESTIONS:
            return None
        suggestions = did_you_mean(word, known)
        if not suggestions:
            return None
        words = "did you mean " + " or ".join(mark + name for name in suggestions) + "?"
        return Suggestion(words, WordFix(word, suggestions))


PLACES = {
    Place.SOURCE: "the FOREACH source",
    Place.CONDITION: "the condition",
    Place.ARGUMENTS: "the arguments",
    Place.FAILURE: "the ON_FAIL message",
}
"""The parts of a step, as messages name them."""
