"""An agent of another library whose calls are one run: judged by the policy, recorded in the journal.

In: a runtime with a journal, and the tools of an agent of pydantic-ai or LangChain. Out: a toolset or a
middleware for that agent. Each call has an intent in the journal before the tool is called and its outcome
after it, and is judged with the label of all that the agent has read. A call that is refused, or waits for a
person, never reaches the tool; the agent gets a text that says so.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from types import TracebackType
from typing import TYPE_CHECKING, Any

from callsheet.api.admission import SessionRequest, prepare_session
from callsheet.api.bridges.frameworks import absent, from_langchain
from callsheet.api.run_service import run_prepared
from callsheet.ir import JSON, Effect
from callsheet.ports.calls import CallContext, ToolFailed
from callsheet.ports.tools import Registry, Tool
from callsheet.runtime.asking import Respondents
from callsheet.runtime.gateway import Route
from callsheet.runtime.launch import Watch
from callsheet.store.journal_paths import new_run_id

if TYPE_CHECKING:
    from langchain.agents.middleware import AgentMiddleware
    from langchain_core.tools import BaseTool
    from pydantic_ai.toolsets import AbstractToolset

    from callsheet.api.handle import Observers
    from callsheet.api.runtime import Runtime
    from callsheet.api.session import Session
    from callsheet.machine import AgentTurn
    from callsheet.machine.notes import Note
    from callsheet.runtime.answers import PendingAsk
    from callsheet.runtime.doubt import RunOutcome

_AT_ONCE = 16
"""The most calls that are taken over in one turn; further ones are taken over in the next."""
_PATIENCE = 5.0
"""Seconds that calls under way are waited for when a session ends."""


class CallWithheld(Exception):
    """A call has no result: it was refused, denied, waits for a person, or is in doubt. The text says why."""


def _future() -> asyncio.Future[Any]:
    return asyncio.get_running_loop().create_future()


@dataclass(slots=True, eq=False)
class _Call:
    """A call that the agent waits for; `invoke` is the tool as the agent's library calls it."""

    tool: str
    args: Mapping[str, Any]
    invoke: Callable[[], Awaitable[Any]]
    shown: Callable[[Any], JSON]
    key: str = ""
    result: Any = None
    is_failure: bool = False
    """Whether the result says that the tool has failed."""
    error: Exception | None = None
    ended: asyncio.Future[Any] = field(default_factory=_future)

    def end(self, value: Any = None, error: Exception | None = None) -> None:
        """Give the agent the result, unless it has one, or is gone."""
        if self.ended.done():
            return
        if error is None:
            self.ended.set_result(value)
        else:
            self.ended.set_exception(error)


