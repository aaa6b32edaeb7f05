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
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel.server import NotificationOptions, Server
from mcp.shared.exceptions import MCPError
from mcp_types import (
    INVALID_PARAMS,
    CallToolRequestParams,
    CallToolResult,
    ElicitResult,
    InputRequiredResult,
    ListToolsResult,
    PaginatedRequestParams,
    SetLevelRequestParams,
    TextContent,
    Tool,
)

from callsheet import __version__
from callsheet.apps.gate.hearing import ask_older, hearing_of, request_of, wire_of
from callsheet.apps.gate.offers import (
    GateTool,
    OffersBehind,
    doubts_about,
    missing_in,
    refusal_of,
    tools_behind,
)
from callsheet.apps.gate.own_tools import OWN_TOOLS, ModelTools, in_own_words, log_opening
from callsheet.apps.gate.session import (
    Asked,
    ClientCall,
    Passed,
    Reply,
    ServerAsked,
    Session,
    Told,
    Withheld,
)
from callsheet.apps.gate.spoken_words import SpokenWords
from callsheet.apps.hosting.recorded import label_of_run
from callsheet.apps.mcp.elicitation import answer_in, ask_form
from callsheet.apps.mcp.server_context import CallsheetServer, ClientRequest, ServerContext, client_name_of
from callsheet.apps.mcp.tasks import ToolAnswer, offer_tasks
from callsheet.diagnostics import CallsheetError
from callsheet.ir import JSON
from callsheet.ports.mcp.declarations import OFFERS
from callsheet.ports.mcp.managed_server import ManagedServer

if TYPE_CHECKING:
    from callsheet.api.admission import UnprovedProgram
    from callsheet.apps.gate.unproved import Candidate, UnprovedPrograms
    from callsheet.apps.toolbox import Toolbox

