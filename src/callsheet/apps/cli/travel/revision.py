"""Checks the edited plan of a fork against the tools and the policy of its run.

In: the edited plan. Out: what is known of its tools; errors are raised. Servers are opened for it, no tool
is called.
"""

from __future__ import annotations

import sys
from contextlib import redirect_stdout

from callsheet.apps.cli.loop import run_to_end
from callsheet.apps.cli.moved import Moved
from callsheet.apps.hosting.revising import revision_on
from callsheet.apps.models import asked_by, carried_on
from callsheet.apps.session import open_toolbox
from callsheet.runtime.forking import Draft, Revision


def revise(draft: Draft, model: str, moved: Moved) -> Revision:
    """What is known of the tools of the edited plan; raises CallsheetError for a plan that is wrong.

    `model` is the one that the run is to go on with, empty for that of its start; `moved` are the places of
    its tools. Raises PolicyRefused for a plan that the run's policy refuses.
    """
    with redirect_stdout(sys.stderr):
        return run_to_end(_revise(draft, model, moved))


async def _revise(draft: Draft, model: str, moved: Moved) -> Revision:
    plan, start = draft.plan, draft.start
    setup = carried_on(moved.setup(start), model)
    asked = asked_by(setup, plan, start.limits, must_plan=False)
    needed = None if asked.knows_all_tools(plan) else plan
    async with open_toolbox(setup, needed, asked.agents) as toolbox:
        return revision_on(draft, setup, asked, toolbox)
