"""Control dependence: which steps decide whether a step is executed, by post-dominators.

In: the control-flow graph of a plan. Out: the control dependences between steps, the steps in cycles, and
those from which the plan can end. Time is O(n log n); only the lists queried can be larger.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from callsheet.ir.flow import Flow
from callsheet.ir.graphs import dominator_tree, immediate_dominators, strong_components
from callsheet.ir.step import Onward, Step


@dataclass(frozen=True, slots=True)
class Control:
    """The control dependences of a plan. Steps are given by number.

    `after` has the immediate post-dominator of each node: the next one on every path to the end. `in_cycle`
    says which nodes are in a cycle, `can_end` from which the end is reachable, both one byte per node.
    """

    flow: Flow
    after: list[int]
    in_cycle: bytearray
    can_end: bytearray

    def branches(self) -> Iterator[int]:
        """The nodes with more than one successor."""
        return (node for node, following in enumerate(self.flow.successors) if len(following) > 1)

    def deciders(self, branch: int) -> list[int]:
        """The steps that decide which successor of a branch is taken: itself, or members of its group."""
        flow = self.flow
        first = branch
        while first > 0 and flow.group_end[first - 1] == branch:
            first -= 1
        return [number for number in range(first, branch + 1) if decides(flow.plan.steps[number])]

    def dependents(self, step: int) -> Iterator[int]:
        """The steps that are directly control dependent on this one, possibly with duplicates.

        A guarded step depends on itself.
        """
        flow = self.flow
        if flow.plan.steps[step].is_guarded:
            yield step
        branch = flow.group_end[step]
        if len(flow.successors[branch]) < 2 or not decides(flow.plan.steps[step]):
            return
        for node in flow.successors[branch]:
            while node != self.after[branch] and node < flow.end:
                yield node
                node = self.after[node]  # noqa: PLW2901 - a walk up the tree

    def all_dependents(self, step: int) -> frozenset[int]:
        """The steps that are control dependent on this one, directly or indirectly."""
        return _closure(step, self.dependents)

    def variables(self, step: int) -> frozenset[str]:
        """The variables that any of its dependents may set, and that can thus reveal its decision."""
        steps = self.flow.plan.steps
        outputs = (steps[number].output for number in self.all_dependents(step))
        return frozenset(output.var for output in outputs if output is not None)

    def guards(self) -> list[list[int]]:
        """For each step, the steps it is directly control dependent on, including itself if it is guarded."""
        conditions_of: list[dict[int, None]] = [{} for _ in self.flow.plan.steps]
        for step in range(len(conditions_of)):
            for dependent in self.dependents(step):
                conditions_of[dependent][step] = None
        return [list(guards) for guards in conditions_of]


def decides(step: Step) -> bool:
    """Whether the step may choose its successor: by a guarded jump or end, a failure, or an empty answer."""
    if step.after_failure.leaves:
        return True
    course = step.course
    return course.leaves and (step.is_guarded or course.onward is Onward.IF_EMPTY)


def control_of(flow: Flow) -> Control:
    """The control dependences of the plan of this control-flow graph.

    >>> from callsheet.ir import Call, Goto, IsEmpty, Output, Plan, Ref, Respond, Step
    >>> from callsheet.ir.flow import flow_of
    >>> control = control_of(flow_of(Plan((
    ...     Step("S1", Goto("S3"), condition=IsEmpty(Ref("x"))),
    ...     Step("S2", Call("A"), output=Output("y")),
    ...     Step("S3", Respond((Ref("y"),))),
    ... ))))
    >>> sorted(control.dependents(0)), control.guards()[1], sorted(control.variables(0))
    ([0, 1], [0], ['y'])
    """
    ending, after = dominator_tree(flow.predecessors, flow.end)
    if len(ending) == len(flow.predecessors):
        return Control(flow, after, _cycles(flow), bytearray(b"\x01") * len(ending))
    can_end = bytearray(len(flow.predecessors))
    for node in ending:
        can_end[node] = 1
    stuck = [node for node, ends in enumerate(can_end) if not ends]
    before = list(flow.predecessors)
    before[flow.end] = [*before[flow.end], *stuck]
    return Control(flow, immediate_dominators(before, flow.end), _cycles(flow), can_end)


def _cycles(flow: Flow) -> bytearray:
    in_cycle = bytearray(len(flow.successors))
    if not flow.goes_back:
        return in_cycle
    component_of = strong_components(flow.successors, flow.entry)
    for node, component in enumerate(component_of):
        if component < 0:
            continue
        for following in flow.successors[node]:
            if component_of[following] == component:
                in_cycle[node] = in_cycle[following] = 1
    return in_cycle


def _closure(start: int, leads_to: Callable[[int], Iterable[int]]) -> frozenset[int]:
    reached: set[int] = set()
    stack = [start]
    while stack:
        for node in leads_to(stack.pop()):
            if node not in reached:
                reached.add(node)
                stack.append(node)
    return frozenset(reached)
