"""The grammar of jumps: skipped steps, one of two branches, repeated steps.

In: the parts of steps. Out: the alternatives from a step on that have a jump. Each consists of the jump and a
few plain calls; the target is the first of them or the step after them. So the target exists and is in no
group, and the variables set at the join are known: those set before, and those that all branches set.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Protocol

from callsheet.frontends.export.rules import Node, seq

_MOST_LEFT_OUT = 3
_MOST_REPEATED = 3
_MOST_IN_A_BRANCH = 2


class Steps(Protocol):
    """The parts of steps. `number` is that of the step, `bound` the number of variables set."""

    def label(self, number: int) -> Node:
        """The label of the step."""
        ...

    def called(self, bound: int) -> Node | None:
        """A line with a call whose result is stored; None if nothing can be called."""
        ...

    def risked(self, bound: int, target: int) -> Node | None:
        """The same with a jump to `target` on failure; None if plans have no failure handling."""
        ...

    def guard(self, bound: int) -> Node | None:
        """A condition; None if there can be none."""
        ...

    def goto(self, target: int) -> Node:
        """A jump and the end of its line."""
        ...

    def following(self, number: int, bound: int) -> Node | None:
        """The steps from this one to the end; None if they would exceed the most steps."""
        ...


def jumps(steps: Steps, number: int, bound: int) -> Iterator[Node | None]:
    """The alternatives with a jump for the text after the label of this step, to the end of the plan.

    An item is None if there is no room for it, or nothing to call or to compare.
    """
    for count in range(1, _MOST_LEFT_OUT + 1):
        yield _left_out(steps, number, bound, count)
        yield _left_out_after_failure(steps, number, bound, count)
    for count in range(1, _MOST_REPEATED + 1):
        yield _repeated(steps, number, bound, count)
    for one, other in product(range(1, _MOST_IN_A_BRANCH + 1), repeat=2):
        yield _one_of_two(steps, number, bound, one, other)


def _left_out(steps: Steps, number: int, bound: int, count: int) -> Node | None:
    """`?IF (…) THEN GOTO` past `count` steps, whose results are not readable after them."""
    behind = number + 1 + count
    return _all(
        steps.guard(bound),
        steps.goto(behind),
        _calls(steps, number + 1, bound, count),
        steps.following(behind, bound),
    )


def _left_out_after_failure(steps: Steps, number: int, bound: int, count: int) -> Node | None:
    """`ON_FAIL GOTO` past `count` steps; the result of the failed call is its error."""
    behind = number + 1 + count
    return _all(
        steps.risked(bound, behind),
        _calls(steps, number + 1, bound + 1, count),
        steps.following(behind, bound + 1),
    )


def _one_of_two(steps: Steps, number: int, bound: int, one: int, other: int) -> Node | None:
    """Two branches of `one` and `other` steps; the variables that both set are set after them."""
    over = number + 1 + one
    behind = over + 1 + other
    return _all(
        steps.guard(bound),
        steps.goto(over + 1),
        _calls(steps, number + 1, bound, one),
        steps.label(over),
        steps.goto(behind),
        _calls(steps, over + 1, bound, other),
        steps.following(behind, bound + min(one, other)),
    )


def _repeated(steps: Steps, number: int, bound: int, count: int) -> Node | None:
    """`count` steps, and a conditional jump back to the first of them."""
    return _all(
        steps.called(bound),
        _calls(steps, number + 1, bound + 1, count - 1),
        steps.label(number + count),
        steps.guard(bound + count),
        steps.goto(number),
        steps.following(number + count + 1, bound + count),
    )


def _calls(steps: Steps, number: int, bound: int, count: int) -> Node | None:
    """`count` calls in sequence, with their labels."""
    return _all(*(part for i in range(count) for part in (steps.label(number + i), steps.called(bound + i))))


def _all(*nodes: Node | None) -> Node | None:
    """The nodes in sequence; None if one of them is None."""
    present = [node for node in nodes if node is not None]
    return seq(*present) if len(present) == len(nodes) else None
