"""`Runtime.adopt`: create a run some of whose steps were already done by another program.

In: a dependency plan and the results of the finished steps. Out: the id of a run that can be resumed there.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from callsheet.api.answering import Answering
from callsheet.api.arguments import RunInputs, id_of_run, values_of
from callsheet.api.plan import PlanLike, as_plan
from callsheet.diagnostics import CallsheetError
from callsheet.diagnostics.wrong_type import wanted
from callsheet.machine import Limits
from callsheet.ports.calls import ToolFailed
from callsheet.ports.python_tools import to_json


class Adopting(Answering):
    """The part of `Runtime` that takes over runs from other programs."""

    async def adopt(
        self,
        plan: PlanLike,
        done: Mapping[str, Any],
        inputs: Mapping[str, Any] | None = None,
        *,
        run_id: str | None = None,
        limits: Limits | None = None,
    ) -> str:
        """Record a run some of whose steps were done elsewhere, and return its id; `resume` continues it.

        `plan` is a dependency plan; `done` maps the id of each finished step to its result. Those steps are
        not run again and do not count against the limits. Nothing is run here. Raises PlanError as `run`
        does; CallsheetError (PLN028) for a step that does not exist, that depends on an unfinished step, or
        that is a loop or not a call of a tool or model; ValueError for a runtime without a journal.
        """
        self._require_journal()
        values = values_of(inputs)
        read = as_plan(plan, values.keys())
        name = id_of_run(run_id)
        wanted("done", done, Mapping, "a dict of results by step")
        outcomes = {str(step): _outcome(step, value) for step, value in done.items()}
        async with self._opened() as session:
            await session.adopt(read, RunInputs(values), outcomes, name, limits)
        return name


def _outcome(step: str, value: Any) -> Any:
    try:
        return to_json(value)
    except ToolFailed as error:
        raise CallsheetError.single(
            "PLN028", f"the result of step {step} cannot be used: {error}", help="give JSON data"
        ) from error
