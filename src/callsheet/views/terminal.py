"""Renders a plan for a terminal: status, group, id, action, output, and the sources of each step."""

from __future__ import annotations

from collections.abc import Mapping

from callsheet.ir import Order, Plan, Step
from callsheet.ir.flow import feeders
from callsheet.views.columns import cut, pad, printable, width
from callsheet.views.describe import describe_action, describe_failure, describe_guard, describe_output
from callsheet.views.levels import terminal_levels
from callsheet.views.marks import StepStatus, mark_of

__all__ = ["StepStatus", "terminal_graph"]


_MOST_ID = 12
_MOST_READS = 4
_LEAST_TEXT = 24


def terminal_graph(
    plan: Plan, status: Mapping[str, str] | None = None, *, ansi: bool = False, columns: int = 100
) -> str:
    """Returns the plan, one line a step, in about `columns` columns; `ansi` colours the status.

    `status` has the progress of steps by id (`pending`, `running`, `done`, `failed`, `skipped`);
    other steps are pending. A line ends with the steps whose outputs the step reads. A plan with
    dependencies is drawn by levels, with the dependencies of each step (see `terminal_levels`).

    >>> from callsheet.ir import Literal, Respond
    >>> print(terminal_graph(Plan((Step("S1", Respond((Literal("hi"),))),)), {"S1": "done"}))
    ● S1  @RESPOND ("hi")
    """
    if not plan.steps:
        return "(empty plan)"
    if plan.order is Order.DAG:
        return terminal_levels(plan, status, ansi=ansi, columns=columns)
    known = status or {}
    sources = _sources(plan)
    brackets = _brackets(plan)
    ids = [cut(printable(step.id), _MOST_ID) for step in plan.steps]
    id_width = max(map(width, ids))
    bracket_width = 2 if any(brackets) else 0
    most = max(columns - id_width - bracket_width - 4 - _widest_source(sources), _LEAST_TEXT)
    texts = [_text(step, most) for step in plan.steps]
    text_width = max((width(t) for t, s in zip(texts, sources, strict=True) if s), default=0)
    lines: list[str] = []
    for step, id_, bracket, text, source in zip(plan.steps, ids, brackets, texts, sources, strict=True):
        mark = mark_of(known.get(step.id, StepStatus.PENDING), ansi)
        line = f"{mark} {pad(bracket, bracket_width)}{pad(id_, id_width)}  "
        lines.append(line + (f"{pad(text, text_width)}  {source}" if source else text))
    return "\n".join(lines)


def _widest_source(sources: list[str]) -> int:
    widest = max(map(width, sources))
    return widest + 2 if widest else 0


def _text(step: Step, most: int) -> str:
    """Returns guard, action, output and failure handling; the action is cut before the output."""
    guard, action = describe_guard(step), describe_action(step.action)
    if step.title:
        action = f"{cut(printable(step.title[:200]), 40)}  [{action}]"
    if guard:
        action = f"?{guard}: {action}"
    tail = [describe_output(step)] if step.output is not None else []
    if step.on_fail is not None:
        tail.append(f"! {describe_failure(step.on_fail)}")
    end = cut(" ".join(["", *tail]), most // 2) if tail else ""
    return cut(action, most - width(end)) + end


def _sources(plan: Plan) -> list[str]:
    """Returns for each step the steps that it reads from, as `← S1, S2`; empty if it reads none."""
    steps = plan.steps
    return [_arrow("← ", [steps[number].id for number in found]) for found in feeders(plan)]


def _arrow(mark: str, ids: list[str]) -> str:
    if not ids:
        return ""
    shown = [cut(printable(id_), _MOST_ID) for id_ in ids[-_MOST_READS:]]
    return mark + ", ".join(["…", *shown] if len(ids) > _MOST_READS else shown)


def _brackets(plan: Plan) -> list[str]:
    """Returns for each step its part of the vertical line beside its group; empty outside groups."""
    groups = [step.group for step in plan.steps]
    edges: list[str] = []
    for number, group in enumerate(groups):
        if group is None:
            edges.append("")
            continue
        above = number > 0 and groups[number - 1] == group
        below = number + 1 < len(groups) and groups[number + 1] == group
        edges.append("│" if above and below else "┌" if below else "└" if above else "∥")
    return edges
