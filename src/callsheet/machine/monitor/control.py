"""Which steps decide whether a step is executed, in a plan of text order: nearest first, by number.

In: the flow of a plan. Out: for each step the branches that it depends on, and for each branch the steps that
depend on it. What a branch depends on itself is not repeated.
"""

from __future__ import annotations

from typing import NamedTuple

from callsheet.ir.dominators import NONE, immediate_dominators
from callsheet.ir.flow import Flow


class Control(NamedTuple):
    """The branches by step, and the steps by branch."""

    branches: list[tuple[int, ...]]
    dependents: list[tuple[int, ...]]


def control_of(flow: Flow) -> Control:
    """Control dependence by post-dominators; a part of a plan that never ends counts as if it could.

    >>> from callsheet.frontends.ltp import parse
    >>> from callsheet.ir.flow import flow_of
    >>> text = "S1: @A > $a\\nS2: ?IF ($a == 1) THEN GOTO S4\\nS3: @B\\nS4: @C"
    >>> control_of(flow_of(parse(text).require())).branches
    [(), (), (1,), ()]
    """
    count = len(flow.plan.steps)
    after = [list(nodes) for nodes in flow.successors]
    before = [list(nodes) for nodes in flow.predecessors]
    _let_end(flow, after, before)
    post = immediate_dominators(before, flow.end)
    branches: list[list[int]] = [[] for _ in range(count)]
    for branch in range(count):
        if len(after[branch]) < 2:
            continue
        for following in after[branch]:
            node = following
            while node not in (NONE, post[branch]) and node < count:
                if not branches[node] or branches[node][-1] != branch:
                    branches[node].append(branch)
                node = post[node]
    dependents: list[list[int]] = [[] for _ in range(count)]
    for node, deciding in enumerate(branches):
        for branch in deciding:
            dependents[branch].append(node)
    return Control([tuple(nodes) for nodes in branches], [tuple(nodes) for nodes in dependents])


def _let_end(flow: Flow, after: list[list[int]], before: list[list[int]]) -> None:
    """Give every step from which no end is reached a way there."""
    reaches = bytearray(len(after))
    stack = [flow.end]
    reaches[flow.end] = 1
    pending = iter(range(len(after)))
    while True:
        while stack:
            for node in before[stack.pop()]:
                if not reaches[node]:
                    reaches[node] = 1
                    stack.append(node)
        lost = next((node for node in pending if not reaches[node]), None)
        if lost is None:
            return
        after[lost].append(flow.end)
        before[flow.end].append(lost)
        reaches[lost] = 1
        stack.append(lost)
