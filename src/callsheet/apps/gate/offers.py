"""What a gate shows of the servers behind it: their tools, resources, prompts, and news of changes.

In: the open toolbox and the declarations of its servers. Out: the tools by the names that the client uses,
and those that fit a query, best first.

Reading a resource and getting a prompt are calls of the session like any other (`@RESOURCE`, `@PROMPT`):
recorded, judged, and counted as read. In: requests of the gate's clients. Out: what the servers have sent.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar, cast

from mcp.server.context import ServerRequestContext
from mcp.server.session import ServerSession
from mcp.server.subscriptions import (
    InMemorySubscriptionBus,
    ListenHandler,
    PromptsListChanged,
    ResourcesListChanged,
    ResourceUpdated,
    ServerEvent,
    ToolsListChanged,
)
from mcp.shared.exceptions import MCPError
from mcp_types import (
    INVALID_PARAMS,
    CompleteRequestParams,
    CompleteResult,
    Completion,
    EmptyResult,
    GetPromptRequestParams,
    GetPromptResult,
    ListPromptsResult,
    ListResourcesResult,
    ListResourceTemplatesResult,
    ListRootsRequest,
    ListRootsResult,
    LoggingLevel,
    LoggingMessageNotification,
    LoggingMessageNotificationParams,
    PaginatedRequestParams,
    PromptReference,
    ReadResourceRequestParams,
    ReadResourceResult,
    SetLevelRequestParams,
    SubscribeRequestParams,
    SubscriptionsListenRequestParams,
    SubscriptionsListenResult,
    UnsubscribeRequestParams,
)
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from callsheet.apps.rendering.values import preview
from callsheet.diagnostics import CallsheetError, Diagnostic
from callsheet.ir import JSON, canonical_tool_name
from callsheet.lazy import deferred
from callsheet.ports.calls import ToolFailed
from callsheet.ports.mcp.declarations import PROMPT, RESOURCE, needs_task
from callsheet.ports.mcp.front import Changed, Front
from callsheet.ports.mcp.managed_server import ManagedServer
from callsheet.ports.mcp.resources import Offers
from callsheet.ports.mcp.trust import SeenServer
from callsheet.ports.tools import Registry, ToolSpec

if TYPE_CHECKING:
    from callsheet.authoring.compiler import goal_parts
    from callsheet.authoring.compiler.goal_parts import Fields
    from callsheet.views import stubs
else:
    goal_parts = deferred("callsheet.authoring.compiler.goal_parts")  # only for programs, as the other
    stubs = deferred("callsheet.views.stubs")


_LEFT_OUT = frozenset({"TOL017", "TOL018"})
"""The warnings about single tools that are neither listed nor called."""
_LONGEST = 110
"""The most characters of a description in a stub."""


@dataclass(frozen=True, slots=True)
class GateTool:
    """A tool behind the gate: the client's name for it, the run's name, its declaration as it was sent."""

    name: str
    canonical: str
    spec: ToolSpec
    declaration: Mapping[str, Any]


def tools_behind(
    registry: Registry, seen: Sequence[SeenServer], taken: frozenset[str]
) -> dict[str, GateTool]:
    """The tools of all servers by the names that the client uses.

    That is the server's own name, unless several servers or the gate itself (`taken`) use it: then
    `server__tool`, with `_` behind it if that is the own name of another. Beside the gate's own tools a name
    is also that of programs, in which a built-in tool may have it. Tools that are refused by their pins are
    left out, as everywhere.
    """
    declared = {
        (f"mcp:{server.identity.name}", name): declaration
        for server in seen
        for name, declaration in server.declarations.items()
    }
    found: dict[str, GateTool] = {}
    listed = [*zip(registry.names(), registry, strict=True)]

    def is_unique(canonical: str, spec: ToolSpec) -> bool:
        if taken and (spec.executor in taken or canonical_tool_name(spec.executor) != canonical):
            return False
        return canonical == spec.name

    unique = {tool.spec.executor for canonical, tool in listed if is_unique(canonical, tool.spec)}
    for canonical, tool in listed:
        spec = tool.spec
        declaration = declared.get((spec.origin, spec.executor))
        if declaration is None or spec.refusal is not None:
            continue
        name = spec.executor
        if not is_unique(canonical, spec):
            name = f"{spec.origin.removeprefix('mcp:')}__{name}"
            while name in unique or name in found:
                name += "_"
        shown = {**declaration, "name": name}
        if needs_task(declaration):  # the gate itself waits for the task
            del shown["execution"]
        found[name] = GateTool(name, canonical, spec, shown)
    return found


def refusal_of(name: str, registry: Registry) -> Diagnostic | None:
    """Why a tool of a server is neither listed nor called, by the name that a client would use."""
    for tool in registry:
        spec = tool.spec
        own = spec.executor, f"{spec.origin.removeprefix('mcp:')}__{spec.executor}"
        if spec.refusal is not None and name in own:
            return spec.refusal
    return None


def doubts_about(name: str, registry: Registry, found: Iterable[Diagnostic]) -> str:
    """Where a tool that is not there may be, as the rest of a sentence.

    `found` are the diagnostics about opening the servers, as for `missing_in`.
    """
    servers = [tool.spec.origin.removeprefix("mcp:") for tool in registry if tool.spec.executor == name]
    several = f"; there is {' and '.join(f'{server}__{name}' for server in servers)}" if servers[1:] else ""
    return several + "".join(f"; {why}" for why in missing_in(found, registry))


def missing_in(found: Iterable[Diagnostic], registry: Registry) -> list[str]:
    """Why tools are missing: servers that could not be opened, and tools that are left out or refused.

    What servers have written is not told.
    """
    wanted = (each for each in found if each.is_error or each.code in _LEFT_OUT)
    refused: dict[str, list[str]] = {}
    for tool in registry:
        if tool.spec.refusal is not None:
            refused.setdefault(tool.spec.origin.removeprefix("mcp:"), []).append(tool.spec.executor)
    return [
        *(each.message.partition("; it last wrote:")[0] for each in wanted),
        *(
            f"of the MCP server {server!r} these are not called, and a call says why: "
            f"{preview(', '.join(names), _LONGEST)}"
            for server, names in refused.items()
        ),
    ]


def tools_of_programs(
    registry: Registry, seen: Sequence[SeenServer], taken: frozenset[str]
) -> list[GateTool]:
    """All tools that a program may call: those of servers, Python functions, built-in ones."""
    behind = tools_behind(registry, seen, taken)
    known = {tool.canonical for tool in behind.values()}
    others: list[GateTool] = []
    for canonical, tool in zip(registry.names(), registry, strict=True):
        spec = tool.spec
        if canonical in known or spec.refusal is not None:
            continue
        about = {"name": canonical.lower(), "description": spec.description, "inputSchema": spec.parameters}
        others.append(GateTool(canonical.lower(), canonical, spec, about))
    return [*behind.values(), *others]


class ToolIndex:
    """Tools by the words of their names, descriptions and parameters; `absent` says which may be missing."""

    def __init__(self, tools: Sequence[GateTool], absent: Sequence[str] = ()) -> None:
        self.tools = tuple(tools)
        self.absent = tuple(absent)
        self._words = goal_parts.WordIndex([_fields(tool.spec, tool.name) for tool in tools])

    def found_for(self, query: str, most: int) -> list[GateTool]:
        """The tools that fit a query, best first; all without a word to search for."""
        wanted = [{word: 1.0} for word in dict.fromkeys(goal_parts.words_of(query))]
        if not wanted:
            return [*self.tools[:most]]
        scored = [sum(each) for each in self._words.worths(wanted)]
        ranked = sorted(range(len(scored)), key=lambda place: (-scored[place], place))
        return [self.tools[place] for place in ranked[:most] if scored[place] > 0]


def _fields(spec: ToolSpec, name: str) -> Fields:
    """The texts of a tool with their weights; what is said of parameters is long, and counts little."""
    given = spec.parameters.get("properties")
    shapes = cast("Mapping[str, object]", given).values() if isinstance(given, Mapping) else ()
    about = [str(value) for shape in shapes for value in _said_of(shape)]
    names = " ".join(spec.parameter_names)
    return [(name, 3.0), (spec.description, 1.0), (names, 1.0), (" ".join(about), 0.3)]


def _said_of(shape: object) -> list[object]:
    if not isinstance(shape, Mapping):
        return []
    fields = cast("Mapping[str, object]", shape)
    choices = fields.get("enum")
    return [
        fields.get("description", ""),
        *(cast("list[object]", choices) if isinstance(choices, list) else []),
    ]


def stub_of(tool: GateTool) -> str:
    """A tool as one line of typed Python, as a program calls it, with the effect that its calls have.

    >>> spec = ToolSpec("ADD", "add", "Adds.", {"properties": {"a": {"type": "integer"}}, "required": ["a"]})
    >>> stub_of(GateTool("add", "ADD", spec, {}))
    'async def add(a: int) -> Any  # unsafe: Adds.'
    """
    about = preview(tool.spec.description, _LONGEST)
    line = f"{stubs.signature_line(tool.canonical, tool.spec)}  # {tool.spec.effect}"
    return f"{line}: {about}" if about else line


_log = logging.getLogger("callsheet.gate")
_MOST_CLIENTS = 1_000
_T = TypeVar("_T")
_Context: TypeAlias = "ServerRequestContext[Any, Any]"
Call: TypeAlias = "Callable[[_Context, str, dict[str, Any]], Awaitable[dict[str, Any]]]"
"""Makes a call of a client's session; gives what the server has sent, or raises MCPError."""


