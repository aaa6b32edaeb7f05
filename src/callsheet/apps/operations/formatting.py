"""Prints a plan in its canonical form or in another syntax."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from callsheet.apps.operations.parsing import syntax_name
from callsheet.apps.operations.reading import PlanText
from callsheet.diagnostics import CallsheetError, Diagnostic, Severity, to_json
from callsheet.frontends.dag.convert import NO_PARAMETERS, Parameters
from callsheet.frontends.spelling import OUTSIDE_CODES, Syntax, convert_to, format_as
from callsheet.ir import Plan


@dataclass(frozen=True, slots=True)
class Formatted:
    """A text and its formatted version; `formatted` is None if `diagnostics` say why not.

    `syntax` is the syntax of the formatted text.
    """

    text: PlanText
    formatted: str | None
    syntax: Syntax | None
    diagnostics: tuple[Diagnostic, ...]

    @property
    def ok(self) -> bool:
        """Whether there is a formatted text."""
        return self.formatted is not None

    @property
    def is_changed(self) -> bool:
        """Whether the formatted text differs from the original."""
        return self.formatted is not None and self.formatted != self.text.source.text

    def to_json(self) -> dict[str, Any]:
        """The formatted text and the diagnostics, as data."""
        return {
            "ok": self.ok,
            "text": self.formatted,
            "syntax": syntax_name(self.text) if self.syntax is None else str(self.syntax),
            "changed": self.is_changed,
            "diagnostics": to_json(self.diagnostics, self.text.source),
        }


def format_text(text: PlanText, *, keeps_all: bool = False) -> Formatted:
    """A text in the canonical form of its syntax.

    Prose around the plan is left out with a diagnostic; with `keeps_all`, for formatting in place, such a
    text is not formatted at all. A plan in canonical JSON is refused (CFG010): that form is for programs.

    >>> from callsheet.apps.operations.reading import plan_text
    >>> print(format_text(plan_text("search  'tea' >hits")).formatted, end="")
    search "tea" > hits
    """
    if text.is_json:
        raise CallsheetError.single(
            "CFG010",
            f"{text.source.name} is a plan in canonical JSON, which fmt does not format",
            help="--to ltp prints it as LTP text, --to micro as Micro-CLI, --to dag as a JSON plan",
        )
    if text.plan is None or text.syntax is None:
        return Formatted(text, None, None, tuple(d for d in text.diagnostics if d.is_error))
    outside = tuple(d for d in text.diagnostics if d.code in OUTSIDE_CODES)
    if keeps_all and outside:
        hint = "write it as comments (# …) or remove it: fmt would remove it"
        lost = tuple(replace(d, severity=Severity.ERROR, help=hint) for d in outside)
        return Formatted(text, None, None, lost)
    try:
        return Formatted(text, format_as(text.syntax, text.plan), text.syntax, outside)
    except CallsheetError as error:
        return Formatted(text, None, None, error.diagnostics)


def convert_text(
    text: PlanText, target: Syntax, parameters: Callable[[Plan], Parameters] | None = None
) -> Formatted:
    """A text in another syntax, with diagnostics about the conversion.

    A JSON plan names every argument: `parameters` gives the names for positional ones, and is called only if
    there are any.
    """
    if text.plan is None:
        return Formatted(text, None, None, tuple(d for d in text.diagnostics if d.is_error))
    needed = parameters is not None and target is Syntax.DAG and _has_nameless(text.plan)
    named = parameters(text.plan) if needed and parameters is not None else NO_PARAMETERS
    try:
        formatted, notes = convert_to(target, text.plan, named)
    except CallsheetError as error:
        return Formatted(text, None, None, tuple(d for d in error.diagnostics if d.is_error))
    outside = (d for d in text.diagnostics if d.code in OUTSIDE_CODES)
    return Formatted(text, formatted, target, (*outside, *notes))


def _has_nameless(plan: Plan) -> bool:
    return any(step.call is not None and step.call.positional for step in plan.steps)
