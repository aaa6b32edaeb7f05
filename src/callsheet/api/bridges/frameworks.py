"""Tools of other libraries as tools of plans: LangChain, the OpenAI Agents SDK, pydantic-ai.

In: a tool object of such a library. Out: a `Tool` with its name, description and schema of arguments, whose
handler calls it. What it does is not known, so its effect is `unsafe` unless the caller says another.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

from callsheet.diagnostics import CallsheetError
from callsheet.diagnostics.wrong_type import wrong
from callsheet.ir import JSON, Effect
from callsheet.ports.calls import CallContext, ToolFailed
from callsheet.ports.python_tools import to_json
from callsheet.ports.tools import Tool

if TYPE_CHECKING:
    from agents import FunctionTool
    from langchain_core.tools import BaseTool
    from pydantic_ai.tools import Tool as PydanticTool


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
