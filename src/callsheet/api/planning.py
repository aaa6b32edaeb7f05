"""Plans of dependencies made by a planner: for a goal, and for a graph that has failed.

In: what users give as planner or model, a goal or where a graph stands, the tools that there are. Out: a
plan that has passed the checks, or CallsheetError with all that is wrong with the answer.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeAlias, cast

from callsheet.api.models import Model, OperationModel, called, completing
from callsheet.api.plan import Plan
from callsheet.authoring.planner import plan_prompt, read_graph_answer, revision_prompt
from callsheet.authoring.planner.prompt import PlanPrompt
from callsheet.diagnostics import CallsheetError, Diagnostic, Severity
from callsheet.frontends.dag import to_dag
from callsheet.ir import Order
from callsheet.ir import Plan as Steps
from callsheet.machine import Compile, Progress
from callsheet.machine.progress import without_past
from callsheet.ports.models.operations import Complete, text_of
from callsheet.ports.tools import CallContext, ToolSpec


@dataclass(frozen=True, slots=True)
class PlanRequest:
    """What a planner is asked for.

    `goal` is what the plan is for and `context` data about it. `progress` is where a graph stands that
    has failed: its steps that are done, failed (with their errors) and remain; None for a new plan. The
    `variables` are the names of those that are set. `messages` is all of it as a conversation for a model,
    tools included.
    """

    goal: str
    context: str
    progress: Progress | None
    variables: tuple[str, ...]
    messages: tuple[dict[str, str], ...] = ()


Planned: TypeAlias = "Plan | str | Mapping[str, Any]"
"""A plan, its JSON text (prose around it is left out), or the data of its JSON."""
Planner: TypeAlias = "Callable[[PlanRequest], Planned | Awaitable[Planned]]"
"""What `Runtime(planner=…)` takes."""


@dataclass(frozen=True, slots=True)
class GraphPlanner:
    """Asks for plans: a planner of the user's, else a model that takes conversations."""

    planner: Planner | None = None
    complete: Complete | None = None

    async def create(self, goal: str, context: str, tools: Iterable[ToolSpec], call: CallContext) -> Steps:
        """A plan for a goal, not checked yet; what it cost is told to `call`."""
        request = PlanRequest(goal, context, None, ())
        plan = await self._ask(request, plan_prompt(goal, tools, context), call)
        return plan if plan.goal else replace(plan, goal=goal)

    async def revise(self, command: Compile, tools: Iterable[ToolSpec], call: CallContext) -> Steps:
        """The steps that go on from where a graph has failed, not checked yet."""
        progress = command.progress
        assert progress is not None
        goal = progress.plan.goal or progress.plan.title or ""
        request = PlanRequest(goal, "", progress, tuple(command.variables))
        prompt = revision_prompt(progress, command.variables, tools)
        return without_past(await self._ask(request, prompt, call), progress)

    async def _ask(self, request: PlanRequest, prompt: PlanPrompt, call: CallContext) -> Steps:
        call.remark(*prompt.remarks)
        if self.planner is not None:
            return _read(await called(self.planner, replace(request, messages=tuple(prompt.messages))))
        if self.complete is None:
            raise no_planner()
        return _read(text_of(await self.complete(prompt.messages), call))


def graph_planner(planner: Planner | None, model: Model | None) -> GraphPlanner | None:
    """Who makes plans of dependencies; None where nobody can."""
    if planner is not None:
        return GraphPlanner(planner)
    if model is None or isinstance(model, OperationModel):
        return None
    return GraphPlanner(complete=completing(model))


def no_planner() -> CallsheetError:
    """That nobody is there to make a plan (PLN011)."""
    return CallsheetError.single(
        "PLN011",
        "nobody is there to make a plan",
        help="give the runtime a model or a planner: Runtime(model=…), Runtime(planner=…)",
    )


def refused(plan: Plan, found: Iterable[Diagnostic]) -> CallsheetError | None:
    """What is wrong with a plan that a planner made; None if it may run."""
    errors = tuple(d for d in found if d.is_error)
    if not errors:
        return None
    head = Diagnostic(
        "PLN010",
        Severity.ERROR,
        f"the plan that was made cannot run: {errors[0].message}",
        help="say the goal more exactly, or try another model",
    )
    return CallsheetError((head, *errors), plan.source)


def _read(given: Any) -> Steps:
    """The plan of a planner's answer; raises CallsheetError where it is none."""
    if isinstance(given, Plan):
        plan = given.ir
    else:
        text = json.dumps(given, ensure_ascii=False, default=str) if isinstance(given, Mapping) else given
        result = read_graph_answer(cast("object", text))
        if result.plan is None:
            raise CallsheetError(result.diagnostics, result.source)
        plan = result.plan
    return plan if plan.order is Order.DAG else to_dag(plan).plan
