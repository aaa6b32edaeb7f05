"""The structure of a plan: targets of jumps, steps that are never reached, loops, groups, endings."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from callsheet.diagnostics import Severity
from callsheet.ir import Place, word_of
from callsheet.ir.flow import Flow, uses_of
from callsheet.ir.graphs import strong_components
from callsheet.passes.finding import Finding, Subject

_MOST_NAMED_REACH = 3


def unreachable_steps(subject: Subject) -> Iterator[Finding]:
    """CHK010: never reached; CHK011: only after an empty answer. One per run of steps, with all their ids."""
    flow, steps = subject.flow, subject.plan.steps
    ever = flow.reachable()
    surely = flow.reachable(answers_are_empty=False)
    number = 0
    while number < len(steps):
        if surely[number]:
            number += 1
            continue
        start, possible = number, ever[number]
        while number < len(steps) and not surely[number] and ever[number] == possible:
            number += 1
        ids = tuple(step.id for step in steps[start:number])
        yield _empty_answer(subject, start, ids) if possible else _never(subject, start, ids)


def _named(ids: tuple[str, ...]) -> str:
    shown = ", ".join(ids[:_MOST_NAMED_REACH])
    return shown if len(ids) <= _MOST_NAMED_REACH else f"{shown} and {len(ids) - _MOST_NAMED_REACH} more"


def _are(ids: tuple[str, ...]) -> str:
    return "is" if len(ids) == 1 else "are"


def _never(subject: Subject, start: int, ids: tuple[str, ...]) -> Finding:
    steps = subject.plan.steps
    before = steps[start - 1] if start else None
    because = f": {before.id} ({word_of(before.action)}) never goes on to the next step" if before else ""
    return Finding(
        "CHK010",
        Severity.WARNING,
        f"{_named(ids)} {_are(ids)} never reached{because}",
        start,
        help="guard the step before with ?IF, jump here with GOTO, or delete the unreachable steps",
        names=ids,
    )


def _empty_answer(subject: Subject, start: int, ids: tuple[str, ...]) -> Finding:
    before = subject.plan.steps[start - 1]
    return Finding(
        "CHK011",
        Severity.WARNING,
        f"{_named(ids)} {_are(ids)} reached only if the answer of {before.id} is empty",
        start,
        help=f"if that is intended, guard {before.id} with ?IF (NOT_EMPTY($…)) THEN",
        names=ids,
    )


def missing_targets(subject: Subject) -> Iterator[Finding]:
    """CHK012 for each GOTO and ON_FAIL GOTO whose target is not the id of a step."""
    known = subject.flow.number_of
    for number in subject.flow.turning:
        step = subject.plan.steps[number]
        for jump, place in ((step.course.jump, None), (step.after_failure.jump, Place.FAILURE)):
            if jump is not None and jump.target not in known:
                word = "GOTO" if place is None else "ON_FAIL GOTO"
                yield Finding(
                    "CHK012",
                    Severity.ERROR,
                    f"{word} leads to {jump.target}, which does not exist",
                    number,
                    jump.span,
                    subject.suggest(jump.target, known),
                    (jump.target,),
                    place,
                )


_MOST_NAMED_LOOPS = 6


def endless_loops(subject: Subject) -> Iterator[Finding]:
    """CHK013: an unconditional GOTO to itself; CHK014: a loop that no control-flow edge leaves.

    In a group a GOTO takes effect only if no earlier member's does, so CHK013 skips groups and
    CHK014, which follows the edges, decides.
    """
    flow, steps = subject.flow, subject.plan.steps
    to_itself: set[int] = set()
    for number in flow.turning:
        step = steps[number]
        jump = step.course.jump
        if jump is None or jump.target != step.id or step.is_guarded:
            continue
        if step.group is None and flow.number_of[step.id] == number:
            to_itself.add(number)
            yield Finding(
                "CHK013",
                Severity.ERROR,
                f"{step.id} always jumps to itself: the plan cannot continue",
                number,
                jump.span,
                "jump to another step, or guard the jump with ?IF",
                (step.id,),
            )
    for loop in _closed_loops(flow):
        if to_itself.isdisjoint(loop):
            yield _loop_finding(subject, loop)


def _loop_finding(subject: Subject, loop: Sequence[int]) -> Finding:
    ids = tuple(subject.plan.steps[number].id for number in loop)
    shown = ", ".join(ids[:_MOST_NAMED_LOOPS]) + (", …" if len(ids) > _MOST_NAMED_LOOPS else "")
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


def group_members(subject: Subject) -> Iterator[Finding]:
    """CHK020: a member reads another member's output; CHK021: two members set the same variable."""
    ends = subject.flow.group_end
    start = 0
    while start < len(ends):
        end = ends[start]
        if end > start:
            yield from _group(subject, range(start, end + 1))
        start = end + 1


def _group(subject: Subject, members: range) -> Iterator[Finding]:
    steps = subject.plan.steps
    setters: dict[str, list[int]] = {}
    for number in members:
        step = steps[number]
        if step.sets is not None:
            setters.setdefault(step.sets, []).append(number)
    for number in members:
        step = steps[number]
        reported: set[str] = set()
        for use in uses_of(step, number):
            name = use.ref.name
            other = next((s for s in setters.get(name, ()) if s != number), None)
            if other is None or name in reported:
                continue
            reported.add(name)
            yield Finding(
                "CHK020",
                Severity.ERROR,
                f"{step.id} reads ${name}, which {steps[other].id} of the same group sets",
                number,
                use.ref.span,
                "steps of a group run concurrently; move this one after the closing brace",
                (name, steps[other].id),
                use.place,
            )
        first = number if step.sets is None else setters[step.sets][0]
        if step.output is not None and first != number:
            yield Finding(
                "CHK021",
                Severity.WARNING,
                f"{steps[first].id} and {step.id} of one group both set ${step.output.var}; the last one is "
                "kept",
                number,
                step.output.span,
                "give each its own variable",
                (step.output.var, steps[first].id),
            )
