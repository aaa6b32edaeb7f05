"""Runs of which some steps were done elsewhere.

In: a plan of dependencies, and what the steps gave that are done. Out: the id of a run that stands there.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from callsheet.api.answering import Answering
from callsheet.api.given import Given, id_of_run, values_of
from callsheet.api.plan import PlanLike, as_plan
from callsheet.diagnostics import CallsheetError
from callsheet.diagnostics.wanted import wanted
from callsheet.machine import Limits
from callsheet.ports.calls import ToolFailed
from callsheet.ports.python_tools import to_json


class Adopting(Answering):
    """Takes runs over from other programs."""

    async def adopt(
        self,
        plan: PlanLike,
        done: Mapping[str, Any],
        inputs: Mapping[str, Any] | None = None,
        *,
        run_id: str | None = None,
        limits: Limits | None = None,
    ) -> str:
        """Put a run into the journal of which some steps were done elsewhere; `resume` carries it on.

        `plan` is a plan of dependencies, `done` says by step what each gave that is done. They are not run
        again, and do not use up the limits. Nothing is run here. Gives the id of the run. Raises PlanError as
        `run` does; CallsheetError PLN028 for a step that there is not, that waits for one that is not done,
        or that is a loop or no call of a tool or a model.
        """
        self._require_journal()
        values = values_of(inputs)
        read = as_plan(plan, values.keys())
        name = id_of_run(run_id)
        wanted("done", done, Mapping, "a dict of results by step")
        outcomes = {str(step): _outcome(step, value) for step, value in done.items()}
        async with self._opened() as session:
            await session.adopt(read, Given(values), outcomes, name, limits)
        return name


def _outcome(step: str, value: Any) -> Any:
    try:
        return to_json(value)
    except ToolFailed as error:
        raise CallsheetError.single(
            "PLN028", f"what step {step} gave cannot be taken over: {error}", help="give JSON data"
        ) from error