class OffersBehind:
    """Answers requests about what servers offer besides tools.

    `servers` gives the servers once they are open, `call` makes calls of a session, and `may_tell` says
    whether the words of a client may be sent to any server without being judged.
    """

    def __init__(
        self,
        servers: Callable[[], Awaitable[list[ManagedServer]]],
        call: Call,
        may_tell: Callable[[_Context], bool],
    ) -> None:
        self._servers = servers
        self._call = call
        self._may_tell = may_tell
        self.audience = Audience()

    async def _offers(self, context: _Context) -> Offers:
        self.audience.note(context)
        servers = await self._servers()
        return Offers(lambda: servers)

    async def list_resources(
        self, context: _Context, params: PaginatedRequestParams | None
    ) -> ListResourcesResult:
        """The resources of all servers."""
        listed = await (await self._offers(context)).resources()
        return ListResourcesResult.model_validate({"resources": listed})

    async def list_templates(
        self, context: _Context, params: PaginatedRequestParams | None
    ) -> ListResourceTemplatesResult:
        """The templates of resources of all servers."""
        listed = await (await self._offers(context)).templates()
        return ListResourceTemplatesResult.model_validate({"resourceTemplates": listed})

    async def read_resource(self, context: _Context, params: ReadResourceRequestParams) -> ReadResourceResult:
        """A resource as its server sends it."""
        self.audience.note(context)
        return ReadResourceResult.model_validate(
            await self._call(context, RESOURCE, {"uri": str(params.uri)})
        )

    async def list_prompts(
        self, context: _Context, params: PaginatedRequestParams | None
    ) -> ListPromptsResult:
        """The prompts of all servers; one whose name several servers have is `server__name`."""
        prompts = await (await self._offers(context)).prompts()
        listed = [{**prompt, "name": name} for name, (_, prompt) in prompts.items()]
        return ListPromptsResult.model_validate({"prompts": listed})

    async def get_prompt(self, context: _Context, params: GetPromptRequestParams) -> GetPromptResult:
        """A prompt as its server sends it."""
        self.audience.note(context)
        args: dict[str, Any] = {"name": params.name}
        args |= {"arguments": {**params.arguments}} if params.arguments else {}
        return GetPromptResult.model_validate(await self._call(context, PROMPT, args))

    async def complete(self, context: _Context, params: CompleteRequestParams) -> CompleteResult:
        """The server's completions; none once words of the client may not go to every server."""
        offers, ref = await self._offers(context), params.ref
        if not self._may_tell(context):
            return CompleteResult(completion=Completion(values=[]))
        wire = params.model_dump(by_alias=True, mode="json", exclude_none=True, exclude={"meta"})
        if isinstance(ref, PromptReference):
            found = (await offers.prompts()).get(ref.name)
            server = None if found is None else found[0]
            wire["ref"]["name"] = ref.name if found is None else found[1]["name"]
        else:
            server = await offers.server_of_template(ref.uri) or await offers.server_of(ref.uri)
        if server is None or server not in await offers.able("completions"):
            raise MCPError(code=INVALID_PARAMS, message="no server has what is to be completed")
        return CompleteResult.model_validate(await _sent(server.request("completion/complete", wire)))

    async def subscribe(self, context: _Context, params: SubscribeRequestParams) -> EmptyResult:
        """Subscribe to a resource at its server, for an older client."""
        await self._subscribe("resources/subscribe", context, str(params.uri))
        return EmptyResult()

    async def unsubscribe(self, context: _Context, params: UnsubscribeRequestParams) -> EmptyResult:
        """The reverse of `subscribe`."""
        await self._subscribe("resources/unsubscribe", context, str(params.uri))
        return EmptyResult()

    async def _subscribe(self, method: str, context: _Context, uri: str) -> None:
        server = await self._to_subscribe(context, uri)
        if server is None:
            raise MCPError(code=INVALID_PARAMS, message=f"no server has the resource {uri[:200]!r}")
        await _sent(server.request(method, {"uri": uri}))

    async def _to_subscribe(self, context: _Context, uri: str) -> ManagedServer | None:
        """The server with a resource; once words of the client may not go to every server, one that lists it.

        Raises MCPError for a URI that may not be told.
        """
        offers = await self._offers(context)
        if not self._may_tell(context) and all(each.get("uri") != uri for each in await offers.resources()):
            why = "no server lists the resource, and what the session has read could be in its URI"
            raise MCPError(code=INVALID_PARAMS, message=f"the policy refuses to subscribe: {why}")
        return await offers.server_of(uri)

    async def set_level(self, context: _Context, params: SetLevelRequestParams) -> EmptyResult:
        """Ask all servers that log to do so from this level on; newer ones are asked with each call."""
        self.audience.level = params.level
        for server in await (await self._offers(context)).able("logging"):
            try:
                await server.request("logging/setLevel", {"level": params.level})
            except (MCPError, ToolFailed, CallsheetError) as error:
                _log.warning("%s does not take a level of logging: %s", server.config.name, error)
        return EmptyResult()

    async def listen(
        self, context: _Context, params: SubscriptionsListenRequestParams
    ) -> SubscriptionsListenResult:
        """Tell a client of changes, until it disconnects."""
        self.audience.note(context)
        for uri in params.notifications.resource_subscriptions or ():
            try:
                server = await self._to_subscribe(context, str(uri))
            except MCPError as error:
                _log.warning("%s: %s", error.message, str(uri)[:200])
                continue
            if server is not None:
                await server.watch(str(uri))
        return await self.audience.listen(context, params)


