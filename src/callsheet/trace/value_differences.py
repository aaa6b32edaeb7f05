"""Finds where two values differ, and which steps took longer, for a comparison of runs.

In: two values, or the durations of steps in two runs. Out: paths in the values, or the steps that differ in
duration, the largest difference first.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple, TypeAlias

from callsheet.ir import JSON

Path: TypeAlias = "tuple[str | int, ...]"
LEAST = 0.01
"""The largest difference in seconds that is not reported."""


class ValueDifference(NamedTuple):
    """A path at which two values differ, and the value of each there."""

    path: Path
    old: JSON
    new: JSON
    missing: str = ""
    """`a` or `b` if that value has nothing at the path."""


class Slower(NamedTuple):
    """A visit of a step that took longer in one of two runs; times in seconds."""

    step: str
    visit: int
    old: float
    new: float


def parts(old: JSON, new: JSON) -> Iterator[ValueDifference]:
    """The paths at which two values differ, in the order of the first; lists are compared by position.

    >>> [(p.path, p.old, p.new) for p in parts({"a": [1, 2]}, {"a": [1, 3]})]
    [(('a', 1), 2, 3)]
    """
    stack: list[ValueDifference] = [ValueDifference((), old, new)]
    while stack:
        frame = stack.pop()
        path, one, other, missing = frame
        if missing or type(one) is not type(other) or not isinstance(one, dict | list):
            if missing or one != other or type(one) is not type(other):
                yield frame
        elif isinstance(one, list) and isinstance(other, list):
            most = max(len(one), len(other))
            stack += [_at(path, at, one, other) for at in range(most - 1, -1, -1)]
        elif isinstance(one, dict) and isinstance(other, dict):
            names = [*one, *(name for name in other if name not in one)]
            stack += [
                ValueDifference(
                    (*path, name),
                    one.get(name),
                    other.get(name),
                    "a" if name not in one else "b" if name not in other else "",
                )
                for name in reversed(names)
            ]


def _at(path: Path, at: int, one: list[JSON], other: list[JSON]) -> ValueDifference:
    missing = "a" if at >= len(one) else "b" if at >= len(other) else ""
    return ValueDifference(
        (*path, at), one[at] if at < len(one) else None, other[at] if at < len(other) else None, missing
    )


def slower(
    old: Mapping[tuple[str, int], float], new: Mapping[tuple[str, int], float], noise: float
) -> list[Slower]:
    """The visits whose times differ by more than a fraction `noise` of the longer one, largest first.

    >>> slower({("S1", 1): 1.0, ("S2", 1): 1.0}, {("S1", 1): 1.1, ("S2", 1): 3.0}, 0.2)
    [Slower(step='S2', visit=1, old=1.0, new=3.0)]
    """
    both = [Slower(*place, old[place], new[place]) for place in old if place in new]
    slower_steps = [s for s in both if abs(s.new - s.old) > max(LEAST, noise * max(s.old, s.new))]
    return sorted(slower_steps, key=lambda s: -abs(s.new - s.old))
