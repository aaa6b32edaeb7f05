"""The documented compiler and runtime, without a journal, and the events of a run for listeners."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from copy import deepcopy
from inspect import isawaitable
from typing import Any, TypeAlias, cast

from callsheet.authoring.prompt import compile_messages, read_answer_plan, replan_prompt
from callsheet.compat.models import LTPPlan, documented_executor_name, documented_facts, plan_of, tool_of
from callsheet.diagnostics import render_all
from callsheet.ir import JSON, Plan
from callsheet.machine import Compile, Limits, RunAgent, ToolFacts
from callsheet.machine.notes import Note, NoteKind
from callsheet.machine.values import to_text
from callsheet.ports.answers import Answerer, as_json, read_answer
from callsheet.ports.calls import CallContext
from callsheet.ports.models.operations import ModelOperations
from callsheet.ports.transforms import transform_facts, transform_tools
from callsheet.runtime.gateway import AgentPort, CompilePort, Ports, Route
from callsheet.runtime.launch import Launch, Watch
from callsheet.runtime.runs import run_unrecorded


def to_async(function: Callable[..., Any]) -> Callable[..., Awaitable[Any]]:
    """The function, wrapped so that its result can be awaited."""

    async def call(*arguments: object) -> Any:
        given = function(*arguments)
        return await given if inspect.isawaitable(given) else given

    return call


Listener: TypeAlias = "Callable[[dict[str, Any]], Awaitable[None] | None]"
"""Called with an event; may be a coroutine function or a plain one."""

_EVENTS_BETWEEN_YIELDS = 256
"""Yield to the event loop after this many events, since listeners may never await."""


class Events:
    """Turns the machine's notes into events and delivers them to listeners, in order.

    A listener that raises is logged and not called again; the run goes on.
    """

    def __init__(self, plan: Plan, listeners: Sequence[Listener]) -> None:
        self._listeners = list(listeners)
        self._waiting: list[dict[str, Any]] = []
        self._tools = _tools_of(plan)
        self._compiled: dict[str, Plan] = {}

    def compiled(self, step: str, plan: Plan) -> None:
        """Record the plan that this step's RE-PLAN got; it is used once the run continues with it."""
        self._compiled[step] = plan

    def note(self, note: Note) -> None:
        """Queue a note until the next `deliver`."""
        self._waiting.append(
            {
                "event": str(note.kind),
                "step": note.step,
                "tool": self._tools.get(note.step, ""),
                "detail": note.detail,
                "variable": None if note.var is None else f"${note.var}",
                "value": deepcopy(note.value),
            }
        )
        if note.kind is NoteKind.REPLANNED and note.step in self._compiled:
            self._tools = _tools_of(self._compiled.pop(note.step))

    async def deliver(self) -> None:
        """Deliver the queued events to the listeners."""
        events, self._waiting = self._waiting, []
        for number, event in enumerate(events, start=1):
            if number % _EVENTS_BETWEEN_YIELDS == 0:
                await asyncio.sleep(0)
            for listener in tuple(self._listeners):
                try:
                    result = listener(dict(event))
                    if isawaitable(result):
                        await result
                except Exception:
                    _log.warning("a listener failed and is not called again", exc_info=True)
                    self._listeners.remove(listener)


def _tools_of(plan: Plan) -> dict[str, str]:
    """The tool of each step; of two steps with the same id the first counts."""
    return {step.id: tool_of(step) for step in reversed(plan.steps)}


ToolExecutor: TypeAlias = "Callable[[str, dict[str, Any], str], Awaitable[Any]]"
ModelFunction: TypeAlias = "Callable[[list[dict[str, str]]], Awaitable[str]]"
AgentFunction: TypeAlias = "Callable[[dict[str, Any]], Awaitable[str]]"


class Variables(dict[str, Any]):
    """Variables by name, accessible with and without `$`."""

    def __missing__(self, name: str) -> Any:
        if name.startswith("$") and name[1:] in self:
            return self[name[1:]]
        raise KeyError(name)

    def __contains__(self, name: object) -> bool:
        return super().__contains__(name) or (
            isinstance(name, str) and super().__contains__(name.removeprefix("$"))
        )

    def get(self, name: str, default: Any = None) -> Any:
        """The value of a variable, `default` if it is not set."""
        try:
            return self[name]
        except KeyError:
            return default


