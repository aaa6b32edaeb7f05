"""Builds the viewer data of a plan: its text, its steps with their reads, the layout of the diagram."""

from __future__ import annotations

from bisect import bisect_right
from typing import Any

from callsheet.frontends.spelling import read_plan_text
from callsheet.ir import Call, ListExpr, Plan, Ref, Step, word_of
from callsheet.trace.lineage.lineage import Lineage
from callsheet.trace.lineage.reads import Reads, Role, element
from callsheet.views.columns import printable
from callsheet.views.describe import describe_action, describe_output
from callsheet.views.lanes import NO_GROUP, foreach_of, guard_of, layout_json, on_fail_of
from callsheet.views.report.document import PlanPart, StepRow
from callsheet.views.report.values import Values

_ANY = -1
_MOST_TEXT = 200_000
"""The maximum number of characters of a plan's text."""


def plan_part(lineage: Lineage, number: int, source: str, hash_: str, seq: int, values: Values) -> PlanPart:
    """Returns the data of the plan with this number in a run.

    `source` is its text, `hash_` its hash, `seq` the event that compiled it.
    """
    plan = lineage.programs[number].plan
    lines = _lines(plan, source)
    steps = tuple(
        _step(step, lineage.reads_at(number, place), lines[place], values)
        for place, step in enumerate(plan.steps)
    )
    title = plan.title or plan.id or ""
    text = source[:_MOST_TEXT]
    layout = layout_json(plan)
    return PlanPart(hash_, title, plan.goal or "", str(plan.order), text, seq, steps, layout)


def _step(step: Step, reads: Reads, lines: list[int], values: Values) -> StepRow:
    action = step.action
    return StepRow(
        step.id,
        printable(step.title or ""),
        word_of(step.action),
        str(action.kind) if isinstance(action, Call) else "plan",
        describe_action(action),
        guard_of(step),
        describe_output(step).removeprefix("> "),
        on_fail_of(step),
        NO_GROUP if step.group is None else step.group,
        foreach_of(step),
        lines,
        list(reads.names),
        list(_uses(reads)),
        [[name, values.add(value)] for name, value in reads.literals],
    )


def _uses(reads: Reads) -> list[list[Any]]:
    """Returns what a step reads; a read of a loop variable becomes a read of the list's item."""
    rows: list[list[Any]] = []
    for use in reads.uses:
        if use.role is Role.MESSAGE:
            continue
        if use.name != reads.loop or use.role is Role.SOURCE:
            rows.append([str(use.role), use.argument, use.name, list(use.path), _ANY, _ANY])
        elif isinstance(reads.source, Ref):
            path = [*reads.source.path, None, *use.path]
            rows.append([str(use.role), use.argument, reads.source.name, path, len(reads.source.path), _ANY])
        elif isinstance(reads.source, ListExpr):
            for item in range(len(reads.source.items)):
                places = dict.fromkeys(element(reads.source, item, use.path, has_members=True))
                rows += [[str(use.role), use.argument, name, list(path), _ANY, item] for name, path in places]
        elif reads.source is not None:
            places = dict.fromkeys(element(reads.source, 0, use.path, has_members=True))
            rows += [[str(use.role), use.argument, name, list(path), _ANY, _ANY] for name, path in places]
    return rows


def _lines(plan: Plan, source: str) -> list[list[int]]:
    """Returns first and last line of each step in the text, from 0; empty if the text is not this plan."""
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
