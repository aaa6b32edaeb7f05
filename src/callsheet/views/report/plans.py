"""A plan as the viewer shows it: its text, its steps with what they read, where they stand in the picture."""

from __future__ import annotations

from bisect import bisect_right
from typing import Any

from callsheet.frontends.spelling import read_plan_text
from callsheet.ir import Call, Plan, Ref, Respond, Step, Terminate
from callsheet.trace.lineage.lineage import Lineage
from callsheet.trace.lineage.reads import Reads, Role, located
from callsheet.views.columns import printable
from callsheet.views.describe import (
    describe_action,
    describe_condition,
    describe_failure,
    describe_output,
    describe_value,
)
from callsheet.views.lanes import layout_of
from callsheet.views.report.document import PlanPart, StepRow
from callsheet.views.report.values import Values

_NO_GROUP = -1
_MOST_TEXT = 200_000
"""So many characters of a plan are shown."""


def plan_part(lineage: Lineage, number: int, source: str, hash_: str, seq: int, values: Values) -> PlanPart:
    """The plan of a program of a run, with its source text."""
    plan = lineage.programs[number].plan
    lines = _lines(plan, source)
    steps = tuple(
        _step(step, lineage.reads_at(number, place), lines[place], values)
        for place, step in enumerate(plan.steps)
    )
    made = layout_of(plan)
    layout: dict[str, Any] = {
        "rows": made.rows,
        "columns": made.columns,
        "left": made.left,
        "right": made.right,
        "places": [list(place) for place in made.places],
        "arrows": [[a.start, a.end, str(a.kind), a.lane] for a in made.arrows],
    }
    title = plan.title or plan.id or ""
    text = source[:_MOST_TEXT]
    return PlanPart(hash_, title, plan.goal or "", str(plan.order), text, seq, steps, layout)


def _step(step: Step, reads: Reads, lines: list[int], values: Values) -> StepRow:
    action = step.action
    return StepRow(
        step.id,
        printable(step.title or ""),
        _word(step),
        str(action.kind) if isinstance(action, Call) else "plan",
        describe_action(action),
        "" if step.condition is None else describe_condition(step.condition),
        describe_output(step).removeprefix("> "),
        "" if step.on_fail is None else describe_failure(step.on_fail),
        _NO_GROUP if step.group is None else step.group,
        "" if step.foreach is None else f"${step.foreach.var} in {describe_value(step.foreach.source)}",
        lines,
        list(reads.names),
        list(_uses(reads)),
        [[name, values.add(value)] for name, value in reads.literals],
    )


def _word(step: Step) -> str:
    match step.action:
        case Call(tool=tool):
            return f"@{tool}"
        case Respond():
            return "@RESPOND"
        case Terminate():
            return "TERMINATE"
        case _:
            return describe_action(step.action).partition(" ")[0]


def _uses(reads: Reads) -> list[list[Any]]:
    """What the step reads; of what the variable of a FOREACH is read for, the place in the list itself."""
    rows: list[list[Any]] = []
    for use in reads.uses:
        if use.role is Role.MESSAGE:
            continue
        if use.name != reads.loop or use.role is Role.SOURCE:
            rows.append([str(use.role), use.argument, use.name, list(use.path), -1])
        elif isinstance(reads.source, Ref):
            path = [*reads.source.path, None, *use.path]
            rows.append([str(use.role), use.argument, reads.source.name, path, len(reads.source.path)])
        elif reads.source is not None:
            places = dict.fromkeys(located(reads.source, ()))
            rows += [[str(use.role), use.argument, name, list(path), -1] for name, path in places]
    return rows


def _lines(plan: Plan, source: str) -> list[list[int]]:
    """The first and last line of each step in the text, from 0; nothing where the text says another plan."""
    read = read_plan_text(source).result.plan if source else None
    if read is None or [s.id for s in read.steps] != [s.id for s in plan.steps]:
        return [[] for _ in plan.steps]
    breaks = [n for n, char in enumerate(source) if char == "\n"]
    return [
        []
        if step.span is None
        else [
            bisect_right(breaks, step.span.start - 1),
            bisect_right(breaks, max(step.span.start, step.span.end - 1) - 1),
        ]
        for step in read.steps
    ]
