"""Renders a plan for a terminal: status, group, id, action, output, and the sources of each step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import NamedTuple

from callsheet.ir import Order, Plan, Step
from callsheet.ir.flow import feeders
from callsheet.ir.graphs import UNORDERED, Precedence
from callsheet.views.columns import CUT, cut, fitted, pad, printable, width
from callsheet.views.describe import (
    describe_action,
    describe_condition,
    describe_failure,
    describe_guard,
    describe_output,
)


class StepStatus(StrEnum):
    """The progress of a step."""

    PENDING = "pending"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    SKIPPED = "skipped"


_MARKS = {
    StepStatus.PENDING: ("○", ""),
    StepStatus.RUNNING: ("◉", "36"),
    StepStatus.DONE: ("●", "32"),
    StepStatus.FAILED: ("✗", "31"),
    StepStatus.SKIPPED: ("–", "2"),
}
_STATUSES = frozenset(str(status) for status in StepStatus)


def mark_of(status: str, ansi: bool) -> str:
    """Returns the mark of a status, coloured if `ansi`; an unknown status has the mark of a pending step."""
    mark, colour = _MARKS[StepStatus(status) if status in _STATUSES else StepStatus.PENDING]
    return f"\x1b[{colour}m{mark}\x1b[0m" if ansi and colour else mark


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

    >>> from callsheet.ir import Call, Order
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
    word = step.call.tool.lower() if step.call is not None else type(step.action).__name__.lower()
    return f"[{cut(printable(word), _MOST_TOOL)}]"


def _title_text(step: Step) -> str:
    title = printable(step.title[:200]) if step.title else describe_action(step.action)
    return cut(title, _MOST_TITLE)


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
    if plan.tree is not None:
        return _outline_text(plan, {} if status is None else status, ansi=ansi, columns=columns)
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


_LEAST_OUTLINE = 24


def _outline_text(plan: Plan, status: Mapping[str, str], *, ansi: bool, columns: int) -> str:
    """The outline of a plan with blocks, with rules that show them and marks of progress by id."""
    from callsheet.views.tree import outline  # noqa: PLC0415 - only for version 2

    lines: list[str] = []
    for depth, own, text, *_ in outline(plan):
        head = f"{own}: " if own else ""
        mark = mark_of(status.get(own, ""), ansi) + " " if own else "  "
        room = max(columns - 3 * depth - len(mark), _LEAST_OUTLINE)
        lines.append(mark + "│  " * depth + fitted(head + text, room))
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
