"""The documented plan tools: their definitions in OpenAI's form, and one handler."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from callsheet.api.plan_tools import Confirm, Follow, PlanTools, error_reply, openai_tools, reply_text
from callsheet.diagnostics import CallsheetError
from callsheet.diagnostics.wrong_type import wanted
from callsheet.frontends.dag.printer import plan_data
from callsheet.ir import Order
from callsheet.planning.context import AroundCalls, PlanningContext
from callsheet.planning.results import StepExecutionResult
from callsheet.planning.runner import StepCallbacks


def get_plan_tools_as_dicts() -> list[dict[str, Any]]:
    """The definitions of the three plan tools in OpenAI's form."""
    return openai_tools()


async def handle_plan_tool(
    name: str,
    arguments: Mapping[str, Any],
    context: PlanningContext,
    *,
    confirm: Confirm | None = None,
    ui_manager: Any = None,
) -> str:
    """Carry out a call of a plan tool; returns the reply as JSON text of at most 20,000 characters.

    A plan that is run is saved, and its run is in the journal of the context: if it fails, as the reply says,
    `PlanRunner.resume_plan` continues it. `confirm` is asked before a plan is run. `ui_manager` is notified
    of each step of a run: `start_tool_execution(tool, {"step": …, "title": …})`, then
    `finish_tool_execution(result=…, success=…)`; either may be async. Errors are reported in the reply.
    """
    wanted("context", context, PlanningContext, "a PlanningContext")
    data = _saved(context, arguments) if name == "plan_execute" else None
    callbacks = _step_display(ui_manager)
    around = AroundCalls(None if callbacks is None else callbacks.before_call, context.guards)
    limits = context.budget.limits
    try:
        runtime = await context.runtime(data, checkpoint=name != "plan_create", limits=limits, around=around)
    except CallsheetError as error:
        return reply_text(error_reply(str(error), code=error.diagnostics[0].code))
    follow: Follow | None = None if callbacks is None else callbacks.follow
    tools = PlanTools(runtime, context.library, confirm=confirm, budget=context.budget, follow=follow)
    async with runtime:
        return await tools.handle(name, arguments)


def _step_display(ui_manager: Any) -> StepCallbacks | None:
    """Shows the steps of a run; None if there is no `ui_manager`."""
    if ui_manager is None:
        return None

    def start(index: str, title: str, tool: str) -> object:
        return ui_manager.start_tool_execution(tool, {"step": index, "title": title})

    def complete(step: StepExecutionResult) -> object:
        shown = step.result if step.success else step.error
        return ui_manager.finish_tool_execution(result=_text(shown), success=step.success)

    return StepCallbacks(start, complete)


def _text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _saved(context: PlanningContext, arguments: Mapping[str, Any]) -> dict[str, Any] | None:
    """The data of a saved dependency-ordered plan; None if there is none, which the handler reports."""
    try:
        plan = context.library.load(str(arguments.get("plan_id", ""))).require()
    except CallsheetError:
        return None
    return plan_data(plan) if plan.order is Order.DAG else None