NAME = "callsheet-gate"
SAID = "io.github.callsheet/said"
"""The `_meta` key of a call for what the user has said: a text or a list of texts, if a client passes it."""
MISSING = "io.github.callsheet/missing"
"""The `_meta` key of a list of tools for why some are missing: texts that name their servers."""
_PATIENCE = 50.0
"""Seconds that a call waits for an approval elsewhere; clients give up after a minute."""
_INSTRUCTIONS = (
    "These are the tools of your MCP servers, recorded and guarded by callsheet.",
    "For several coordinated calls write one program: find_tools, language, check_program, run_program.",
    "If a call was refused or waits for a person, say so and do not try another way.",
)
_PROGRAMS = frozenset({"run_program", "check_program"})
"""The own tools that take the text of a program."""
_NOT_ASKED = (
    "Or: a gate that is started with `--unproved ask` runs such a program after one question to a person, "
    "with each of its calls judged when it is made."
)
_ASKED_WHEN_RUN = (
    "It cannot be proved as a whole. run_program asks a person, and then judges each of its calls when "
    "it is made."
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
        *,
        asks_unproved: bool = False,
    ) -> None:
        self._context = context
        self._asks_unproved = asks_unproved
        self._unproved: UnprovedPrograms | None = None
        self._spoken = spoken
        self._own_tools = (
            None
            if expose is Expose.TOOLS
            else ModelTools(context, plans, self._listed if expose is Expose.BOTH else None)
        )
        self._expose = expose
        self._opening = asyncio.Lock()
        self._tools: dict[str, GateTool] | None = None
        self._toolbox: Toolbox | None = None
        self._named: tuple[dict[str, GateTool], tuple[str, ...]] | None = None
        self._sessions: dict[str, Session] = {}
        self._stack = AsyncExitStack()
        self._is_alone = spoken is not None
        self.offers = OffersBehind(self._servers, self._offered, self._may_tell)

    async def __aenter__(self) -> Gate:
        return self

    async def __aexit__(self, *error: object) -> None:
        self.offers.audience.close()
        if self._unproved is not None:
            await self._unproved.close()
        await self._stack.aclose()

    # ------------------------------------------------------------ requests

    async def list_tools(self, context: _Context, params: PaginatedRequestParams | None) -> ListToolsResult:
        """The tools that are exposed, those behind the gate as their servers declare them."""
        self._enter(context)
        behind = () if self._expose is Expose.PROGRAM else (await self._behind(looks=True)).values()
        own = [] if self._own_tools is None else await self._own_tools.declarations()
        tools = [*own, *(Tool.model_validate(tool.declaration) for tool in behind)]
        absent = self._missing()
        if absent:
            await self.offers.audience.warn(context, f"tools are missing: {'; '.join(absent)}")
        return ListToolsResult(tools=tools, _meta={MISSING: absent} if absent else None)

    def _missing(self) -> list[str]:
        """Why tools are missing: servers that could not be opened or are late, tools that are left out."""
        if self._toolbox is None:
            return []
        found = self._context.host.masker.diagnostics(self._toolbox.diagnostics)
        return missing_in(found, self._toolbox.registry)

    async def call_tool(self, context: _Context, params: CallToolRequestParams) -> ToolAnswer:
        """The result of a call; errors of callsheet are results too."""
        self._enter(context)
        caller, args = ClientRequest(context, params), params.arguments or {}
        try:
            tool = None if self._expose is Expose.PROGRAM else (await self._behind()).get(params.name)
            if tool is None and self._own_tools is not None:
                answer = await self._run_unproved(caller) if self._asks_unproved else None
                if answer is None:
                    answer = await self._own(self._own_tools, caller)
                if answer is not None:
                    return await self._with_way_out(answer, caller)
            while tool is None and await self._context.host.tools.late_one():
                tool = (await self._behind()).get(params.name)
            if tool is None:
                return self._absent(params.name)
            return await self._pass(tool, dict(args), caller)
        except CallsheetError as error:
            return await self._with_way_out(_told(self._context.host.masker.error(error), caller), caller)
        except MCPError:
            raise
        except Exception as error:
            _log.exception("the call of %s failed with an unexpected exception", params.name)
            text = f"a bug in callsheet: {type(error).__name__}: {error}"
            bug = CallsheetError.single("MCP009", text, help="please report it; the gate continues")
            return _told(bug, caller)

    def _absent(self, name: str) -> CallToolResult:
        """Tell why a tool is not called that is there; raises MCPError for one that is not."""
        toolbox, shown = self._toolbox, f"there is no tool {name[:80]!r}"
        if toolbox is None:
            raise MCPError(code=INVALID_PARAMS, message=shown)
        refusal = refusal_of(name, toolbox.registry)
        if refusal is not None:
            return _refused(f"{refusal.message}; {refusal.help}" if refusal.help else refusal.message)
        found = self._context.host.masker.diagnostics(toolbox.diagnostics)
        why = f"{shown}{doubts_about(name, toolbox.registry, found)}"
        raise MCPError(code=INVALID_PARAMS, message=why)

    @property
    def context(self) -> ServerContext:
        """What its tools work on."""
        return self._context

    @property
    def has_own_tools(self) -> bool:
        """Whether clients see the gate's own tools."""
        return self._own_tools is not None

    async def finish_task(self, context: _Context, result: CallToolResult, run_id: str) -> CallToolResult:
        """What a client gets of a run that was a task; under a policy it counts as read by the session."""
        host = self._context.host
        if host.config.policy is not None:
            label = await host.beside(lambda: label_of_run(host.journal, run_id))
            session = await self._session(client_name_of(context))
            session.tell(Told(read=((f"run {run_id}", label),)))
        return in_own_words(result)

    async def _own(self, own: ModelTools, caller: ClientRequest) -> ToolAnswer | None:
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

    async def _run_unproved(self, caller: ClientRequest) -> ToolAnswer | None:
        """What a client is told of a program that runs unproved if a person agrees; None for other calls."""
        programs = self._unproved
        if caller.params.name != "run_program":
            return None
        if caller.state is not None:
            state = json.loads(caller.state)
            answered = None if programs is None else await programs.go_on(state, caller)
        else:
            found = await self._candidate(caller)
            if found is None or isinstance(found, str):
                return None
            if (caller.params.arguments or {}).get("name"):
                why = "a program that cannot be proved cannot be saved"
                raise CallsheetError.single("MCP001", why, help="leave `name` out")
            from callsheet.apps.gate.unproved import UnprovedPrograms  # noqa: PLC0415 - brings the compiler

            session = await self._session(caller.client_name)
            self._hear(session, caller)
            if programs is None:
                programs = self._unproved = UnprovedPrograms(self._new_session)
            toolbox = await self._context.host.tools.for_plan(None)
            inputs = cast("dict[str, JSON]", (caller.params.arguments or {}).get("inputs") or {})
            answered = await programs.start(found, inputs, toolbox, session, caller)
        if answered is None:
            return None
        session = await self._session(caller.client_name)
        if session.is_judged:
            session.tell(Told(read=((f"run {answered.run_id}", answered.label),)))
        return answered.result

    async def _candidate(self, caller: ClientRequest) -> Candidate | str | None:
        """The program in a call that could run unproved, or why it could not; None if it is a plan."""
        text = (caller.params.arguments or {}).get("code")
        if caller.params.name not in _PROGRAMS or not isinstance(text, str):
            return None
        from callsheet.apps.gate.unproved import candidate_in  # noqa: PLC0415 - brings the compiler

        tools = self._context.host.tools
        while True:
            registry = (await tools.for_plan(None)).registry
            found = await self._context.host.beside(partial(candidate_in, text, registry))
            if not isinstance(found, str) or not await tools.late_one():  # what it names may be there soon
                return found

    async def _with_way_out(self, result: ToolAnswer, caller: ClientRequest) -> ToolAnswer:
        """A result, and for a refused program how one like it can be run."""
        if not isinstance(result, CallToolResult) or not result.is_error or self._own_tools is None:
            return result
        found = await self._candidate(caller)
        if isinstance(found, str):
            told = f"It cannot run unproved either: {found}." if self._asks_unproved else ""
        elif found is None or (self._asks_unproved and caller.params.name == "run_program"):
            told = ""
        else:
            told = _ASKED_WHEN_RUN if self._asks_unproved else _NOT_ASKED
        if not told:
            return result
        hint = TextContent(text=told)
        return result.model_copy(update={"content": [*result.content, hint]})

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

    async def _pass(self, tool: GateTool, args: dict[str, Any], caller: ClientRequest) -> ToolAnswer:
        session = await self._session(caller.client_name)
        if caller.state is not None:
            state = json.loads(caller.state)
            call = session.waiting(str(state["call"])) if state["run"] == session.run_id else None
            if call is None:
                return _refused("the question is not open any more")
            given = next(iter((caller.params.input_responses or {}).values()), None)
            if "turn" in state:
                call.answer_turn(int(state["turn"]), wire_of(given))
            else:
                self._answer(call, given if isinstance(given, ElicitResult) else None, caller)
            reply = await session.reply(call, _patience(call))
        else:
            self._hear(session, caller)
            call, reply = await session.call(
                tool.canonical, args, hearing_of(caller, self.offers.audience.level)
            )
        while isinstance(reply, Asked | ServerAsked):
            if isinstance(reply, ServerAsked):
                request = request_of(reply, is_guarded=self._context.host.config.policy is not None)
                if caller.has_input_required:
                    state = json.dumps({"run": session.run_id, "call": call.key, "turn": reply.number})
                    return InputRequiredResult(input_requests={"server": request}, request_state=state)
                call.answer_turn(reply.number, await ask_older(caller, call, reply, request))
            elif not caller.may_answer(reply.ask):
                call.answer.set_result(None)
                await caller.report_progress(0, None, session.waits_in_inbox(call))
            elif caller.has_input_required:
                requests: dict[str, Any] = {"approval": ask_form(reply.ask).request()}
                return InputRequiredResult(
                    input_requests=requests,
                    request_state=json.dumps({"run": session.run_id, "call": call.key}),
                )
            else:
                try:
                    given = await caller.elicit(ask_form(reply.ask))
                except (MCPError, ValueError) as error:
                    _log.warning("the client does not show the question about @%s: %s", call.tool, error)
                    given = None
                self._answer(call, given, caller)
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

    # ------------------------------------------------------------ offers besides tools

    def _enter(self, context: _Context) -> None:
        """Take note of the client of a request; servers are opened for the first one."""
        self.offers.audience.note(context)
        tools = self._context.host.tools
        if tools.front is None:
            tools.front = self.offers.audience.front(context, is_alone=self._is_alone)

    async def _servers(self) -> list[ManagedServer]:
        await self._behind()
        return self._context.host.tools.servers()

    async def _offered(self, context: _Context, tool: str, args: dict[str, Any]) -> dict[str, Any]:
        """What a server has sent for a resource or prompt, by a call of the client's session."""
        self._enter(context)
        session = await self._session(client_name_of(context))
        if self._toolbox is None or self._toolbox.registry.get(tool) is None:
            raise MCPError(code=INVALID_PARAMS, message=f"no server has {tool.lower()}s")
        call, reply = await session.call(tool, args)
        while isinstance(reply, Asked):  # these requests have no place for a form
            call.answer.set_result(None)
            reply = await session.reply(call, _PATIENCE)
        if isinstance(reply, Passed):
            return reply.result
        assert isinstance(reply, Withheld)
        raise _sent_error(reply) or MCPError(code=INVALID_PARAMS, message=reply.why)

    def _may_tell(self, context: _Context) -> bool:
        """Whether words of a client may go to any server: while it has read nothing that a policy guards."""
        policy = self._context.host.config.policy
        session = self._sessions.get(client_name_of(context))
        return policy is None or policy.observes or session is None or session.seen == policy.planner

    # ------------------------------------------------------------ what is open

    async def _behind(self, *, looks: bool = False) -> dict[str, GateTool]:
        """The tools behind the gate, whose servers are opened on first use.

        Servers that have reported changed tools have listed them again. With `looks` tools that a person has
        approved meanwhile are there too.
        """
        shared = self._context.host.tools
        if (
            self._tools is not None
            and self._toolbox is not None
            and not looks
            and self._toolbox.registry is shared.registry
            and not any(each.is_stale for each in shared.servers())
        ):
            return self._tools
        async with self._opening:
            toolbox = await (shared.for_plan(None) if self._tools is None else shared.refreshed())
            if self._tools is None or self._toolbox is None or toolbox.registry is not self._toolbox.registry:
                log_opening(toolbox)
                self._toolbox = toolbox
                taken = frozenset[str]() if self._own_tools is None else frozenset(OWN_TOOLS)
                self._tools = tools_behind(toolbox.registry, shared.seen(), taken)
        return self._tools

    async def _session(self, client: str) -> Session:
        """The session of a client; another one after its tools have changed, which has read the same."""
        behind = await self._behind()
        session = self._sessions.get(client)
        if session is not None and session.goes_on and session.serves(self._names(behind)):
            return session
        async with self._opening:
            before = session = self._sessions.get(client)
            if session is None or not session.goes_on or not session.serves(self._names(behind)):
                host, toolbox = self._context.host, self._toolbox
                assert toolbox is not None
                session = self._new_session(client, toolbox, self._names(behind))
                for doubt in session.doubts:
                    _log.warning("%s: %s", doubt.code, doubt.message)
                self._sessions[client] = await self._stack.enter_async_context(session)
                if before is not None and host.config.policy is not None:
                    session.tell(Told(read=((f"run {before.run_id}", before.seen),)))
        return session

    def _new_session(
        self, client: str, toolbox: Toolbox, names: tuple[str, ...], program: UnprovedProgram | None = None
    ) -> Session:
        host, config = self._context.host, self._context.host.config
        return Session(
            client,
            host.tools.setup,
            toolbox,
            names,
            host.journal,
            limits=config.limits,
            policy=config.policy,
            program=program,
        )

    def _listed(self) -> frozenset[str]:
        """The names of the tools behind the gate."""
        return frozenset(self._tools or ())

    def _names(self, behind: dict[str, GateTool]) -> tuple[str, ...]:
        """The canonical names of all that a session may call."""
        if self._named is None or self._named[0] is not behind:
            offered = tuple(spec.name for spec in OFFERS.values())
            self._named = behind, (*(tool.canonical for tool in behind.values()), *offered)
        return self._named[1]


