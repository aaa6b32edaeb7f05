"""Checks before a branched run begins: its policy and its edited plan.

In: an edited plan. Out: the facts about the plan's tools; errors are raised.
"""

from __future__ import annotations

from pathlib import Path

from callsheet.api.agents import wrong_tools
from callsheet.api.checking import check_plan
from callsheet.api.proving import Assumptions, prove
from callsheet.api.requirements import facts_of, pins_of, servers_of
from callsheet.apps.guarantees import guarantees_of
from callsheet.apps.hosting.shared import SharedTools
from callsheet.apps.models import RunModels, models_for_plan, setup_for_resume
from callsheet.apps.setup import Setup
from callsheet.apps.toolbox import Toolbox
from callsheet.diagnostics import CallsheetError
from callsheet.ir import OnInDoubt
from callsheet.policy.canon import is_of
from callsheet.policy.model import Policy
from callsheet.runtime.forking import Draft, Revision
from callsheet.runtime.remaining import left_before
from callsheet.store.start import secret_labels


def check_policy(own: Policy | None, policy: Policy | None) -> None:
    """Raise CallsheetError (API020) for a run under `own` in a host whose runs are under another `policy`."""
    if policy is None or (own is not None and is_of(own, policy)):
        return
    text = "has none" if own is None else f"is under the policy {own.name}"
    raise CallsheetError.single(
        "API020",
        f"all runs here are under the policy {policy.name}, but the run to branch off from {text}",
        help="start its plan anew; the operator can branch off with `callsheet rerun` and `fork`",
    )


async def revised(draft: Draft, tools: SharedTools, journal: Path) -> Revision:
    """Check the edited plan of a fork with the tools of its run, and collect its tools' facts.

    The labels of files that earlier runs wrote are those beside the `journal`. Raises CallsheetError for a
    plan with errors, PolicyRefused for one that the run's policy refuses.
    """
    setup = setup_for_resume(Setup.from_note(draft.start.launch), "")
    asked = models_for_plan(setup, draft.plan, draft.start.limits, must_plan=False)
    needed = None if asked.may_call_any_tool(draft.plan) else draft.plan
    async with tools.for_run(setup, needed, asked.agents) as toolbox:
        return revision_on(draft, setup, asked, toolbox, journal)


def revision_on(draft: Draft, setup: Setup, asked: RunModels, toolbox: Toolbox, journal: Path) -> Revision:
    """Like `revised`, with tools that are open."""
    plan, start, registry = draft.plan, draft.start, toolbox.registry
    found = (
        *toolbox.diagnostics,
        *check_plan(plan, registry, start.inputs, providers=asked.providers),
        *wrong_tools(plan, registry, asked.agents),
    )
    if any(d.is_error for d in found):
        raise CallsheetError(found)
    policy = None
    if draft.policy is not None:
        labels = secret_labels(draft.policy, start.secret)
        left = left_before(journal, setup.folder)
        assumed = Assumptions(inputs=start.inputs, labels=labels, left=left)
        proof = prove(plan, draft.policy, registry, assumed)
        proof = proof.under(guarantees_of(setup, registry, keeps_labels=True))
        proof.raise_if_refused()
        policy = proof.policy
    on_in_doubt = OnInDoubt(setup.settings.on_in_doubt)
    facts = facts_of(plan, registry, on_in_doubt, asked.agents)
    pins = pins_of(plan, registry, asked.agents)
    servers = servers_of(plan, registry, toolbox.servers, asked.agents, policy)
    return Revision(plan, facts, pins, policy, servers)
