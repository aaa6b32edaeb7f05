"""How the items of loops and the members of groups of a plan of version 2 run: side by side or not, and why.

In: a plan and what is known of its tools. Out: a line for each loop and group, in the order of the text, as
the machine decides it. All other statements run one after another.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from callsheet.ir import Plan
from callsheet.ir.tree import (
    Act,
    Foreach,
    Invoke,
    Parallel,
    all_statements,
    statements,
)
from callsheet.ir.tree_flow import assigned_outside, ends_early
from callsheet.machine.compiling import compile_plan
from callsheet.machine.program import StepCode, ToolFacts
from callsheet.machine.tree.compiling import loop_operations


class BlockSchedule(NamedTuple):
    """How the items of a loop, or the members of a group, run."""

    step: str
    is_loop: bool
    is_concurrent: bool
    why: str

    def describe(self) -> str:
        """The line in the shell.

        >>> BlockSchedule("S2", True, False, "S3 @SEND may write").describe()
        'the items of S2 run one after another: S3 @SEND may write'
        """
        parts = "items" if self.is_loop else "members"
        how = "side by side" if self.is_concurrent else "one after another"
        return f"the {parts} of {self.step} run {how}: {self.why}"

    def to_json(self) -> dict[str, Any]:
        """The schedule as JSON data."""
        starts = "side by side" if self.is_concurrent else "one after another"
        return {"step": self.step, "starts": starts, "why": self.why, "waits": []}


def tree_schedule(plan: Plan, facts: Mapping[str, ToolFacts]) -> list[BlockSchedule]:
    """The schedule of each loop and group. Raises CallsheetError for a plan that the machine cannot run."""
    assert plan.tree is not None
    program = compile_plan(plan, facts)
    assert program.tree is not None
    codes = {code.id: code for code in program.steps}
    loops = {one.id: one.side_by_side for one in loop_operations(program.tree)}
    found: list[BlockSchedule] = []
    for one in all_statements(plan.tree):
        if isinstance(one, Parallel):
            found.append(BlockSchedule(one.id, False, True, "@PARALLEL"))
        elif isinstance(one, Foreach) and one.id in loops:  # one of a sub-plan that nobody calls never runs
            found.append(BlockSchedule(one.id, True, loops[one.id], _why(one, codes, loops[one.id])))
    return found


def _why(one: Foreach, codes: Mapping[str, StepCode], is_concurrent: bool) -> str:
    if is_concurrent:
        most = "" if one.most is None else f" MAX {one.most}"
        return f"the loop says TOGETHER{most}" if one.together else "all calls of its body only read"
    if one.in_order:
        return "the loop says IN ORDER"
    outer = sorted(assigned_outside(one))
    if outer:
        return f"SET ${outer[0]} assigns a variable from outside it"
    return next(_obstacles(one, codes), "its calls may write")


def _obstacles(loop: Foreach, codes: Mapping[str, StepCode]) -> Iterator[str]:
    """Why the items of a loop that assigns nothing outside do not run side by side, each reason."""
    inside = list(statements(loop.body))
    if ends_early(loop.body):
        yield "an early end in its body acts at once"
    yield from (f"CALL {one.plan} may write" for one in inside if isinstance(one, Invoke))
    for one in inside:
        code = codes.get(one.id)
        if isinstance(one, Act) and code is not None and not code.concurrent:
            yield f"{one.id} @{one.tool} may write"
