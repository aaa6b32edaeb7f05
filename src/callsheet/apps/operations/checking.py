"""Checks the plan in a text against the available tools."""

from __future__ import annotations

from collections.abc import Collection
from typing import Annotated, NotRequired, TypedDict

from callsheet.api.checking import check_plan, check_readable, idle_inputs
from callsheet.apps.operations.reading import PlanText
from callsheet.apps.operations.schema import Count, DiagnosticRow, Object, Ok, PlanHash, diagnostic_rows
from callsheet.apps.setup import Setup
from callsheet.apps.toolbox import DeclaredTools
from callsheet.diagnostics import CallsheetError, Diagnostic
from callsheet.ir import Plan, plan_hash
from callsheet.lazy import dataclass
from callsheet.ports.tools import Registry


class CheckRow(TypedDict):
    """The verdict on a plan."""

    ok: Ok
    steps: NotRequired[Annotated[Count, "the number of steps"]]
    plan_hash: NotRequired[PlanHash]
    blocks: NotRequired[Annotated[bool, "whether the plan has blocks: version 2, or Python"]]
    needs: NotRequired[Annotated[list[str], "the inputs that a run has to be given"]]
    inputs: NotRequired[Annotated[Object, "the JSON Schema of its inputs, if the plan declares them"]]


class CheckResult(CheckRow):
    """The verdict on a plan, with its errors, warnings and hints."""

    problems: Annotated[list[str], "the problems of the plan itself as messages, without those of tools"]
    diagnostics: list[DiagnosticRow]


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

        Tools are not covered. A plan of version 2, which the documents do not have, has its own messages.
        """
        plan = self.text.plan
        if plan is not None and plan.tree is not None:
            return [one.message for one in self.diagnostics if one.is_error]
        from callsheet.compat.models import LTPPlan  # noqa: PLC0415 - only for the documented form
        from callsheet.compat.static import validate_plan  # noqa: PLC0415 - as above

        return [] if plan is None else validate_plan(LTPPlan.of(plan))

    def row(self) -> CheckRow:
        """Whether it is valid, the number of its steps, and its hash."""
        plan = self.text.plan
        if plan is None:
            return {"ok": self.ok}
        row: CheckRow = {"ok": self.ok, "steps": len(plan.steps), "plan_hash": plan_hash(plan)}
        if plan.tree is not None:
            from callsheet.ir.inputs import input_schema  # noqa: PLC0415 - a plan of version 1 does without

            row["blocks"] = True
            row["inputs"] = schema = input_schema(plan.tree)
            if needs := schema["required"]:
                row["needs"] = needs
        return row

    def to_json(self) -> CheckResult:
        """The findings as data, and the same in the documented messages."""
        rows = diagnostic_rows(self.diagnostics, self.text.source)
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
    if declared is not None:
        return check_with(text, declared, inputs, asks_servers=asks_servers)[0]
    if text.plan is not None:
        found = (*check_plan(text.plan, None, inputs), *idle_inputs(text.plan, inputs))
    elif text.partial is not None and text.partial.steps:
        found = check_readable(text.partial, text.unread, None)
    else:
        found = ()
    return Checked(text, (*text.diagnostics, *found))


def check_with(
    text: PlanText, declared: DeclaredTools, inputs: Collection[str] = (), *, asks_servers: bool = False
) -> tuple[Checked, Registry, str | None]:
    """Check a text as `check_text`, with the tools that it was checked against.

    The last value names the servers that were not queried for unknown tools; None if there are none.
    """
    plan = text.plan or text.partial
    if plan is None or not (plan.steps or plan.tree):
        return Checked(text, text.diagnostics), declared.local, None
    registry, before, not_asked = declared.tools_for(plan, asks_servers=asks_servers)
    if text.plan is None:
        found = check_readable(plan, text.unread, registry, not_asked=not_asked)
    else:
        found = (
            *before,
            *check_plan(plan, registry, inputs, not_asked=not_asked, providers=declared.providers),
            *idle_inputs(plan, inputs),
            *declared.agent_tool_diagnostics(plan, registry, not_asked),
        )
    return Checked(text, (*text.diagnostics, *found)), registry, not_asked


def require_plan(text: PlanText, setup: Setup, inputs: Collection[str] = ()) -> Plan:
    """The plan of a text; raises CallsheetError with all errors, including those of the readable steps.

    Servers are not queried.
    """
    if text.plan is None:
        raise CallsheetError(check_text(text, DeclaredTools(setup), inputs).diagnostics, text.source)
    return text.plan