class LTPRuntime:
    """Runs plans.

    `audit_fn`, if given, is called with a dict for each event, as is the `progress_callback` of a run; see
    `callsheet.compat.runtime` for the keys.
    """

    def __init__(self, audit_fn: Listener | None = None) -> None:
        self._audit = audit_fn

    async def execute(
        self,
        plan: LTPPlan,
        tool_executor: ToolExecutor,
        llm_fn: ModelFunction,
        agent_fn: AgentFunction | None = None,
        namespace: str = "default",
        max_replans: int = 3,
        progress_callback: Listener | None = None,
    ) -> dict[str, Any]:
        """Run a plan to its end.

        Returns a dict with `response` (str), `variables` (accessible with and without `$`), `steps_executed`
        (int), `terminated` (bool), `status` (`done` or `failed`), `error`, the text of the failure that ended
        the run or None, and `usage`, a dict of what the run has used. Failures of the plan, the tools or the
        model are reported there and not raised. Callbacks need not be async.
        """
        ir = plan_of(plan)
        listeners = [fn for fn in (self._audit, progress_callback) if fn is not None]
        events = Events(ir, listeners)
        ports = Ports(
            route=_executor_routes(to_async(tool_executor), namespace),
            model=ModelOperations(to_async(llm_fn)),
            agent=None if agent_fn is None else _agent_port(to_async(agent_fn)),
            compiler=_compile_port(to_async(llm_fn), events),
        )
        # The documented API calls step after step, and limits loops only by the number of steps.
        limits = Limits(max_replans=max_replans, max_repeats=None, schedule="sequential")
        launch = Launch(facts=_facts(ir), limits=limits)
        watch = Watch(events.note, events.deliver) if listeners else Watch()
        result = await run_unrecorded(ir, ports, launch, watch)
        return {
            "response": result.response,
            "variables": Variables(result.variables),
            "steps_executed": result.steps_executed,
            "terminated": result.terminated,
            "error": result.error,
            "status": str(result.status),
            "outcome": str(result.outcome),
            "failed_steps": list(result.failed_steps),
            "usage": result.usage.to_json(),
        }


def _facts(plan: Plan) -> dict[str, ToolFacts]:
    """The facts about a plan's tools: those of the transforms, and defaults for the executor's."""
    return {**documented_facts(plan), **transform_facts()}


def _executor_routes(executor: ToolExecutor, namespace: str) -> Callable[[str], Route | None]:
    transforms = {tool.spec.name: tool.handler for tool in transform_tools()}

    def route(tool: str) -> Route | None:
        if tool in transforms:
            return Route(transforms[tool])
        name = documented_executor_name(tool)

        async def call(args: dict[str, Any], context: CallContext) -> JSON:
            if tool == "SHELL_EXEC":
                args["language"] = "shell"
            return cast("JSON", read_answer(await executor(name, args, namespace), Answerer.EXECUTOR))

        return Route(call)

    return route


def _agent_port(agent_fn: AgentFunction) -> AgentPort:
    """The agent's config has its named arguments; the first input is the goal, the others are `inputs`."""

    async def solve(command: RunAgent, _context: CallContext) -> JSON:
        config, inputs = dict(command.args), list(command.inputs)
        if inputs and "goal" not in config:
            config["goal"] = to_text(inputs.pop(0))
        if inputs:
            config.setdefault("inputs", inputs)
        return as_json(await agent_fn(config))

    return solve


def _compile_port(llm_fn: ModelFunction, events: Events) -> CompilePort:
    async def compile_again(command: Compile, context: CallContext) -> tuple[Plan, Mapping[str, ToolFacts]]:
        prompt = replan_prompt(command.reason, command.variables)
        context.remark(*prompt.remarks)
        answer = await llm_fn(prompt.messages)
        plan = read_answer_plan(answer, command.variables).require()
        events.compiled(command.step, plan)
        return plan, _facts(plan)

    return compile_again


_log = logging.getLogger(__name__)


class LTPCompiler:
    """Compiles goals with `llm_fn`, which takes messages and returns the model's text."""

    def __init__(self, llm_fn: Callable[[list[dict[str, str]]], Awaitable[str]]) -> None:
        self._llm_fn = to_async(llm_fn)

    async def compile(self, goal: str, context: str = "") -> LTPPlan | None:
        """The plan for a goal; None, with the reason in the log, if the model gives none.

        `context` is given to the model as data. Raises only asyncio.CancelledError, if the caller itself is
        cancelled.
        """
        try:
            answer = await self._llm_fn(compile_messages(goal, context))
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            _log.warning("the model function raised CancelledError")
            return None
        except Exception:
            _log.warning("the model call failed", exc_info=True)
            return None
        result = read_answer_plan(answer)
        if result.plan is None:
            _log.warning(
                "the model's answer is not a plan:\n%s", render_all(result.diagnostics, result.source)
            )
            return None
        return LTPPlan.of(result.plan, result.diagnostics)
