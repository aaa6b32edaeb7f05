"""Computes the layout of a plan diagram: positions of steps, lanes of long arrows; and as data."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import StrEnum
from heapq import heappop, heappush
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

from callsheet.ir import Order, Plan, Step, word_of
from callsheet.ir.flow import feeders, flow_of
from callsheet.ir.graphs import Precedence
from callsheet.ir.plan import flat
from callsheet.views.columns import printable
from callsheet.views.describe import (
    describe_action,
    describe_condition,
    describe_failure,
    describe_output,
    describe_value,
)

if TYPE_CHECKING:
    from callsheet.views.tree import Entry

MOST_COLUMNS = 6
"""The maximum number of steps in a row; a larger level takes several rows."""


class ArrowKind(StrEnum):
    """What an arrow means."""

    NEXT = "next"
    """The order of the text."""
    AFTER = "after"
    """A step waits for another."""
    DATA = "data"
    """A step reads the output of another."""
    GOTO = "goto"
    FAIL = "fail"
    """A jump of ON_FAIL."""


class Arrow(NamedTuple):
    """An arrow from one step to another, by number. Lanes count from 1; 0 is straight to the next row.

    Lanes of jumps (`goto`, `fail`) are on the right of the steps, all others on the left.
    """

    start: int
    end: int
    kind: ArrowKind
    lane: int


class Layout(NamedTuple):
    """The layout of a plan: the row and column of each step, the arrows, and the number of lanes per side."""

    rows: int
    columns: int
    left: int
    right: int
    places: tuple[tuple[int, int], ...]
    arrows: tuple[Arrow, ...]


def layout_of(plan: Plan) -> Layout:
    """Computes the layout of a plan.

    >>> from callsheet.ir import Call, Order, Plan, Step
    >>> steps = [Step(n, Call("X"), depends_on=tuple(on)) for n, on in [("a", ""), ("b", "a"), ("c", "ab")]]
    >>> made = layout_of(Plan(tuple(steps), Order.DAG))
    >>> made.places, [(arrow.start, arrow.end, arrow.lane) for arrow in made.arrows]
    (((0, 0), (1, 0), (2, 0)), [(0, 1, 0), (0, 2, 1), (1, 2, 0)])
    """
    if not plan.steps:
        return Layout(0, 0, 0, 0, (), ())
    flat(plan, "drawing a plan")
    if plan.order is Order.DAG:
        order = Precedence.of(plan)
        places = _positions(_sorted_levels(order), len(plan.steps))
        pairs = [(other, n, ArrowKind.AFTER) for n, waited in enumerate(order.waits) for other in waited]
    else:
        places = _positions(list(_blocks(plan)), len(plan.steps))
        pairs = [*_text_order(plan), *_jumps(plan)]
    arrows = _arrows_with_lanes(sorted(pairs), places)
    is_jump = (ArrowKind.GOTO, ArrowKind.FAIL)
    return Layout(
        max(row for row, _ in places) + 1,
        max(column for _, column in places) + 1,
        max((a.lane for a in arrows if a.kind not in is_jump), default=0),
        max((a.lane for a in arrows if a.kind in is_jump), default=0),
        tuple(places),
        tuple(arrows),
    )


def _positions(levels: Iterable[Sequence[int]], count: int) -> list[tuple[int, int]]:
    places = [(0, 0)] * count
    row = 0
    for level in levels:
        for place, number in enumerate(level):
            places[number] = row + place // MOST_COLUMNS, place % MOST_COLUMNS
        row += max(1, -(-len(level) // MOST_COLUMNS))
    return places


def _sorted_levels(order: Precedence) -> list[list[int]]:
    """Returns the levels, each sorted by the mean column of its dependencies, to reduce crossings."""
    column: dict[int, float] = {}
    levels: list[list[int]] = []
    for level in order.levels():
        middles = {
            n: sum(column.get(other, 0.0) for other in order.waits[n]) / (len(order.waits[n]) or 1)
            for n in level
        }
        levels.append(sorted(level, key=middles.__getitem__))
        column.update((n, float(place)) for place, n in enumerate(levels[-1]))
    return levels


def _blocks(plan: Plan) -> Iterable[list[int]]:
    """Yields single steps and groups, in text order."""
    block: list[int] = []
    for number, step in enumerate(plan.steps):
        if block and (step.group is None or step.group != plan.steps[block[0]].group):
            yield block
            block = []
        block.append(number)
    yield block


def _text_order(plan: Plan) -> Iterable[tuple[int, int, ArrowKind]]:
    successors = flow_of(plan).successors
    for block, following in pairwise(_blocks(plan)):
        if following[0] in successors[block[-1]]:
            middle = block[len(block) // 2], following[len(following) // 2]
            pairs = {(n, middle[1]) for n in block} | {(middle[0], n) for n in following}
            yield from ((start, end, ArrowKind.NEXT) for start, end in pairs)
    for number, read in enumerate(feeders(plan)):
        yield from ((other, number, ArrowKind.DATA) for other in read)


def _jumps(plan: Plan) -> Iterable[tuple[int, int, ArrowKind]]:
    number_of: dict[str, int] = {}
    for number, step in enumerate(plan.steps):
        number_of.setdefault(step.id, number)
    for number, step in enumerate(plan.steps):
        for kind, target in _targets(step):
            if target in number_of:
                yield number, number_of[target], kind


def _targets(step: Step) -> Iterable[tuple[ArrowKind, str]]:
    for kind, course in ((ArrowKind.GOTO, step.course), (ArrowKind.FAIL, step.after_failure)):
        if course.jump is not None:
            yield kind, course.jump.target


def _arrows_with_lanes(
    pairs: Sequence[tuple[int, int, ArrowKind]], places: Sequence[tuple[int, int]]
) -> list[Arrow]:
    """Returns the arrows with their lanes: 0 to the next row, otherwise one lane per step and side."""
    spans: dict[tuple[int, bool], tuple[int, int]] = {}
    straight: set[tuple[int, int]] = set()
    for start, end, kind in pairs:
        upper, lower = places[start][0], places[end][0]
        is_jump = kind in (ArrowKind.GOTO, ArrowKind.FAIL)
        if not is_jump and lower == upper + 1:
            straight.add((start, end))
            continue
        first, last = spans.get((start, is_jump), (upper, upper))
        spans[start, is_jump] = min(first, upper, lower), max(last, upper, lower)
    lanes = {**_assign_lanes({k: s for k, s in spans.items() if k[1]})}
    lanes.update(_assign_lanes({k: s for k, s in spans.items() if not k[1]}))
    return [
        Arrow(start, end, kind, lanes[start, is_jump] if is_jump or (start, end) not in straight else 0)
        for start, end, kind in pairs
        for is_jump in (kind in (ArrowKind.GOTO, ArrowKind.FAIL),)
    ]


def _assign_lanes(spans: dict[tuple[int, bool], tuple[int, int]]) -> dict[tuple[int, bool], int]:
    """Assigns each span of rows the lowest lane, from 1, on which it overlaps no other span."""
    lanes: dict[tuple[int, bool], int] = {}
    busy: list[tuple[int, int]] = []
    """A heap of the lanes in use: the last row of each, and its number."""
    free: list[int] = []
    for key, (first, last) in sorted(spans.items(), key=lambda item: (item[1], item[0])):
        while busy and busy[0][0] < first:
            heappush(free, heappop(busy)[1])
        lane = heappop(free) if free else len(busy) + 1
        lanes[key] = lane
        heappush(busy, (last, lane))
    return lanes


NO_GROUP = -1


def sketch(plan: Plan) -> dict[str, Any]:
    """Returns the steps and the layout of a plan; `at` is the offset of a step in its text, or None.

    The rows of a plan with blocks are its lines as in an outline, each block inside the row before it.
    """
    if plan.tree is not None:
        from callsheet.views.tree import outline  # noqa: PLC0415 - only for version 2

        entries = [one for one in outline(plan) if not one.is_input]
        apart = [row for row, one in enumerate(entries) if one.is_apart]
        rows = [_sketched(one) for one in entries]
        return {"steps": rows, "layout": nested_layout([one.depth for one in entries], apart)}
    steps = [
        {
            "id": step.id,
            "title": printable(step.title or ""),
            "tool": word_of(step.action),
            "action": describe_action(step.action),
            "guard": guard_of(step),
            "output": describe_output(step).removeprefix("> "),
            "on_fail": on_fail_of(step),
            "group": NO_GROUP if step.group is None else step.group,
            "foreach": foreach_of(step),
            "at": None if step.span is None else step.span.start,
        }
        for step in plan.steps
    ]
    return {"steps": steps, "layout": layout_json(plan)}


def _sketched(entry: Entry) -> dict[str, Any]:
    text, span = printable(entry.text), None if entry.statement is None else entry.statement.span
    word = printable(entry.word)
    rest = text.removeprefix(word)
    return {
        "id": entry.id,
        "title": "",
        "tool": word.removeprefix("@"),
        "action": text,
        "guard": "",
        "output": text if rest[:1].isidentifier() else rest.removeprefix(":").strip(),
        "on_fail": "",
        "group": NO_GROUP,
        "foreach": "",
        "at": None if span is None else span.start,
    }


def nested_layout(depths: Sequence[int], apart: Sequence[int] = ()) -> dict[str, Any]:
    """Returns the layout of a plan with blocks: a row for each place, its column is how deep it stands.

    No arrow leads from the row above to one that is `apart`.

    >>> nested_layout([0, 1, 0, 1], [2])["arrows"]
    [[0, 1, 'next', 0], [2, 3, 'next', 0]]
    """
    unreached = frozenset(apart)
    arrows = [
        [start, start + 1, str(ArrowKind.NEXT), 0]
        for start, (one, other) in enumerate(pairwise(depths))
        if one <= other + 1 and start + 1 not in unreached
    ]
    layout = {"rows": len(depths), "columns": max(depths, default=0) + 1, "left": 0, "right": 0}
    places = [[row, depth] for row, depth in enumerate(depths)]
    return {**layout, "is_nested": True, "apart": list(apart), "places": places, "arrows": arrows}


def layout_json(plan: Plan) -> dict[str, Any]:
    """Returns the layout: numbers of rows, columns and lanes, `places` as `[row, column]`, and `arrows`.

    An arrow is `[start, end, kind, lane]`.
    """
    layout = layout_of(plan)
    return {
        "rows": layout.rows,
        "columns": layout.columns,
        "left": layout.left,
        "right": layout.right,
        "places": [list(place) for place in layout.places],
        "arrows": [[a.start, a.end, str(a.kind), a.lane] for a in layout.arrows],
    }


def guard_of(step: Step) -> str:
    """Returns the condition of the step, or an empty string."""
    return "" if step.condition is None else describe_condition(step.condition)


def on_fail_of(step: Step) -> str:
    """Returns the failure handling of the step, or an empty string."""
    return "" if step.on_fail is None else describe_failure(step.on_fail)


def foreach_of(step: Step) -> str:
    """Returns the loop variable and source of a FOREACH, or an empty string."""
    return "" if step.foreach is None else f"${step.foreach.var} in {describe_value(step.foreach.source)}"
