"""Checks dependency-ordered plans: dependencies exist and have no cycle, and no variable has a race."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from callsheet.diagnostics import Severity
from callsheet.ir import Ending, Order
from callsheet.ir.flow import Use
from callsheet.ir.graphs import UNORDERED, Precedence, strong_components
from callsheet.passes.finding import Finding, Subject

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
