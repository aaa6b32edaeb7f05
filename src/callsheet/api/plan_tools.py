"""Three tools with which a model creates and runs plans, for any host that offers tools to a model.

In: the name of a tool and its arguments, as the model gave them. Out: a JSON reply of bounded length: long
values are shortened first, then steps and variables are left out, and `shortened` says so. All errors are
reported in the reply; only exceptions that end the caller itself are raised.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from copy import deepcopy
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, TypeAlias, cast

from callsheet.api.budget import SharedBudget
from callsheet.api.handle import RunHandle
from callsheet.api.models import called
from callsheet.api.plan import Plan
from callsheet.api.result import RunResult, StepResult
from callsheet.api.runtime import Runtime
from callsheet.diagnostics import CallsheetError
from callsheet.diagnostics.wrong_type import wanted
from callsheet.ir import JSON, Effect, canonical_tool_name, executor_name
from callsheet.ir.strict_json import NotJson, read_json
from callsheet.machine import Spent, Usage
from callsheet.ports.calls import CallContext
from callsheet.ports.tools import Tool, ToolSpec
from callsheet.store import RunStatus
from callsheet.store.library import PlanLibrary, StoredPlan


class _Definition(NamedTuple):
    description: str
    properties: dict[str, Any]
    required: list[str]
    runs: bool


_GOAL = {
    "type": "string",
    "minLength": 1,
    "description": "The goal, with every name, path and number that the steps need.",
}
_VARIABLES = {
    "type": "object",
    "description": "Variables of the plan by name; they override its own values.",
}
_DEFINITIONS = {
    "plan_create": _Definition(
        "Create a plan for a goal that takes several coordinated tool calls: a graph of steps, saved under "
        "an id. Nothing is run. Returns the plan's id and its steps.",
        {"goal": _GOAL},
        ["goal"],
        False,
    ),
    "plan_execute": _Definition(
        "Run a plan that was created before, by its id. Steps that do not depend on one another run "
        "concurrently. Returns the outcome and the result of each step.",
        {
            "plan_id": {"type": "string", "description": "The id that plan_create returned."},
            "variables": _VARIABLES,
        },
        ["plan_id"],
        True,
    ),
    "plan_create_and_execute": _Definition(
        "Create a plan for a goal that takes several coordinated tool calls, and run it. For a single "
        "call, use the tool itself. Returns the outcome and the result of each step.",
        {"goal": _GOAL, "variables": _VARIABLES},
        ["goal"],
        True,
    ),
}
NAMES = tuple(_DEFINITIONS)
"""The names of the plan tools."""


def schema_of(name: str) -> dict[str, Any]:
    """The JSON schema of a tool's arguments."""
    definition = _DEFINITIONS[name]
    return deepcopy(
        {
            "type": "object",
            "properties": definition.properties,
            "required": definition.required,
            "additionalProperties": False,
        }
    )


def description_of(name: str) -> str:
    """The description of a tool for the model."""
    return _DEFINITIONS[name].description


def openai_tools() -> list[dict[str, Any]]:
    """The definitions in OpenAI's form.

    >>> [(tool["function"]["name"], tool["function"]["parameters"]["required"]) for tool in openai_tools()]
    [('plan_create', ['goal']), ('plan_execute', ['plan_id']), ('plan_create_and_execute', ['goal'])]
    """
    return [
        {
            "type": "function",
            "function": {"name": name, "description": found.description, "parameters": schema_of(name)},
        }
        for name, found in _DEFINITIONS.items()
    ]


def mcp_tools() -> list[dict[str, Any]]:
    """The definitions in the form of MCP's `tools/list`."""
    return [
        {
            "name": name,
            "description": found.description,
            "inputSchema": schema_of(name),
            "annotations": {
                "readOnlyHint": False,
                "destructiveHint": found.runs,
                "idempotentHint": False,
                "openWorldHint": found.runs,
            },
        }
        for name, found in _DEFINITIONS.items()
    ]


MAX_CHARACTERS = 20_000
_LENGTHS = (4_000, 1_000, 250, 60)
_VALUES = frozenset({"result", "response", "error"})
_LISTS = (200, 50, 10, 0)


