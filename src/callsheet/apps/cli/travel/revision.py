"""Checks the edited plan of a fork against the tools and the policy of its run.

In: the edited plan. Out: what is known of its tools; errors are raised. Servers are opened for it, no tool
is called.
"""

from __future__ import annotations

import sys
from contextlib import redirect_stdout
from pathlib import Path

from callsheet.apps.cli.loop import run_to_end
from callsheet.apps.cli.moved import Moved
from callsheet.apps.hosting.revising import revision_on
from callsheet.apps.models import models_for_plan, setup_for_resume
from callsheet.apps.session import open_toolbox
from callsheet.runtime.forking import Draft, Revision


def revise(draft: Draft, model: str, moved: Moved, journal: Path) -> Revision:
    """What is known of the tools of the edited plan; raises CallsheetError for a plan that is wrong.

    `model` is the one that the run is to go on with, empty for that of its start; `moved` are the places of
    its tools; the labels of files are beside the `journal`. Raises PolicyRefused for a plan that the run's
    policy refuses.
    """
    with redirect_stdout(sys.stderr):
        return run_to_end(_revise(draft, model, moved, journal))


async def _revise(draft: Draft, model: str, moved: Moved, journal: Path) -> Revision:
    plan, start = draft.plan, draft.start
    setup = setup_for_resume(moved.setup(start), model)
    asked = models_for_plan(setup, plan, start.limits, must_plan=False)
    needed = None if asked.may_call_any_tool(plan) else plan
    async with open_toolbox(setup, needed, asked.agents) as toolbox:
        return revision_on(draft, setup, asked, toolbox, journal)
