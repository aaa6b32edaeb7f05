"""The documented runtime: runs a plan with callbacks, without a journal."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeAlias, cast

from callsheet.authoring.answer import read_answer_plan
from callsheet.authoring.prompt import replan_prompt
from callsheet.compat.callbacks import to_async
from callsheet.compat.events import Events, Listener
from callsheet.compat.models import LTPPlan
from callsheet.compat.rebuild import plan_of
from callsheet.compat.tools import documented_executor_name, documented_facts
from callsheet.ir import JSON, Plan
from callsheet.machine import Compile, Limits, RunAgent, ToolFacts
from callsheet.machine.values import to_text
from callsheet.ports.answers import Answerer, as_json, read_answer
from callsheet.ports.calls import CallContext
from callsheet.ports.models.operations import ModelOperations
from callsheet.ports.transforms import transform_facts, transform_tools
from callsheet.runtime.gateway import AgentPort, CompilePort, Ports, Route
from callsheet.runtime.launch import Launch, Watch
from callsheet.runtime.runs import run_unrecorded

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
    `callsheet.compat.events` for the keys.
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
