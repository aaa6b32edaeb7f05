"""The server: what it offers, and how each request is answered.

In: a bench. Out: a server that a transport serves. What goes wrong in a tool is an answer of that tool, with
diagnostics; a bug is one as well, and goes to the log with its traceback.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel.server import Server
from mcp.server.request_state import RequestStateBoundary, RequestStateSecurity
from mcp.shared.exceptions import MCPError
from mcp_types import (
    INVALID_PARAMS,
    CallToolRequestParams,
    CallToolResult,
    InputRequiredResult,
    ListToolsResult,
    PaginatedRequestParams,
)

from callsheet import __version__
from callsheet.apps.mcp.bench import Bench
from callsheet.apps.mcp.calling import Caller, offers_forms
from callsheet.apps.mcp.looking import ANSWERING, LOOKING
from callsheet.apps.mcp.offering import Offer
from callsheet.apps.mcp.planning import PLANNING
from callsheet.apps.mcp.replies import Reply, refusal
from callsheet.apps.mcp.running import RUNNING
from callsheet.apps.mcp.texts import TEXTS
from callsheet.diagnostics import CallsheetError

NAME = "callsheet"
INSTRUCTIONS = (
    "callsheet runs plans: short texts of tool calls that are checked before they run, run step by step "
    "without a model in between, and can be resumed after any interruption. Use it for tasks of several "
    "coordinated calls; for a single call use the tool itself. Write a plan (the prompt write_plan has the "
    "language and the tools), validate it, then run it with "
    "plan_execute; or give plan_create_and_execute a goal."
)
_log = logging.getLogger("callsheet.mcp")


def make_server(bench: Bench) -> Server[Any]:
    """A server on a bench."""
    offers: Sequence[Offer[Any]] = (*TEXTS, *PLANNING, *RUNNING, *LOOKING)
    by_name = {offer.name: offer for offer in offers}
    if bench.lets_clients_answer:
        by_name[ANSWERING.name] = ANSWERING

    async def list_tools(
        context: ServerRequestContext[Any, Any], params: PaginatedRequestParams | None
    ) -> ListToolsResult:
        shown = [*offers, ANSWERING] if bench.lets_clients_answer and not offers_forms(context) else offers
        return ListToolsResult(tools=[offer.declaration() for offer in shown])

    async def call_tool(
        context: ServerRequestContext[Any, Any], params: CallToolRequestParams
    ) -> CallToolResult | InputRequiredResult:
        offer = by_name.get(params.name)
        if offer is None:
            raise MCPError(code=INVALID_PARAMS, message=f"there is no tool {params.name[:80]!r}")
        answer = await _answered(offer, bench, Caller(context, params))
        return answer.result() if isinstance(answer, Reply) else answer

    server: Server[Any] = Server(
        NAME,
        version=__version__,
        title="callsheet",
        instructions=INSTRUCTIONS,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
    )
    server.middleware.append(RequestStateBoundary(RequestStateSecurity.ephemeral(), default_audience=NAME))
    return server


async def _answered(offer: Offer[Any], bench: Bench, caller: Caller) -> Reply | InputRequiredResult:
    try:
        return await offer.call(bench, caller.params.arguments or {}, caller)
    except CallsheetError as error:
        return refusal(error)
    except MCPError:
        raise
    except Exception as error:
        _log.exception("the tool %s has met a bug", offer.name)
        said = f"a bug of callsheet: {type(error).__name__}: {error}"
        return refusal(CallsheetError.single("MCP009", said, help="please report it; the server goes on"))
