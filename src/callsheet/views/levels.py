"""Renders a plan of dependencies for a terminal by levels, separated by blank lines.

In: a plan, its steps in any order. Out: its topological levels. `∥` marks steps that may run
concurrently, `← after` lists the dependencies of a step.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from callsheet.ir import Call, Plan, Step
from callsheet.ir.precedence import UNORDERED, Precedence
from callsheet.views.columns import CUT, cut, pad, printable, width
from callsheet.views.describe import describe_action, describe_condition, describe_failure
from callsheet.views.marks import StepStatus, mark_of

_MOST_INDEX = 24
_MOST_TITLE = 60
_MOST_TOOL = 32
_MOST_AFTER = 12
_MOST_DETAIL = 60
_LEAST_TITLE = 16
_LEAST_TOOL = 8
_LEAST_DETAILS = 12
_CONCURRENT = "∥"
_NEVER = "⟳ never starts: a cycle"
_GAP = "  "


def terminal_levels(
    plan: Plan, status: Mapping[str, str] | None = None, *, ansi: bool = False, columns: int = 100
) -> str:
    """Returns the levels of a plan, one line a step, in `columns` columns.

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
    rows = LevelRows(plan)
    layout = rows.layout(columns)
    lines: list[str] = []
    for place, number in enumerate(rows.order):
        if place in rows.begins and place:
            lines.append("")
        mark = mark_of(known.get(plan.steps[number].id, StepStatus.PENDING), ansi)
        head = rows.head(place, layout)
        more = rows.more(place, columns - width(head) - 4)
        lines.append(f"{mark} {head}{_GAP}{more}" if more else f"{mark} {head}".rstrip())
    return "\n".join(lines)


class Layout(NamedTuple):
    """The widths of title and tool, in columns; 0 for the tool if there is no room for it."""

    title: int
    tool: int


class LevelRows:
    """The steps of a plan by level, and the parts of their lines.

    Lines are made on request, so that a display of a few of many steps costs only those few.
    """

    def __init__(self, plan: Plan) -> None:
        self._steps = plan.steps
        order = Precedence.of(plan)
        levels = order.levels()
        self._stuck = {number for number, level in enumerate(order.level) if level == UNORDERED}
        """The steps that can never start, because they wait for one another, or for such a step."""
        self.order: list[int] = [number for level in levels for number in level]
        """The steps' numbers in the plan, in drawing order."""
        self.begins: set[int] = set()
        """The positions in `order` at which levels begin."""
        self._concurrent: list[bool] = []
        for level in levels:
            self.begins.add(len(self._concurrent))
            self._concurrent.extend([len(level) > 1 and level[0] not in self._stuck] * len(level))
        self._has_groups = any(self._concurrent)
        self._index = max((width(self._index_text(step)) for step in plan.steps), default=0)
        self._title = max((width(_title_text(step)) for step in plan.steps), default=0)
        self._tool = max((width(_tool_text(step)) for step in plan.steps), default=0)
        has_more = any(step.depends_on or step.condition or step.on_fail for step in plan.steps)
        self._has_details = has_more or bool(self._stuck)

    def layout(self, columns: int, beside: int = 0) -> Layout:
        """Returns the widths of title and tool for lines of `columns` columns.

        `beside` columns are left to the caller, and a minimum is reserved for the dependencies. The title is
        shortened first, then the tool.
        """
        room = columns - beside - 2 - self._index - 1 - (3 if self._has_groups else 0)
        room -= 2 + max(_LEAST_DETAILS, columns // 6) if self._has_details else 0
        title = min(self._title, _LEAST_TITLE)
        tool = min(self._tool, room - title - 2)
        tool = tool if tool >= min(self._tool, _LEAST_TOOL) else 0
        rest = room - (tool + 2 if tool else 0)
        return Layout(max(min(self._title, rest), min(self._title, _LEAST_TOOL)), tool)

    def head(self, place: int, layout: Layout) -> str:
        """Returns index, title and tool of a step and the mark of concurrency, in a fixed width."""
        step = self._steps[self.order[place]]
        title = pad(cut(_title_text(step), layout.title), layout.title)
        parts = [f"{pad(self._index_text(step), self._index)} {title}"]
        if layout.tool:
            tool = _tool_text(step)
            if width(tool) > layout.tool:
                tool = cut(tool[:-1], layout.tool - 1) + "]"
            parts.append(pad(tool, layout.tool))
        if self._has_groups:
            parts.append(_CONCURRENT if self._concurrent[place] else " ")
        return _GAP.join(parts)

    def more(self, place: int, room: int) -> str:
        """Returns the dependencies of a step, its condition and failure handling, in `room` columns."""
        step = self._steps[self.order[place]]
        more: list[str] = [_NEVER] if self.order[place] in self._stuck else []
        waited = list(dict.fromkeys(step.depends_on or ()))
        if waited:
            more.append(_after(waited, room))
        if step.condition is not None:
            more.append(cut(f"? {describe_condition(step.condition)}", _MOST_DETAIL))
        if step.on_fail is not None:
            more.append(cut(f"! {describe_failure(step.on_fail)}", _MOST_DETAIL))
        return cut(_GAP.join(more), room) if room > 0 else ""

    def _index_text(self, step: Step) -> str:
        return cut(printable(step.id), _MOST_INDEX) + "."


def _after(waited: Sequence[str], room: int) -> str:
    """Returns the dependencies of a step: all if they fit, otherwise the first ones and their number."""
    names = [cut(printable(other), _MOST_INDEX) for other in waited[:_MOST_AFTER]]
    for mark in ("← after: ", "← "):
        for count in range(len(names), 0, -1):
            rest = [f"{CUT} ({len(waited)})"] if count < len(waited) else []
            text = mark + ", ".join([*names[:count], *rest])
            if width(text) <= room and (count == len(names) or mark == "← "):
                return text
    return cut(f"← {len(waited)} steps" if len(waited) > 1 else f"← {names[0]}", room)


def _tool_text(step: Step) -> str:
    word = step.action.tool.lower() if isinstance(step.action, Call) else type(step.action).__name__.lower()
    return f"[{cut(printable(word), _MOST_TOOL)}]"


def _title_text(step: Step) -> str:
    title = printable(step.title[:200]) if step.title else describe_action(step.action)
    return cut(title, _MOST_TITLE)
