"""The plan tools for the model of a conversation, its history, and the plan that answers the next message."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, Protocol

from callsheet.api.plan_tools import MAX_CHARACTERS, NAMES, description_of, error_reply, reply_text, schema_of
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


MAX_TURNS = 12
"""The maximum number of model calls for one message."""
MAX_SAID = 8_000
"""The maximum length of the history in a prompt, in characters; the oldest exchanges are dropped."""


class Exchange(NamedTuple):
    """A message and its answer."""

    message: str
    answer: str
    saw_data: bool = False
    """Whether tools were called for the answer."""


def transcript(exchanges: Sequence[Exchange], most: int = MAX_SAID) -> str:
    """The history as one text: the newest exchanges that fit in `most` characters.

    Further lines of a message or an answer are indented, so that none reads as the beginning of another.

    >>> print(transcript([Exchange("a" * 90, "b"), Exchange("who?", "Ada")], most=40))
    User: who?
    You: Ada
    """
    newest: list[str] = []
    room = most
    for exchange in reversed(exchanges):
        text = f"User: {_indented(exchange.message)}\nYou: {_indented(exchange.answer)}"
        if len(text) > room:
            break
        newest.append(text)
        room -= len(text)
    return "\n".join(reversed(newest))


def _indented(text: str) -> str:
    return "\n  ".join(text.splitlines())


def answering_plan(tools: Iterable[str], turns: int = MAX_TURNS, *, has_past: bool) -> str:
    """The text of the plan that answers `$message`; with `has_past`, `$said` is the history.

    >>> print(answering_plan(["READ_FILE"], has_past=False).splitlines()[2])
    S1: @AGENT_SOLVE (goal=$message, tools=["read_file"], max_turns=12) > $answer
    >>> print(answering_plan([], has_past=False).splitlines()[2])
    S1: @LLM_GENERATE (format=$message) > $answer
    """
    names = json.dumps([name.lower() for name in tools])
    prefix = "$said, " if has_past else ""
    if names == "[]":
        return _plan(f"S1: @LLM_GENERATE ({prefix}format=$message) > $answer")
    return _plan(f"S1: @AGENT_SOLVE ({prefix}goal=$message, tools={names}, max_turns={turns}) > $answer")


def _plan(step: str) -> str:
    return (
        f"# goal: Answer a message in a conversation\nPLAN_START\n{step}\nS2: @RESPOND ($answer)\nPLAN_END\n"
    )
