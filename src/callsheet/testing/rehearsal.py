"""Rehearses a plan: runs it in memory and in virtual time, with fakes in place of tools, models and people.

In: a plan, its inputs, fakes and replies. Out: how the run ended, the calls that it made, what it asked, and
where it came by. It is the machine, the gateway and the checks of any run; only the driver is another one,
`runtime.simulated`, which waits for nothing. Transforms and pure code are executed as always.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple, cast

from callsheet.api.admission import Prepared
from callsheet.api.arguments import ToolSource, read_tools, with_secrets
from callsheet.api.models import OperationModel
from callsheet.api.plan import Plan, PlanLike, as_plan
from callsheet.api.policies import PolicyLike
from callsheet.api.result import RunResult
from callsheet.api.runtime import Runtime
from callsheet.api.session import Session
from callsheet.ir import JSON
from callsheet.ir.operations import CLOCK, COMPUTE
from callsheet.machine import (
    Ask,
    CallModel,
    CallTool,
    Command,
    Compile,
    Doubted,
    Event,
    Limits,
    Machine,
    Probe,
    RunAgent,
    Started,
    Succeeded,
    Verdict,
    compile_plan,
)
from callsheet.machine.events import Answered
from callsheet.machine.limits import bounded
from callsheet.machine.questions import Approval
from callsheet.ports.tools import ToolSpec
from callsheet.runtime.answers import Answer, PendingAsk, answered, misfit, pending
from callsheet.runtime.asking import OnAsk
from callsheet.runtime.doubt import DoubtfulCall, RunOutcome
from callsheet.runtime.gateway import Gateway, Ports
from callsheet.runtime.simulated import Simulation
from callsheet.store.labels import LabelStore
from callsheet.store.snapshots import AskTimes
from callsheet.testing.coverage import Mark, Walk
from callsheet.testing.differences import ExpectedCall, MadeCall, call_text, differing_calls
from callsheet.testing.fakes import (
    REPLAN,
    Cast,
    Company,
    Directed,
    Fake,
    Fakes,
    builtin_specs,
    fake_tools,
    fakes_of,
    transforms,
)

RUN_ID = "rehearsal"
START = datetime(2026, 1, 1, tzinfo=UTC)
"""The time at which a rehearsal begins, unless the test says another."""


@dataclass(frozen=True, slots=True)
class Reply:
    """What a person replies to a question or an approval: `to` is a part of its text, or a tool's name.

    `answer` is an Answer; None for nobody who answers, so that the question expires or the run waits.
    """

    to: str
    answer: Answer | None

    def fits(self, ask: PendingAsk) -> bool:
        """Whether this is the reply to a question."""
        if ask.kind == "approval" and self.to.lstrip("@").upper() == ask.tool:
            return True
        return self.to in ask.headline


class PosedQuestion(NamedTuple):
    """A question that a run has asked, and the reply; None if nobody answers, or nobody was told to."""

    ask: PendingAsk
    reply: Reply | None


@dataclass(frozen=True, slots=True)
class Rehearsal:
    """What a rehearsed run has done. `problems` are calls and questions that the test has said nothing of."""

    plan: Plan
    result: RunResult
    calls: tuple[MadeCall, ...]
    questions: tuple[PosedQuestion, ...]
    seconds: float
    """How long it took, in virtual time."""
    marks: frozenset[Mark] = frozenset()
    problems: tuple[tuple[str, str], ...] = ()
    """Steps, and what is missing there."""
    unused: tuple[Reply, ...] = ()
    """Replies to questions that were not asked."""

    @property
    def answer(self) -> JSON:
        """The answer: of a plan of version 2 as data, else as text."""
        return self.result.response if self.result.answer is None else self.result.answer

    @property
    def status(self) -> str:
        """`done`, `done_with_failures`, `failed`, `refused`, `waiting`, `in_doubt`, …"""
        return str(self.result.outcome)

    def calls_of(self, tool: str) -> tuple[MadeCall, ...]:
        """The calls of one tool, in order."""
        name = tool.lstrip("@").upper()
        return tuple(call for call in self.calls if call.tool == name)

    def assert_calls(self, *expected: tuple[str, Mapping[str, JSON]]) -> None:
        """Raise AssertionError unless these calls were made, all of them and in this order.

        Each is the name of a tool with its arguments.
        """
        wanted = tuple(ExpectedCall(tool, args) for tool, args in expected)
        found = differing_calls(wanted, self.calls, "exact")
        if found:
            raise AssertionError("\n".join(one.text for one in found))


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """What the runs of one test have in common.

    `tools` are real Python functions: they are called where no fake answers. `declared` are the tools whose
    signatures and effects are known; of others every argument counts, and the effect is `unsafe`. `now` is
    the time at the start.
    """

    tools: Sequence[ToolSource] = ()
    declared: Sequence[ToolSpec] = ()
    policy: PolicyLike | None = None
    approve: Sequence[str] = ()
    limits: Limits = field(default_factory=lambda: Limits(schedule="sequential"))
    now: datetime = START


def rehearse(
    plan: PlanLike,
    inputs: Mapping[str, Any] | None = None,
    *,
    fakes: Fakes = (),
    replies: Iterable[Reply] = (),
    secrets: Mapping[str, Any] | None = None,
    stage: Stage | None = None,
) -> Rehearsal:
    """Run a plan with fakes, in memory and in virtual time. It may be called inside an event loop.

    Raises PlanError for a plan with errors, PolicyRefused if the policy refuses it, CallsheetError for
    inputs that it cannot take.

    >>> text = 'S1: @LIST_ISSUES (repo="a/b") > $all\\nS2: @RESPOND ($all)'
    >>> done = rehearse(text, fakes={"list_issues": 3})
    >>> done.status, done.answer, [(call.tool, call.args) for call in done.calls]
    ('done', '3', [('LIST_ISSUES', {'repo': 'a/b'})])
    """
    values, secret = with_secrets(inputs, secrets)
    read = as_plan(plan, values.keys())
    given = fakes_of(fakes)
    with Rehearsals(stage or Stage()) as rehearsals:
        return rehearsals.run(read, values, given, tuple(replies), secret)


class Stand(Runtime):
    """A runtime whose tools, model and agent are fakes."""

    def session(self) -> Session:
        """Its session, which opens nothing; the verdict on a plan is that on a recorded run."""
        return Session(replace(self._config, keeps_labels=True))


class Rehearsals:
    """Runs rehearsals one after the other on an event loop of their own; a context manager closes it."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._real = read_tools(stage.tools)
        self._declared = {spec.name: spec for spec in builtin_specs()}
        self._declared |= {spec.name: spec for spec in stage.declared}
        self._declared |= {tool.spec.name: tool.spec for tool in self._real}
        self._loop = asyncio.new_event_loop()

    def __enter__(self) -> Rehearsals:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the event loop."""
        if not self._loop.is_closed():
            self.in_thread(self._end)

    def _end(self) -> None:
        self._loop.run_until_complete(self._loop.shutdown_default_executor())
        self._loop.close()

    def run(
        self,
        plan: Plan,
        inputs: Mapping[str, JSON],
        fakes: Sequence[Fake] = (),
        replies: Sequence[Reply] = (),
        secret: frozenset[str] = frozenset(),
        now: datetime | None = None,
    ) -> Rehearsal:
        """Rehearse a plan; raises as `rehearse` does. `now` is its start, by default that of the stage."""
        start = now or self._stage.now
        return self.in_thread(lambda: self._run(plan, inputs, fakes, replies, secret, start))

    @staticmethod
    def in_thread(work: Any) -> Any:
        """Do work that needs an event loop of its own: in a thread if one is running here."""
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return work()
        done: list[Any] = []
        failed: list[BaseException] = []

        def carry_out() -> None:
            try:
                done.append(work())
            except BaseException as error:
                failed.append(error)

        thread = threading.Thread(target=carry_out, name="callsheet rehearsal")
        thread.start()
        thread.join()
        if failed:
            raise failed[0]
        return done[0]

    def _run(
        self,
        plan: Plan,
        inputs: Mapping[str, JSON],
        fakes: Sequence[Fake],
        replies: Sequence[Reply],
        secret: frozenset[str],
        start: datetime,
    ) -> Rehearsal:
        from callsheet.api.arguments import RunInputs  # noqa: PLC0415 - a name of this function only
        from callsheet.api.handle import Observers  # noqa: PLC0415 - as above

        company = Directed(Cast(fakes))
        runtime = self.stand(plan, company)

        async def prepare() -> tuple[Prepared, Ports]:
            async with runtime.session() as session:
                prepared = await session.prepare(plan, RunInputs(inputs, secret), None)
                return prepared, session.ports(Observers())

        prepared, ports = self._loop.run_until_complete(prepare())
        return _Show(plan, prepared, ports, company, self._loop, replies, start).play()

    def stand(
        self,
        plan: Plan,
        company: Company,
        journal: Path | None = None,
        on_approval: OnAsk = lambda _: None,
    ) -> Stand:
        """A runtime for a plan in which a company of fakes plays tools, model and agent."""
        stage = self._stage
        return Stand(
            fake_tools(plan, company, self._declared, self._real),
            model=OperationModel(company.model),
            agent=company.agent,
            compiler=company.new_plan,
            policy=stage.policy,
            approve=stage.approve,
            limits=stage.limits,
            journal=journal,
            on_approval=on_approval,
        )


class _Show:
    """One rehearsed run."""

    def __init__(
        self,
        plan: Plan,
        prepared: Prepared,
        ports: Ports,
        company: Directed,
        loop: asyncio.AbstractEventLoop,
        replies: Sequence[Reply],
        start: datetime,
    ) -> None:
        self._plan, self._prepared, self._ports = plan, prepared, ports
        self._company, self._loop, self._start = company, loop, start
        self._left = list(replies)
        self._calls: list[MadeCall] = []
        self._questions: list[PosedQuestion] = []
        self._problems: list[tuple[str, str]] = []
        self._waiting: list[PendingAsk] = []
        self._doubts: list[DoubtfulCall] = []
        self._walk = Walk()

    def play(self) -> Rehearsal:
        """Run it to its end, or until it waits for people or decisions."""
        launch = self._prepared.launch
        launch.check(self._prepared.plan)
        program = compile_plan(self._prepared.plan, launch.facts)
        self._walk.prepare(program)
        rules = launch.approve, launch.approval_timeout, launch.enforcement
        machine = Machine(program, bounded(launch.limits, launch.policy), self._walk.note, *rules)
        with ExitStack() as stack:
            self._gateway = self._opened(stack)
            self._simulation = simulation = Simulation(machine, self._respond)
            self._walk.attend(machine)
            simulation.launch(machine.feed(Started(launch.inputs)))
            while machine.result is None and simulation.step():
                pass
        self._walk.end()
        seconds = round(simulation.now, 3)
        result = None if machine.result is None else machine.result.timed(round(simulation.seconds, 3))
        outcome = RunOutcome(
            RUN_ID,
            result,
            in_doubt=tuple(self._doubts),
            waiting=tuple(self._waiting),
            usage=machine.usage() if result is None else result.usage,
        )
        return Rehearsal(
            self._plan,
            RunResult.of(outcome, diagnostics=self._prepared.diagnostics),
            tuple(self._calls),
            tuple(self._questions),
            seconds,
            frozenset(self._walk.marks),
            tuple(self._problems),
            tuple(self._left),
        )

    def _opened(self, stack: ExitStack) -> Gateway:
        launch, ports = self._prepared.launch, self._ports
        at_once = launch.limits.max_concurrency_by_tool
        if launch.policy is None:
            return Gateway(ports, RUN_ID, launch.facts, at_once)
        from callsheet.runtime.guard import Guard, GuardedGateway  # noqa: PLC0415 - only under a policy

        labels = stack.enter_context(LabelStore.in_memory())
        guard = Guard(launch.policy, launch.verified, labels, clock=self._wall_time)
        return GuardedGateway(ports, RUN_ID, guard, launch.facts, at_once)

    def _wall_time(self) -> float:
        return (self._start + timedelta(seconds=self._simulation.now)).timestamp()

    # ------------------------------------------------------------ commands

    def _respond(self, command: Command) -> tuple[float, Event | None]:
        """How long a command takes, and what comes of it."""
        match command:
            case Ask():
                return self._reply(command)
            case CallTool(tool=tool) if tool == CLOCK:
                now = self._start + timedelta(seconds=self._simulation.now)
                return 0.0, Succeeded(command.key, now.isoformat())
            case CallTool(tool=tool, args=args):
                return self._carry_out(command, tool, args)
            case (
                CallModel(tool=tool, args=args, inputs=inputs) | RunAgent(tool=tool, args=args, inputs=inputs)
            ):
                return self._carry_out(command, tool, args, tuple(inputs))
            case Compile(reason=reason):
                return self._carry_out(command, REPLAN, {"reason": reason})
            case Probe():
                return 0.0, Doubted(command.key, "a test has no probe")
            case _:
                raise TypeError(f"{type(command).__name__} is not rehearsed")

    def _carry_out(
        self,
        command: CallTool | CallModel | RunAgent | Compile,
        tool: str,
        args: Mapping[str, JSON],
        inputs: tuple[JSON, ...] = (),
    ) -> tuple[float, Event | None]:
        company, place = self._company, len(self._company.missing)
        fake = company.taken = company.cast.take(tool, args)
        event = self._loop.run_until_complete(self._gateway.carry_out(command))
        for why in company.missing[place:]:
            self._problems.append((command.step, f"{why}: {call_text(tool, args, inputs)}"))
        if isinstance(event, Doubted):
            self._doubts.append(
                DoubtfulCall(command.key, command.step, tool, dict(args), self._wall_time(), why=event.reason)
            )
        if self._is_counted(command, fake):
            value = event.value if isinstance(event, Succeeded) else None
            error = "" if isinstance(event, Succeeded) else str(getattr(event, "error", "") or "")
            at = round(self._simulation.now, 3)
            self._calls.append(MadeCall(command.step, tool, dict(args), inputs, value, error, at))
        return 0.0 if fake is None else fake.seconds, cast("Event", event)

    def _is_counted(self, command: object, fake: Fake | None) -> bool:
        """Whether a call is one that a test speaks of: not pure code, nor a transform without a fake."""
        if isinstance(command, Compile):
            return False
        if not isinstance(command, CallTool) or fake is not None:
            return True
        if command.tool == COMPUTE:
            return False
        route = self._ports.route(command.tool)
        return route is None or command.tool not in transforms()

    def _reply(self, ask: Ask) -> tuple[float, Event | None]:
        """The answer of a person, by what the test says; without a word of it, no."""
        timeout = ask.asked.timeout
        now = self._wall_time()
        posed = AskTimes(now, None if timeout is None else now + timeout)
        shown = pending(RUN_ID, ask.key, ask.step, ask.asked, posed)
        reply = next((one for one in self._left if one.fits(shown)), None)
        self._questions.append(PosedQuestion(shown, reply))
        if reply is None:
            what = "approval" if isinstance(ask.asked, Approval) else "question"
            self._problems.append((ask.step, f"the test has no reply to the {what} {shown.headline!r}"))
            return 0.0, answered(ask.key, ask.asked, Answer.deny(note="the test has no reply"))
        self._left.remove(reply)
        if reply.answer is None:
            if timeout is None:
                self._waiting.append(shown)
                return 0.0, None
            return timeout, Answered(ask.key, ask.asked.digest, Verdict.EXPIRE)
        wrong = misfit(ask.asked, reply.answer)
        if wrong is not None:
            self._problems.append((ask.step, f"the reply to {shown.headline!r} does not fit: {wrong}"))
            return 0.0, answered(ask.key, ask.asked, Answer.deny(note=f"it does not fit: {wrong}"))
        return 0.0, answered(ask.key, ask.asked, reply.answer)
