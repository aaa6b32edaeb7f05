"""Adapts a tool manager to tools of a runtime, and reads its answers.

In: an object with `execute_tool(name, arguments)`, or a function with these parameters. Out: tools, or the
result of a single call.
"""

from __future__ import annotations

import inspect
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from callsheet.api.budget import SharedBudget
from callsheet.api.models import called
from callsheet.ir import JSON, Effect, canonical_tool_name
from callsheet.machine import Limits
from callsheet.planning.guards import ToolStateManager
from callsheet.ports.answers import Answerer, read_answer
from callsheet.ports.calls import CallContext, ToolFailed
from callsheet.ports.python_tools import to_json
from callsheet.ports.tools import Handler, Tool, ToolSpec


@dataclass(frozen=True, slots=True)
class ToolExecutionRequest:
    """A request for one tool call."""

    tool_name: str
    args: Mapping[str, Any] = field(default_factory=dict[str, Any])
    step_id: str = ""


@dataclass(frozen=True, slots=True)
class ToolExecutionResult:
    """The result of one tool call; `duration` is in seconds."""

    tool_name: str
    success: bool
    result: Any = None
    error: str | None = None
    duration: float = 0.0


class McpToolBackend:
    """Makes single calls of a tool manager's tools; with `enable_guards` the guards apply.

    `guards`, by default new ones with `budget`, also bind the results: the argument `$v1` is the first.
    """

    def __init__(
        self,
        tool_manager: Any,
        enable_guards: bool = True,
        budget: SharedBudget | None = None,
        *,
        guards: ToolStateManager | None = None,
    ) -> None:
        self._manager = tool_manager
        self._has_guards = enable_guards
        self.guards = guards or ToolStateManager(budget or SharedBudget(Limits()))
        self.budget = self.guards.budget

    async def execute_tool(self, request: ToolExecutionRequest) -> ToolExecutionResult:
        """Make a call; a failure or a refusal by the budget is returned as a result, not raised."""
        name, began = request.tool_name, time.monotonic()
        arguments = dict(request.args)
        if self._has_guards:
            arguments = self.guards.resolved(arguments)
            refusal = self.guards.check_all_guards(name, arguments)
            if refusal is not None:
                return ToolExecutionResult(name, False, error=f"guard: {refusal}")
            self.budget.count_call(name)
        value: Any = None
        try:
            value = await handler_of(self._manager, name)(arguments, CallContext("", request.step_id))
        except ToolFailed as error:
            return ToolExecutionResult(name, False, None, str(error), time.monotonic() - began)
        except Exception as error:
            message = f"{type(error).__name__}: {error}"
            return ToolExecutionResult(name, False, None, message, time.monotonic() - began)
        finally:
            if self._has_guards:
                self.guards.note_call(name, arguments, value)
        return ToolExecutionResult(name, True, value, None, time.monotonic() - began)


def handler_of(manager: Any, name: str) -> Handler:
    """The handler that calls one of the manager's tools."""
    function = getattr(manager, "execute_tool", manager)

    async def call(arguments: dict[str, Any], context: CallContext) -> JSON:
        return to_json(read_answer(await called(function, name, arguments), Answerer.MANAGER))

    return call


@dataclass(frozen=True, slots=True)
class AroundCalls:
    """What happens around the calls of a plan: `before` is told of each, and `guards`, if any, apply."""

    before: Callable[[CallContext, str], Awaitable[None]] | None = None
    guards: ToolStateManager | None = None


def tool_of_manager(manager: Any, spec: ToolSpec, around: AroundCalls) -> Tool:
    """The tool of the manager with this declaration."""
    handler, name = handler_of(manager, spec.executor), spec.executor
    before, guards = around.before, around.guards

    async def call(arguments: dict[str, Any], context: CallContext) -> JSON:
        if before is not None:
            await before(context, name)
        if guards is None:
            return await handler(arguments, context)
        refusal = guards.runaway(name, arguments)
        if refusal is not None:
            raise ToolFailed(f"guard: {refusal}")
        value: JSON = None
        try:
            value = await handler(arguments, context)
        finally:
            guards.note_call(name, arguments, value)
        return value

    return Tool(spec, call)


def bare_spec(name: str) -> ToolSpec:
    """The declaration of a tool of which only the name is known; the manager gets the name without `@`."""
    executor = name.removeprefix("@")
    return ToolSpec(canonical_tool_name(name), executor, effect=Effect.UNSAFE, origin="tool manager")


async def catalogue_of(manager: Any) -> tuple[ToolSpec, ...] | None:
    """The declarations from the manager's `get_all_tools`; None if it has no such method."""
    ask = getattr(manager, "get_all_tools", None)
    if ask is None:
        return None
    listed = ask()
    rows = await listed if inspect.isawaitable(listed) else listed
    return specs_of(rows)


def specs_of(rows: Iterable[Any]) -> tuple[ToolSpec, ...]:
    """Declarations from names, dicts or objects with `name`, `description` and `parameters`."""
    return tuple(_spec(row) for row in rows)


def _spec(row: Any) -> ToolSpec:
    if isinstance(row, ToolSpec):
        return row
    if isinstance(row, str):
        return bare_spec(row)
    fields = ("name", "description", "parameters", "inputSchema")
    data: dict[str, Any] = (
        dict(cast("Mapping[str, Any]", row))
        if isinstance(row, Mapping)
        else {field: getattr(row, field, None) for field in fields}
    )
    name = str(data.get("name"))
    parameters: Any = data.get("parameters") or data.get("inputSchema") or {}
    return ToolSpec(
        canonical_tool_name(name),
        name,
        str(data.get("description") or ""),
        dict(parameters),
        Effect.UNSAFE,
        origin="tool manager",
    )
