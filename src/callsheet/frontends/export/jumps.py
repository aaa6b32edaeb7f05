"""Jumps in the grammar of plans: steps that are left out, one of two ways, steps that are done again.

In: the parts of steps. Out: the ways to go on from a step with a jump in them. A jump leads to the first or
behind the last step of a few plain calls that are written with it, so that its target is there, is in no
group, and it is known what is set where the ways meet: what was set before, and what all of them set.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Protocol

from callsheet.frontends.export.rules import Node, seq

_MOST_LEFT_OUT = 3
_MOST_REPEATED = 3
_MOST_OF_A_WAY = 2


class Steps(Protocol):
    """The parts of steps, by the number of the step or of the variables that are set."""

    def label(self, number: int) -> Node:
        """What stands before the step."""
        ...

    def called(self, bound: int) -> Node | None:
        """A call whose result is stored, to the end of its line; None where nothing can be called."""
        ...

    def risked(self, bound: int, target: int) -> Node | None:
        """The same with a jump to that step where it fails; None where failures are no part of plans."""
        ...

    def guard(self, bound: int) -> Node | None:
        """A condition; None where there is none."""
        ...

    def goto(self, target: int) -> Node:
        """A jump, to the end of its line."""
        ...

    def following(self, number: int, bound: int) -> Node | None:
        """The steps from this one on to the end; None where there is no room for them."""
        ...


def jumps(steps: Steps, number: int, bound: int) -> Iterator[Node | None]:
    """What may stand behind the label of this step, and all that follows, for steps that jump.

    None where there is no room for one, or nothing to call or to compare.
    """
    for count in range(1, _MOST_LEFT_OUT + 1):
        yield _left_out(steps, number, bound, count)
        yield _left_out_after_failure(steps, number, bound, count)
    for count in range(1, _MOST_REPEATED + 1):
        yield _repeated(steps, number, bound, count)
    for one, other in product(range(1, _MOST_OF_A_WAY + 1), repeat=2):
        yield _one_of_two(steps, number, bound, one, other)


def _left_out(steps: Steps, number: int, bound: int, count: int) -> Node | None:
    """`?IF (…) THEN GOTO`, over so many steps; behind them nothing reads what they give."""
    behind = number + 1 + count
    return _all(
        steps.guard(bound),
        steps.goto(behind),
        _calls(steps, number + 1, bound, count),
        steps.following(behind, bound),
    )


def _left_out_after_failure(steps: Steps, number: int, bound: int, count: int) -> Node | None:
    """`ON_FAIL GOTO`, over so many steps: where the call fails, its result is what the failure says."""
    behind = number + 1 + count
    return _all(
        steps.risked(bound, behind),
        _calls(steps, number + 1, bound + 1, count),
        steps.following(behind, bound + 1),
    )


def _one_of_two(steps: Steps, number: int, bound: int, one: int, other: int) -> Node | None:
    """A condition that leads over so many steps to others: both ways set the first of their results."""
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
    """So many steps, and a condition that leads back to the first of them."""
    return _all(
        steps.called(bound),
        _calls(steps, number + 1, bound + 1, count - 1),
        steps.label(number + count),
        steps.guard(bound + count),
        steps.goto(number),
        steps.following(number + count + 1, bound + count),
    )


def _calls(steps: Steps, number: int, bound: int, count: int) -> Node | None:
    """So many calls one after another, with their labels."""
    return _all(*(part for i in range(count) for part in (steps.label(number + i), steps.called(bound + i))))


def _all(*nodes: Node | None) -> Node | None:
    """One after another; None where one of them cannot be said."""
    found = [node for node in nodes if node is not None]
    return seq(*found) if len(found) == len(nodes) else None
