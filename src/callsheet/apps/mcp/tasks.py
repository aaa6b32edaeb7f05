"""Runs as tasks of MCP (the extension `io.modelcontextprotocol/tasks`): the result of a call comes later.

If a client can have tasks and its run takes long, the call is answered with a task, whose id is the run's.
The run goes on without the client, which asks for its state, answers its questions, and cancels it. In:
requests about tasks. Out: the state of the run, with the result that the call would have had.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any, Literal, TypeAlias

from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel.server import Server
from mcp.shared.exceptions import MCPError
from mcp_types import (
    INVALID_PARAMS,
    CallToolRequestParams,
    CallToolResult,
    ElicitResult,
    InputRequiredResult,
    RequestParams,
    Result,
)
from pydantic import Field

from callsheet.apps.mcp.server_context import TASKS, ClientRequest, ServerContext
from callsheet.diagnostics import CallsheetError
from callsheet.machine import Status

PATIENCE = 5.0
"""Seconds after which a run becomes a task."""
_PAUSE = 1_000
_MISSING = -32021
_Context: TypeAlias = "ServerRequestContext[Any, Any]"
Finish: TypeAlias = "Callable[[_Context, CallToolResult, str], Awaitable[CallToolResult]]"
"""Makes of the result of a run what the client gets."""


class RunTask(Result):
    """The answer to a call whose run goes on."""

    result_type: Literal["task"] = "task"
    task_id: str
    status: str = "working"
    status_message: str = "the run goes on"
    created_at: str
    last_updated_at: str
    ttl_ms: int | None = Field(default=None)
    poll_interval_ms: int = _PAUSE


ToolAnswer: TypeAlias = "CallToolResult | InputRequiredResult | RunTask"
"""What a call of a tool is answered with."""


class TaskParams(RequestParams):
    """The parameters of requests about tasks."""

    task_id: str
    input_responses: dict[str, ElicitResult] | None = None


def task_of(server_context: ServerContext, run_id: str) -> RunTask:
    """The task that a run is; raises JournalError (JRN002) for an unknown run."""
    created = server_context.host.journal.find_run(run_id).created
    return RunTask(task_id=run_id, created_at=_time(created), last_updated_at=_time())


def _time(seconds: float | None = None) -> str:
    now = datetime.now(UTC) if seconds is None else datetime.fromtimestamp(seconds, UTC)
    return now.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def offer_tasks(server: Server[Any], server_context: ServerContext, finish: Finish | None = None) -> None:
    """Let a server offer runs as tasks."""
    tasks = _Tasks(server_context, finish)
    server.extensions = {**server.extensions, TASKS: {}}
    server.add_request_handler("tasks/get", TaskParams, tasks.get)
    server.add_request_handler("tasks/update", TaskParams, tasks.update)
    server.add_request_handler("tasks/cancel", TaskParams, tasks.cancel)


class _Tasks:
    """Answers the requests about tasks."""

    def __init__(self, server_context: ServerContext, finish: Finish | None) -> None:
        self._server_context = server_context
        self._finish = finish

    async def get(self, context: _Context, params: TaskParams) -> dict[str, Any]:
        """The state of a run."""
        from callsheet.apps.mcp.elicitation import open_forms  # noqa: PLC0415 - brings the questions
        from callsheet.apps.mcp.running import reply_of_run  # noqa: PLC0415 - brings all operations
        from callsheet.apps.mcp.tools import result_of  # noqa: PLC0415 - as above

        caller, host, run_id = self._caller(context), self._server_context.host, params.task_id
        task = await self._known(run_id)
        wire: dict[str, Any] = task.model_dump(by_alias=True, mode="json", exclude_none=True)
        wire |= {"resultType": "complete", "ttlMs": None}
        if not await host.wait(run_id, 0.0):
            return wire
        try:
            outcome = await host.outcome(run_id)
        except CallsheetError as error:
            failed = {"code": INVALID_PARAMS, "message": str(host.masker.error(error))}
            return {**wire, "status": "failed", "error": failed}
        if outcome.pause is not None:
            return {**wire, "statusMessage": f"the run is {outcome.pause.words}"}
        is_asking = outcome.result is None and caller.supports_forms
        forms = await open_forms(host, outcome) if is_asking else {}
        if forms:
            asked = {name: _wire_of(form.request()) for name, form in forms.items()}
            message = {"statusMessage": "the run waits for an answer"}
            return {**wire, **message, "status": "input_required", "inputRequests": asked}
        if outcome.result is not None and outcome.result.status is Status.CANCELLED:
            return {**wire, "status": "cancelled", "statusMessage": outcome.result.error or "cancelled"}
        reply = reply_of_run(self._server_context.context(caller.client_name), caller, run_id, outcome)
        result = result_of(reply, caller)
        if self._finish is not None:
            result = await self._finish(context, result, run_id)
        return {
            **wire,
            "status": "completed",
            "statusMessage": "the run has stopped",
            "result": _wire_of(result),
        }

    async def update(self, context: _Context, params: TaskParams) -> dict[str, Any]:
        """Take the answers of a person to what a run asks, and continue it."""
        from callsheet.apps.hosting import ResumeOptions  # noqa: PLC0415 - as in `get`
        from callsheet.apps.mcp.elicitation import record_answers  # noqa: PLC0415 - as above

        caller, host, run_id = self._caller(context), self._server_context.host, params.task_id
        await self._known(run_id)
        given = params.input_responses or {}
        has_recorded, _ = await record_answers(host, run_id, given, caller.client_name)
        if has_recorded and host.hosted(run_id) is None:
            await host.resume(run_id, ResumeOptions(as_recorded=True))
        return {}

    async def cancel(self, context: _Context, params: TaskParams) -> dict[str, Any]:
        """End a run for good, unless it has ended."""
        caller, host, run_id = self._caller(context), self._server_context.host, params.task_id
        await self._known(run_id)
        try:
            await host.cancel(run_id, f"cancelled by {caller.client_name}", 0.0)
        except CallsheetError as error:
            if error.diagnostics[0].code != "JRN032":  # it has ended
                raise MCPError(code=INVALID_PARAMS, message=str(error)) from error
        return {}

    def _caller(self, context: _Context) -> ClientRequest:
        caller = ClientRequest(context, CallToolRequestParams(name="tasks/get"))
        if not caller.supports_tasks:
            wanted: dict[str, Any] = {"requiredCapabilities": {"extensions": {TASKS: {}}}}
            raise MCPError(code=_MISSING, message="Missing required client capability", data=wanted)
        return caller

    async def _known(self, run_id: str) -> RunTask:
        host = self._server_context.host
        try:
            return await host.beside(lambda: task_of(self._server_context, run_id))
        except CallsheetError as error:
            raise MCPError(code=INVALID_PARAMS, message=f"there is no task {run_id[:80]!r}") from error


def _wire_of(model: Any) -> dict[str, Any]:
    return model.model_dump(by_alias=True, mode="json", exclude_none=True)
