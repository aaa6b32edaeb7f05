"""The context of planning: a tool manager, its catalogue, a folder of plans, a budget."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final, cast

from callsheet.api.budget import SharedBudget
from callsheet.api.models import Model
from callsheet.api.plan import Plan
from callsheet.api.planning import Planner
from callsheet.api.runtime import Runtime
from callsheet.diagnostics import CallsheetError
from callsheet.frontends.dag import to_dag
from callsheet.frontends.dag.printer import plan_data
from callsheet.ir import Order
from callsheet.ir import Plan as Steps
from callsheet.machine import Limits
from callsheet.planning.backend import AroundCalls, bare_spec, catalogue_of, specs_of, tool_of_manager
from callsheet.planning.checkpoints import state_file
from callsheet.planning.guards import ToolStateManager
from callsheet.ports.models.settings import VARIABLE
from callsheet.ports.tools import ToolSpec
from callsheet.store.library import PlanLibrary, default_plans_folder

SCHEDULE: Final = "sequential"
"""Of plans in text order: guards count and bind the calls, and callbacks hear of them, in that order."""


class PlanningContext:
    """The tools, plans and budget of a `PlanRunner` and of the plan tools.

    `tool_manager` has `execute_tool(name, arguments)`, async or not, and may have `get_all_tools()`; a
    function of a name and arguments is accepted too. `tools` overrides its catalogue: names, dicts or objects
    with `name`, `description` and `parameters`. Without a catalogue a plan may call exactly the tools that it
    names. `plans_dir` has the plans and the journal of their runs. A `model` (a function from prompt to
    answer, or the name of a model) or a `planner` makes plans; without them, the model that the environment
    variable CALLSHEET_MODEL names. `budget` is shared with the conversation, as are the `guards`.
    """

    def __init__(
        self,
        tool_manager: Any,
        *,
        plans_dir: str | os.PathLike[str] | None = None,
        tools: Iterable[Any] | None = None,
        model: Model | None = None,
        planner: Planner | None = None,
        budget: SharedBudget | None = None,
    ) -> None:
        self.tool_manager = tool_manager
        self.plans_dir = default_plans_folder() if plans_dir is None else Path(plans_dir)
        self.library = PlanLibrary(self.plans_dir)
        self.guards = ToolStateManager(budget or SharedBudget())
        self._tools = None if tools is None else specs_of(tools)
        self._model = model
        self._planner = planner

    @property
    def budget(self) -> SharedBudget:
        """The budget of the conversation and its plans."""
        return self.guards.budget

    # ------------------------------------------------------------ saved plans

    async def save_plan(self, plan: Mapping[str, Any] | str | Plan) -> str:
        """Save a plan, given as data, JSON text or a Plan, and return its id.

        A plan that has an id replaces the saved one with this id. Raises PlanError for what is not a plan,
        CallsheetError for an id that cannot be one (PLN001) or a folder that cannot be written (PLN004).
        """
        steps = plan_of(plan).ir
        return self.library.save(steps, replaces=steps.id is not None).id

    async def list_plans(self) -> list[dict[str, Any]]:
        """The saved plans, ordered by id: `id`, `title` and `steps`, the number of steps."""
        return [
            {"id": each.id, "title": each.title or "", "steps": each.steps} for each in self.library.list()
        ]

    async def get_plan(self, plan_id: str) -> dict[str, Any] | None:
        """The data of a saved plan, by its id or the beginning of one; None if there is none.

        Raises CallsheetError for a saved text with errors.
        """
        found = self._found(plan_id)
        return None if found is None else plan_data(to_dag_plan(self.library.load(found).require()))

    async def delete_plan(self, plan_id: str) -> bool:
        """Delete a saved plan and its state file; whether there was one. Its runs stay in the journal."""
        found = self._found(plan_id)
        if found is None:
            return False
        self.library.delete(found)
        state_file(self.plans_dir, found).unlink(missing_ok=True)
        return True

    def _found(self, plan_id: str) -> str | None:
        try:
            return self.library.find(plan_id)
        except CallsheetError as error:
            if error.diagnostics[0].code in ("PLN001", "PLN002"):
                return None
            raise

    # ------------------------------------------------------------ running

    async def get_tool_catalog(self) -> tuple[ToolSpec, ...] | None:
        """The declarations of the tools; None if there is no catalogue."""
        return await catalogue_of(self.tool_manager) if self._tools is None else self._tools

    async def runtime(
        self,
        data: object = None,
        *,
        checkpoint: bool,
        limits: Limits,
        around: AroundCalls | None = None,
    ) -> Runtime:
        """A runtime with these tools; without a catalogue, with those that `data`, a plan's, names.

        `around` is what happens around their calls.
        """
        specs = await self.get_tool_catalog()
        if specs is None:
            specs = tuple(bare_spec(name) for name in _names_in(data))
        journal: Path | None = None
        if checkpoint:
            self.plans_dir.mkdir(parents=True, exist_ok=True)
            journal = self.plans_dir / "journal.db"
        tools = [tool_of_manager(self.tool_manager, spec, around or AroundCalls()) for spec in specs]
        model = self._model
        if model is None and self._planner is None:
            model = os.environ.get(VARIABLE) or None
        return Runtime(
            tools, model=model, planner=self._planner, journal=journal, limits=limits, schedule=SCHEDULE
        )


def plan_of(given: Mapping[str, Any] | str | Plan) -> Plan:
    """A plan given as data, JSON text or a Plan; raises PlanError for what is not a plan."""
    if isinstance(given, Plan):
        return given
    text = given if isinstance(given, str) else json.dumps(given, ensure_ascii=False, default=str)
    return Plan.parse(text, name="<plan>")


def to_dag_plan(plan: Steps) -> Steps:
    """The plan as one of dependencies."""
    return plan if plan.order is Order.DAG else to_dag(plan).plan


def _names_in(data: object) -> list[str]:
    """The tools that a plan names, each in its first spelling; case and `@` do not distinguish tools."""
    if not isinstance(data, Mapping):
        return []
    steps: Any = cast("Mapping[str, Any]", data).get("steps")
    names: dict[str, str] = {}
    for step in cast("list[Any]", steps) if isinstance(steps, list) else []:
        if not isinstance(step, Mapping):
            continue
        fields = cast("Mapping[str, Any]", step)
        calls: Any = fields.get("tool_calls") or [{"name": fields.get("tool")}]
        for call in cast("list[Any]", calls) if isinstance(calls, list) else []:
            name: Any = cast("Mapping[str, Any]", call).get("name") if isinstance(call, Mapping) else None
            if isinstance(name, str) and name.removeprefix("@").lower() != "respond":
                names.setdefault(name.removeprefix("@").casefold(), name)
    return list(names.values())
