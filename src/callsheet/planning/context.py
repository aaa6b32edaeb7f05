"""The context of planning: a tool manager, its catalogue, guards of its calls, a folder of plans, a budget.

In: the calls of a conversation and of its plans, with their results. Out: why a call may not be made, and
arguments with bound values in place of `$v1`, `$v2`, ….
"""

from __future__ import annotations

import inspect
import json
import os
import re
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, cast

from callsheet.api.budget import SharedBudget
from callsheet.api.models import Model, called
from callsheet.api.plan import Plan
from callsheet.api.planning import Planner
from callsheet.api.runtime import Runtime
from callsheet.diagnostics import CallsheetError
from callsheet.frontends.dag import to_dag
from callsheet.frontends.dag.printer import plan_data
from callsheet.ir import JSON, Effect, Order, canonical_tool_name
from callsheet.ir import Plan as Steps
from callsheet.ir.canon import canonical_bytes
from callsheet.machine import Limits
from callsheet.planning.results import state_file
from callsheet.ports.answers import Answerer, read_answer
from callsheet.ports.calls import CallContext, ToolFailed
from callsheet.ports.models.settings import VARIABLE
from callsheet.ports.python_tools import to_json
from callsheet.ports.tools import Handler, Tool, ToolSpec
from callsheet.store.library import PlanLibrary, default_plans_folder

MAX_SAME_CALLS = 20
"""How often in a row one tool may be called with the same arguments."""
_MOST_BINDINGS = 1_000
_BOUND = re.compile(r"\$(v[1-9][0-9]{0,8})", re.ASCII)


@dataclass(frozen=True, slots=True)
class ValueBinding:
    """A result that later arguments may name: `$v1` is the value of the binding `v1`."""

    name: str
    tool: str
    arguments: Mapping[str, Any]
    value: Any


