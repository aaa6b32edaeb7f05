"""Tools of LangChain, the OpenAI Agents SDK and pydantic-ai as tools of plans, and plans as tools of theirs.

A tool of such a library keeps its name, description and schema of arguments; what it does is not known, so
its effect is `unsafe` unless the caller says another. A plan as a tool has the inputs of the plan as its
schema; each call is a run of its own, under the policy and with the journal of the runtime.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, cast

from callsheet.diagnostics import CallsheetError
from callsheet.diagnostics.wrong_type import wrong
from callsheet.ir import JSON, Effect
from callsheet.machine import to_text
from callsheet.ports.calls import CallContext, ToolFailed
from callsheet.ports.python_tools import to_json
from callsheet.ports.tools import Tool
from callsheet.store import RunStatus
from callsheet.store.library.params import free_variables

if TYPE_CHECKING:
    from agents import FunctionTool
    from langchain_core.tools import BaseTool
    from pydantic_ai.tools import Tool as PydanticTool

    from callsheet.api.plan import Plan
    from callsheet.api.result import RunResult
    from callsheet.api.runtime import Runtime


def absent(library: str, package: str) -> CallsheetError:
    """The error for a bridge whose library is not installed."""
    return CallsheetError.single(
        "CFG233", f"{library} is not installed, which this bridge needs", help=f"pip install {package}"
    )


def from_langchain(tool: BaseTool, *, effect: Effect | str = Effect.UNSAFE, name: str | None = None) -> Tool:
    """A tool of LangChain as a tool of plans.

    `name` is its name in plans, by default its own. A ToolException is a failure of the call. Of an answer
    with an artifact the content counts. Raises CallsheetError (CFG233) without langchain-core, TypeError for
    what is no tool of it.
    """
    try:
        from langchain_core.tools import BaseTool as Base  # noqa: PLC0415 - imported when used
    except ImportError as error:
        raise absent("LangChain", "langchain-core") from error
    if not isinstance(cast("object", tool), Base):
        raise wrong("tool", tool, "a tool of LangChain")
    schema: Any = tool.tool_call_schema
    parameters: dict[str, Any] = {  # LangChain would ignore an argument that the tool does not have
        "additionalProperties": False,
        **cast("dict[str, Any]", schema if isinstance(schema, dict) else schema.model_json_schema()),
    }
    own_handling = tool.handle_tool_error

    async def call(args: dict[str, Any], context: CallContext) -> JSON:
        del context
        given = tool if not own_handling else tool.model_copy(update={"handle_tool_error": False})
        return to_json(await given.ainvoke(args))

    return Tool.of(
        name or tool.name,
        call,
        parameters,
        effect=effect,
        description=tool.description,
        origin=f"langchain:{tool.name}",
        takes_context=True,
    )


_HANDLED = "_function_tool_default_failure_handled"
"""What the Agents SDK sets on the context of a call whose exception it has made a text of."""
_SAID = "An error occurred while running the tool"


def from_openai_agents(
    tool: FunctionTool, *, effect: Effect | str = Effect.UNSAFE, name: str | None = None, context: Any = None
) -> Tool:
    """A function tool of the OpenAI Agents SDK as a tool of plans.

    `context` is what the tool gets as the context of its run. The SDK makes a text of an exception; that of
    its own making is a failure here, one by a `failure_error_function` of the tool is its value. Raises
    CallsheetError (CFG233) without openai-agents, TypeError for what is no function tool of it.
    """
    try:
        from agents import FunctionTool as Function  # noqa: PLC0415 - imported when used
        from agents.tool_context import ToolContext  # noqa: PLC0415 - as above
    except ImportError as error:
        raise absent("The OpenAI Agents SDK", "openai-agents") from error
    if not isinstance(cast("object", tool), Function):
        raise wrong("tool", tool, "a function tool of the OpenAI Agents SDK")

    async def call(args: dict[str, Any], call_context: CallContext) -> JSON:
        text = json.dumps(args, ensure_ascii=False)
        given: Any = ToolContext(
            context, tool_name=tool.name, tool_call_id=call_context.key, tool_arguments=text
        )
        value = await tool.on_invoke_tool(given, text)
        is_text = isinstance(value, str)
        if getattr(given, _HANDLED, False) or (is_text and value.startswith(_SAID)):
            raise ToolFailed(str(value))
        return to_json(value)

    return Tool.of(
        name or tool.name,
        call,
        tool.params_json_schema,
        effect=effect,
        description=tool.description,
        origin=f"openai-agents:{tool.name}",
        takes_context=True,
    )


def from_pydantic_ai(
    tool: PydanticTool[Any] | Callable[..., Any],
    *,
    effect: Effect | str = Effect.UNSAFE,
    name: str | None = None,
    deps: Any = None,
) -> Tool:
    """A tool of pydantic-ai as a tool of plans; a function is made one as `Agent(tools=[…])` does.

    `deps` are the dependencies that it finds in its RunContext. A ModelRetry is a failure of the call, whose
    text it is. Raises CallsheetError (CFG233) without pydantic-ai, TypeError for what is no tool of it.
    """
    try:
        from pydantic import ValidationError  # noqa: PLC0415 - imported when used
        from pydantic_ai import ModelRetry, RunContext  # noqa: PLC0415 - as above
        from pydantic_ai.models.test import TestModel  # noqa: PLC0415 - as above
        from pydantic_ai.tools import Tool as Own  # noqa: PLC0415 - as above
        from pydantic_ai.usage import RunUsage  # noqa: PLC0415 - as above
    except ImportError as error:
        raise absent("pydantic-ai", "pydantic-ai-slim") from error
    if not isinstance(tool, Own):
        if not callable(tool):
            raise wrong("tool", tool, "a tool of pydantic-ai or a function")
        tool = Own(tool)
    own = cast("PydanticTool[Any]", tool)
    schema = own.function_schema

    async def call(args: dict[str, Any], context: CallContext) -> JSON:
        run: Any = RunContext(
            deps=deps, model=TestModel(), usage=RunUsage(), tool_call_id=context.key, tool_name=own.name
        )
        try:
            checked: Any = schema.validator.validate_python(args)
            return to_json(await schema.call(checked, run))
        except ModelRetry as error:
            raise ToolFailed(error.message) from error
        except ValidationError as error:
            wrong_ones = "; ".join(
                f"{'.'.join(map(str, one['loc'])) or 'the arguments'}: {one['msg']}" for one in error.errors()
            )
            raise ToolFailed(f"the arguments do not fit: {wrong_ones}") from error

    return Tool.of(
        name or own.name,
        call,
        schema.json_schema,
        effect=effect,
        description=own.description or "",
        origin=f"pydantic-ai:{own.name}",
        takes_context=True,
    )


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
    if result.pause is not None:
        raise PlanDidNotFinish(f"The plan was {result.pause.words}; {way} goes on when a person resumes it.")
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
