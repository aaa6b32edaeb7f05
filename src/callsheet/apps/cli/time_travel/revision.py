"""Checks the edited plan of a fork against the tools and the policy of its run.

Input: the edited plan. Output: the facts about its tools; errors are raised. Servers are started, but no tool
is called.
"""

from __future__ import annotations

import sys
from contextlib import redirect_stdout
from pathlib import Path

from callsheet.apps.cli.event_loop import run_async
from callsheet.apps.cli.moved import Moved
from callsheet.apps.hosting.revising import revision_on
from callsheet.apps.models import models_for_plan, setup_for_resume
from callsheet.apps.toolbox import open_toolbox
from callsheet.runtime.forking import Draft, Revision


def revise(draft: Draft, model: str, moved: Moved, journal: Path) -> Revision:
    """The facts about the tools of the edited plan. Raises CallsheetError for an invalid plan.

    `model` is the model that the run continues with, empty for the original one; `moved` has the new places
    of its tools; the labels of files are beside the `journal`. Raises PolicyRefused if the policy of the run
    refuses the plan.
    """
    with redirect_stdout(sys.stderr):
        return run_async(_revise(draft, model, moved, journal))


async def _revise(draft: Draft, model: str, moved: Moved, journal: Path) -> Revision:
    plan, start = draft.plan, draft.start
    setup = setup_for_resume(moved.setup(start), model)
    models = models_for_plan(setup, plan, start.limits, must_plan=False)
    needed = None if models.may_call_any_tool(plan) else plan
    async with open_toolbox(setup, needed, models.agents) as toolbox:
        return revision_on(draft, setup, models, toolbox, journal)