def make_server(gate: Gate) -> Server[Any]:
    """The MCP server of a gate."""
    offers = gate.offers
    server = CallsheetServer(
        NAME,
        version=__version__,
        title="callsheet gate",
        instructions=" ".join(_INSTRUCTIONS if gate.has_own_tools else _INSTRUCTIONS[::2]),
        on_list_tools=gate.list_tools,
        on_call_tool=cast("Any", gate.call_tool),
        on_list_resources=offers.list_resources,
        on_list_resource_templates=offers.list_templates,
        on_read_resource=offers.read_resource,
        on_subscribe_resource=offers.subscribe,
        on_unsubscribe_resource=offers.unsubscribe,
        on_list_prompts=offers.list_prompts,
        on_get_prompt=offers.get_prompt,
        on_completion=offers.complete,
        on_subscriptions_listen=offers.listen,
    )
    server.declare(NotificationOptions(prompts_changed=True, resources_changed=True, tools_changed=True))
    server.add_request_handler("logging/setLevel", SetLevelRequestParams, offers.set_level)
    if gate.has_own_tools:
        offer_tasks(server, gate.context, gate.finish_task)
    return server


def _told(error: CallsheetError, caller: ClientRequest) -> CallToolResult:
    """An error as the result of a call."""
    from callsheet.apps.mcp.tools import error_reply, result_of  # noqa: PLC0415 - brings all operations

    return in_own_words(result_of(error_reply(error), caller))


def _patience(call: ClientCall) -> float | None:
    """How long a call is waited for: not for ever if its question was left to the inbox."""
    return _PATIENCE if call.answer.done() and call.answer.result() is None else None


def _result(reply: Reply) -> CallToolResult:
    match reply:
        case Passed(result=result):
            return CallToolResult.model_validate(result)
        case Withheld(why=why):
            error = _sent_error(reply)
            if error is not None:
                raise error
            return _refused(why)
        case Asked() | ServerAsked():
            raise AssertionError("a question is answered before")


def _sent_error(reply: Withheld) -> MCPError | None:
    """The error of the protocol that a server has sent in place of a result."""
    return None if reply.sent is None else MCPError(*reply.sent)


def _refused(why: str) -> CallToolResult:
    return CallToolResult(content=[TextContent(text=why)], is_error=True)
