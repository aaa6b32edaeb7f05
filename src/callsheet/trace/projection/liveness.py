"""Liveness analysis: which variables may still be read by a later step before they are set again.

In: a plan and a position in it. Out: names of variables. In a plan in text order, all control flow paths are
followed; in a graph, every variable that an unsettled step reads is live.
"""

from __future__ import annotations

from collections.abc import Collection

from callsheet.ir import Order, Plan, Replan
from callsheet.ir.flow import Flow, flow_of, uses_of


def read_by(plan: Plan, number: int) -> set[str]:
    """The variables that a step reads: in its arguments, its conditions and its failure message."""
    return {use.ref.name for use in uses_of(plan.steps[number], number)}


def live_in_graph(plan: Plan, settled: Collection[int]) -> set[str]:
    """The variables that unsettled steps read; `settled` are the numbers of the settled ones."""
    left = [number for number in range(len(plan.steps)) if number not in settled]
    return {name for number in left for name in read_by(plan, number)}


def live_at(plan: Plan, number: int) -> set[str] | None:
    """The variables that are live before a step of a plan in text order; None means all of them.

    A RE-PLAN passes all variables to the planner, so all are live wherever one can still be reached.

    >>> from callsheet.ir import Call, Output, Ref, Respond, Step
    >>> first = Step("S1", Call("X", (Ref("a"),)), output=Output("b"))
    >>> plan = Plan((first, Step("S2", Respond((Ref("b"),)))))
    >>> live_at(plan, 0), live_at(plan, 1)
    ({'a'}, {'b'})
    """
    assert plan.order is Order.TEXT
    flow = flow_of(plan)
    reached = _reached(flow, number)
    if any(isinstance(plan.steps[node].action, Replan) for node in reached):
        return None
    return _names(plan, flow, reached, [number])[0]


def live_before_each(plan: Plan) -> list[set[str] | None]:
    """What `live_at` returns, for every step of the plan at once.

    >>> from callsheet.ir import Call, Output, Ref, Respond, Step
    >>> first = Step("S1", Call("X", (Ref("a"),)), output=Output("b"))
    >>> live_before_each(Plan((first, Step("S2", Respond((Ref("b"),))))))
    [{'a'}, {'b'}]
    """
    assert plan.order is Order.TEXT
    flow = flow_of(plan)
    every = list(range(len(plan.steps)))
    live: list[set[str] | None] = [*_names(plan, flow, every, every)]
    for number in _leading_to(flow, [n for n in every if isinstance(plan.steps[n].action, Replan)]):
        if number < len(live):
            live[number] = None
    return live


def _leading_to(flow: Flow, numbers: list[int]) -> set[int]:
    """The steps from which any of these can be reached, including themselves."""
    before: dict[int, list[int]] = {}
    for number, successors in enumerate(flow.successors):
        for following in successors:
            before.setdefault(following, []).append(number)
    seen, stack = set(numbers), [*numbers]
    while stack:
        for number in before.get(stack.pop(), ()):
            if number not in seen:
                seen.add(number)
                stack.append(number)
    return seen


def _reached(flow: Flow, number: int) -> list[int]:
    """The steps that can be reached from a step, including itself."""
    seen, stack = {number}, [number]
    while stack:
        for following in flow.successors[stack.pop()]:
            if following < flow.end and following not in seen:
                seen.add(following)
                stack.append(following)
    return sorted(seen)


def _names(plan: Plan, flow: Flow, reached: list[int], wanted: list[int]) -> list[set[str]]:
    """The variables that are live before each of the `wanted` steps, which are among the `reached` ones.

    Backward data flow to a fixed point; a set of variables is a bit mask.
    """
    bit: dict[str, int] = {}
    gen = {node: _bits(bit, read_by(plan, node)) for node in reached}
    kill = dict.fromkeys(reached, 0)
    for var, definitions in flow.definitions.items():
        for definition in definitions:
            if definition.sure and var in bit and definition.committed in kill:
                kill[definition.committed] |= 1 << bit[var]
    live = dict(gen)
    changed = True
    while changed:
        changed = False
        for node in reversed(reached):
            out = 0
            for following in flow.successors[node]:
                out |= live.get(following, 0)
            live_here = gen[node] | (out & ~kill[node])
            changed = changed or live_here != live[node]
            live[node] = live_here
    return [{name for name, place in bit.items() if live[number] >> place & 1} for number in wanted]


def _bits(bit: dict[str, int], names: set[str]) -> int:
    bits = 0
    for name in sorted(names):
        bits |= 1 << bit.setdefault(name, len(bit))
    return bits
