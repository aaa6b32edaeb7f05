"""Checks the edited plan of a fork against the tools and the policy of its run.

Input: the edited plan. Output: the facts about its tools; errors are raised. Servers are started, but no tool
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
    """The facts about the tools of the edited plan. Raises CallsheetError for an invalid plan.

    `model` is the model that the run continues with, empty for the original one. Raises PolicyRefused if the
    policy of the run refuses the plan.
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
