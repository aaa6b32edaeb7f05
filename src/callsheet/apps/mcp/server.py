"""The MCP server: its tools, resources and prompts, and the handling of each request.

In: a server context. Out: a server for a transport. An error of a tool is returned as its result, with
diagnostics; so is an unexpected exception, which is also logged with its traceback.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, Protocol, TypeAlias, TypeVar, cast

from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel.server import NotificationOptions, Server
from mcp.server.models import InitializationOptions
from mcp.server.request_state import RequestStateBoundary, RequestStateSecurity
from mcp.shared.exceptions import MCPError
from mcp_types import (
    INVALID_PARAMS,
    CallToolRequestParams,
    CompleteRequestParams,
    CompleteResult,
    Completion,
    GetPromptRequestParams,
    GetPromptResult,
    ListPromptsResult,
    ListResourcesResult,
    ListResourceTemplatesResult,
    ListToolsResult,
    PaginatedRequestParams,
    ReadResourceRequestParams,
    ReadResourceResult,
    Tool,
)

from callsheet import __version__
from callsheet.apps.mcp import prompts, resources
from callsheet.apps.mcp.server_context import ClientRequest, ServerContext, client_supports_forms
from callsheet.apps.mcp.subscriptions import ChangeNotifier
from callsheet.apps.mcp.tasks import ToolAnswer, offer_tasks
from callsheet.apps.mcp.tools import TOOLS, call_tool, declaration, error_reply, result_of
from callsheet.diagnostics import CallsheetError, to_json

NAME = "callsheet"
INSTRUCTIONS = (
    "callsheet runs plans: short texts of tool calls that are checked before they run, run step by step "
    "without a model in between, and can be resumed after any interruption. Use it for tasks of several "
    "coordinated calls; for a single call use the tool itself. Write a plan (the prompt write_plan describes "
    "the language and the tools), check it with validate_plan, then run it with plan_execute; or give "
    "plan_create_and_execute a goal. If a run waits for a person, say so and leave the answer to them."
)
INSTRUCTIONS_FOR_MODELS = (
    "callsheet runs programs of tool calls: checked before they run, run without a model in between, resumed "
    "after any interruption. Use it for tasks of several coordinated calls: find_tools, language, "
    "check_program, run_program. If a run waits for a person, say so and leave the answer to them."
)
_ANSWER_AFTER = 600.0
"""The time for answering a question in the same call, in seconds."""
_log = logging.getLogger("callsheet.mcp")
_Context: TypeAlias = "ServerRequestContext[Any, Any]"
_T = TypeVar("_T")


class MoreTools(Protocol):
    """Tools beside the operations of callsheet."""

    async def declarations(self) -> list[Tool]:
        """Their declarations, which come first in the list."""
        ...

    async def call(self, params: CallToolRequestParams, caller: ClientRequest) -> Answered | None:
        """The result of a call; None for a tool that is not one of these. Raises CallsheetError."""
        ...


class Answered(Protocol):
    """The result of a call of such a tool."""

    @property
    def result(self) -> ToolAnswer:
        """The result as the client gets it."""
        ...


def make_server(
    server_context: ServerContext, operations: Collection[str] | None = None, more: MoreTools | None = None
) -> Server[Any]:
    """The MCP server for a server context; `operations` are the names of those offered, None for all."""
    changes = ChangeNotifier(server_context)
    handlers = _Handlers(server_context, changes, operations, more)

    @asynccontextmanager
    async def watching(server: Server[dict[str, Any]]) -> AsyncGenerator[dict[str, Any]]:
        async with changes.polling():
            yield {}

    server = _Server(
        NAME,
        version=__version__,
        title="callsheet",
        instructions=INSTRUCTIONS if more is None else INSTRUCTIONS_FOR_MODELS,
        on_list_tools=handlers.list_tools,
        on_call_tool=cast("Any", handlers.call_tool),
        on_list_resources=handlers.list_resources,
        on_list_resource_templates=handlers.list_templates,
        on_read_resource=handlers.read_resource,
        on_list_prompts=handlers.list_prompts,
        on_get_prompt=handlers.get_prompt,
        on_completion=handlers.complete,
        on_subscriptions_listen=changes.listen,
        lifespan=watching,
    )
    security = RequestStateSecurity.ephemeral(ttl=_ANSWER_AFTER)
    server.middleware.append(RequestStateBoundary(security, default_audience=NAME))
    offer_tasks(server, server_context)
    return server


class _Server(Server[dict[str, Any]]):
    """A server that declares notifications of resource changes to older clients too."""

    def create_initialization_options(
        self,
        notification_options: NotificationOptions | None = None,
        experimental_capabilities: dict[str, dict[str, Any]] | None = None,
        extensions: dict[str, dict[str, Any]] | None = None,
    ) -> InitializationOptions:
        """The options of the initialization, for older clients."""
        options = notification_options or NotificationOptions(resources_changed=True)
        return super().create_initialization_options(options, experimental_capabilities, extensions)


class _Handlers:
    """The request handlers of the server."""

    def __init__(
        self,
        server_context: ServerContext,
        changes: ChangeNotifier,
        operations: Collection[str] | None,
        more: MoreTools | None,
    ) -> None:
        self._server_context = server_context
        self._more = more
        self._changes = changes
        may_answer = server_context.clients_may_answer
        self._tools = {
            name: offered
            for name, offered in TOOLS.items()
            if (may_answer if offered[0].is_for_answers else operations is None or name in operations)
        }

    async def list_tools(self, context: _Context, params: PaginatedRequestParams | None) -> ListToolsResult:
        """All tools; `answer_run` only for a client without forms."""
        has_forms = client_supports_forms(context)
        offered = [each for each in self._tools.values() if not (has_forms and each[0].is_for_answers)]
        more = [] if self._more is None else await self._more.declarations()
        return ListToolsResult(tools=[*more, *map(declaration, offered)])

    async def call_tool(self, context: _Context, params: CallToolRequestParams) -> ToolAnswer:
        """The result of a tool call; errors are results too."""
        offered, caller = self._tools.get(params.name), ClientRequest(context, params)
        try:
            if offered is None:
                answered = None if self._more is None else await self._more.call(params, caller)
                if answered is None:
                    raise _no_tool(params.name)
                return answered.result
            return await call_tool(offered, self._server_context, params.arguments or {}, caller)
        except CallsheetError as error:
            return result_of(error_reply(self._server_context.host.masker.error(error)), caller)
        except MCPError:
            raise
        except Exception as error:
            _log.exception("the tool %s failed with an unexpected exception", params.name)
            text = f"a bug in callsheet: {type(error).__name__}: {error}"
            bug = CallsheetError.single("MCP009", text, help="please report it; the server continues")
            return result_of(error_reply(bug), caller)

    async def list_resources(
        self, context: _Context, params: PaginatedRequestParams | None
    ) -> ListResourcesResult:
        """Plans and the newest runs; the client is notified of changes of the list from now on."""
        await self._changes.register_legacy_client(context.session)
        listed = await _or_protocol_error(
            self._in_thread(partial(resources.list_resources, self._server_context))
        )
        return ListResourcesResult(resources=listed)

    async def list_templates(
        self, context: _Context, params: PaginatedRequestParams | None
    ) -> ListResourceTemplatesResult:
        """The templates of resource URIs."""
        return ListResourceTemplatesResult(resource_templates=resources.list_templates())

    async def read_resource(self, context: _Context, params: ReadResourceRequestParams) -> ReadResourceResult:
        """The content of a plan or run."""
        read = await _or_protocol_error(
            self._in_thread(partial(resources.read_resource, self._server_context, params.uri))
        )
        return ReadResourceResult(contents=[read])

    async def list_prompts(
        self, context: _Context, params: PaginatedRequestParams | None
    ) -> ListPromptsResult:
        """All prompts."""
        return ListPromptsResult(prompts=prompts.list_prompts())

    async def get_prompt(self, context: _Context, params: GetPromptRequestParams) -> GetPromptResult:
        """A rendered prompt."""
        return await _or_protocol_error(
            prompts.get_prompt(self._server_context, params.name, params.arguments or {})
        )

    async def complete(self, context: _Context, params: CompleteRequestParams) -> CompleteResult:
        """The ids with the given prefix."""
        name, prefix = params.argument.name, params.argument.value
        ids = await _or_protocol_error(
            self._in_thread(partial(resources.complete_id, self._server_context, name, prefix))
        )
        return CompleteResult(completion=Completion(values=ids, total=len(ids), has_more=False))

    def _in_thread(self, look: Callable[[], _T]) -> Awaitable[_T]:
        return asyncio.to_thread(look)


def _no_tool(name: str) -> MCPError:
    more = "; start callsheet mcp with --operations" if name in TOOLS else ""
    return MCPError(code=INVALID_PARAMS, message=f"there is no tool {name[:80]!r}{more}")


async def _or_protocol_error(work: Awaitable[_T]) -> _T:
    """Await the result; a CallsheetError becomes a protocol error with the diagnostics as its data."""
    try:
        return await work
    except CallsheetError as error:
        summary = "; ".join(f"{d.code}: {d.message}" for d in error.diagnostics)
        data = {"diagnostics": to_json(error.diagnostics, error.source)}
        raise MCPError(code=INVALID_PARAMS, message=summary, data=data) from error
