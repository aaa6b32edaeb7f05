"""The gate's MCP server: lists the tools behind it and its own, and passes calls through a session.

In: a host with open servers, what to expose. Out: a server for a transport. An error of callsheet becomes a
result with `isError`; what a server behind the gate has sent is passed on unchanged.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Sequence
from contextlib import AsyncExitStack
from enum import StrEnum
from typing import Any, TypeAlias

from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel.server import Server
from mcp.server.request_state import RequestStateBoundary, RequestStateSecurity
from mcp.shared.exceptions import MCPError
from mcp_types import (
    INVALID_PARAMS,
    CallToolRequestParams,
    CallToolResult,
    ElicitResult,
    InputRequiredResult,
    ListToolsResult,
    PaginatedRequestParams,
    TextContent,
    Tool,
)

from callsheet import __version__
from callsheet.apps.gate.catalogue import GateTool, tools_behind
from callsheet.apps.gate.own_tools import OWN_TOOLS, ModelTools
from callsheet.apps.gate.session import Asked, ClientCall, Passed, Reply, Session, Told, Withheld
from callsheet.apps.gate.spoken_words import SpokenWords
from callsheet.apps.mcp.elicitation import answer_in, ask_form
from callsheet.apps.mcp.server_context import ClientRequest, ServerContext
from callsheet.diagnostics import CallsheetError

NAME = "callsheet-gate"
SAID = "io.github.callsheet/said"
"""The `_meta` key of a call for what the user has said: a text or a list of texts, if a client passes it."""
_ANSWER_AFTER = 600.0
"""Seconds in which a question can be answered in the same call."""
_PATIENCE = 50.0
"""Seconds that a call waits for an approval elsewhere; clients give up after a minute."""
_INSTRUCTIONS = (
    "These are the tools of your MCP servers, recorded and guarded by callsheet. For several coordinated "
    "calls write one program: find_tools, language, check_program, run_program. If a call was refused or "
    "waits for a person, say so and do not try another way."
)
_log = logging.getLogger("callsheet.gate")
_Context: TypeAlias = "ServerRequestContext[Any, Any]"


class Expose(StrEnum):
    """What a gate lists: its own tools for programs, the tools behind it, or both."""

    PROGRAM = "program"
    TOOLS = "tools"
    BOTH = "both"


class Gate:
    """Handles the requests of a gate's clients, as an async context manager that ends their sessions.

    The servers behind it are opened with the first request, and a client's session begins with its first
    call. All connections of one client share a session, since they may share what they have read.
    """

    def __init__(
        self,
        context: ServerContext,
        expose: Expose,
        plans: Sequence[str] = (),
        spoken: SpokenWords | None = None,
    ) -> None:
        self._context = context
        self._spoken = spoken
        self._own_tools = None if expose is Expose.TOOLS else ModelTools(context, plans)
        self._expose = expose
        self._opening = asyncio.Lock()
        self._tools: dict[str, GateTool] | None = None
        self._sessions: dict[str, Session] = {}
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Gate:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self._stack.aclose()

    # ------------------------------------------------------------ requests

    async def list_tools(self, context: _Context, params: PaginatedRequestParams | None) -> ListToolsResult:
        """The tools that are exposed, those behind the gate as their servers declare them."""
        del context, params
        own = [] if self._own_tools is None else await self._own_tools.declarations()
        behind = () if self._expose is Expose.PROGRAM else (await self._behind()).values()
        return ListToolsResult(tools=[*own, *(Tool.model_validate(tool.declaration) for tool in behind)])

    async def call_tool(
        self, context: _Context, params: CallToolRequestParams
    ) -> CallToolResult | InputRequiredResult:
        """The result of a call; errors of callsheet are results too."""
        caller, args = ClientRequest(context, params), params.arguments or {}
        try:
            tool = None if self._expose is Expose.PROGRAM else (await self._behind()).get(params.name)
            if tool is None and self._own_tools is not None:
                answer = await self._own(self._own_tools, caller)
                if answer is not None:
                    return answer
            if tool is None:
                raise MCPError(code=INVALID_PARAMS, message=f"there is no tool {params.name[:80]!r}")
            return await self._pass(tool, dict(args), caller)
        except CallsheetError as error:
            return _told(self._context.host.masker.error(error), caller)
        except MCPError:
            raise
        except Exception as error:
            _log.exception("the call of %s failed with an unexpected exception", params.name)
            text = f"a bug in callsheet: {type(error).__name__}: {error}"
            bug = CallsheetError.single("MCP009", text, help="please report it; the gate continues")
            return _told(bug, caller)

    async def _own(
        self, own: ModelTools, caller: ClientRequest
    ) -> CallToolResult | InputRequiredResult | None:
        """The result of one of the gate's own tools; None if it is none of them.

        Under a policy, what the session has read counts for the text of a program, and what is told of a run
        counts as read.
        """
        host = self._context.host
        if host.config.policy is None or not await own.has(caller.params.name):
            answer = await own.call(caller.params, caller)
            return None if answer is None else answer.result
        session = await self._session(caller.client_name)
        self._hear(session, caller)
        answer = await own.call_after(caller.params, caller, session.seen)
        assert answer is not None
        if answer.run_id:
            session.tell(Told(read=((f"run {answer.run_id}", answer.label),)))
        return answer.result

    def _hear(self, session: Session, caller: ClientRequest) -> None:
        """Tell a session what its user has said, if the client passes it with a call or by a hook."""
        meta = caller.params.meta
        said: object = None if meta is None else meta.get(SAID)
        texts = [said] if isinstance(said, str) else said if isinstance(said, list) else []  # pyright: ignore[reportUnknownVariableType]
        words = tuple(text for text in texts if isinstance(text, str) and text.strip())  # pyright: ignore[reportUnknownVariableType]
        words += () if self._spoken is None else tuple(self._spoken.new())
        if words:
            session.tell(Told(said=words))

    # ------------------------------------------------------------ calls that pass through

    async def _pass(
        self, tool: GateTool, args: dict[str, Any], caller: ClientRequest
    ) -> CallToolResult | InputRequiredResult:
        session = await self._session(caller.client_name)
        if caller.state is not None:
            call = session.waiting(str(json.loads(caller.state)["call"]))
            if call is None:
                return _refused("the question is not open any more")
            self._answer(call, next(iter(caller.answers.values()), None), caller)
            reply = await session.reply(call, _patience(call))
        else:
            self._hear(session, caller)
            call, reply = await session.call(tool.canonical, args)
        while isinstance(reply, Asked):
            if not caller.supports_forms:
                call.answer.set_result(None)
            elif caller.has_input_required:
                requests: dict[str, Any] = {"approval": ask_form(reply.ask).request()}
                return InputRequiredResult(
                    input_requests=requests, request_state=json.dumps({"call": call.key})
                )
            else:
                self._answer(call, await caller.elicit(ask_form(reply.ask)), caller)
            reply = await session.reply(call, _patience(call))
        return _result(reply)

    def _answer(self, call: ClientCall, given: ElicitResult | None, caller: ClientRequest) -> None:
        """Pass a person's answer on; one who closes the form leaves the question to the inbox."""
        if call.answer.done():
            return
        is_left = given is None or given.action == "cancel"
        call.answer.set_result(
            None if is_left or given is None else answer_in(call.asked.result(), given, caller.client_name)
        )

    # ------------------------------------------------------------ what is open

    async def _behind(self) -> dict[str, GateTool]:
        """The tools behind the gate, whose servers are opened on first use."""
        if self._tools is None:
            async with self._opening:
                if self._tools is None:
                    shared = self._context.host.tools
                    toolbox = await shared.for_plan(None)
                    for diagnostic in toolbox.diagnostics:
                        _log.warning("%s: %s", diagnostic.code, diagnostic.message)
                    self._tools = tools_behind(toolbox.registry, shared.seen(), frozenset(OWN_TOOLS))
        return self._tools

    async def _session(self, client: str) -> Session:
        session = self._sessions.get(client)
        if session is not None and session.goes_on:
            return session
        behind = await self._behind()
        async with self._opening:
            session = self._sessions.get(client)
            if session is None or not session.goes_on:
                host = self._context.host
                session = Session(
                    client,
                    host.tools.setup,
                    await host.tools.for_plan(None),
                    tuple(tool.canonical for tool in behind.values()),
                    host.journal,
                    limits=host.config.limits,
                    policy=host.config.policy,
                )
                self._sessions[client] = await self._stack.enter_async_context(session)
        return session


