"""A plan of dependencies as lines for a terminal, level after level with a blank line between.

In: the plan, in any order of its steps. Out: its levels (Kahn's batches): `∥` marks steps that
may run together, `← after` says what a step waits for.
"""

from __future__ import annotations

from collections.abc import Mapping

from callsheet.ir import Call, Plan, Step
from callsheet.ir.precedence import Precedence
from callsheet.views.columns import cut, pad, printable, width
from callsheet.views.describe import describe_action, describe_condition, describe_failure
from callsheet.views.marks import StepStatus, mark_of

_MOST_INDEX = 24
_MOST_TITLE = 60
_MOST_TOOL = 32
_MOST_AFTER = 12
_MOST_MORE = 60
_LEAST_TITLE = 16
_TOGETHER = "∥"


def terminal_levels(
    plan: Plan, status: Mapping[str, str] | None = None, *, ansi: bool = False, columns: int = 100
) -> str:
    """The levels of a plan, a step a line, in about `columns` columns.

    `status` and `ansi` are those of `terminal_graph`.

    >>> from callsheet.ir import Order
    >>> steps = (
    ...     Step("2", Call("PARSE"), depends_on=("1",), title="Parse"),
    ...     Step("1", Call("READ"), depends_on=(), title="Read"),
    ... )
    >>> print(terminal_levels(Plan(steps, order=Order.DAG)))
    ○ 1. Read   [read]
    <BLANKLINE>
    ○ 2. Parse  [parse]  ← after: 1
    """
    if not plan.steps:
        return "(empty plan)"
    known = status or {}
    levels = Precedence.of(plan).levels()
    indexes = [cut(printable(step.id), _MOST_INDEX) + "." for step in plan.steps]
    tools = [f"[{cut(_tool(step), _MOST_TOOL)}]" for step in plan.steps]
    index_width, tool_width = max(map(width, indexes)), max(map(width, tools))
    room = max(columns - index_width - tool_width - 20, _LEAST_TITLE)
    titles = [cut(_title(step), min(room, _MOST_TITLE)) for step in plan.steps]
    title_width = max(map(width, titles))
    together = any(len(level) > 1 for level in levels)
    blocks: list[str] = []
    for level in levels:
        lines: list[str] = []
        for number in level:
            step = plan.steps[number]
            mark = mark_of(known.get(step.id, StepStatus.PENDING), ansi)
            parts = [
                f"{mark} {pad(indexes[number], index_width)} {pad(titles[number], title_width)}",
                pad(tools[number], tool_width),
                *([pad(_TOGETHER if len(level) > 1 else "", 1)] if together else []),
                *_more(step),
            ]
            lines.append("  ".join(parts).rstrip())
        blocks.append("\n".join(lines))
    return "\n\n".join(blocks)


def _tool(step: Step) -> str:
    return printable(step.action.tool.lower() if isinstance(step.action, Call) else _word(step))


def _word(step: Step) -> str:
    return type(step.action).__name__.lower()


def _title(step: Step) -> str:
    return printable(step.title[:200]) if step.title else describe_action(step.action)


def _more(step: Step) -> list[str]:
    """What a step waits for, its condition, and what becomes of a failure."""
    more: list[str] = []
    waited = list(dict.fromkeys(step.depends_on or ()))
    if waited:
        shown = [cut(printable(other), _MOST_INDEX) for other in waited[:_MOST_AFTER]]
        rest = [f"… ({len(waited)})"] if len(waited) > _MOST_AFTER else []
        more.append("← after: " + ", ".join([*shown, *rest]))
    if step.condition is not None:
        more.append(cut(f"? {describe_condition(step.condition)}", _MOST_MORE))
    if step.on_fail is not None:
        more.append(cut(f"! {describe_failure(step.on_fail)}", _MOST_MORE))
    return more
