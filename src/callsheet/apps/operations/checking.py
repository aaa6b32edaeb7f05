"""Checks the plan in a text against the available tools."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from callsheet.api.checking import check_plan, check_readable, idle_inputs
from callsheet.apps.operations.reading import PlanText
from callsheet.apps.setup import Setup
from callsheet.apps.tool_declarations import DeclaredTools
from callsheet.diagnostics import CallsheetError, Diagnostic, to_json
from callsheet.ir import Plan, plan_hash


@dataclass(frozen=True, slots=True)
class Checked:
    """A text with its errors, warnings and hints."""

    text: PlanText
    diagnostics: tuple[Diagnostic, ...]

    @property
    def ok(self) -> bool:
        """Whether the plan may run."""
        return self.text.plan is not None and not any(d.is_error for d in self.diagnostics)

    @property
    def problems(self) -> list[str]:
        """The errors as messages of the documented `validate_plan`; empty for a text that is not a plan.

        Tools are not covered.
        """
        from callsheet.compat.models import LTPPlan  # noqa: PLC0415 - only for the documented form
        from callsheet.compat.static import validate_plan  # noqa: PLC0415 - as above

        return [] if self.text.plan is None else validate_plan(LTPPlan.of(self.text.plan))

    def row(self) -> dict[str, Any]:
        """Whether it is valid, the number of its steps, and its hash."""
        row: dict[str, Any] = {"ok": self.ok}
        if self.text.plan is not None:
            row |= {"steps": len(self.text.plan.steps), "plan_hash": plan_hash(self.text.plan)}
        return row

    def to_json(self) -> dict[str, Any]:
        """The findings as data, and the same in the documented messages."""
        rows = to_json(self.diagnostics, self.text.source)
        return {**self.row(), "problems": self.problems, "diagnostics": rows}


def check_text(
    text: PlanText,
    declared: DeclaredTools | None,
    inputs: Collection[str] = (),
    *,
    asks_servers: bool = False,
) -> Checked:
    """Check a text; `inputs` are the names of variables that the run will get.

    Without `declared` tools are not checked. A tool that is not among them is looked up on servers only with
    `asks_servers`; otherwise it is a warning. If the text has errors, the steps that could be parsed are
    still checked.

    >>> from callsheet.apps.operations.reading import plan_text
    >>> [d.code for d in check_text(plan_text("S1: GOTO S7"), None).diagnostics if d.is_error]
    ['CHK012']
    """
    if text.plan is None:
        more = _of_readable(text, declared, asks_servers=asks_servers)
    else:
        more = _of_plan(text.plan, declared, inputs, asks_servers=asks_servers)
    return Checked(text, (*text.diagnostics, *more))


def require_plan(text: PlanText, setup: Setup, inputs: Collection[str] = ()) -> Plan:
    """The plan of a text; raises CallsheetError with all errors, including those of the readable steps.

    Servers are not queried.
    """
    if text.plan is None:
        raise CallsheetError(check_text(text, DeclaredTools(setup), inputs).diagnostics, text.source)
    return text.plan


def _of_plan(
    plan: Plan, declared: DeclaredTools | None, inputs: Collection[str], *, asks_servers: bool
) -> tuple[Diagnostic, ...]:
    if declared is None:
        return (*check_plan(plan, None, inputs), *idle_inputs(plan, inputs))
    registry, before, not_asked = declared.tools_for(plan, asks_servers=asks_servers)
    found = check_plan(plan, registry, inputs, not_asked=not_asked, providers=declared.providers)
    return (
        *before,
        *found,
        *idle_inputs(plan, inputs),
        *declared.agent_tool_diagnostics(plan, registry, not_asked),
    )


def _of_readable(
    text: PlanText, declared: DeclaredTools | None, *, asks_servers: bool
) -> tuple[Diagnostic, ...]:
    """The errors of the steps that could be parsed, so that one check shows all errors."""
    if text.partial is None or not text.partial.steps:
        return ()
    if declared is None:
        return check_readable(text.partial, text.lost, None)
    registry, _, not_asked = declared.tools_for(text.partial, asks_servers=asks_servers)
    return check_readable(text.partial, text.lost, registry, not_asked=not_asked)
