"""A toolset of pydantic-ai and a middleware of LangChain whose calls go through an `AgentSession`.

In: a session and, for pydantic-ai, the toolset whose tools it calls. Out: objects of these libraries, which
are imported here alone. The agent gets the results as its tools gave them; of a call that was not made it
gets a text that says why.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from callsheet.api.bridges.agent_session import AgentSession, CallWithheld, recorded
from callsheet.api.bridges.frameworks import absent
from callsheet.ir import JSON, Effect
from callsheet.ports.calls import ToolFailed
from callsheet.ports.tools import Tool

if TYPE_CHECKING:
    from langchain.agents.middleware import AgentMiddleware
    from pydantic_ai.toolsets import AbstractToolset


def guarded_toolset(
    session: AgentSession, toolset: AbstractToolset[Any], effects: Mapping[str, Effect | str]
) -> AbstractToolset[Any]:
    """The toolset that `AgentSession.toolset` documents."""
    try:
        from pydantic_ai import RunContext  # noqa: PLC0415 - imported when used
        from pydantic_ai.toolsets import ToolsetTool, WrapperToolset  # noqa: PLC0415 - as above
    except ImportError as error:
        raise absent("pydantic-ai", "pydantic-ai-slim") from error

    @dataclass
    class GuardedToolset(WrapperToolset[Any]):
        """A toolset whose calls a session makes."""

        session: AgentSession = field(kw_only=True)
        effects: Mapping[str, Effect | str] = field(kw_only=True)

        async def get_tools(self, ctx: RunContext[Any]) -> dict[str, ToolsetTool[Any]]:
            """The tools, made known to the session."""
            found = await self.wrapped.get_tools(ctx)
            for name, each in found.items():
                definition = each.tool_def
                effect = self.effects.get(name, Effect.UNSAFE)
                about = definition.description or ""
                schema = definition.parameters_json_schema
                tool = Tool.of(
                    name, _never, schema, effect=effect, description=about, origin=f"pydantic-ai:{name}"
                )
                self.session.offer(name, tool)
            return found

        async def call_tool(
            self, name: str, tool_args: dict[str, Any], ctx: RunContext[Any], tool: ToolsetTool[Any]
        ) -> Any:
            """Make the call through the session; a text for one that was not made."""

            def invoke() -> Awaitable[Any]:
                return self.wrapped.call_tool(name, tool_args, ctx, tool)

            try:
                return await self.session.call(name, tool_args, invoke)
            except CallWithheld as error:
                return str(error)

    return GuardedToolset(toolset, session=session, effects=effects)


async def _never(**_: JSON) -> JSON:
    """The handler of a tool that only the agent's library calls."""
    raise AssertionError("a call of an agent goes through its session")


def _content(result: Any) -> JSON:
    """What is recorded of a result of LangChain: the content of a message; raises ToolFailed for an error."""
    content = getattr(result, "content", result)
    if getattr(result, "status", "") == "error":
        raise ToolFailed(str(content))
    return recorded(content)


def guarding_middleware(session: AgentSession) -> AgentMiddleware[Any, Any]:
    """The middleware that `AgentSession.middleware` documents."""
    try:
        from langchain.agents.middleware import AgentMiddleware as Base  # noqa: PLC0415 - imported when used
        from langchain_core.messages import ToolMessage  # noqa: PLC0415 - as above
    except ImportError as error:
        raise absent("LangChain", "langchain") from error

    class Guarding(Base[Any, Any]):
        """Makes the calls of an agent through a session."""

        def wrap_tool_call(self, request: Any, handler: Callable[[Any], Any]) -> Any:
            """Raise RuntimeError: a session lives on one event loop."""
            raise RuntimeError(
                "call the agent with ainvoke or astream: its calls are made by an AgentSession"
            )

        async def awrap_tool_call(self, request: Any, handler: Callable[[Any], Awaitable[Any]]) -> Any:
            """Make the call through the session; a message with status error for one that was not made."""
            call = request.tool_call
            try:
                return await session.call(call["name"], call["args"], lambda: handler(request), _content)
            except CallWithheld as error:
                return ToolMessage(str(error), tool_call_id=call["id"], name=call["name"], status="error")

    return Guarding()
