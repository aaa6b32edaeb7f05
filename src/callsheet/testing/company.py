"""The company of a rehearsal: the fakes that play tools, model and agent, and the tools in front of them.

In: fakes, a plan, the declarations of its tools. Out: tools for a registry whose calls the fakes answer, and
the calls that none of them answers.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from callsheet.api.models import AgentTask, ModelRequest, ReplanRequest
from callsheet.api.plan import Plan
from callsheet.api.requirements import local_registry
from callsheet.ir import JSON, CallKind, Effect, call_kind
from callsheet.ports.builtin import BuiltinSettings, builtin_tools
from callsheet.ports.calls import CallContext, ToolFailed
from callsheet.ports.tools import Handler, Tool, ToolSpec
from callsheet.testing.fakes import REPLAN, Cast, Fake

AGENT = "AGENT_SOLVE"


@cache
def transforms() -> frozenset[str]:
    """The tools that are executed as always: they only compute."""
    return frozenset(tool.spec.name for tool in local_registry((), None))


def fake_tools(
    plan: Plan, company: Company, declared: Mapping[str, ToolSpec], real: Sequence[Tool]
) -> list[Tool]:
    """A tool for each name that the plan calls or a fake has; transforms without a fake stay real.

    `declared` are the declarations that are known, `real` the functions that are called where no fake is.
    """
    faked = company.cast.names()
    called = [step.call for step in plan.steps if step.call is not None]
    names = dict.fromkeys([*(call.tool for call in called), *sorted(faked)])
    handlers = {tool.spec.name: tool.handler for tool in real}
    tools: list[Tool] = []
    for name in names:
        if call_kind(name) is not CallKind.TOOL or name == REPLAN:
            continue
        if name in transforms() and name not in faked:
            continue
        spec = declared.get(name) or _undeclared(name, plan)

        async def answer(
            args: dict[str, Any],
            context: CallContext,
            name: str = name,
            handler: Handler | None = handlers.get(name),  # noqa: B008 - that of this tool
        ) -> Any:
            return await company.answer(name, args, context, handler)

        tools.append(Tool(replace(spec, name=name, refusal=None, timeout=None), answer))
    return tools


def _undeclared(name: str, plan: Plan) -> ToolSpec:
    """The declaration of a tool of which only the calls in the plan are known."""
    args = dict.fromkeys(
        arg for step in plan.steps if step.call is not None and step.call.tool == name
        for arg, _ in step.call.named
    )  # fmt: skip
    schema: dict[str, Any] = {"type": "object", "properties": {arg: {} for arg in args}}
    return ToolSpec(name, name.lower(), "", schema, effect=Effect.UNSAFE)


def builtin_specs() -> list[ToolSpec]:
    """The declarations of all built-in tools."""
    place = Path()
    return [tool.spec for tool in builtin_tools(BuiltinSettings(workspace=place, data=place, host=True))]


class Company:
    """The fakes of one run at work: which one answers a call, and the calls that none answers."""

    def __init__(self, cast: Cast) -> None:
        self.cast = cast
        self.missing: list[str] = []

    def pick(self, name: str, args: Mapping[str, JSON]) -> Fake | None:
        """The fake that answers a call."""
        return self.cast.take(name, args)

    async def given(self, fake: Fake | None, name: str, args: Mapping[str, Any]) -> Any:
        """What a fake gives; raises ToolFailed for a failure, and if there is no fake."""
        if fake is None:
            why = self.cast.why_none(name)
            self.missing.append(why)
            raise ToolFailed(f"the test has no answer: {why}")
        value = fake.give(args)
        return await value if inspect.isawaitable(value) else value

    async def answer(
        self, name: str, args: dict[str, Any], context: CallContext, real: Handler | None
    ) -> Any:
        """The value of a call of a tool: that of a fake, or of the real function where no fake answers."""
        fake = self.pick(name, args)
        if fake is None and real is not None:
            return await real(args, context)
        return await self.given(fake, name, args)

    async def model(self, request: ModelRequest) -> Any:
        """The value of a model operation."""
        args = dict(request.arguments)
        return await self.given(self.pick(request.operation, args), request.operation, args)

    async def agent(self, task: AgentTask) -> Any:
        """The value of an agent."""
        args = {"goal": task.goal, **task.arguments}
        return await self.given(self.pick(AGENT, args), AGENT, args)

    async def new_plan(self, request: ReplanRequest) -> str:
        """The text of the plan for a RE-PLAN."""
        args: dict[str, JSON] = {"reason": request.reason}
        return str(await self.given(self.pick(REPLAN, args), REPLAN, args))


class Directed(Company):
    """A company that is told which fake answers the call under way."""

    taken: Fake | None = None

    def pick(self, name: str, args: Mapping[str, JSON]) -> Fake | None:
        """The fake that was taken for the call."""
        return self.taken
