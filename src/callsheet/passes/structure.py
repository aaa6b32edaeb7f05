"""The structure of a plan: jumps, unreachable steps, loops, groups, endings; its dependencies, and races."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from callsheet.diagnostics import Severity
from callsheet.ir import Ending, Order, Place, word_of
from callsheet.ir.flow import Flow, Use, uses_of
from callsheet.ir.graphs import UNORDERED, Precedence, strong_components
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


_MOST_NAMED = 6


def dependencies(subject: Subject) -> Iterator[Finding]:
    """CHK060: a dependency on no step; CHK061: a cycle; CHK065: an answer that is not the last step."""
    if subject.plan.order is not Order.DAG:
        return
    order = Precedence.of(subject.plan)
    yield from _missing(subject)
    yield from _circles(subject, order)
    yield from _early_answers(subject, order)


def shared_variables(subject: Subject) -> Iterator[Finding]:
    """CHK062: a read that is not ordered against a write; CHK063: two writes in no order.

    A variable must have one history: its setters are totally ordered, and each read lies between two
    of them. Given the levels of the steps, at most two precedence queries per read decide that.
    """
    if subject.plan.order is not Order.DAG:
        return
    order = Precedence.of(subject.plan)
    histories = _histories(subject, order)
    questions = [*_questions_of_setters(histories), *_questions_of_reads(subject, order, histories)]
    answers = order.precede((question.before, question.after) for question in questions)
    for question, is_ordered in zip(questions, answers, strict=True):
        if not is_ordered:
            yield _clash(subject, question)


# ---------------------------------------------------------------- what is waited for


def _missing(subject: Subject) -> Iterator[Finding]:
    known = subject.flow.number_of
    for number, step in enumerate(subject.plan.steps):
        for place, other in enumerate(step.depends_on or ()):
            if other not in known:
                yield Finding(
                    "CHK060",
                    Severity.ERROR,
                    f"{step.id} depends on {other}, and no step has that id",
                    number,
                    step.depends_spans[place] if step.depends_spans else None,
                    subject.suggest(other, known),
                    (other,),
                )


def _circles(subject: Subject, order: Precedence) -> Iterator[Finding]:
    """One finding for each strongly connected component, naming one cycle in it."""
    if UNORDERED not in order.level:
        return
    waits = order.waits
    root = len(waits)
    component_of = strong_components([*waits, range(root)], root)
    members: dict[int, list[int]] = {}
    for number in range(root):
        members.setdefault(component_of[number], []).append(number)
    for component in members.values():
        if len(component) > 1 or component[0] in waits[component[0]]:
            yield _circle_finding(subject, _circle(waits, component_of, component[0]), len(component))


def _circle(waits: Sequence[Sequence[int]], component_of: list[int], start: int) -> list[int]:
    """A shortest cycle through `start`, in the order of waiting: each step waits for the next."""
    came_from: dict[int, int] = {}
    queue = deque([start])
    while queue:
        node = queue.popleft()
        for other in waits[node]:
            if other == start:
                circle = [node]
                while circle[-1] != start:
                    circle.append(came_from[circle[-1]])
                return circle[::-1]
            if component_of[other] == component_of[start] and other not in came_from:
                came_from[other] = node
                queue.append(other)
    return [start]


def _circle_finding(subject: Subject, circle: list[int], size: int) -> Finding:
    steps = subject.plan.steps
    ids = tuple(steps[number].id for number in circle)
    start = steps[circle[0]]
    if len(ids) == 1:
        message = f"{start.id} waits for itself and can never start"
    else:
        named = [*ids[:_MOST_NAMED], "…"] if len(ids) > _MOST_NAMED else list(ids)
        message = f"{' waits for '.join([*named, start.id])}: none can ever start"
    if size > len(ids):
        message += f" ({size} steps are in the cycle)"
    waited = steps[circle[1 % len(circle)]].id
    spans = dict(zip(start.depends_on or (), start.depends_spans, strict=False))
    return Finding(
        "CHK061",
        Severity.ERROR,
        message,
        circle[0],
        spans.get(waited),
        "remove one of the dependencies",
        ids,
    )


def _early_answers(subject: Subject, order: Precedence) -> Iterator[Finding]:
    """CHK065: an answer ends the plan, so every other step has to precede it."""
    steps = subject.plan.steps
    answers = [number for number, step in enumerate(steps) if step.course.ends is Ending.ANSWER]
    if not answers:
        return
    ends = [number for number, followers in enumerate(order.followers) if not followers]
    for number in answers:
        others = [end for end in ends if end != number]
        if order.level[number] == UNORDERED or not (others or order.followers[number]):
            continue
        other = steps[others[0] if others else order.followers[number][0]].id
        yield Finding(
            "CHK065",
            Severity.ERROR,
            f"{steps[number].id} answers, and {other} does not come before it",
            number,
            steps[number].action.span,
            f"an answer is the last step: let it depend on {other}"
            if others
            else "move the answer to the end",
            (other,),
        )


# ---------------------------------------------------------------- variables


class _Question(NamedTuple):
    """A required precedence: `before` has to end before `after` starts, because of this variable and read.

    `use` is None where both steps set the variable.
    """

    before: int
    after: int
    name: str
    use: Use | None


def _histories(subject: Subject, order: Precedence) -> dict[str, list[int]]:
    """The setters of each variable, sorted by level; steps that can never start are left out."""
    histories: dict[str, list[int]] = {}
    for number, step in enumerate(subject.plan.steps):
        if step.sets is not None and order.level[number] != UNORDERED:
            histories.setdefault(step.sets, []).append(number)
    for setters in histories.values():
        setters.sort(key=order.level.__getitem__)
    return histories


def _questions_of_setters(histories: dict[str, list[int]]) -> Iterator[_Question]:
    for name, setters in histories.items():
        for before, after in pairwise(setters):
            yield _Question(before, after, name, None)


def _questions_of_reads(
    subject: Subject, order: Precedence, histories: dict[str, list[int]]
) -> Iterator[_Question]:
    """For each read: the last setter of a lower level must precede it, and it must precede the next one.

    If the setters are totally ordered, this implies the order against all other setters.
    """
    seen: set[tuple[int, str]] = set()
    places = {name: {setter: at for at, setter in enumerate(found)} for name, found in histories.items()}
    for use in subject.uses:
        step, name = use.step, use.ref.name
        level = order.level[step]
        if name not in histories or level == UNORDERED or (step, name) in seen:
            continue
        seen.add((step, name))
        setters = histories[name]
        at = _first_not_below(setters, order.level, level)
        if at or name not in subject.given:
            yield _Question(setters[at - 1] if at else setters[0], step, name, use)
        own = places[name].get(step)
        following = at if own is None else own + 1
        if following < len(setters) and (at or name in subject.given):
            yield _Question(step, setters[following], name, use)


def _first_not_below(setters: list[int], levels: list[int], level: int) -> int:
    """How many of the setters, which are sorted by level, have a lower level (bisection)."""
    low, high = 0, len(setters)
    while low < high:
        middle = (low + high) // 2
        if levels[setters[middle]] < level:
            low = middle + 1
        else:
            high = middle
    return low


def _clash(subject: Subject, question: _Question) -> Finding:
    steps, name, use = subject.plan.steps, question.name, question.use
    before, after = steps[question.before], steps[question.after]
    if use is None:
        return Finding(
            "CHK063",
            Severity.ERROR,
            f"{before.id} and {after.id} both set ${name}, and either may be the last",
            question.after,
            after.output.span if after.output is not None else None,
            f"give each its own variable, or let {after.id} depend on {before.id}",
            (name, before.id),
        )
    if use.step == question.after and use.step == question.before:
        message, help_ = f"{after.id} reads ${name}, and only {after.id} itself sets it", "set it before"
    elif use.step == question.after:
        message = f"{after.id} reads ${name} and does not wait for {before.id}, which sets it"
        help_ = f"let it depend on {before.id}"
    else:
        message = f"{before.id} reads ${name}, which {after.id} may set before or after that"
        help_ = f"let one of the two depend on the other, or give {after.id} another variable"
    other = before if use.step == question.after else after
    return Finding(
        "CHK062", Severity.ERROR, message, use.step, use.ref.span, help_, (name, other.id), use.place
    )
