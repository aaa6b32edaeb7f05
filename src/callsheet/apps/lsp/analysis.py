"""Analyses a text that is being edited: diagnostics, labels, schedule.

In: a document, tools, a policy. Out: the diagnostics of `check` and `verify`, labels, a schedule. Nothing is
run, and no server is queried.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from callsheet.api.agents import wrong_tools
from callsheet.api.checking import NO_PROVIDERS, Providers, check_plan, check_readable
from callsheet.api.policies import policies_beside
from callsheet.api.proving import Assumptions, Proof, prove
from callsheet.api.requirements import facts_of
from callsheet.apps.guarantees import guarantees_of
from callsheet.apps.lsp.tools import Tools
from callsheet.apps.setup import Setup
from callsheet.diagnostics import CallsheetError, Diagnostic, Source
from callsheet.ir import Plan, canonical_tool_name
from callsheet.machine.ahead.waits import StepSchedule, schedule_of
from callsheet.machine.approvals import covers
from callsheet.policy.model import Policy
from callsheet.policy.policy_file import read_policy
from callsheet.views.editor.document import PlanDocument
from callsheet.views.editor.knowledge import Knowledge


@dataclass(frozen=True, slots=True)
class AnalysisContext:
    """What plans are checked against: tools, a policy, the names of the `inputs` of runs."""

    setup: Setup
    tools: Tools
    policy: Policy | None = None
    inputs: tuple[str, ...] = ()
    providers: Providers = NO_PROVIDERS


@dataclass(frozen=True, slots=True)
class Analysis:
    """The result of analysing a document."""

    diagnostics: tuple[Diagnostic, ...]
    knowledge: Knowledge = field(default_factory=Knowledge)


def analyse(document: PlanDocument, context: AnalysisContext) -> Analysis:
    """Check a plan like `callsheet check` and, under a policy, `callsheet verify`."""
    registry = context.tools.registry
    specs = {name: tool.spec for name, tool in zip(registry.names(), registry, strict=True)}
    plan = document.plan
    if plan is None:
        unparsed_text = "\n".join(document.text[slice(*span)] for span in document.lost)
        not_asked = context.tools.not_queried_for(document.partial, context.setup)
        more = check_readable(document.partial, unparsed_text, registry, not_asked=not_asked)
        return Analysis((*document.diagnostics, *more), Knowledge(specs))
    diagnostics = (*document.diagnostics, *_checked(plan, context))
    proof = _proved(plan, context) if context.policy is not None else None
    if proof is None:
        return Analysis(diagnostics, Knowledge(specs, {}, _schedule(plan, context)))
    labels = {known.step: known for known in proof.steps}
    knowledge = Knowledge(specs, labels, _schedule(plan, context), proof.policy.name)
    return Analysis((*diagnostics, *proof.diagnostics), knowledge)


def _checked(plan: Plan, context: AnalysisContext) -> tuple[Diagnostic, ...]:
    registry, setup = context.tools.registry, context.setup
    not_asked = context.tools.not_queried_for(plan, setup)
    diagnostics = check_plan(plan, registry, context.inputs, not_asked=not_asked, providers=context.providers)
    return (*diagnostics, *wrong_tools(plan, registry, setup.agents, not_asked=not_asked))


def _proved(plan: Plan, context: AnalysisContext) -> Proof:
    assert context.policy is not None
    registry = context.tools.registry
    proof = prove(plan, context.policy, registry, Assumptions(inputs=context.inputs))
    return proof.under(guarantees_of(context.setup, registry))


def _schedule(plan: Plan, context: AnalysisContext) -> dict[str, StepSchedule]:
    """What each step waits for; empty for an invalid graph, which the checks report."""
    approvals = tuple(map(canonical_tool_name, context.setup.settings.approve))
    try:
        facts = facts_of(plan, context.tools.registry)
        return {s.step: s for s in schedule_of(plan, facts, lambda tool: covers(approvals, tool))}
    except CallsheetError:
        return {}


def analyse_policy(text: str, path: Path) -> Sequence[Diagnostic]:
    """The errors in the text of a policy file; the policies that it extends are searched in its folder."""
    try:
        read_policy(Source(str(path), text), policies_beside(path.parent))
    except CallsheetError as error:
        return error.diagnostics
    return ()
