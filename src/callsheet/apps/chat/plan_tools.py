"""The plan tools for the model of a conversation, which create plans and run them.

In: arguments of a call. Out: a reply as JSON of bounded length. The host of the conversation proves and runs
a plan as a separate run, not as part of the run in which the model calls the tool.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import Any, Protocol

from callsheet.api.plan_tools.definitions import NAMES, description_of, schema_of
from callsheet.api.plan_tools.replies import MAX_CHARACTERS, error_reply, reply_text
from callsheet.diagnostics import CallsheetError
from callsheet.ir import JSON, Effect, canonical_tool_name
from callsheet.machine import Status
from callsheet.policy.model import AgentRule, Policy, ToolRule
from callsheet.ports.calls import CallContext
from callsheet.ports.tools import Tool, ToolSpec
from callsheet.runtime.doubt import RunOutcome
from callsheet.store.library import StoredPlan

PLAN_TOOLS = tuple(map(canonical_tool_name, NAMES))
"""The canonical names."""
PLAN_CREATE = canonical_tool_name("plan_create")
"""The canonical name of the tool that returns only a plan to the model."""


class PlanService(Protocol):
    """Makes and runs plans for a model."""

    async def create_plan(self, goal: str) -> StoredPlan:
        """Create and save a plan for a goal; raises CallsheetError if that fails."""
        ...

    async def run_proposed_plan(self, plan_id: str, variables: Mapping[str, JSON]) -> RunOutcome | None:
        """Run a plan; None if the user refuses. Raises CallsheetError."""
        ...


def plan_tools(planning: Callable[[], PlanService]) -> list[Tool]:
    """The three tools; `planning` returns the service that carries out a call."""
    handlers: dict[str, Callable[[PlanService, Mapping[str, Any]], Awaitable[dict[str, Any]]]] = {
        "plan_create": _create,
        "plan_execute": _execute,
        "plan_create_and_execute": _create_and_execute,
    }

    def tool(name: str) -> Tool:
        async def call(arguments: dict[str, Any], context: CallContext) -> JSON:
            try:
                reply = await handlers[name](planning(), arguments)
            except CallsheetError as error:
                reply = error_reply(str(error), code=error.diagnostics[0].code)
            return json.loads(reply_text(reply, MAX_CHARACTERS))

        effect = Effect.LLM if name == "plan_create" else Effect.UNSAFE
        spec = ToolSpec(
            canonical_tool_name(name),
            name,
            description_of(name),
            schema_of(name),
            effect,
            origin="conversation",
            is_declared=True,
        )
        return Tool(spec, call)

    return [tool(name) for name in NAMES]


def with_plan_tools(policy: Policy) -> Policy:
    """The policy, extended by the plan tools; each plan is proved separately.

    The result of a plan is untrusted and private, like that of any undeclared tool.
    """
    rule = ToolRule(egress=False, destructive=False)
    agent = policy.agent or AgentRule()
    return replace(
        policy,
        tools={**policy.tools, **dict.fromkeys(PLAN_TOOLS, rule)},
        allowed_tools=None if policy.allowed_tools is None else policy.allowed_tools | {*PLAN_TOOLS},
        agent=replace(agent, tools=(*agent.tools, *PLAN_TOOLS)),
    )


async def _create(planning: PlanService, given: Mapping[str, Any]) -> dict[str, Any]:
    stored = await planning.create_plan(str(given["goal"]))
    steps = [{"index": step.id, "title": step.title or ""} for step in stored.require().steps]
    return {"success": True, "plan_id": stored.id, "steps": steps}


async def _execute(planning: PlanService, given: Mapping[str, Any]) -> dict[str, Any]:
    return await _run(planning, str(given["plan_id"]), given)


async def _create_and_execute(planning: PlanService, given: Mapping[str, Any]) -> dict[str, Any]:
    stored = await planning.create_plan(str(given["goal"]))
    return await _run(planning, stored.id, given)


async def _run(planning: PlanService, plan_id: str, given: Mapping[str, Any]) -> dict[str, Any]:
    outcome = await planning.run_proposed_plan(plan_id, given.get("variables") or {})
    if outcome is None:
        return error_reply("the user refused to run this plan", plan_id=plan_id)
    result = outcome.result
    if result is None:
        return error_reply("the run waits for a person and continues later", plan_id=plan_id)
    data = {
        "plan_id": plan_id,
        "run_id": outcome.run_id,
        "status": str(result.status),
        "outcome": str(result.outcome),
        "failed_steps": list(result.failed_steps),
    }
    if result.status is not Status.DONE:
        return error_reply(result.error or result.response or str(result.status), **data)
    return {"success": True, **data, "response": result.response or "", "variables": dict(result.variables)}
