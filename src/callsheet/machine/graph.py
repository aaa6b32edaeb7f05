"""The dependency graph of a plan, by step number: compiled once, then only read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from callsheet.diagnostics import CallsheetError
from callsheet.ir import Plan


class Graph(NamedTuple):
    """The dependencies of a plan, by the numbers of its steps.

    `waits` counts the dependencies of a step, `dependents` are the steps that depend on it. Of the ready
    steps the one with the lowest `place` starts first: the one with the highest rank, or the first in the
    plan if ranks are equal. By default, the rank is the number of steps on the longest path to an end,
    including the step itself. `order` has the steps by place.
    """

    waits: tuple[int, ...]
    dependents: tuple[tuple[int, ...], ...]
    place: tuple[int, ...]
    order: tuple[int, ...]


def compile_graph(plan: Plan, ranks: Mapping[str, int] | None = None) -> Graph:
    """The dependency graph of a plan.

    `ranks`, by step id, are used only if they name every step. Linear in steps and dependencies, but for
    sorting. Raises CallsheetError (RUN001) for duplicate ids, unknown dependencies and cycles.
    """
    number_of = {step.id: number for number, step in enumerate(plan.steps)}
    if len(number_of) < len(plan.steps):
        raise _unrunnable("two of its steps have the same index")
    dependents: list[list[int]] = [[] for _ in plan.steps]
    waits: list[int] = []
    for number, step in enumerate(plan.steps):
        before = set(step.depends_on or ())
        waits.append(len(before))
        for name in before:
            if name not in number_of:
                raise _unrunnable(f"step {step.id} waits for {name}, which is not a step")
            dependents[number_of[name]].append(number)
    for followers in dependents:
        followers.sort()
    order = topological(waits, dependents)
    if len(order) < len(waits):
        raise _unrunnable("some of its steps wait for one another in a cycle")
    if ranks and all(step.id in ranks for step in plan.steps):
        rank = [ranks[step.id] for step in plan.steps]
    else:
        rank = [1] * len(waits)
        for number in reversed(order):
            rank[number] += max((rank[follower] for follower in dependents[number]), default=0)
    first = sorted(range(len(rank)), key=rank.__getitem__, reverse=True)  # keeps the plan's order of equals
    place = [0] * len(rank)
    for at, number in enumerate(first):
        place[number] = at
    return Graph(tuple(waits), tuple(map(tuple, dependents)), tuple(place), tuple(first))


def topological(waits: Sequence[int], dependents: Sequence[Sequence[int]]) -> list[int]:
    """The steps in topological order; steps in cycles, or behind them, are left out."""
    unfinished = list(waits)
    order = [number for number, count in enumerate(unfinished) if not count]
    for number in order:
        for follower in dependents[number]:
            unfinished[follower] -= 1
            if not unfinished[follower]:
                order.append(follower)
    return order


def _unrunnable(why: str) -> CallsheetError:
    return CallsheetError.single(
        "RUN001", f"this plan cannot be run: {why}", help="`callsheet check` shows the details"
    )
