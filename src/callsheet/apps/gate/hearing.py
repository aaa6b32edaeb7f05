"""What a server says during a call of a client: its questions, progress and log lines reach that client.

In: a client's request, and what servers send while its call is under way. Out: the answers of the client, as
the protocols of both have them.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from typing import Any, cast

from mcp.shared.exceptions import MCPError
from mcp.shared.message import ServerMessageMetadata
from mcp_types import (
    LOG_LEVEL_META_KEY,
    CreateMessageRequest,
    CreateMessageResult,
    CreateMessageResultWithTools,
    ElicitRequest,
    ElicitResult,
    ListRootsRequest,
    ListRootsResult,
)
from pydantic import BaseModel

from callsheet.apps.gate.offers import (
    send_log_line,
)
from callsheet.apps.gate.session import (
    ClientCall,
    Hearing,
    ServerAsked,
)
from callsheet.apps.mcp.server_context import ClientRequest
from callsheet.ir import JSON
from callsheet.runtime.server_questions import ELICIT, ELICIT_URL, LONGEST, ROOTS, SAMPLE, said_by_server

_log = logging.getLogger("callsheet.gate")
_REQUESTS: Mapping[str, tuple[type[Any], type[Any]]] = {
    ELICIT: (ElicitRequest, ElicitResult),
    SAMPLE: (CreateMessageRequest, CreateMessageResult),
    ROOTS: (ListRootsRequest, ListRootsResult),
}
"""The requests of servers that are passed on, with their results."""


def hearing_of(caller: ClientRequest, usual: str) -> Hearing:
    """What the client of a call wants to hear meanwhile, and what it can answer.

    An older client gets log lines from the `usual` level on.
    """
    context = caller.context
    session, meta = context.session, caller.params.meta or {}
    offered, level = session.client_capabilities, meta.get(LOG_LEVEL_META_KEY)

    async def logged(params: dict[str, JSON]) -> None:
        await send_log_line(session, params, context.request_id)

    if not caller.has_input_required:
        level = level or usual
    methods: set[str] = {ELICIT} if caller.supports_forms else set()
    if offered is not None and caller.can_be_asked:
        methods |= {SAMPLE} if offered.sampling is not None else set()
        methods |= {ROOTS} if offered.roots is not None else set()
        has_urls = offered.elicitation is not None and offered.elicitation.url is not None
        methods |= {ELICIT_URL} if has_urls else set()
    return Hearing(
        progress=session.report_progress if "progress_token" in meta else None,
        logged=None if level is None else logged,
        meta={} if level is None else {LOG_LEVEL_META_KEY: cast("JSON", level)},
        methods=frozenset(methods),
    )


def request_of(asked: ServerAsked, *, is_guarded: bool) -> Any:
    """What a server asks, for the client; a person is told which server it is, since the gate asks too.

    Under a policy a language model is not given what else the client has read: the answer goes to the server.
    """
    method, params = asked.question.method, asked.question.params
    if method == SAMPLE and is_guarded and params.get("includeContext", "none") != "none":
        params = {**params, "includeContext": "none"}
    if method == ELICIT:
        params = {**params, "message": said_by_server(asked.question)}
    return _REQUESTS[method][0].model_validate({"method": method, "params": params})


async def ask_older(caller: ClientRequest, call: ClientCall, asked: ServerAsked, request: Any) -> JSON:
    """The answer of an older client, while the call goes on; None if it gives none, or too late."""
    model = _REQUESTS[asked.question.method][1]
    if asked.question.params.get("tools") is not None and model is CreateMessageResult:
        model = CreateMessageResultWithTools
    beside = ServerMessageMetadata(related_request_id=caller.context.request_id)
    asking = asyncio.ensure_future(caller.context.session.send_request(request, model, metadata=beside))
    try:
        await asyncio.wait({asking, call.ended}, timeout=LONGEST, return_when=asyncio.FIRST_COMPLETED)
        return wire_of(asking.result()) if asking.done() else None
    except (MCPError, ValueError) as error:
        _log.info("the client does not answer %s: %s", asked.question.method, error)
        return None
    finally:
        asking.cancel()


def wire_of(answer: BaseModel | None) -> JSON:
    """A model of the protocol as it is sent."""
    if answer is None:
        return None
    return cast("JSON", answer.model_dump(by_alias=True, mode="json", exclude_none=True))