def reply_text(reply: Mapping[str, Any], most: int = MAX_CHARACTERS) -> str:
    """The reply as JSON of at most `most` characters.

    >>> text = reply_text({"success": True, "response": "z" * 200_000}, 400)
    >>> len(text) <= 400, json.loads(text)["shortened"]
    (True, True)
    """
    text = _dumps(reply)
    if len(text) <= most:
        return text
    for length in _LENGTHS:
        text = _dumps({**_shortened(reply, length), "shortened": True})
        if len(text) <= most:
            return text
    for count in _LISTS:
        text = _dumps({**_thinned(_shortened(reply, _LENGTHS[-1]), count), "shortened": True})
        if len(text) <= most:
            return text
    return _dumps({"success": reply.get("success", False), "shortened": True})


def error_reply(message: str, **more: Any) -> dict[str, Any]:
    """A reply that reports an error."""
    return {"success": False, "error": message, **more}


def _shortened(reply: Mapping[str, Any], length: int) -> dict[str, Any]:
    """The reply with every value cut to at most `length` characters."""
    out: dict[str, Any] = {}
    for name, value in reply.items():
        if name in _VALUES:
            out[name] = _cut(value, length)
        elif name == "variables":
            out[name] = {key: _cut(each, length) for key, each in cast("dict[str, Any]", value).items()}
        elif name == "steps":
            out[name] = [_cut_step(step, length) for step in cast("list[dict[str, Any]]", value)]
        else:
            out[name] = _cut(value, length) if isinstance(value, str) else value
    return out


def _cut_step(step: Mapping[str, Any], length: int) -> dict[str, Any]:
    return {name: value if name == "depends_on" else _cut(value, length) for name, value in step.items()}


def _thinned(reply: dict[str, Any], count: int) -> dict[str, Any]:
    """The reply with at most `count` steps and variables."""
    out = dict(reply)
    for name in ("steps", "variables"):
        value = out.get(name)
        if isinstance(value, list):
            rows = cast("list[Any]", value)
            out[name] = rows[:count]
            if len(rows) > count:
                out["steps_left_out"] = len(rows) - count
        elif isinstance(value, dict):
            named = cast("dict[str, Any]", value)
            out[name] = dict(list(named.items())[:count])
            if len(named) > count:
                out["variables_left_out"] = len(named) - count
    return out


def _cut(value: Any, length: int) -> Any:
    """The value itself if it is short, else the start of its text with a mark."""
    text = value if isinstance(value, str) else _dumps(value)
    if len(text) <= length:
        return value
    return f"{text[:length]}… (shortened: {len(text)} characters in all)"


def _dumps(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)


@dataclass(frozen=True, slots=True)
class PlanProposal:
    """A plan that a model wants to run: the plan, its id in the library, and the variables for the run."""

    plan: Plan
    plan_id: str
    variables: Mapping[str, JSON] = field(default_factory=dict[str, JSON])


Confirm: TypeAlias = "Callable[[PlanProposal], bool | Awaitable[bool]]"
"""Decides whether a plan may be run; async or not, and without a time limit."""
Follow: TypeAlias = "Callable[[RunHandle], Awaitable[RunResult]]"
"""Waits for the result of a run, and may read its events meanwhile."""


