"""Finds misleading step ids: duplicates, and an id such as ELSE that reads like a keyword."""

from __future__ import annotations

from collections.abc import Iterator

from callsheet.diagnostics import Severity
from callsheet.ir import Call, Goto
from callsheet.passes.finding import Finding, Subject

_ELSE = tuple(
    spelt
    for word in ("ELSE", "ELIF", "ELSEIF", "OTHERWISE")
    for spelt in (word, word.lower(), word.capitalize())
)


def duplicate_ids(subject: Subject) -> Iterator[Finding]:
    """CHK016 for each step whose id is already used by an earlier step."""
    first_of = subject.flow.number_of
    if len(first_of) == len(subject.plan.steps):
        return
    for number, step in enumerate(subject.plan.steps):
        first = first_of[step.id]
        if first != number:
            yield Finding(
                "CHK016",
                Severity.ERROR,
                f"the id {step.id} is taken: step number {first + 1} has it too",
                number,
                help="give every step an id of its own",
                names=(str(first + 1),),
            )


def ids_like_else(subject: Subject) -> Iterator[Finding]:
    """CHK017 for an unconditional step named ELSE (or similar) right after a conditional step.

    The language has no ELSE (`docs/language.md`): such a step runs whatever the condition before it was.
    Not reported if the step before does not simply go on to this one, or a jump leads here.
    """
    known = subject.flow.number_of
    for number in sorted(known[name] for name in _ELSE if name in known):
        step = subject.plan.steps[number]
        before = subject.plan.steps[number - 1] if number else step
        goes_on = before.condition is not None and isinstance(before.action, Call)
        if goes_on and step.condition is None and not _is_jumped_to(subject, step.id):
            yield Finding(
                "CHK017",
                Severity.WARNING,
                f"{step.id} is an id here: this step runs regardless of the condition before it",
                number,
                help="there is no ELSE: write the opposite condition, ?IF (NOT (…)) THEN …",
            )


def _is_jumped_to(subject: Subject, step_id: str) -> bool:
    return any(
        isinstance(jump, Goto) and jump.target == step_id
        for step in subject.plan.steps
        for jump in (step.action, step.on_fail.then if step.on_fail is not None else None)
    )
