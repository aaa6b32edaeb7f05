"""The context of planning: a tool manager, its catalogue, a folder of plans, a budget."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, cast

from callsheet.api.budget import SharedBudget
from callsheet.api.models import Model
from callsheet.api.planning import Planner
from callsheet.api.runtime import Runtime
from callsheet.machine import Limits
from callsheet.planning.backend import bare_spec, catalogue_of, specs_of, tool_of_manager
from callsheet.ports.tools import ToolSpec
from callsheet.store.library import PlanLibrary, default_plans_folder


class PlanningContext:
    """The tools, plans and budget of a `PlanRunner` and of the plan tools.

    `tool_manager` has `execute_tool(name, arguments)`, async or not, and may have `get_all_tools()`; a
    function of a name and arguments is accepted too. `tools` overrides its catalogue: names, dicts or objects
    with `name`, `description` and `parameters`. Without a catalogue a plan may call exactly the tools that it
    names. `plans_dir` has the plans and the journal of their runs. A `model` (a function from prompt to
    answer) or a `planner` makes plans; `budget` is shared with the conversation.
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
        self.budget = budget or SharedBudget()
        self._tools = None if tools is None else specs_of(tools)
        self._model = model
        self._planner = planner

    async def get_tool_catalog(self) -> tuple[ToolSpec, ...] | None:
        """The declarations of the tools; None if there is no catalogue."""
        return await catalogue_of(self.tool_manager) if self._tools is None else self._tools

    async def runtime(self, plan_data: object = None, *, checkpoint: bool, limits: Limits) -> Runtime:
        """A runtime with these tools; without a catalogue, with those that `plan_data` names."""
        specs = await self.get_tool_catalog()
        if specs is None:
            specs = tuple(bare_spec(name) for name in _names_in(plan_data))
        journal: Path | None = None
        if checkpoint:
            self.plans_dir.mkdir(parents=True, exist_ok=True)
            journal = self.plans_dir / "journal.db"
        tools = [tool_of_manager(self.tool_manager, spec) for spec in specs]
        return Runtime(tools, model=self._model, planner=self._planner, journal=journal, limits=limits)


def _names_in(plan_data: object) -> list[str]:
    """The tools that a plan names, each in its first spelling; case and `@` do not distinguish tools."""
    if not isinstance(plan_data, Mapping):
        return []
    steps: Any = cast("Mapping[str, Any]", plan_data).get("steps")
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
