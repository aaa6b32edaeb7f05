"""Parses a text and shows its plan as data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from callsheet.apps.operations.reading import PlanText
from callsheet.diagnostics import Diagnostic, to_json
from callsheet.ir import Plan, Step, plan_hash, plan_to_json


@dataclass(frozen=True, slots=True)
class Parsed:
    """A text and the plan in it, if there is one."""

    text: PlanText

    @property
    def ok(self) -> bool:
        """Whether the text is a plan."""
        return self.text.plan is not None

    @property
    def diagnostics(self) -> tuple[Diagnostic, ...]:
        """The diagnostics of the text: errors, and deviations in spelling."""
        return self.text.diagnostics

    def to_json(self) -> dict[str, Any]:
        """The plan as data: title, steps, canonical JSON, diagnostics."""
        plan = self.text.plan
        return {
            "ok": self.ok,
            "syntax": syntax_name(self.text),
            **({} if plan is None else {**head_of(plan), "plan": dict(plan_to_json(plan))}),
            "diagnostics": to_json(self.diagnostics, self.text.source),
        }


def parse_text(text: PlanText) -> Parsed:
    """Parse a text as a plan.

    >>> from callsheet.apps.operations.reading import plan_text
    >>> parsed = parse_text(plan_text('search "tea" > hits'))
    >>> parsed.ok, parsed.to_json()["steps"][0]["does"]
    (True, '@WEB_SEARCH (query="tea")')
    """
    return Parsed(text)


def syntax_name(text: PlanText) -> str | None:
    """The syntax of a text: `ltp`, `micro`, `dag`, or `json` for the canonical form."""
    if text.is_json:
        return "json"
    return None if text.syntax is None else str(text.syntax)


def head_of(plan: Plan) -> dict[str, Any]:
    """The title, goal, hash and steps of a plan."""
    return {
        "title": plan.title,
        "goal": plan.goal,
        "plan_hash": plan_hash(plan),
        "steps": [step_row(step) for step in plan.steps],
    }


def step_row(step: Step) -> dict[str, Any]:
    """A step as a row of a list: its id, what it does, when, and what it sets."""
    from callsheet.views.describe import describe_action, describe_failure, describe_guard  # noqa: PLC0415 - only for steps

    return {
        "id": step.id,
        "title": step.title,
        "does": describe_action(step.action),
        "when": describe_guard(step) or None,
        "sets": None if step.output is None else step.output.var,
        "on_fail": None if step.on_fail is None else describe_failure(step.on_fail),
        "group": step.group,
        "depends_on": None if step.depends_on is None else list(step.depends_on),
    }
