"""Tasks of servers (the extension `io.modelcontextprotocol/tasks`): a call whose result comes later.

A server may answer a call with a task. It is asked for its state until it has ended, what it asks meanwhile
is answered like a question during any call, and its id is told to whoever made the call, so that another
process can wait for it after a crash. In: a task. Out: the result of the call.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, ClassVar, Literal, cast

from mcp.client.context import ClientRequestContext
from mcp.client.extension import ClaimContext, ClientExtension, ResultClaim
from mcp.client.session import ClientSession
from mcp.shared.exceptions import MCPError
from mcp_types import CallToolResult, ErrorData, InputRequest, Request, Result
from pydantic import ConfigDict, TypeAdapter

from callsheet.ports.mcp.front import OpenCall, open_call

TASKS = "io.modelcontextprotocol/tasks"
_PAUSE, _LEAST, _MOST = 1.0, 0.05, 60.0
"""Seconds between two questions about a task: if its server suggests none, at least, at most."""
_INTERNAL = -32603
_WIRE: TypeAdapter[dict[str, Any]] = TypeAdapter(dict[str, Any])
_INPUT: TypeAdapter[InputRequest] = TypeAdapter(InputRequest)


class ServerTask(Result):
    """The answer of a server that a call has become a task."""

    model_config = ConfigDict(extra="allow")
    result_type: Literal["task"] = "task"
    task_id: str
    poll_interval_ms: float | None = None


class TaskLost(Exception):
    """The server does not know a task any more, so that it is unknown what became of the call."""


class _TaskRequest(Request[dict[str, Any], str]):
    name_param: ClassVar[str | None] = "taskId"


class TaskExtension(ClientExtension):
    """Says to servers that their calls may become tasks, and waits for these."""

    identifier = TASKS

    def claims(self) -> Sequence[ResultClaim[Any]]:
        """The answer that is a task."""
        return (ResultClaim(result_type="task", model=ServerTask, resolve=_resolve),)


async def _resolve(task: ServerTask, context: ClaimContext) -> CallToolResult:
    call = open_call()
    if call is not None and call.task is not None:
        await call.task.began(task.task_id)
    return await result_of_task(context.session, task.task_id, task.poll_interval_ms, call)


async def result_of_task(
    session: ClientSession, task_id: str, pause_ms: float | None, call: OpenCall | None
) -> CallToolResult:
    """Wait for a task; the time of its call does not run while its server knows of it.

    A call that is cancelled cancels its task, unless the run is resumed by another process, which waits for
    it. Raises MCPError as the server has sent it, if the task was cancelled, or if it asks what nobody can
    answer (then it is cancelled); TaskLost if its state cannot be had.
    """
    answered: set[str] = set()
    try:
        while True:
            pause = _PAUSE if pause_ms is None else pause_ms / 1000
            await asyncio.sleep(min(max(pause, _LEAST), _MOST))
            try:
                state = await _sent(session, "tasks/get", {"taskId": task_id})
            except MCPError as error:
                raise TaskLost(f"its server does not tell the state of the task: {error.message}") from error
            if call is not None:
                call.lives()
            pause_ms = state.get("pollIntervalMs", pause_ms)
            match state.get("status"):
                case "completed":
                    return CallToolResult.model_validate(state.get("result"))
                case "failed":
                    raise MCPError.from_error_data(ErrorData.model_validate(state.get("error")))
                case "cancelled":
                    why = state.get("statusMessage") or "the server has cancelled the task"
                    raise MCPError(code=_INTERNAL, message=str(why))
                case "input_required":
                    await _give_input(session, task_id, state.get("inputRequests") or {}, answered)
                case "working":
                    pass
                case other:
                    raise TaskLost(f"its server tells a state of the task that there is not: {other!r:.80}")
    except asyncio.CancelledError:
        if call is None or not call.may_go_on:
            await asyncio.shield(_cancel(session, task_id))
        raise


async def _cancel(session: ClientSession, task_id: str) -> None:
    """Tell the server that nobody waits for a task; it need not stop."""
    try:
        async with asyncio.timeout(1):
            await _sent(session, "tasks/cancel", {"taskId": task_id})
    except (MCPError, TimeoutError):
        pass


async def _give_input(
    session: ClientSession, task_id: str, requests: dict[str, Any], answered: set[str]
) -> None:
    """Answer what a task asks and has not been answered yet.

    Raises MCPError for what nobody can answer; the task is cancelled, since it would wait for ever.
    """
    for key, asked in requests.items():
        if key in answered:
            continue
        answered.add(key)
        request = _INPUT.validate_python(asked)
        context = ClientRequestContext(session=session, request_id=key)
        answer = await session.dispatch_input_request(context, request)
        if isinstance(answer, ErrorData):
            await _cancel(session, task_id)
            raise MCPError.from_error_data(answer)
        given = answer.model_dump(by_alias=True, mode="json", exclude_none=True)
        await _sent(session, "tasks/update", {"taskId": task_id, "inputResponses": {key: given}})


async def _sent(session: ClientSession, method: str, params: dict[str, Any]) -> dict[str, Any]:
    request = _TaskRequest(method=method, params=params)
    return await session.send_request(request, cast("Any", _WIRE))
