"""All passes in their order, and the two ways to ask for what they find."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import TypeAlias

from callsheet.diagnostics import Diagnostic, Severity
from callsheet.ir import Order, Plan
from callsheet.ir.collecting import collector_rests
from callsheet.ir.flow import Flow, flow_of
from callsheet.passes.calls import calls
from callsheet.passes.code import data_in_code
from callsheet.passes.endings import endings_read_as_fields
from callsheet.passes.finding import Finding, Subject
from callsheet.passes.graph import dependencies, shared_variables
from callsheet.passes.groups import group_members
from callsheet.passes.ids import duplicate_ids, ids_like_else
from callsheet.passes.initial import missing_parts
from callsheet.passes.loops import endless_loops
from callsheet.passes.names import unset_variables
from callsheet.passes.output import empty_outputs, missing_answer
from callsheet.passes.reach import unreachable_steps
from callsheet.passes.shadows import shadowing
from callsheet.passes.signatures import ToolSignature
from callsheet.passes.targets import missing_targets
from callsheet.passes.types import impossible_casts, impossible_paths

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
    empty_outputs,
    calls,
    data_in_code,
    missing_answer,
)
"""Every pass, in the order in which findings of one step are told."""

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
        empty_outputs,
        data_in_code,
        missing_answer,
    }
)
"""What finds no errors."""
_ONLY_ADVISE_IN_ORDER = frozenset({unset_variables})
"""What finds no errors in a plan of text order."""

_LARGE = 1_000
"""From this many steps on the cyclic collector rests."""


def findings(
    plan: Plan,
    *,
    tools: Mapping[str, ToolSignature] | None = None,
    inputs: Collection[str] = (),
) -> tuple[Finding, ...]:
    """What the passes find, by step in text order; what concerns the whole plan comes last.

    `tools` is the catalogue by canonical name, None for none; `inputs` are variables, without
    `$`, that the run will be given. Linear in the size of the plan, or near it.
    """
    with collector_rests(len(plan.steps) >= _LARGE):
        subject = Subject(plan, flow_of(plan), frozenset(inputs), tools)
        return _by_step(subject, PASSES)


def errors(plan: Plan, flow: Flow, *, inputs: Collection[str] = ()) -> tuple[Finding, ...]:
    """The errors among the findings, without a catalogue: of passes that only advise nothing is asked.

    `flow` is that of the plan.
    """
    only_advise = _ONLY_ADVISE | _ONLY_ADVISE_IN_ORDER if plan.order is Order.TEXT else _ONLY_ADVISE
    asked = [examine for examine in PASSES if examine not in only_advise]
    found = _by_step(Subject(plan, flow, frozenset(inputs), None), asked)
    return tuple(finding for finding in found if finding.severity is Severity.ERROR)


def _by_step(subject: Subject, passes: Iterable[Pass]) -> tuple[Finding, ...]:
    """What these find; of a plan of dependencies those that read the order of its text are left out."""
    found: list[Finding] = []
    for examine in passes:
        if subject.plan.order is Order.TEXT or examine not in _OF_TEXT_ORDER:
            found.extend(examine(subject))
    last = len(subject.plan.steps)
    return tuple(sorted(found, key=lambda f: last if f.step is None else f.step))


def check(
    plan: Plan,
    *,
    tools: Mapping[str, ToolSignature] | None = None,
    inputs: Collection[str] = (),
) -> tuple[Diagnostic, ...]:
    """What is wrong with a plan, or could be better, as diagnostics; empty for a good plan.

    An error means that the plan must not run. Never raises for a plan, however odd.

    >>> from callsheet.ir import Plan, Ref, Respond, Step
    >>> [d.code for d in check(Plan((Step("S1", Respond((Ref("x"),))),)))]
    ['CHK001']
    >>> check(Plan((Step("S1", Respond((Ref("x"),))),)), inputs={"x"})
    ()
    """
    return tuple(f.diagnostic(plan) for f in findings(plan, tools=tools, inputs=inputs))
