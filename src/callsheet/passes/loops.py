"""Finds loops without an exit: a run would repeat them until its step budget is spent."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from callsheet.diagnostics import Severity
from callsheet.ir import Goto
from callsheet.ir.components import strong_components
from callsheet.ir.flow import Flow, is_guarded
from callsheet.passes.finding import Finding, Subject

_MOST_NAMED = 6


def endless_loops(subject: Subject) -> Iterator[Finding]:
    """CHK013: an unconditional GOTO to itself; CHK014: a loop that no control-flow edge leaves.

    In a group a GOTO takes effect only if no earlier member's does, so CHK013 skips groups and
    CHK014, which follows the edges, decides.
    """
    flow, steps = subject.flow, subject.plan.steps
    to_itself: set[int] = set()
    for number, step in enumerate(steps):
        if not isinstance(step.action, Goto) or step.action.target != step.id or is_guarded(step):
            continue
        if step.group is None and flow.number_of[step.id] == number:
            to_itself.add(number)
            yield Finding(
                "CHK013",
                Severity.ERROR,
                f"{step.id} always jumps to itself: the plan cannot continue",
                number,
                step.action.span,
                "jump to another step, or guard the jump with ?IF",
                (step.id,),
            )
    for loop in _closed_loops(flow):
        if to_itself.isdisjoint(loop):
            yield _loop_finding(subject, loop)


def _loop_finding(subject: Subject, loop: Sequence[int]) -> Finding:
    ids = tuple(subject.plan.steps[number].id for number in loop)
    shown = ", ".join(ids[:_MOST_NAMED]) + (", …" if len(ids) > _MOST_NAMED else "")
    return Finding(
        "CHK014",
        Severity.ERROR,
        f"{shown} form a loop without an exit" if len(ids) > 1 else f"{shown} is a loop without an exit",
        loop[-1],
        help="guard the jump back with ?IF, or end the plan from inside with @RESPOND or TERMINATE",
        names=ids,
    )


def _closed_loops(flow: Flow) -> Iterator[list[int]]:
    """The strongly connected components that contain an edge and that no edge leaves, in text order."""
    if not flow.goes_back:
        return iter(())
    component_of = strong_components(flow.successors, flow.entry)
    members: dict[int, list[int]] = {}
    leaves: set[int] = set()
    loops: set[int] = set()
    for node, component in enumerate(component_of):
        if component < 0:
            continue
        members.setdefault(component, []).append(node)
        for following in flow.successors[node]:
            if component_of[following] != component:
                leaves.add(component)
            else:
                loops.add(component)
    return iter(sorted(members[component] for component in loops - leaves))
