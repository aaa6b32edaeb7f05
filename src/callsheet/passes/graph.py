"""Plans of dependencies: what a step waits for must exist, must end, and must come before its reads."""

from __future__ import annotations

from collections.abc import Iterator

from callsheet.diagnostics import Severity
from callsheet.ir import Order
from callsheet.ir.components import strong_parts
from callsheet.passes.finding import Finding, Subject

_STEPS_PER_NODE = 10
_LEAST_BUDGET = 200_000


def dependencies(subject: Subject) -> Iterator[Finding]:
    """CHK060 a dependency on no step, CHK061 a cycle, CHK062 a read of a step not waited for."""
    if subject.plan.order is not Order.DAG:
        return
    waits = _waits(subject)
    yield from _missing(subject)
    yield from _cycles(subject, waits)
    yield from _unordered_reads(subject, waits)


def _waits(subject: Subject) -> list[list[int]]:
    number_of = subject.flow.number_of
    return [
        [number_of[other] for other in step.depends_on or () if other in number_of]
        for step in subject.plan.steps
    ]


def _missing(subject: Subject) -> Iterator[Finding]:
    known = subject.flow.number_of
    for number, step in enumerate(subject.plan.steps):
        for other in step.depends_on or ():
            if other not in known:
                yield Finding(
                    "CHK060",
                    Severity.ERROR,
                    f"{step.id} depends on {other}, and no step has that id",
                    number,
                    help=subject.suggest(other, known),
                    names=(other,),
                )


def _cycles(subject: Subject, waits: list[list[int]]) -> Iterator[Finding]:
    root = len(waits)
    part_of = strong_parts([*waits, list(range(root))], root)
    members: dict[int, list[int]] = {}
    for number in range(root):
        members.setdefault(part_of[number], []).append(number)
    for part in members.values():
        if len(part) > 1 or part[0] in waits[part[0]]:
            ids = tuple(subject.plan.steps[number].id for number in part)
            shown = ", ".join(ids[:6]) + (", …" if len(ids) > 6 else "")
            message = f"{shown} wait for one another" if len(ids) > 1 else f"{shown} waits for itself"
            yield Finding(
                "CHK061",
                Severity.ERROR,
                f"{message}, so that none can start" if len(ids) > 1 else f"{message} and can never start",
                part[0],
                help="take one of the dependencies away",
                names=ids,
            )


def _unordered_reads(subject: Subject, waits: list[list[int]]) -> Iterator[Finding]:
    """Each read of a variable looks for a step that sets it among all that the step waits for."""
    given, definitions = subject.given, subject.flow.definitions
    budget = max(_LEAST_BUDGET, _STEPS_PER_NODE * len(waits))
    setters_of = {name: frozenset(d.step for d in found) for name, found in definitions.items()}
    seen: set[tuple[int, str]] = set()
    for use in subject.uses:
        name = use.ref.name
        if name in given or name not in setters_of or (use.step, name) in seen:
            continue
        seen.add((use.step, name))
        found, spent = _waits_for(waits, use.step, setters_of[name], budget)
        budget -= spent
        if not found:
            reader, setter = (subject.plan.steps[n].id for n in (use.step, definitions[name][0].step))
            yield Finding(
                "CHK062",
                Severity.ERROR,
                f"{reader} reads ${name} and does not wait for {setter}, which sets it",
                use.step,
                use.ref.span,
                f"let it depend on {setter}",
                (name, setter),
                use.place,
            )


def _waits_for(waits: list[list[int]], start: int, setters: frozenset[int], budget: int) -> tuple[bool, int]:
    """Whether the step waits for one of the setters, and what the search cost; past the budget, yes."""
    seen: set[int] = set()
    stack = list(waits[start])
    while stack:
        node = stack.pop()
        if node in setters or len(seen) > budget:
            return True, len(seen)
        if node not in seen:
            seen.add(node)
            stack.extend(waits[node])
    return False, len(seen)