@dataclass(slots=True)
class ToolStateManager:
    """What a conversation and its plans have called, and what they may still call.

    `budget` limits the calls in all and of each tool. A tool that was called `max_same_calls` times in a row
    with the same arguments is refused until something else is called. The last 1,000 results are bound to
    `v1`, `v2`, … in the order in which they came.
    """

    budget: SharedBudget = field(default_factory=SharedBudget)
    max_same_calls: int = MAX_SAME_CALLS
    bindings: dict[str, ValueBinding] = field(default_factory=dict[str, ValueBinding])
    _last: bytes = b""
    _same: int = 0
    _bound: int = 0

    def check_all_guards(self, tool: str, arguments: Mapping[str, Any] | None = None) -> str | None:
        """Why the conversation may not make this call; None if it may."""
        refusal = self.budget.refusal(tool)
        return refusal.describe() if refusal is not None else self.runaway(tool, arguments or {})

    def runaway(self, tool: str, arguments: Mapping[str, Any]) -> str | None:
        """Why this call repeats too often; None if it does not."""
        if self._same < self.max_same_calls or self._last != _call(tool, arguments):
            return None
        return (
            f"{tool} was called {self._same} times in a row with the same arguments, the limit is"
            f" {self.max_same_calls}; call something else first, or raise max_same_calls"
        )

    def record_tool_call(self, tool: str, arguments: Mapping[str, Any], result: Any = None) -> ValueBinding:
        """Count a call that the conversation made itself, and bind its result."""
        self.budget.count_call(tool)
        return self.note_call(tool, arguments, result)

    def note_call(self, tool: str, arguments: Mapping[str, Any], result: Any) -> ValueBinding:
        """Bind the result of a call whose usage is counted elsewhere, as that of a plan is."""
        call = _call(tool, arguments)
        self._same = self._same + 1 if call == self._last else 1
        self._last = call
        self._bound += 1
        binding = ValueBinding(f"v{self._bound}", tool, dict(arguments), result)
        self.bindings[binding.name] = binding
        if len(self.bindings) > _MOST_BINDINGS:
            del self.bindings[next(iter(self.bindings))]
        return binding

    def resolved(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments with the values of `$v1`, …: as they are, or as text within a text."""
        return {name: self._resolved(value) for name, value in arguments.items()}

    def _resolved(self, value: Any) -> Any:
        if isinstance(value, str):
            whole = _BOUND.fullmatch(value)
            if whole is not None and whole[1] in self.bindings:
                return self.bindings[whole[1]].value
            return _BOUND.sub(self._as_text, value)
        if isinstance(value, Mapping):
            return self.resolved(cast("Mapping[str, Any]", value))
        return (
            [self._resolved(item) for item in cast("list[Any]", value)] if isinstance(value, list) else value
        )

    def _as_text(self, found: re.Match[str]) -> str:
        binding = self.bindings.get(found[1])
        return found[0] if binding is None else str(binding.value)


def _call(tool: str, arguments: Mapping[str, Any]) -> bytes:
    """A call as bytes, to compare calls."""
    name = canonical_tool_name(tool)
    try:
        return canonical_bytes([name, to_json(arguments)])
    except ToolFailed:  # arguments without a JSON form are compared as they print
        return f"{name} {arguments!r}".encode("utf-8", "surrogatepass")


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


SCHEDULE: Final = "sequential"
"""Of plans in text order: guards count and bind the calls, and callbacks hear of them, in that order."""


class PlanningContext:
    """The tools, plans and budget of a `PlanRunner` and of the plan tools.

    `tool_manager` has `execute_tool(name, arguments)`, async or not, and may have `get_all_tools()`; a
    function of a name and arguments is accepted too. `tools` overrides its catalogue: names, dicts or objects
    with `name`, `description` and `parameters`. Without a catalogue a plan may call exactly the tools that it
    names. `plans_dir` has the plans and the journal of their runs. A `model` (a function from prompt to
    answer, or the name of a model) or a `planner` makes plans; without them, the model that the environment
    variable CALLSHEET_MODEL names. `budget` is shared with the conversation, as are the `guards`.
    """

    def __init__(
        self,
        tool_manager: Any,
        *,
        plans_dir: str | os.PathLike[str] | None = None,
        tools: Iterable[Any] | None = None,
        model: Model | None = None,
        planner: Planner | None = None,
        budget: SharedBudget | None = None,
    ) -> None:
        self.tool_manager = tool_manager
        self.plans_dir = default_plans_folder() if plans_dir is None else Path(plans_dir)
        self.library = PlanLibrary(self.plans_dir)
        self.guards = ToolStateManager(budget or SharedBudget())
        self._tools = None if tools is None else specs_of(tools)
        self._model = model
        self._planner = planner

    @property
    def budget(self) -> SharedBudget:
        """The budget of the conversation and its plans."""
        return self.guards.budget

    # ------------------------------------------------------------ saved plans

    async def save_plan(self, plan: Mapping[str, Any] | str | Plan) -> str:
        """Save a plan, given as data, JSON text or a Plan, and return its id.

        A plan that has an id replaces the saved one with this id. Raises PlanError for what is not a plan,
        CallsheetError for an id that cannot be one (PLN001) or a folder that cannot be written (PLN004).
        """
        steps = plan_of(plan).ir
        return self.library.save(steps, replaces=steps.id is not None).id

    async def list_plans(self) -> list[dict[str, Any]]:
        """The saved plans, ordered by id: `id`, `title` and `steps`, the number of steps."""
        return [
            {"id": each.id, "title": each.title or "", "steps": each.steps} for each in self.library.list()
        ]

    async def get_plan(self, plan_id: str) -> dict[str, Any] | None:
        """The data of a saved plan, by its id or the beginning of one; None if there is none.

        Raises CallsheetError for a saved text with errors.
        """
        found = self._found(plan_id)
        return None if found is None else plan_data(to_dag_plan(self.library.load(found).require()))

    async def delete_plan(self, plan_id: str) -> bool:
        """Delete a saved plan and its state file; whether there was one. Its runs stay in the journal."""
        found = self._found(plan_id)
        if found is None:
            return False
        self.library.delete(found)
        state_file(self.plans_dir, found).unlink(missing_ok=True)
        return True

    def _found(self, plan_id: str) -> str | None:
        try:
            return self.library.find(plan_id)
        except CallsheetError as error:
            if error.diagnostics[0].code in ("PLN001", "PLN002"):
                return None
            raise

    # ------------------------------------------------------------ running

    async def get_tool_catalog(self) -> tuple[ToolSpec, ...] | None:
        """The declarations of the tools; None if there is no catalogue."""
        return await catalogue_of(self.tool_manager) if self._tools is None else self._tools

    async def runtime(
        self,
        data: object = None,
        *,
        checkpoint: bool,
        limits: Limits,
        around: AroundCalls | None = None,
    ) -> Runtime:
        """A runtime with these tools; without a catalogue, with those that `data`, a plan's, names.

        `around` is what happens around their calls.
        """
        specs = await self.get_tool_catalog()
        if specs is None:
            specs = tuple(bare_spec(name) for name in _names_in(data))
        journal: Path | None = None
        if checkpoint:
            self.plans_dir.mkdir(parents=True, exist_ok=True)
            journal = self.plans_dir / "journal.db"
        tools = [tool_of_manager(self.tool_manager, spec, around or AroundCalls()) for spec in specs]
        model = self._model
        if model is None and self._planner is None:
            model = os.environ.get(VARIABLE) or None
        return Runtime(
            tools, model=model, planner=self._planner, journal=journal, limits=limits, schedule=SCHEDULE
        )


def plan_of(given: Mapping[str, Any] | str | Plan) -> Plan:
    """A plan given as data, JSON text or a Plan; raises PlanError for what is not a plan."""
    if isinstance(given, Plan):
        return given
    text = given if isinstance(given, str) else json.dumps(given, ensure_ascii=False, default=str)
    return Plan.parse(text, name="<plan>")


def to_dag_plan(plan: Steps) -> Steps:
    """The plan as one of dependencies."""
    return plan if plan.order is Order.DAG else to_dag(plan).plan


def _names_in(data: object) -> list[str]:
    """The tools that a plan names, each in its first spelling; case and `@` do not distinguish tools."""
    if not isinstance(data, Mapping):
        return []
    steps: Any = cast("Mapping[str, Any]", data).get("steps")
    names: dict[str, str] = {}
    for step in cast("list[Any]", steps) if isinstance(steps, list) else []:
        if not isinstance(step, Mapping):
            continue
        fields = cast("Mapping[str, Any]", step)
        calls: Any = fields.get("tool_calls") or [{"name": fields.get("tool")}]
        for call in cast("list[Any]", calls) if isinstance(calls, list) else []:
            name: Any = cast("Mapping[str, Any]", call).get("name") if isinstance(call, Mapping) else None
            if isinstance(name, str) and name.removeprefix("@").lower() != "respond":
                names.setdefault(name.removeprefix("@").casefold(), name)
    return list(names.values())
