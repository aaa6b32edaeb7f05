"""A plan as a tool of another library: an agent calls it, and gets its answer.

In: a plan and the runtime that runs it. Out: a tool of LangChain, the OpenAI Agents SDK or pydantic-ai, with
the inputs of the plan as its schema. Each call is a run of its own, under the policy and with the journal of
the runtime.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from callsheet.api.bridges.frameworks import absent
from callsheet.diagnostics import CallsheetError
from callsheet.ir import JSON
from callsheet.machine import to_text
from callsheet.store import RunStatus
from callsheet.store.library.params import free_variables

if TYPE_CHECKING:
    from callsheet.api.plan import Plan
    from callsheet.api.result import RunResult
    from callsheet.api.runtime import Runtime

Framework: TypeAlias = Literal["langchain", "openai-agents", "pydantic-ai"]


class PlanDidNotFinish(Exception):
    """A run that a tool has made is not done; the text says why, and names the run."""


def tool_name(plan: Plan) -> str:
    """The name of a plan's tool: of its title, else of its file.

    >>> from callsheet import Plan
    >>> tool_name(Plan.parse("respond 1", name="<x>"))
    'plan'
    """
    given = plan.title or (Path(plan.path).stem if plan.path is not None else "")
    return re.sub(r"[^A-Za-z0-9_]+", "_", given).strip("_").lower()[:60] or "plan"


def inputs_schema(plan: Plan) -> dict[str, Any]:
    """The JSON schema of a plan's inputs: those that it declares, else the variables that no step sets.

    >>> from callsheet import Plan
    >>> inputs_schema(Plan.parse('S1: @CALC ("$n * 2") > $m'))["required"]
    ['n']
    """
    if plan.ir.tree is not None:
        from callsheet.ir.inputs import input_schema  # noqa: PLC0415 - only for version 2

        return input_schema(plan.ir.tree)
    names = free_variables(plan.ir)
    return {
        "type": "object",
        "properties": {name: {} for name in names},
        "required": list(names),
        "additionalProperties": False,
    }


def answer_of(result: RunResult) -> JSON:
    """The answer of a run that is done; raises PlanDidNotFinish for any other, with the way on."""
    if result.ok:
        return result.response if result.answer is None else result.answer
    way = f"run {result.run_id}"
    if result.status is RunStatus.WAITING:
        asked = "; ".join(ask.headline for ask in result.waiting)
        raise PlanDidNotFinish(f"The plan waits for a person ({asked}); {way} continues after the answer.")
    if result.status is RunStatus.IN_DOUBT:
        calls = ", ".join(f"@{call.tool}" for call in result.in_doubt)
        text = f"It is not known whether {calls} took place; a person has to decide about {way}."
        raise PlanDidNotFinish(f"{text} Do not repeat the call.")
    why = result.response or result.error
    raise PlanDidNotFinish(f"The plan {result.status}{f': {why}' if why else ''} ({way}).")


def as_tool(
    plan: Plan, framework: Framework, runtime: Runtime, name: str | None, description: str | None
) -> Any:
    """The tool of a plan, as `Plan.as_tool` documents it."""
    called = name or tool_name(plan)
    about = description or plan.goal or plan.title or f"Runs the plan {called}."
    match framework:
        case "langchain":
            return _for_langchain(plan, runtime, called, about)
        case "openai-agents":
            return _for_openai_agents(plan, runtime, called, about)
        case "pydantic-ai":
            return _for_pydantic_ai(plan, runtime, called, about)
        case _:
            raise ValueError(f"framework is {framework!r}; it is langchain, openai-agents or pydantic-ai")


async def _run(plan: Plan, runtime: Runtime, inputs: Mapping[str, Any]) -> JSON:
    """The answer of a run; what is wrong with its inputs or the plan is told like a run that failed."""
    try:
        return answer_of(await runtime.run(plan, inputs))
    except CallsheetError as error:
        raise PlanDidNotFinish(f"The plan did not start: {error}") from error


def _for_langchain(plan: Plan, runtime: Runtime, name: str, about: str) -> Any:
    try:
        from langchain_core.tools import StructuredTool, ToolException  # noqa: PLC0415 - imported when used
    except ImportError as error:
        raise absent("LangChain", "langchain-core") from error

    async def run(**inputs: Any) -> JSON:
        try:
            return await _run(plan, runtime, inputs)
        except PlanDidNotFinish as error:
            raise ToolException(str(error)) from error

    def run_sync(**inputs: Any) -> JSON:
        try:
            return answer_of(runtime.run_sync(plan, inputs))
        except PlanDidNotFinish as error:
            raise ToolException(str(error)) from error
        except CallsheetError as error:
            raise ToolException(f"The plan did not start: {error}") from error

    return StructuredTool(
        name=name,
        description=about,
        args_schema=inputs_schema(plan),
        func=run_sync,
        coroutine=run,
        handle_tool_error=True,
    )


def _for_openai_agents(plan: Plan, runtime: Runtime, name: str, about: str) -> Any:
    try:
        from agents import FunctionTool  # noqa: PLC0415 - imported when used
    except ImportError as error:
        raise absent("The OpenAI Agents SDK", "openai-agents") from error

    async def invoke(_context: Any, text: str) -> str:
        try:
            return to_text(await _run(plan, runtime, json.loads(text or "{}")))
        except PlanDidNotFinish as error:
            return str(error)
        except ValueError as error:
            return f"The plan did not start: its inputs are not JSON: {error}"

    return FunctionTool(
        name=name,
        description=about,
        params_json_schema=inputs_schema(plan),
        on_invoke_tool=invoke,
        strict_json_schema=False,
    )


def _for_pydantic_ai(plan: Plan, runtime: Runtime, name: str, about: str) -> Any:
    try:
        from pydantic_ai.tools import Tool  # noqa: PLC0415 - imported when used
    except ImportError as error:
        raise absent("pydantic-ai", "pydantic-ai-slim") from error

    async def run(**inputs: Any) -> JSON:
        try:
            return await _run(plan, runtime, inputs)
        except PlanDidNotFinish as error:
            return str(error)

    return Tool.from_schema(run, name, about, inputs_schema(plan))
