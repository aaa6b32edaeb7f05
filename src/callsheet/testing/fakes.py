"""Fakes: what stands in for tools, models and agents in a rehearsal, and which of them answers a call.

In: fakes, as a test gives them or a cassette records them. Out: tools for a registry whose calls the fakes
answer, and the calls that none of them answers. A fake that names arguments answers only calls with exactly
these values for them.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any, Literal, TypeAlias, cast

from callsheet.api.models import AgentTask, ModelRequest, ReplanRequest
from callsheet.api.plan import Plan
from callsheet.api.requirements import local_registry
from callsheet.ir import JSON, CallKind, Effect, call_kind, canonical_tool_name
from callsheet.ports.builtin import BuiltinSettings, builtin_tools
from callsheet.ports.calls import CallContext, ToolFailed
from callsheet.ports.tools import Handler, Tool, ToolSpec

REPLAN = "RE_PLAN"
"""The canonical name under which a fake answers a RE-PLAN: with the text of the new plan."""
FailureKind: TypeAlias = Literal["", "TIMEOUT", "SCHEMA"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Fake:
    """An answer to calls of one tool, model operation, agent (`AGENT_SOLVE`) or RE-PLAN.

    - `args`: the arguments that a call must have, with exactly these values; others are free.
    - `answer`: the value that the call gives; `does` computes it from the call's arguments instead.
    - `fails`: the error with which the call fails instead; `kind` is TIMEOUT or SCHEMA where the plan tells
      such failures apart. With `lost` nobody knows whether the call took place, as after a server died.
    - `seconds`: how long the call takes, in virtual time.
    - `times`: how many calls it answers; None for any number.

    >>> Fake(tool="list_issues", answer=[]).tool
    'LIST_ISSUES'
    """

    tool: str
    args: Mapping[str, JSON] = field(default_factory=dict[str, JSON])
    answer: JSON = None
    does: Callable[..., Any] | None = None
    fails: str = ""
    kind: FailureKind = ""
    lost: bool = False
    seconds: float = 0.0
    times: int | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "tool", canonical_tool_name(self.tool))
        if self.kind not in ("", "TIMEOUT", "SCHEMA"):
            raise ValueError(f"kind must be TIMEOUT or SCHEMA, not {self.kind!r}")
        if not 0 <= self.seconds < math.inf:
            raise ValueError(f"seconds must be a number from 0: it is {self.seconds}")
        if self.times is not None and self.times < 1:
            raise ValueError(f"times must be at least 1: it is {self.times}")

    def fits(self, tool: str, args: Mapping[str, JSON]) -> bool:
        """Whether it answers a call, as far as its tool and arguments say."""
        return tool == self.tool and all(
            name in args and same(args[name], wanted) for name, wanted in self.args.items()
        )

    def give(self, args: Mapping[str, JSON]) -> Any:
        """The value of a call, or an awaitable of it; raises ToolFailed if the call fails."""
        if self.lost:
            raise ToolFailed(self.fails or "the answer was lost", in_doubt=True, kind=self.kind)
        if self.fails or self.kind:
            raise ToolFailed(self.fails or f"a failure of the kind {self.kind}", kind=self.kind)
        return self.answer if self.does is None else self.does(**args)


def fails(text: str, *, kind: FailureKind = "", seconds: float = 0.0, times: int | None = None) -> Fake:
    """A call that fails, to be given as a fake of a tool: `fakes={"send_mail": fails("no route")}`."""
    return Fake(tool="", fails=text, kind=kind, seconds=seconds, times=times)


def gives(
    answer: JSON, *, seconds: float = 0.0, times: int | None = None, args: Mapping[str, JSON] | None = None
) -> Fake:
    """A call that gives a value, where more than the value is to be said."""
    return Fake(tool="", answer=answer, seconds=seconds, times=times, args=args or {})


FakeLike: TypeAlias = "Fake | Callable[..., Any] | JSON"
"""What stands in for a tool: a Fake, a function of its arguments, a value, or a list of Fakes in order."""
Fakes: TypeAlias = "Iterable[Fake] | Mapping[str, FakeLike | Sequence[Fake]]"


def fakes_of(given: Fakes) -> tuple[Fake, ...]:
    """The fakes of a test; a list whose items are all Fakes is several of them, any other a value.

    >>> [fake.answer for fake in fakes_of({"a": [1, 2], "b": [gives(1, times=1), gives(2)]})]
    [[1, 2], 1, 2]
    """
    if not isinstance(given, Mapping):
        return tuple(given)
    found: list[Fake] = []
    for tool, one in cast("Mapping[str, Any]", given).items():
        several = _only_fakes(one)
        if several:
            found += [replace(each, tool=tool) for each in several]
        elif callable(one):
            found.append(Fake(tool=tool, does=one))
        else:
            found.append(Fake(tool=tool, answer=one))
    return tuple(found)


def _only_fakes(given: object) -> list[Fake]:
    """The Fakes of a list of nothing else, or the one that is given; none for anything else."""
    several = cast("Sequence[object]", given) if isinstance(given, list | tuple) else [given]
    fakes = [each for each in several if isinstance(each, Fake)]
    return fakes if len(fakes) == len(several) else []


class Cast:
    """The fakes of one run, each with the calls that it still answers. The first that fits answers."""

    def __init__(self, fakes: Iterable[Fake]) -> None:
        self.fakes = tuple(fakes)
        self._left = [fake.times for fake in self.fakes]

    def names(self) -> frozenset[str]:
        """The tools that have a fake."""
        return frozenset(fake.tool for fake in self.fakes)

    def take(self, tool: str, args: Mapping[str, JSON]) -> Fake | None:
        """The fake that answers a call; None if none does."""
        for number, fake in enumerate(self.fakes):
            left = self._left[number]
            if left == 0 or not fake.fits(tool, args):
                continue
            if left is not None:
                self._left[number] = left - 1
            return fake
        return None

    def why_none(self, tool: str) -> str:
        """Why no fake answers a call of a tool, in words."""
        if tool not in self.names():
            return f"no fake stands in for @{tool}"
        used_up = all(
            left == 0 for fake, left in zip(self.fakes, self._left, strict=True) if fake.tool == tool
        )
        if used_up:
            return f"the fakes of @{tool} have answered as often as they may"
        return f"no fake of @{tool} fits these arguments"


def same(a: JSON, b: JSON) -> bool:
    """Whether two values are the same JSON: 1 and true are not, 1 and 1.0 are.

    >>> same(1, True), same(1, 1.0), same([{"a": 1}], [{"a": 1.0}])
    (False, True, True)
    """
    if isinstance(a, bool) or isinstance(b, bool):
        return a is b
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(same(value, b[name]) for name, value in a.items())
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(same, a, b))
    return a == b


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
