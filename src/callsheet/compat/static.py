"""The documented static functions: validation, with findings in the documented forms, and the Mermaid block.

Includes errors and the warnings that the document lists; other warnings and all hints are omitted.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from callsheet.compat.models import LTPPlan, plan_of
from callsheet.diagnostics import Severity
from callsheet.ir import Plan, Step, word_of
from callsheet.ir.flow import Place
from callsheet.passes import Finding, ToolSignature, findings
from callsheet.ports.transforms import literal_check, transform_tools
from callsheet.views.mermaid import mermaid

_MOST_NAMED = 50
_REPORTED_WARNINGS = frozenset({"CHK001", "CHK002", "CHK010", "CHK011", "CHK015", "CHK021"})


def problems_of(
    plan: Plan, *, tools: Mapping[str, ToolSignature] | None = None, inputs: Collection[str] = ()
) -> list[str]:
    """The problems of a plan as texts; an empty list if there are none.

    `tools` are the known tools; any other may exist as well.

    >>> from callsheet.ir import Ref, Respond
    >>> problems_of(Plan((Step("S3", Respond((Ref("foo"),))),)))
    ['[S3] Undefined variable $foo in @RESPOND args']
    """
    targets = {jump.target for step in plan.steps for jump in step.jumps()}
    messages: list[str] = []
    for finding in findings(plan, tools=tools, inputs=inputs):
        if finding.code == "CHK040":
            continue
        if finding.severity is Severity.ERROR or finding.code in _REPORTED_WARNINGS:
            messages.extend(_messages(plan, finding, targets))
    return messages


def _messages(plan: Plan, finding: Finding, targets: set[str]) -> Iterator[str]:
    if finding.step is None:
        text = _whole_plan(finding)
        yield f"[{'WARN' if finding.severity is Severity.WARNING else 'ERROR'}] {text}"
        return
    step = plan.steps[finding.step]
    if finding.code in ("CHK010", "CHK011"):
        yield from _unreachable(plan, finding.step, finding.names, targets)
    else:
        yield f"[{step.id}] {_text(finding, step)}"


def _whole_plan(finding: Finding) -> str:
    if finding.code == "CHK015":
        return "No @RESPOND or TERMINATE step — plan may produce no output"
    return finding.message


def _text(finding: Finding, step: Step) -> str:
    match finding.code:
        case "CHK001" | "CHK002":
            return f"Undefined variable ${finding.names[0]} in {_place(step, finding.place)}"
        case "CHK012":
            word = "GOTO" if finding.place is None else "ON_FAIL GOTO"
            return f"{word} target {finding.names[0]} does not exist"
        case "CHK013":
            return f"Circular GOTO: {step.id} unconditionally jumps to itself"
        case "CHK014":
            return f"Circular GOTO: {finding.message}"
        case "CHK016":
            return f"Duplicate step ID (first at position {finding.names[0]})"
        case _:
            return finding.message


def _place(step: Step, place: Place | None) -> str:
    match place:
        case Place.CONDITION:
            return "condition"
        case Place.SOURCE:
            return "?FOREACH source"
        case Place.FAILURE:
            return "ON_FAIL message"
        case _:
            return f"{word_of(step.action)} args"


def _unreachable(plan: Plan, first: int, ids: tuple[str, ...], targets: set[str]) -> Iterator[str]:
    """The unreachable steps up to the first jump target; later ones are not reported."""
    parts: list[str] = []
    for id_ in ids:
        if id_ in targets:
            break
        parts.append(id_)
    if not parts or not first:
        return
    before = _end_before(plan, first)
    shown = ", ".join(parts[:_MOST_NAMED]) + (", …" if len(parts) > _MOST_NAMED else "")
    yield f"[{before.id}] Steps after unconditional {word_of(before.action)}: {shown} may be unreachable"


def _end_before(plan: Plan, first: int) -> Step:
    """The step that ends the plan or jumps before the step of this number; in a group the first one."""
    before = plan.steps[first - 1]
    if before.group is None:
        return before
    group = (step for step in plan.steps[:first] if step.group == before.group)
    return next((step for step in group if step.condition is None and step.course.leaves), before)


def mermaid_block(plan: Plan) -> str:
    """The plan as a Mermaid flowchart in a code fence, ready for Markdown.

    >>> print(mermaid_block(Plan(())))
    ```mermaid
    graph TD
        empty["Empty plan"]
    ```
    """
    return f"```mermaid\n{mermaid(plan)}\n```"


def validate_plan(plan: LTPPlan) -> list[str]:
    """The problems of a plan as texts; an empty list if there are none.

    Only the transforms are known: any other tool may exist and take any argument.
    """
    return problems_of(plan_of(plan), tools=_transforms())


def _transforms() -> dict[str, ToolSignature]:
    specs = [tool.spec for tool in transform_tools()]
    return {
        spec.name: ToolSignature.from_schema(spec.parameters, spec.effect, literal_check(spec.name))
        for spec in specs
    }


def plan_to_mermaid(plan: LTPPlan) -> str:
    """The plan as a fenced Mermaid flowchart."""
    return mermaid_block(plan_of(plan))
