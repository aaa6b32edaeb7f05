"""Checks the edited plan of a fork against the tools and the policy of its run.

In: the edited plan. Out: what is known of its tools; errors are raised. Servers are opened for it, no tool
is called.
"""

from __future__ import annotations

import sys
from contextlib import redirect_stdout

from callsheet.apps.cli.event_loop import run_async
from callsheet.apps.hosting.revising import revision_on
from callsheet.apps.models import asked_by, carried_on
from callsheet.apps.session import Setup, open_toolbox
from callsheet.runtime.forking import Draft, Revision


def revise(draft: Draft, model: str) -> Revision:
    """What is known of the tools of the edited plan; raises CallsheetError for a plan that is wrong.

    `model` is the one that the run is to go on with, empty for that of its start. Raises PolicyRefused for a
    plan that the run's policy refuses.
    """
    with redirect_stdout(sys.stderr):
        return run_async(_revise(draft, model))


async def _revise(draft: Draft, model: str) -> Revision:
    plan, start = draft.plan, draft.start
    setup = carried_on(Setup.from_note(start.launch), model)
    models = asked_by(setup, plan, start.limits, must_plan=False)
    needed = None if models.knows_all_tools(plan) else plan
    async with open_toolbox(setup, needed, models.agents) as toolbox:
        return revision_on(draft, setup, models, toolbox)
