"""Answers that come later than those of calls: of tasks of servers, and after a call was given up.

A server may answer a call with a task. It is asked for its state until it has ended, what it asks meanwhile
is answered like a question during any call, and its id is told to whoever made the call, so that another
process can wait for it after a crash. In: a task. Out: the result of the call.

In: the messages sent and received. Out: the late result, passed to a callback. The SDK drops answers that
nobody waits for, so the streams are wrapped to see them first.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from types import TracebackType
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self, TypeAlias, cast

from mcp.client.context import ClientRequestContext
from mcp.client.extension import ClaimContext, ClientExtension, ResultClaim
from mcp.client.session import ClientSession
from mcp.shared.exceptions import MCPError
from mcp_types import CallToolResult, ErrorData, InputRequest, Request, Result
from pydantic import ConfigDict, TypeAdapter

from callsheet.ports.mcp.front import OpenCall, open_call
from callsheet.ports.mcp.transport import IDEMPOTENCY_KEY

if TYPE_CHECKING:
    from mcp.client import Transport


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


_MOST_UNANSWERED = 100
_PATIENCE = 1.0
"""Longest delay of a request in seconds, so that an answer that never comes blocks nothing for ever."""
_CANCELLED = "notifications/cancelled"


class Unanswered:
    """The server's requests in one session that we have not answered yet."""

    def __init__(self) -> None:
        self._by_id: dict[str | int, int] = {}
        self._count = 0
        self._room = asyncio.Event()

    async def arrives(self, message: Any) -> None:
        """Note a received message; returns when it may be handed on."""
        method: str | None = getattr(message, "method", None)
        request: str | int | None = getattr(message, "id", None)
        if method == _CANCELLED:  # a cancelled request gets no answer
            params: dict[str, Any] = message.params or {}
            self._settle(params.get("requestId"))
        if method is None or request is None:
            return
        if self._count >= _MOST_UNANSWERED:
            self._room.clear()
            with suppress(TimeoutError):
                await asyncio.wait_for(self._room.wait(), _PATIENCE)
        self._by_id[request] = self._by_id.get(request, 0) + 1
        self._count += 1

    def has_left(self, message: Any) -> None:
        """Note a message that was sent."""
        if getattr(message, "method", None) is None:
            self._settle(getattr(message, "id", None))

    def _settle(self, request: Any) -> None:
        waiting = self._by_id.get(request, 0) if isinstance(request, int | str) else 0
        if not waiting:
            return
        if waiting == 1:
            del self._by_id[request]
        else:
            self._by_id[request] = waiting - 1
        self._count -= 1
        self._room.set()


OnAnswer: TypeAlias = "Callable[[dict[str, Any] | None, str], None]"
"""Called with the result as the server sent it, or with None and the text of its error."""

_MOST_GIVEN_UP = 1_000
"""The number of unanswered calls that are remembered, newest last: some servers never answer."""


class LateAnswers:
    """The unanswered calls of one session, and the callbacks for those that were given up."""

    def __init__(self) -> None:
        self._open: dict[str | int, tuple[str, OnAnswer | None]] = {}

    def expect(self, delivery: str, on_answer: OnAnswer) -> None:
        """Call `on_answer` if the newest call with this idempotency key is answered from now on."""
        for request, (key, _) in reversed(self._open.items()):
            if key == delivery:
                self._open[request] = key, on_answer
                return

    def leaves(self, message: Any) -> None:
        """Note a message that is about to be sent."""
        if getattr(message, "method", None) != "tools/call":
            return
        params: dict[str, Any] = message.params or {}
        meta: dict[str, Any] = params.get("_meta") or {}
        key = meta.get(IDEMPOTENCY_KEY)
        if isinstance(key, str):
            self._open[message.id] = key, None
            if len(self._open) > _MOST_GIVEN_UP:
                del self._open[next(iter(self._open))]

    def arrives(self, message: Any) -> None:
        """Note a received message."""
        if hasattr(message, "method"):
            return
        _, on_answer = self._open.pop(getattr(message, "id", ""), ("", None))
        if on_answer is None:
            return
        error = getattr(message, "error", None)
        if error is None:
            on_answer(message.result, "")
        else:
            on_answer(None, error.message)


@asynccontextmanager
async def observed(transport: Transport, late: LateAnswers) -> AsyncGenerator[Any]:
    """The transport's streams with their messages shown to `late`, and requests delayed by `Unanswered`."""
    unanswered = Unanswered()
    async with transport as (received, sending):
        yield _Received(received, late, unanswered), _Sending(sending, late, unanswered)


class _Stream:
    """A wrapper around a stream of the SDK; what is not defined here is delegated."""

    def __init__(self, inner: Any, late: LateAnswers, unanswered: Unanswered) -> None:
        self._inner = inner
        self._late = late
        self._unanswered = unanswered

    async def __aenter__(self) -> Self:
        await self._inner.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        return await self._inner.__aexit__(kind, error, trace)

    async def aclose(self) -> None:
        await self._inner.aclose()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


class _Received(_Stream):
    async def receive(self) -> Any:
        return await self._seen(await self._inner.receive())

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Any:
        return await self._seen(await self._inner.__anext__())

    async def _seen(self, item: Any) -> Any:
        message = getattr(item, "message", None)  # an exception of the transport has none
        if message is not None:
            self._late.arrives(message)
            await self._unanswered.arrives(message)
        return item


class _Sending(_Stream):
    async def send(self, item: Any) -> None:
        self._late.leaves(item.message)
        await self._inner.send(item)
        self._unanswered.has_left(item.message)
