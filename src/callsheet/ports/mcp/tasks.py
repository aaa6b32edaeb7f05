"""Tasks of servers: calls whose results come later.

They are of the extension `io.modelcontextprotocol/tasks`, or of the protocol of 2025-11-25, where a tool may
take calls as tasks only. A task is asked for its state until it has ended, what it asks meanwhile is answered
like a question during any call, and its id is told to whoever made the call, so that another process can wait
for it after a crash. In: a task. Out: the result of the call.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal, cast

from mcp.client.context import ClientRequestContext
from mcp.client.extension import ClaimContext, ClientExtension, ResultClaim
from mcp.client.session import ClientSession
from mcp.shared.dispatcher import ProgressFnT
from mcp.shared.exceptions import MCPError
from mcp_types import (
    CallToolRequest,
    CallToolRequestParams,
    CallToolResult,
    ErrorData,
    InputRequest,
    Request,
    Result,
    TaskMetadata,
)
from pydantic import ConfigDict, TypeAdapter

from callsheet.ports.mcp.front import OpenCall, open_call

TASKS = "io.modelcontextprotocol/tasks"
_PAUSE, _LEAST, _MOST = 1.0, 0.05, 3600.0
"""Seconds between two questions about a task: if its server suggests none, at least, at most."""
_INTERNAL = -32603
_BEGUN = "dev.callsheet/task"
"""The `_meta` field with the task of 2025-11-25 that a call has become."""
_WIRE: TypeAdapter[dict[str, Any]] = TypeAdapter(dict[str, Any])
_INPUT: TypeAdapter[InputRequest] = TypeAdapter(InputRequest)


class ServerTask(Result):
    """The answer of a server that a call has become a task."""

    model_config = ConfigDict(extra="allow")
    result_type: Literal["task"] = "task"
    task_id: str
    poll_interval_ms: Any = None


def _pause(suggested: object) -> float:
    """The seconds until the next question; `suggested` are the server's milliseconds, if they are any."""
    if isinstance(suggested, bool) or not isinstance(suggested, int | float):
        return _PAUSE
    return min(_MOST * 1000, max(_LEAST * 1000, suggested)) / 1000


class TaskLost(Exception):
    """The server does not tell the state or the result of a task: what became of the call is unknown."""


class _TaskRequest(Request[dict[str, Any], str]):
    name_param: ClassVar[str | None] = "taskId"


class TaskExtension(ClientExtension):
    """Says to servers that their calls may become tasks, and waits for these."""

    identifier = TASKS

    def claims(self) -> Sequence[ResultClaim[Any]]:
        """The answer that is a task."""
        return (ResultClaim(result_type="task", model=ServerTask, resolve=_resolve),)


async def _resolve(task: ServerTask, context: ClaimContext) -> CallToolResult:
    return await _result_of(context.session, task, open_call())


async def _result_of(session: ClientSession, task: ServerTask, call: OpenCall | None) -> CallToolResult:
    if call is not None and call.task is not None:
        await call.task.began(task.task_id)
    return await result_of_task(session, task.task_id, task.poll_interval_ms, call)


def with_task_in_meta(message: Any) -> Any:
    """A received message that the SDK takes: it knows no answer of 2025-11-25 that is a task."""
    result: Any = getattr(message, "result", None)
    if not isinstance(result, dict) or "task" not in result or "content" in result:
        return message
    task: Any = cast("dict[str, Any]", result)["task"]
    if not isinstance(task, dict) or "taskId" not in task:
        return message
    told = cast("dict[str, Any]", task)
    begun = {"taskId": told.get("taskId"), "pollIntervalMs": told.get("pollInterval")}
    return message.model_copy(update={"result": {"content": [], "_meta": {_BEGUN: begun}}})


async def call_as_task(
    session: ClientSession,
    name: str,
    args: dict[str, Any],
    meta: Mapping[str, Any],
    progress: ProgressFnT | None,
) -> CallToolResult:
    """Call a tool of 2025-11-25 that takes calls as tasks only; `result_of_begun` waits for its result."""
    fields = {"name": name, "arguments": args, "task": TaskMetadata(), "_meta": meta or None}
    request = CallToolRequest(params=CallToolRequestParams.model_validate(fields))
    return await session.send_request(request, CallToolResult, progress_callback=progress)


async def result_of_begun(session: ClientSession, result: CallToolResult, call: OpenCall) -> CallToolResult:
    """The result of a call that may have become a task of 2025-11-25; raises as `result_of_task`."""
    begun: Any = (result.meta or {}).get(_BEGUN)
    return result if begun is None else await _result_of(session, ServerTask.model_validate(begun), call)


async def result_of_task(
    session: ClientSession, task_id: str, pause_ms: object, call: OpenCall | None
) -> CallToolResult:
    """Wait for a task; the time of its call does not run while its server knows of it.

    A call that is cancelled cancels its task, unless the run is resumed by another process, which waits for
    it. Raises MCPError as the server has sent it, if the task was cancelled, or if it asks what nobody can
    answer (then it is cancelled); TaskLost if its state or its result cannot be had.
    """
    try:
        return await _ended(session, task_id, pause_ms, call)
    except asyncio.CancelledError:
        if call is None or not call.may_go_on:
            await asyncio.shield(_cancel(session, task_id))
        raise


async def _ended(
    session: ClientSession, task_id: str, pause_ms: object, call: OpenCall | None
) -> CallToolResult:
    answered: set[str] = set()
    is_older = (session.protocol_version or "") < "2026"
    result: asyncio.Future[CallToolResult] | None = None
    try:
        while True:
            pause = _pause(pause_ms)
            if call is not None:
                call.lives(pause)
            if result is None:
                await asyncio.sleep(pause)
            elif result in (await asyncio.wait({result}, timeout=pause))[0]:
                return result.result()
            state = await _state(session, task_id, result)
            pause_ms = state.get("pollInterval" if is_older else "pollIntervalMs", pause_ms)
            match state.get("status"):
                case "completed" | "failed" | "input_required" as status if is_older:
                    # it asks what it has to ask while it is asked for its result
                    result = result or asyncio.ensure_future(_told_result(session, task_id, status))
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
    finally:
        if result is not None and not (result.cancel() or result.cancelled()):
            result.exception()  # or it would be logged as heard by nobody


async def _told_result(session: ClientSession, task_id: str, status: str) -> CallToolResult:
    """The result of a task of 2025-11-25 that has this status; raises as `result_of_task`."""
    try:
        return CallToolResult.model_validate(await _sent(session, "tasks/result", {"taskId": task_id}))
    except MCPError as error:
        if status == "completed":  # so this is not the error of the call
            raise TaskLost(f"its server does not tell the result of the task: {error.message}") from error
        raise


async def _state(
    session: ClientSession, task_id: str, result: asyncio.Future[CallToolResult] | None
) -> dict[str, Any]:
    """The state of a task; raises TaskLost, unless its result has come: its server may forget it then."""
    try:
        return await _sent(session, "tasks/get", {"taskId": task_id})
    except MCPError as error:
        if result is not None and result.done():
            return {"status": "working"}
        raise TaskLost(f"its server does not tell the state of the task: {error.message}") from error


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
