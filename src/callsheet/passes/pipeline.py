"""Runs the passes over a plan, in a fixed order, and gives findings or diagnostics."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import TypeAlias

from callsheet.diagnostics import Diagnostic, Severity
from callsheet.ir import Order, Plan
from callsheet.ir.flow import Flow, flow_of
from callsheet.ir.gc_pause import gc_paused
from callsheet.ir.plan import flat
from callsheet.passes.calls import (
    calls,
    data_in_code,
    empty_outputs,
    files_outside,
    impossible_casts,
    impossible_paths,
    missing_answer,
)
from callsheet.passes.finding import Finding, Subject, ToolSignature
from callsheet.passes.names import duplicate_ids, ids_like_else, missing_parts, shadowing, unset_variables
from callsheet.passes.structure import (
    dependencies,
    endless_loops,
    group_members,
    missing_targets,
    shared_variables,
    unreachable_steps,
)
from callsheet.passes.texts import endings_read_as_fields, names_in_braces

Pass: TypeAlias = Callable[[Subject], Iterable[Finding]]

PASSES: tuple[Pass, ...] = (
    duplicate_ids,
    ids_like_else,
    missing_targets,
    dependencies,
    shared_variables,
    missing_parts,
    unreachable_steps,
    endless_loops,
    group_members,
    unset_variables,
    shadowing,
    impossible_casts,
    impossible_paths,
    endings_read_as_fields,
    names_in_braces,
    empty_outputs,
    calls,
    data_in_code,
    files_outside,
    missing_answer,
)
"""Every pass, in the order in which findings of one step are reported."""

_OF_TEXT_ORDER = frozenset(
    {
        ids_like_else,
        missing_targets,
        unreachable_steps,
        endless_loops,
        group_members,
        endings_read_as_fields,
    }
)

_ONLY_ADVISE = frozenset(
    {
        ids_like_else,
        unreachable_steps,
        shadowing,
        impossible_casts,
        impossible_paths,
        endings_read_as_fields,
        names_in_braces,
        empty_outputs,
        data_in_code,
        missing_answer,
    }
)
"""Passes that yield no errors, only warnings and hints."""
_ONLY_ADVISE_IN_ORDER = frozenset({unset_variables})
"""Passes that yield no errors for a text-ordered plan."""

_LARGE = 1_000
"""Number of steps from which Python's cyclic garbage collector is paused during the passes."""


def findings(
    plan: Plan,
    *,
    tools: Mapping[str, ToolSignature] | None = None,
    inputs: Collection[str] = (),
) -> tuple[Finding, ...]:
    """All findings, sorted by step in text order; those about the whole plan come last.

    `tools` is the catalogue by canonical name, or None; `inputs` are the names, without `$`, of the
    variables that the run will be given. Linear in the size of the plan, or nearly so.
    """
    flat(plan, "the check of plans")
    with gc_paused(len(plan.steps) >= _LARGE):
        subject = Subject(plan, flow_of(plan), frozenset(inputs), tools)
        return _by_step(subject, PASSES)


def errors(plan: Plan, flow: Flow, *, inputs: Collection[str] = ()) -> tuple[Finding, ...]:
    """The findings that are errors, without a tool catalogue; passes that yield no errors are not run.

    `flow` is the control flow of the plan.
    """
    only_advise = _ONLY_ADVISE | _ONLY_ADVISE_IN_ORDER if plan.order is Order.TEXT else _ONLY_ADVISE
    asked = [examine for examine in PASSES if examine not in only_advise]
    all_findings = _by_step(Subject(plan, flow, frozenset(inputs), None), asked)
    return tuple(finding for finding in all_findings if finding.severity is Severity.ERROR)


def _by_step(subject: Subject, passes: Iterable[Pass]) -> tuple[Finding, ...]:
    """The findings by step; passes about text order are skipped for dependency-ordered plans."""
    by_step: list[Finding] = []
    for examine in passes:
        if subject.plan.order is Order.TEXT or examine not in _OF_TEXT_ORDER:
            by_step.extend(examine(subject))
    last = len(subject.plan.steps)
    return tuple(sorted(by_step, key=lambda f: last if f.step is None else f.step))


def in_words_of(plan: Plan, found: tuple[Diagnostic, ...]) -> tuple[Diagnostic, ...]:
    """Findings about a plan as they are told: in the words of Python if it was read from Python."""
    if not plan.in_python or not found:
        return found
    from callsheet.frontends.python.messages import in_python  # noqa: PLC0415 - for Python plans only

    return in_python(found)


def check(
    plan: Plan,
    *,
    tools: Mapping[str, ToolSignature] | None = None,
    inputs: Collection[str] = (),
) -> tuple[Diagnostic, ...]:
    """The findings as diagnostics; empty for a good plan. See `findings` for the arguments.

    A diagnostic of severity error means that the plan must not run. Does not raise for any plan. A plan of
    version 2 has checks of its own (`passes.structured`), and declares its inputs itself.

    >>> from callsheet.ir import Plan, Ref, Respond, Step
    >>> [d.code for d in check(Plan((Step("S1", Respond((Ref("x"),))),)))]
    ['CHK001']
    >>> check(Plan((Step("S1", Respond((Ref("x"),))),)), inputs={"x"})
    ()
    """
    if plan.tree is not None:
        from callsheet.passes.structured import check_tree  # noqa: PLC0415 - a plan of version 1 does without

        return in_words_of(plan, check_tree(plan.tree, tools=tools))
    return tuple(f.diagnostic(plan) for f in findings(plan, tools=tools, inputs=inputs))
