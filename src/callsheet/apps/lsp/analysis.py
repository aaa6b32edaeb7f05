"""Analyses a text that is being edited: diagnostics, labels, schedule.

In: a document, tools, a policy. Out: diagnostics as `check` and `verify` print them, labels, a schedule.
Nothing is run, and no server is asked.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from callsheet.api.agents import wrong_tools
from callsheet.api.checking import NO_MEANS, Providers, check_plan, check_readable
from callsheet.api.policies import policies_beside
from callsheet.api.proving import Proof, prove
from callsheet.api.requirements import facts_of
from callsheet.apps.lsp.tools import Tools
from callsheet.apps.session import Setup, undertaking
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
    """What plans are held against here; `inputs` are variables that a run will be given."""

    setup: Setup
    tools: Tools
    policy: Policy | None = None
    inputs: tuple[str, ...] = ()
    means: Providers = NO_MEANS


@dataclass(frozen=True, slots=True)
class Analysis:
    """What came of looking at a document."""

    diagnostics: tuple[Diagnostic, ...]
    knowledge: Knowledge = field(default_factory=Knowledge)


def analyse(document: PlanDocument, here: AnalysisContext) -> Analysis:
    """Look at a plan as `callsheet check` and, under a policy, `callsheet verify` do."""
    registry = here.tools.registry
    specs = {name: tool.spec for name, tool in zip(registry.names(), registry, strict=True)}
    plan = document.plan
    if plan is None:
        lost = "\n".join(document.text[slice(*span)] for span in document.lost)
        not_asked = here.tools.not_asked_for(document.partial, here.setup)
        more = check_readable(document.partial, lost, registry, not_asked=not_asked)
        return Analysis((*document.diagnostics, *more), Knowledge(specs))
    found = (*document.diagnostics, *_checked(plan, here))
    proof = _proved(plan, here) if here.policy is not None else None
    if proof is None:
        return Analysis(found, Knowledge(specs, {}, _schedule(plan, here)))
    labels = {known.step: known for known in proof.steps}
    knowledge = Knowledge(specs, labels, _schedule(plan, here), proof.policy.name)
    return Analysis((*found, *proof.diagnostics), knowledge)


def _checked(plan: Plan, here: AnalysisContext) -> tuple[Diagnostic, ...]:
    registry, setup = here.tools.registry, here.setup
    not_asked = here.tools.not_asked_for(plan, setup)
    found = check_plan(plan, registry, here.inputs, not_asked=not_asked, means=here.means)
    return (*found, *wrong_tools(plan, registry, setup.agents, not_asked=not_asked))


def _proved(plan: Plan, here: AnalysisContext) -> Proof:
    assert here.policy is not None
    registry = here.tools.registry
    proof = prove(plan, here.policy, registry, inputs=here.inputs, can_ask=True)
    return proof.under(undertaking(here.setup, registry))


def _schedule(plan: Plan, here: AnalysisContext) -> dict[str, StepSchedule]:
    """What each step waits for; nothing for a graph that cannot be run, which the checks say."""
    asked = tuple(map(canonical_tool_name, here.setup.settings.approve))
    try:
        facts = facts_of(plan, here.tools.registry)
        return {s.step: s for s in schedule_of(plan, facts, lambda tool: covers(asked, tool))}
    except CallsheetError:
        return {}


def analyse_policy(text: str, path: Path) -> Sequence[Diagnostic]:
    """What is wrong with the text of a policy file; what it extends is looked for beside it."""
    try:
        read_policy(Source(str(path), text), policies_beside(path.parent))
    except CallsheetError as error:
        return error.diagnostics
    return ()