class AgentSession:
    """A run whose calls an agent of another library makes, as an async context manager.

    `runtime` needs a journal; its policy, limits, approvals and `on_approval` apply, and its own tools are
    not offered. `client` names the agent in lists of runs. The run begins with the first call, of the tools
    that are known by then, and ends with the context. Not for use in several event loops.
    """

    def __init__(self, runtime: Runtime, client: str = "agent") -> None:
        self.run_id = new_run_id()
        self._runtime = runtime
        self._client = client
        self._tools: dict[str, Tool] = {}
        self._names: dict[str, str] = {}
        self._open: dict[str, _Call] = {}
        self._queue: asyncio.Queue[_Call | None] = asyncio.Queue()
        self._stack = AsyncExitStack()
        self._running: asyncio.Task[RunOutcome] | None = None
        self._beginning = asyncio.Lock()

    async def __aenter__(self) -> AgentSession:
        self._runtime._require_journal()  # pyright: ignore[reportPrivateUsage]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        running = self._running
        if running is not None:
            self._queue.put_nowait(None)
            done, _ = await asyncio.wait({running}, timeout=_PATIENCE)
            if not done:
                running.cancel()
                await asyncio.wait({running})
        await self._stack.aclose()

    # ------------------------------------------------------------ for the agent's library

    def toolset(
        self, toolset: AbstractToolset[Any], *, effects: Mapping[str, Effect | str] | None = None
    ) -> AbstractToolset[Any]:
        """A toolset of pydantic-ai that makes the calls of another one through this session.

        `effects` are those of its tools by name; others are `unsafe`. Raises CallsheetError (CFG233) without
        pydantic-ai.
        """
        return guarded_toolset(self, toolset, effects or {})

    def middleware(
        self, tools: Iterable[BaseTool], *, effects: Mapping[str, Effect | str] | None = None
    ) -> AgentMiddleware[Any, Any]:
        """A middleware for `create_agent` of LangChain, which makes the agent's calls through this session.

        `tools` are those of the agent, `effects` their effects by name; others are `unsafe`. Calls of other
        tools are refused. The agent has to be called with `ainvoke` or `astream`. Raises CallsheetError
        (CFG233) without langchain.
        """
        for each in tools:
            self.offer(each.name, from_langchain(each, effect=(effects or {}).get(each.name, Effect.UNSAFE)))
        return guarding_middleware(self)

    def offer(self, name: str, tool: Tool) -> None:
        """Make a tool known that the agent calls by this name; once the run has begun, no other is taken."""
        if self._running is None and name not in self._names:
            self._names[name] = tool.spec.name
            self._tools[tool.spec.name] = tool

    async def call(
        self,
        name: str,
        args: Mapping[str, Any],
        invoke: Callable[[], Awaitable[Any]],
        shown: Callable[[Any], JSON] | None = None,
    ) -> Any:
        """Make a call of the agent: the result of `invoke`, once it is in the journal.

        `shown` gives what is recorded of a result, and raises ToolFailed for one that tells a failure. Raises
        what `invoke` raises, and CallWithheld for a call that was not made.
        """
        if name not in self._names:
            known = ", ".join(self._names) or "none"
            raise CallWithheld(f"{name} is no tool of this session, which has {known}; it was not called.")
        async with self._beginning:
            if self._running is None:
                await self._begin()
        running = self._running
        assert running is not None
        if running.done():
            raise CallWithheld(f"The session has ended ({_why(running)}); {name} was not called.")
        call = _Call(self._names[name], args, invoke, shown or recorded)
        self._queue.put_nowait(call)
        return await call.ended

    # ------------------------------------------------------------ the run's side

    async def _begin(self) -> None:
        runtime = self._runtime
        opened = runtime._opened()  # pyright: ignore[reportPrivateUsage]
        config = runtime._config  # pyright: ignore[reportPrivateUsage]
        session: Session = await self._stack.enter_async_context(opened)
        registry = Registry(self._tools.values())
        equipment = replace(await session.checks.equipment(None), registry=registry, servers=())
        request = SessionRequest(
            client=self._client,
            tools=tuple(self._tools),
            limits=config.bounds(None),
            policy=config.policy,
            approve=config.approve,
            approval_timeout=config.approval_timeout,
        )
        ports = replace(session.ports(_observers()), client=self._next_calls, route=self._route)
        present = Respondents(self._ask_here, poll=0.2, vouches=True)
        prepared = prepare_session(request, equipment)
        run = run_prepared(prepared, ports, session.journal, self.run_id, Watch(self._note), present)
        self._running = asyncio.create_task(run, name=f"session {self.run_id}")
        self._running.add_done_callback(self._ended)

    async def _next_calls(self, command: AgentTurn, context: CallContext) -> JSON:
        """Wait for the agent's next calls; those that are there already are taken over together."""
        del context
        calls: list[_Call] = []
        while len(calls) < _AT_ONCE and (not calls or not self._queue.empty()):
            call = await self._queue.get()
            if call is None:
                if not calls:
                    return {"finish": None}
                self._queue.put_nowait(None)
                break
            call.key = f"{command.key}c{len(calls) + 1}"
            self._open[call.key] = call
            calls.append(call)
        return {"calls": [{"tool": call.tool, "args": recorded(dict(call.args))} for call in calls]}

    def _route(self, name: str) -> Route | None:
        if name not in self._tools:
            return None

        async def passing(args: dict[str, Any], context: CallContext) -> JSON:
            del args
            call = self._open.get(context.key)
            if call is None:
                raise ToolFailed("the agent that made this call is gone, and cannot make it again")
            try:
                call.result = await call.invoke()
            except Exception as error:
                call.error = error
                raise ToolFailed(f"{type(error).__name__}: {error}") from error
            try:
                return call.shown(call.result)
            except ToolFailed:
                call.is_failure = True
                raise

        return Route(passing)

    def _note(self, note: Note) -> None:
        """A note is in the journal: if it ends a call, the agent gets the result."""
        ended = note.ended
        call = None if ended is None else self._open.pop(ended.key, None)
        if ended is None or call is None:
            return
        if call.error is not None:
            call.end(error=call.error)
        elif ended.why and not call.is_failure:
            call.end(error=CallWithheld(ended.why))
        else:
            call.end(call.result)

    def _ask_here(self, ask: PendingAsk) -> Any:
        """The answer of the program's own function, if there is one."""
        on_ask = self._runtime._config.on_ask  # pyright: ignore[reportPrivateUsage]
        return self._leave(ask) if on_ask is None else on_ask(ask)

    def _leave(self, ask: PendingAsk) -> None:
        """A question that nobody answers here: the agent is told that the call waits in the inbox."""
        call = self._open.get(ask.key)
        if call is not None:
            text = (
                f"{call.tool} waits for the approval of {ask.answered_by}. Do not call it again: it is made"
                " if that comes before the session ends."
            )
            call.end(error=CallWithheld(text))

    def _ended(self, running: asyncio.Task[RunOutcome]) -> None:
        why = CallWithheld(f"The session has ended: {_why(running)}")
        for call in self._open.values():
            call.end(error=why)
        self._open.clear()
        while not self._queue.empty():
            call = self._queue.get_nowait()
            if call is not None:
                call.end(error=why)


def recorded(value: Any) -> JSON:
    """A result as the journal has it: what is no JSON is recorded as its text."""
    from pydantic_core import to_jsonable_python  # noqa: PLC0415 - only for agents of other libraries

    return to_jsonable_python(value, fallback=str, inf_nan_mode="strings")


def _observers() -> Observers:
    from callsheet.api.handle import Observers as Made  # noqa: PLC0415 - as above

    return Made()


def _why(running: asyncio.Task[RunOutcome]) -> str:
    if running.cancelled():
        return "it was cancelled"
    error = running.exception()
    if error is not None:
        return str(error)
    return running.result().why_stopped


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