async def _sent(request: Awaitable[_T]) -> _T:
    """The result of a request; a failure of callsheet becomes an error of the protocol."""
    try:
        return await request
    except (ToolFailed, CallsheetError) as error:
        raise MCPError(code=INVALID_PARAMS, message=str(error)) from error


class Audience:
    """The clients of a gate, who are told of changes and log lines of the servers behind it.

    A client of the protocol of 2026 listens; an older one is told once it has made a request.
    """

    def __init__(self) -> None:
        self.level: LoggingLevel = "info"
        """From which level on older clients get log lines of servers that are asked with each call."""
        self._bus = InMemorySubscriptionBus()
        self._streams = ListenHandler(self._bus)
        self._older: dict[int, ServerSession] = {}
        self._telling: set[asyncio.Task[None]] = set()

    def note(self, context: _Context) -> None:
        """Tell the client of this request of changes from now on, if it is an older one."""
        session = context.session
        if session.protocol_version in MODERN_PROTOCOL_VERSIONS or id(session.client_params) in self._older:
            return
        if len(self._older) >= _MOST_CLIENTS:
            del self._older[next(iter(self._older))]
        self._older[id(session.client_params)] = session

    async def warn(self, context: _Context, text: str) -> None:
        """Tell the client of this request something by a log line, if it gets such lines unasked."""
        session = context.session
        if session.protocol_version not in MODERN_PROTOCOL_VERSIONS:
            line: dict[str, JSON] = {"level": "warning", "logger": "callsheet.gate", "data": text}
            await send_log_line(session, line, context.request_id)

    async def listen(
        self, context: _Context, params: SubscriptionsListenRequestParams
    ) -> SubscriptionsListenResult:
        """Answer `subscriptions/listen`."""
        return await self._streams(context, params)

    def close(self) -> None:
        """End all subscriptions."""
        self._streams.close()
        for task in self._telling:
            task.cancel()

    def front(self, context: _Context, *, is_alone: bool) -> Front:
        """The front for servers that this client's request opens; `is_alone` if no other client can come."""
        offered = context.session.client_capabilities
        samples = offered is not None and offered.sampling is not None
        has_roots = is_alone and offered is not None and offered.roots is not None
        session = context.session

        async def roots() -> JSON:
            listed = await session.send_request(ListRootsRequest(), ListRootsResult)
            return cast("JSON", listed.model_dump(by_alias=True, mode="json", exclude_none=True))

        is_older = session.protocol_version not in MODERN_PROTOCOL_VERSIONS
        return Front(
            is_older=is_older,
            samples=samples,
            has_roots=has_roots,
            roots=roots if has_roots and is_older else None,
            changed=self._changed,
            logged=self._logged if is_alone else None,
        )

    def _changed(self, server: str, what: Changed, uri: str) -> None:
        event: ServerEvent
        match what:
            case Changed.TOOLS:
                event = ToolsListChanged()
            case Changed.PROMPTS:
                event = PromptsListChanged()
            case Changed.RESOURCES:
                event = ResourcesListChanged()
            case Changed.RESOURCE:
                event = ResourceUpdated(uri)
        self._later(self._tell(event))

    async def _tell(self, event: ServerEvent) -> None:
        await self._bus.publish(event)
        for client, session in [*self._older.items()]:
            try:
                match event:
                    case ToolsListChanged():
                        await session.send_tool_list_changed()
                    case PromptsListChanged():
                        await session.send_prompt_list_changed()
                    case ResourcesListChanged():
                        await session.send_resource_list_changed()
                    case ResourceUpdated(uri):
                        await session.send_resource_updated(uri)
            except Exception as error:  # the client has disconnected
                _log.debug("a client cannot be told of a change: %s", error)
                self._older.pop(client, None)

    def _logged(self, server: str, params: dict[str, JSON]) -> None:
        self._later(self._log(params))

    async def _log(self, params: dict[str, JSON]) -> None:
        for session in [*self._older.values()]:
            await send_log_line(session, params)

    def _later(self, telling: Any) -> None:
        task = asyncio.get_running_loop().create_task(telling)
        self._telling.add(task)
        task.add_done_callback(self._telling.discard)


async def send_log_line(session: ServerSession, params: dict[str, JSON], request: Any = None) -> None:
    """Pass a log line of a server on to a client, during a `request` of it or at any time."""
    try:
        line = LoggingMessageNotification(params=LoggingMessageNotificationParams.model_validate(params))
        await session.send_notification(line, request)
    except Exception as error:  # the client has disconnected
        _log.debug("a log line cannot be passed on: %s", error)
