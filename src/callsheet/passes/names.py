"""Finds reads of variables that are unset: never set, set too late, or set on some paths only."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

from callsheet.diagnostics import Severity
from callsheet.ir import And, Condition, IsEmpty, Not, NotEmpty, Or, Order, Ref
from callsheet.ir.flow import Place, Use
from callsheet.passes.definite import Known, settle
from callsheet.passes.finding import PLACES, Finding, Subject, Suggestion


def unset_variables(subject: Subject) -> Iterator[Finding]:
    """CHK001: no step sets the variable; CHK002: none before the read; CHK003: not on every path to it.

    No CHK003 for a condition that tests whether the variable is empty, nor for what the step does only
    if it is not empty. At most one finding per variable and part of a step. A dependency-ordered plan
    gets only CHK001 here, as an error; the order of its reads is checked by `graph`.
    """
    given = subject.given
    definitions = subject.flow.definitions
    defined: list[Use] = []
    seen: set[str] = set()
    at: tuple[int, Place | None] = (-1, None)
    for use in subject.uses:
        step, ref, place = use
        if step != at[0] or place is not at[1]:  # the reads of one part of a step are adjacent
            at = (step, place)
            seen.clear()
        name = ref.name
        if name in given or name in seen:
            continue
        seen.add(name)
        if name in definitions:
            defined.append(use)
        else:
            yield _set_nowhere(subject, use)
    if subject.plan.order is Order.TEXT and defined:
        always = Known.ALWAYS
        for use, known in zip(defined, settle(subject.flow, defined), strict=True):
            if known is always:
                continue
            if known is Known.NEVER:
                yield _set_later(subject, use)
            elif not _asked_for(subject, use):
                yield _set_sometimes(subject, use)


def _set_nowhere(subject: Subject, use: Use) -> Finding:
    name = use.ref.name
    foreach = subject.plan.steps[use.step].foreach
    own = (foreach.var,) if foreach is not None else ()
    help_ = subject.suggest(name, chain(own, subject.flow.definitions, subject.given), "$")
    if subject.plan.order is Order.DAG:
        hint = f'give it with --var {name}=…, put it into "variables", or set it with a step'
        return _finding("CHK001", Severity.ERROR, f"no step sets ${name}", use, help_ or hint)
    return _finding("CHK001", Severity.WARNING, f"no step sets ${name}", use, help_ or _from_outside(name))


def _set_later(subject: Subject, use: Use) -> Finding:
    name = use.ref.name
    setter = subject.plan.steps[subject.flow.definitions[name][0].step].id
    own = subject.plan.steps[use.step].id
    what = (
        f"only {own} itself sets ${name}" if setter == own else f"{setter} sets ${name}, but not before {own}"
    )
    return _finding("CHK002", Severity.WARNING, what, use, "read it after the step that sets it")


def _set_sometimes(subject: Subject, use: Use) -> Finding:
    name = use.ref.name
    return _finding(
        "CHK003",
        Severity.HINT,
        f"${name} is not set on every path to {subject.plan.steps[use.step].id}",
        use,
        f"where it is not, it is null; test it with ?IF (NOT_EMPTY(${name})) if that matters",
    )


def _asked_for(subject: Subject, use: Use) -> bool:
    """Whether the step's own condition tests that the variable has a value before the step relies on it."""
    condition = subject.plan.steps[use.step].condition
    if condition is None or use.place is Place.SOURCE:
        return False
    if use.place is Place.CONDITION:
        return use.ref.name in _questioned(condition)
    return use.ref.name in _not_empty_where(condition, holds=True)


def _questioned(condition: Condition) -> frozenset[str]:
    """The variables that the condition tests for emptiness."""
    match condition:
        case IsEmpty(value=Ref(name=name)) | NotEmpty(value=Ref(name=name)):
            return frozenset((name,))
        case Not(condition=inner):
            return _questioned(inner)
        case And(conditions=several) | Or(conditions=several):
            return frozenset[str]().union(*map(_questioned, several))
        case _:
            return frozenset()


def _not_empty_where(condition: Condition, *, holds: bool) -> frozenset[str]:
    """The variables that are certainly not empty if the condition is true (`holds`) or false."""
    match condition:
        case NotEmpty(value=Ref(name=name)) if holds:
            return frozenset((name,))
        case IsEmpty(value=Ref(name=name)) if not holds:
            return frozenset((name,))
        case Not(condition=inner):
            return _not_empty_where(inner, holds=not holds)
        case And(conditions=several) | Or(conditions=several):
            each = [_not_empty_where(one, holds=holds) for one in several]
            if isinstance(condition, And) is holds:
                return frozenset[str]().union(*each)
            return each[0].intersection(*each[1:])
        case _:
            return frozenset()


def _from_outside(name: str) -> str:
    return f"it is null here; give it with --var {name}=… or set it with a step"


def _finding(
    code: str, severity: Severity, message: str, use: Use, help_: str | Suggestion | None
) -> Finding:
    return Finding(
        code,
        severity,
        f"{message} ({PLACES[use.place]})",
        use.step,
        use.ref.span,
        help_,
        (use.ref.name,),
        use.place,
    )
