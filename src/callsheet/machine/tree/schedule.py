"""When the statements of a plan with blocks start: what runs side by side, what one after another, and why.

In: a plan of version 2, facts about its tools. Out: a line for each call and each block, in the order of the
text. Calls of such a plan are made in their turn on both schedules; loops and @PARALLEL decide what overlaps.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set
from typing import Any, NamedTuple

from callsheet.frontends.expressions import format_expression
from callsheet.ir import Plan
from callsheet.ir.tree import (
    Act,
    Block,
    Compute,
    Foreach,
    Invoke,
    Parallel,
    Repeat,
    Statement,
    Tree,
    Try,
    inner_blocks,
)
from callsheet.machine.compiling import compile_plan
from callsheet.machine.program import ToolFacts
from callsheet.machine.tree.item_order import ItemOrder, order_of_items
from callsheet.machine.tree.program import loop_operations


class BlockSchedule(NamedTuple):
    """When a statement starts (`starts`: in turn, with its group, side by side …) and why.

    `depth` counts the listed blocks around it; a condition is not listed.
    """

    step: str
    starts: str
    why: str
    depth: int = 0

    def describe(self) -> str:
        """The schedule of the statement on one line.

        >>> BlockSchedule("S2", "side by side", "all its calls only read", 1).describe()
        '  S2 runs its items side by side: all its calls only read'
        """
        how = {
            "side by side": "runs its items side by side",
            "one by one": "runs its items one after another",
            "rounds": "runs its rounds one after another",
            "together": "starts its members together",
            "in turn": "starts in its turn",
            "with its group": "starts with its group",
            "limited": "starts in its turn, with a time limit",
        }
        return f"{'  ' * self.depth}{self.step} {how[self.starts]}{': ' if self.why else ''}{self.why}"

    def to_json(self) -> dict[str, Any]:
        """The schedule of the statement as JSON data."""
        return {
            "step": self.step,
            "starts": self.starts,
            "why": self.why or None,
            "waits": [],
            "depth": self.depth,
        }


def tree_schedule(plan: Plan, facts: Mapping[str, ToolFacts]) -> list[BlockSchedule]:
    """When each call and block of a plan with blocks starts; those of sub-plans come first."""
    assert plan.tree is not None
    program = compile_plan(plan, facts)
    assert program.tree is not None
    side_by_side = frozenset(op.id for op in loop_operations(program.tree) if op.side_by_side)
    maker = _Maker(plan.tree, side_by_side, facts, in_python=plan.in_python)
    blocks = [*(one.body for one in plan.tree.plans), plan.tree.body]
    return [row for block in blocks for row in maker.block(block, 0)]


class _Maker:
    def __init__(
        self, tree: Tree, side_by_side: Set[str], facts: Mapping[str, ToolFacts], *, in_python: bool
    ) -> None:
        self._tree = tree
        self._side_by_side, self._facts, self._in_python = side_by_side, facts, in_python

    def block(self, block: Block, depth: int, starts: str = "in turn") -> Iterator[BlockSchedule]:
        """The statements of a block, whose calls start like this."""
        for one in block:
            row = self._row(one, depth, starts)
            if row is not None:
                yield row
            members = "with its group" if isinstance(one, Parallel) else "in turn"
            for inner in inner_blocks(one):
                yield from self.block(inner, depth + (row is not None), members)

    def _row(self, one: Statement, depth: int, starts: str) -> BlockSchedule | None:
        match one:
            case Act() | Compute() | Invoke():
                return BlockSchedule(one.id, starts, "", depth)
            case Foreach():
                starts = "side by side" if one.id in self._side_by_side else "one by one"
                order = order_of_items(one, self._facts, self._tree)
                return BlockSchedule(one.id, starts, self._why(one, order), depth)
            case Repeat():
                return BlockSchedule(one.id, "rounds", "each sees what the one before has set", depth)
            case Parallel(members=members):
                stops = "; a failure stops the others" if one.stops else ""
                return BlockSchedule(
                    one.id, "together", ", ".join(each.id for each in members) + stops, depth
                )
            case Try(within=within):
                said = "" if within is None else f"stopped after {format_expression(within)}"
                return BlockSchedule(one.id, "limited", said, depth) if said else None
            case _:
                return None

    def _why(self, loop: Foreach, order: ItemOrder) -> str:
        """Why its items run as they do; a COMPUTE, too, may set what the next item sees."""
        if order.side_by_side and loop.id not in self._side_by_side:
            return "it sets a variable from outside, which the next item sees"
        if self._in_python and loop.in_order:
            return "as Python does"
        if self._in_python and order.side_by_side and loop.together:
            most = "" if loop.most is None else f", at most {loop.most} at a time"
            return f"its calls are awaited together{most}"
        return order.why
