"""The plan of a fork that is edited, held against the tools that there are and the policy of its run.

In: the edited plan. Out: what is known of its tools; errors are raised. Servers are opened for it, no tool
is called. And what is configured of secrets, which edits may hold.
"""

from __future__ import annotations

import os
import sys
from contextlib import redirect_stdout, suppress

from callsheet.api.agents import wrong_tools
from callsheet.api.checking import check_plan
from callsheet.api.proving import prove
from callsheet.api.reach import facts_of, pins_of
from callsheet.apps.cli.loop import run_to_end
from callsheet.apps.models import asked_by, carried_on
from callsheet.apps.session import Setup, choose_servers, open_toolbox, undertaking
from callsheet.diagnostics import CallsheetError
from callsheet.ir import OnInDoubt
from callsheet.runtime.forking import Draft, Revision
from callsheet.sealing.configured import configured, in_environment
from callsheet.sealing.known import Known
from callsheet.store.journal import Journal
from callsheet.store.records import Start, secret_labels


def credentials(journal: Journal, run: str) -> Known:
    """The credentials of the environment, and of the servers that a run was started with."""
    first = next(journal.events(journal.find_run(run).run_id), None)
    start = Start.from_json({} if first is None or first.body is None else first.body)
    setup = Setup.from_note(start.launch)
    found = [*in_environment(os.environ)]
    with suppress(CallsheetError):  # what is not there any more is told of where it is needed
        servers = choose_servers(setup, None).configs
        if servers:
            from callsheet.ports.mcp import credentials_of  # noqa: PLC0415 - only with servers

            found += credentials_of(servers)
    return configured(found)


def revise(draft: Draft, model: str) -> Revision:
    """What is known of the tools of the edited plan; raises CallsheetError for a plan that is wrong.

    `model` is the one that the run is to go on with, empty for that of its start. Raises PolicyRefused for a
    plan that the run's policy refuses.
    """
    with redirect_stdout(sys.stderr):
        return run_to_end(_revise(draft, model))


async def _revise(draft: Draft, model: str) -> Revision:
    plan, start = draft.plan, draft.start
    setup = carried_on(Setup.from_note(start.launch), model)
    asked = asked_by(setup, plan, start.limits, must_plan=False)
    needed = None if asked.knows_all_tools(plan) else plan
    async with open_toolbox(setup, needed, asked.agents) as toolbox:
        registry = toolbox.registry
        found = (
            *toolbox.diagnostics,
            *check_plan(plan, registry, start.inputs, means=asked.means),
            *wrong_tools(plan, registry, asked.agents),
        )
        if any(d.is_error for d in found):
            raise CallsheetError(found)
        policy = None
        if draft.policy is not None:
            labels = secret_labels(draft.policy, start.secret)
            proof = prove(plan, draft.policy, registry, inputs=start.inputs, labels=labels)
            proof = proof.under(undertaking(setup, registry, keeps_labels=True))
            proof.raise_if_refused()
            policy = proof.policy
        on_in_doubt = OnInDoubt(setup.settings.on_in_doubt)
        facts = facts_of(plan, registry, on_in_doubt, asked.agents)
        return Revision(plan, facts, pins_of(plan, registry, asked.agents), policy)