def make_server(gate: Gate) -> Server[Any]:
    """The MCP server of a gate."""
    server = Server[dict[str, Any]](
        NAME,
        version=__version__,
        title="callsheet gate",
        instructions=_INSTRUCTIONS,
        on_list_tools=gate.list_tools,
        on_call_tool=gate.call_tool,
    )
    security = RequestStateSecurity.ephemeral(ttl=_ANSWER_AFTER)
    server.middleware.append(RequestStateBoundary(security, default_audience=NAME))
    return server


def _told(error: CallsheetError, caller: ClientRequest) -> CallToolResult:
    """An error as the result of a call."""
    from callsheet.apps.mcp.tools import error_reply, result_of  # noqa: PLC0415 - brings all operations

    return result_of(error_reply(error), caller)


def _patience(call: ClientCall) -> float | None:
    """How long a call is waited for: not for ever if its question was left to the inbox."""
    return _PATIENCE if call.answer.done() and call.answer.result() is None else None


def _result(reply: Reply) -> CallToolResult:
    match reply:
        case Passed(result=result):
            return CallToolResult.model_validate(result)
        case Withheld(why=why):
            return _refused(why)
        case Asked():
            raise AssertionError("a question is answered before")


def _refused(why: str) -> CallToolResult:
    return CallToolResult(content=[TextContent(text=why)], is_error=True)