class PlanTools:
    """The tools `plan_create`, `plan_execute` and `plan_create_and_execute` for a runtime.

    Plans are saved in `library`. `confirm` decides whether a plan may run; without it every plan may, within
    the runtime's limits and approvals. `budget` is shared by the plans and the conversation, by default the
    runtime's limits for all plans of these tools together; runs that share it take turns and cannot be
    nested. A reply has at most `max_characters` characters. `follow` is called with the handle of each run
    and returns its result.
    """

    def __init__(
        self,
        runtime: Runtime,
        library: PlanLibrary | None = None,
        *,
        confirm: Confirm | None = None,
        budget: SharedBudget | None = None,
        max_characters: int = MAX_CHARACTERS,
        follow: Follow | None = None,
    ) -> None:
        self._runtime = wanted("runtime", runtime, Runtime, "a Runtime")
        self.library = (
            PlanLibrary() if library is None else wanted("library", library, PlanLibrary, "a PlanLibrary")
        )
        self._confirm = confirm
        self.budget = (
            SharedBudget(runtime.limits)
            if budget is None
            else wanted("budget", budget, SharedBudget, "a SharedBudget")
        )
        self._most = wanted("max_characters", max_characters, int, "a number of characters")
        self._follow: Follow = follow or RunHandle.result

    # ------------------------------------------------------------ definitions

    def openai(self) -> list[dict[str, Any]]:
        """The definitions in OpenAI's form, for the `tools` of a request."""
        return openai_tools()

    def mcp(self) -> list[dict[str, Any]]:
        """The definitions in MCP's form, for an answer to `tools/list`."""
        return mcp_tools()

    def tools(self) -> list[Tool]:
        """The three tools for another runtime, whose plans can then create and run plans.

        The model usage of the inner plans is also charged to the outer run.
        """
        return [self._tool(name) for name in NAMES]

    # ------------------------------------------------------------ carrying out

    async def handle(self, name: str, arguments: Mapping[str, Any] | str) -> str:
        """Carry out a model's call and return the reply as JSON text.

        `arguments` are a dict, or JSON text as in OpenAI's calls. Raises only asyncio.CancelledError, when
        the caller itself is cancelled, and exceptions that end the process.
        """
        return (await self._bounded(name, arguments, CallContext("", "plan")))[0]

    async def handle_mcp(self, name: str, arguments: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Carry out a call and return the result of MCP's `tools/call`: the reply as text, and `isError`."""
        text, is_error = await self._bounded(name, arguments or {}, CallContext("", "plan"))
        return {"content": [{"type": "text", "text": text}], "isError": is_error}

    async def _bounded(
        self, name: str, arguments: Mapping[str, Any] | str, call: CallContext
    ) -> tuple[str, bool]:
        """The reply as text of bounded length, and whether it reports a failure."""
        reply = await self._reply(name, _read(arguments), call)
        return reply_text(reply, self._most), reply["success"] is not True

    def _tool(self, name: str) -> Tool:
        async def call(arguments: dict[str, Any], context: CallContext) -> JSON:
            return json.loads((await self._bounded(name, arguments, context))[0])

        spec = ToolSpec(
            canonical_tool_name(name),
            name,
            description_of(name),
            schema_of(name),
            Effect.UNSAFE,
            origin="plan tools",
            is_declared=True,
        )
        return Tool(spec, call)

    async def _reply(self, name: str, arguments: Mapping[str, Any], call: CallContext) -> dict[str, Any]:
        try:
            wrong = _wrong_arguments(name, arguments)
            if wrong is not None:
                return error_reply(wrong)
            given = cast("Mapping[str, Any]", arguments.get("variables") or {})
            if name == "plan_execute":
                stored = self.library.load(arguments["plan_id"])
                return await self._execute(stored, given, call)
            async with self.budget.turn():
                spent = self._spent(_OF_MODELS)
                if spent is not None:
                    return error_reply(spent)
                stored = await self._create(arguments["goal"], call)
            if name == "plan_create":
                return _created(stored.id, _plan_of(stored))
            return await self._execute(stored, given, call)
        except CallsheetError as error:
            return error_reply(str(error), code=error.diagnostics[0].code)
        except Exception as error:
            return error_reply(f"{type(error).__name__}: {error}")

    def _spent(self, bounds: tuple[str, ...]) -> str | None:
        """The error message if one of these bounds, or the number of steps, is used up."""
        left = self.budget.left()
        name = next((name for name in bounds if getattr(left, name) == 0), None)
        if name is None and not self.budget.is_spent:
            return None
        bound = name or "max_steps"
        return f"the budget of this conversation is spent: {bound} is {getattr(self.budget.limits, bound)}"

    async def _create(self, goal: str, call: CallContext) -> StoredPlan:
        """Create a plan for a goal, and save it under a new id."""
        before = call.spent or Spent()
        try:
            plan = await self._runtime.create_plan(goal, call=call)
        finally:
            after = call.spent or Spent()
            self.budget.add(Usage.of(after.plus(before, -1)))
        return self.library.save(replace(plan.ir, id=None))

    async def _execute(
        self, stored: StoredPlan, variables: Mapping[str, Any], call: CallContext
    ) -> dict[str, Any]:
        """Run a plan, if it is confirmed and the budget is not used up."""
        plan = _plan_of(stored)
        about = {"plan_id": stored.id, "steps_total": len(plan.steps)}
        proposal = PlanProposal(plan, stored.id, variables)
        if self._confirm is not None and not await called(self._confirm, proposal):
            return error_reply("the plan was not confirmed, so nothing was run", **about)
        async with self.budget.turn():
            spent = self._spent(())
            if spent is not None:
                return error_reply(spent, **about)
            handle = self._runtime.start(plan, variables, limits=self.budget.left())
            try:
                result = await self._follow(handle)
            except asyncio.CancelledError:
                await handle.interrupt()
                self.budget.add(handle.calls_begun())
                raise
            self.budget.add(result.usage)
        call.charge(result.usage.spent)
        return {**about, **_executed(plan, result)}


_OF_MODELS = ("max_model_calls", "max_tokens", "max_cost")


def _plan_of(stored: StoredPlan) -> Plan:
    return Plan(stored.require(), stored.result.source)


def _read(arguments: Mapping[str, Any] | str) -> Any:
    """The arguments as data; text that is not JSON is kept, and refused later like any other wrong type."""
    if not isinstance(arguments, str):
        return arguments
    try:
        return read_json(arguments)
    except NotJson:
        return arguments


def _wrong_arguments(name: str, arguments: object) -> str | None:
    """What is wrong with a call, in words that a model can act on."""
    if name not in NAMES:
        return f"there is no tool {name[:80]}; there are {', '.join(NAMES)}"
    if not isinstance(arguments, Mapping):
        return f"the arguments of {name} must be an object"
    given, schema = cast("Mapping[str, Any]", arguments), schema_of(name)
    for required in schema["required"]:
        value = given.get(required)
        if not isinstance(value, str) or not value.strip():
            return f"{name} needs {required}, a text"
    unknown = sorted(set(given) - set(schema["properties"]))
    if unknown:
        hint = "; give them to plan_execute" if unknown[0] == "variables" else ""
        return f"{name} has no argument {unknown[0][:80]}{hint}"
    variables = given.get("variables")
    if variables is not None and not isinstance(variables, Mapping):
        return f"{name}: variables must be an object"
    return None


def _created(plan_id: str, plan: Plan) -> dict[str, Any]:
    return {
        "success": True,
        "plan_id": plan_id,
        "title": plan.title or "",
        "steps_total": len(plan.steps),
        "steps": [
            {
                "index": step.id,
                "title": step.title or "",
                "tool": executor_name(step.call.tool) if step.call is not None else "respond",
                "depends_on": list(step.depends_on or ()),
            }
            for step in plan.steps
        ],
    }


def _executed(plan: Plan, result: RunResult) -> dict[str, Any]:
    """The reply for a run."""
    reply: dict[str, Any] = {
        "success": result.ok,
        "status": str(result.status),
        "outcome": str(result.outcome),
        "failed_steps": list(result.failed_steps),
        "title": plan.title or "",
        "run_id": result.run_id,
        "steps_completed": sum(step.success for step in result.steps),
        "replanned": result.replanned,
        "response": result.response if result.ok else "",
        "error": _error(result),
        "steps": [_step_row(step) for step in result.steps],
        "variables": result.variables,
    }
    return reply


def _error(result: RunResult) -> str | None:
    if result.ok:
        return None
    keys = ", ".join(call.key for call in result.in_doubt)
    if result.pause is not None:
        return f"the run is {result.pause.words}; it goes on when a person resumes it"
    if result.status is RunStatus.IN_DOUBT:
        return f"it is not known whether these calls took place, and a person has to decide: {keys}"
    if result.waiting:
        return "the run waits for a person to answer: " + ", ".join(ask.key for ask in result.waiting)
    message = result.error or result.response or f"the run is {result.status}"
    return f"{message} (it is not known whether these calls took place: {keys})" if keys else message


def _step_row(step: StepResult) -> dict[str, Any]:
    row: dict[str, Any] = {"index": step.index, "title": step.title, "tool": step.tool, "status": step.status}
    if step.seconds is not None:
        row["seconds"] = round(step.seconds, 3)
    if step.error is not None:
        row["error"] = step.error
    if step.success and step.variable is None:
        row["result"] = step.value  # a result with a variable is already in `variables`
    return row
