"""Drives a machine event by event, and whole runs in virtual time on scripted tools."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from callsheet.frontends.ltp import parse
from callsheet.ir import JSON, Effect, Plan
from callsheet.machine import (
    Awaited,
    CallModel,
    CallTool,
    Cancelled,
    Command,
    Compile,
    Decided,
    Decision,
    Event,
    Failed,
    Finish,
    Limits,
    Machine,
    PlanCompiled,
    Result,
    RunAgent,
    Sleep,
    Started,
    Succeeded,
    TimerFired,
    ToolFacts,
    compile_plan,
)
from callsheet.machine.notes import Note, NoteKind
from callsheet.runtime.simulated import Simulation

FACTS = {
    "READ": ToolFacts(Effect.READ, ("x", "y")),
    "KEEP": ToolFacts(Effect.IDEMPOTENT, ("x", "y")),
    "WRITE": ToolFacts(Effect.UNSAFE, ("x", "y")),
}
"""@READ and @KEEP may run side by side; @WRITE and every other tool may not."""


def plan_of(text: str) -> Plan:
    """The plan of an LTP text."""
    return parse(text).require()


class Bench:
    """A machine whose commands stay outstanding, by key, until the test answers them."""

    def __init__(
        self,
        plan: str | Plan,
        *,
        limits: Limits | None = None,
        facts: Mapping[str, ToolFacts] = FACTS,
        inputs: Mapping[str, JSON] | None = None,
    ) -> None:
        self.notes: list[Note] = []
        program = compile_plan(plan_of(plan) if isinstance(plan, str) else plan, facts)
        self.machine = Machine(program, limits, self.notes.append)
        self.waiting: dict[str, Awaited] = {}
        self.feed(Started(inputs or {}))

    def feed(self, event: Event) -> list[Command]:
        key = getattr(event, "key", None)
        if key is not None:
            self.waiting.pop(key, None)
        commands = self.machine.feed(event)
        for command in commands:
            if not isinstance(command, Finish):
                self.waiting[command.key] = command
        return commands

    def ok(self, key: str, value: JSON = None) -> list[Command]:
        return self.feed(Succeeded(key, value))

    def fail(self, key: str, error: str = "broken") -> list[Command]:
        return self.feed(Failed(key, error))

    def fire(self, key: str) -> list[Command]:
        return self.feed(TimerFired(key))

    def decide(self, key: str, decision: Decision) -> list[Command]:
        return self.feed(Decided(key, decision))

    def compiled(self, key: str, plan: str | Plan, facts: Mapping[str, ToolFacts] = FACTS) -> list[Command]:
        return self.feed(PlanCompiled(key, plan_of(plan) if isinstance(plan, str) else plan, facts))

    def cancel(self, reason: str = "enough") -> list[Command]:
        return self.feed(Cancelled(reason))

    @property
    def keys(self) -> list[str]:
        return list(self.waiting)

    @property
    def args(self) -> list[dict[str, Any]]:
        """The arguments of all outstanding tool calls."""
        return [c.args for c in self.waiting.values() if isinstance(c, CallTool)]

    @property
    def result(self) -> Result:
        assert self.machine.result is not None, f"still waiting for {self.keys}"
        return self.machine.result

    @property
    def story(self) -> list[tuple[NoteKind, str]]:
        return [(note.kind, note.step) for note in self.notes]


class Boom(Exception):
    """Raised by a scripted tool to fail."""


Script = Callable[[dict[str, Any]], JSON]


class Played(NamedTuple):
    """A completed run: the result, the calls in order of departure, the virtual seconds."""

    result: Result
    calls: list[CallTool | CallModel | RunAgent]
    seconds: float

    @property
    def names(self) -> list[str]:
        return [call.tool for call in self.calls]

    @property
    def variables(self) -> dict[str, JSON]:
        return self.result.variables


def play(
    plan: str | Plan,
    tools: Mapping[str, Script | JSON] | None = None,
    *,
    inputs: Mapping[str, JSON] | None = None,
    limits: Limits | None = None,
    facts: Mapping[str, ToolFacts] = FACTS,
    plans: list[str] | None = None,
) -> Played:
    """Run a plan in virtual time; each call takes a second.

    A tool is a function of its arguments or a value; one that is not named answers null.
    `plans` are the answers to RE-PLAN in their order; without one left, the compilation fails.
    """
    known, answers = dict(tools or {}), list(plans or [])

    def respond(command: Command) -> tuple[float, Event]:
        if isinstance(command, Compile):
            if not answers:
                return 1.0, Failed(command.key, "no model")
            return 1.0, PlanCompiled(command.key, plan_of(answers.pop(0)), facts)
        assert isinstance(command, CallTool | CallModel | RunAgent)
        script = known.get(command.tool)
        try:
            value = script(command.args) if callable(script) else script
        except Boom as error:
            return 1.0, Failed(command.key, str(error))
        return 1.0, Succeeded(command.key, value)

    machine = Machine(compile_plan(plan_of(plan) if isinstance(plan, str) else plan, facts), limits)
    simulation = Simulation(machine, respond)
    result = simulation.run(inputs)
    made = [s.command for s in simulation.launched]
    calls = [c for c in made if isinstance(c, CallTool | CallModel | RunAgent)]
    return Played(result, calls, simulation.now)


def waits(played: Bench) -> list[float]:
    """The seconds of all outstanding waits."""
    return [c.seconds for c in played.waiting.values() if isinstance(c, Sleep)]


def failing(text: str = "broken") -> Script:
    """A tool that always fails with this text."""

    def fail(args: dict[str, Any]) -> JSON:
        raise Boom(text)

    return fail


def failing_for(bad: object, text: str = "broken") -> Script:
    """A tool that fails if `x` is `bad` and returns `x` otherwise."""

    def call(args: dict[str, Any]) -> JSON:
        if args.get("x") == bad:
            raise Boom(text)
        return args.get("x")

    return call
