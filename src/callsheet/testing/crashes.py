"""Crashes a run at every point that matters, and resumes it: does it come to the same end, once?

In: a plan, its inputs and fakes. Out: for each call of the run, crashed before it took place and after, how
the resumed run ended, and which calls were made again. Each run has a journal of its own and is resumed from
it as any other, by a new runtime.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from callsheet.api.arguments import with_secrets
from callsheet.api.plan import Plan, PlanLike, as_plan
from callsheet.api.result import RunResult
from callsheet.ir import JSON
from callsheet.machine import TookPlace
from callsheet.ports.calls import CallContext, ToolFailed
from callsheet.ports.tools import Handler
from callsheet.runtime.answers import Answer, PendingAsk
from callsheet.runtime.event_loop import end_tasks
from callsheet.store import RunStatus
from callsheet.testing.differences import call_text
from callsheet.testing.fakes import Cast, Company, Fake, Fakes, fakes_of
from callsheet.testing.rehearsal import Rehearsals, Reply, Stage

_RUN = "crashed"
_MOST_ROUNDS = 100


class _Crash(KeyboardInterrupt):
    """Ends the process of a run, as far as the run can tell: nothing in a plan or a gateway catches it."""


class _Call(NamedTuple):
    """A call as the world outside sees it; `key` is that of all its deliveries, `sent` of one."""

    key: str
    sent: str
    tool: str
    args: dict[str, JSON]

    @property
    def text(self) -> str:
        return call_text(self.tool, self.args)


@dataclass(frozen=True, slots=True)
class CrashPoint:
    """A crash of a run at one of its calls, and what came after it.

    `took_place` says whether the call had its effect before the crash. `result` is that of the resumed run.
    `in_doubt` are the calls that needed the decision of a person; they were decided by what had happened.
    `twice` are calls that had their effect once more after the crash, although the first delivery had it.
    """

    call: str
    took_place: bool
    result: RunResult
    in_doubt: tuple[str, ...] = ()
    twice: tuple[str, ...] = ()

    @property
    def place(self) -> str:
        """Where the crash was, in words."""
        return f"a crash {'after' if self.took_place else 'before'} {self.call}"


@dataclass(frozen=True, slots=True)
class CrashReport:
    """The run without a crash, and all crash points."""

    undisturbed: RunResult
    points: tuple[CrashPoint, ...]

    def assert_same_end(self) -> None:
        """Raise AssertionError for each crash after which a run has come to another end."""
        wrong = [
            f"{point.place}: {point.result.outcome}, {point.result.response!r}"
            for point in self.points
            if (point.result.outcome, point.result.response) != self._end
        ]
        if wrong:
            outcome, response = self._end
            raise AssertionError("\n".join([f"undisturbed: {outcome}, {response!r}", *wrong]))

    def assert_once(self, *tools: str) -> None:
        """Raise AssertionError for each crash after which a call of these tools took place twice."""
        names = tuple(f"@{tool.lstrip('@').upper()} " for tool in tools)
        wrong = [
            f"{point.place}: {call} took place twice"
            for point in self.points
            for call in point.twice
            if call.startswith(names)
        ]
        if wrong:
            raise AssertionError("\n".join(wrong))

    @property
    def _end(self) -> tuple[str, str]:
        return self.undisturbed.outcome, self.undisturbed.response


def crash_at_every_call(
    plan: PlanLike,
    inputs: Mapping[str, Any] | None = None,
    *,
    fakes: Fakes | Callable[[], Fakes] = (),
    replies: Iterable[Reply] = (),
    secrets: Mapping[str, Any] | None = None,
    stage: Stage | None = None,
) -> CrashReport:
    """Run a plan once undisturbed, then crash it before and after each call, and resume it.

    `fakes` is called for each run, if it is a function, so that a world of its own can begin anew. Waits of
    the plan are not waited for. Raises as `rehearse` does.
    """
    values, secret = with_secrets(inputs, secrets)
    read = as_plan(plan, values.keys())
    given = {name: value for name, value in values.items() if name not in secret}
    sealed = {name: values[name] for name in secret}
    at = stage or Stage()
    unhurried = replace(at.limits, retry_delay=0.0, max_retry_delay=0.0)
    asked = tuple(replies)
    with tempfile.TemporaryDirectory() as folder, Rehearsals(replace(at, limits=unhurried)) as rehearsals:

        def play(
            name: str, at_call: int | None = None, *, took_place: bool = False
        ) -> tuple[_World, RunResult]:
            world = _World(Cast(fakes_of(fakes() if callable(fakes) else fakes)), at_call, took_place)
            run = _Run(rehearsals, read, world, asked, Path(folder) / f"{name}.db")
            return world, run.play(given, sealed)

        world, undisturbed = play("undisturbed")
        points: list[CrashPoint] = []
        for number, call in enumerate(world.calls):
            for took_place in (False, True):
                crashed, result = play(f"{number}-{took_place}", number, took_place=took_place)
                points.append(
                    CrashPoint(call.text, took_place, result, tuple(crashed.doubts), tuple(crashed.twice))
                )
    return CrashReport(undisturbed, tuple(points))


class _World(Company):
    """The world outside of a run: it counts the calls that take place, and crashes the run at one of them."""

    def __init__(self, cast: Cast, at_call: int | None, took_place: bool) -> None:
        super().__init__(cast)
        self._at_call, self._took_place = at_call, took_place
        self.calls: list[_Call] = []
        self.values: dict[str, JSON] = {}
        """What the calls that took place gave, by key."""
        self.twice: list[str] = []
        self.doubts: list[str] = []
        self._fakes: dict[str, Fake | None] = {}

    async def answer(
        self, name: str, args: dict[str, Any], context: CallContext, real: Handler | None
    ) -> Any:
        """The value of a call; a further delivery of one gets the same fake."""
        key = context.idempotency_key
        number = len(self.calls)
        self.calls.append(_Call(key, context.key, name, dict(args)))
        is_last = number == self._at_call
        if is_last and not self._took_place:
            raise _Crash
        if key in self.values:
            self.twice.append(call_text(name, args))
        fake = self._fakes[key] if key in self._fakes else self.pick(name, args)
        self._fakes[key] = fake
        try:
            value = await (real(args, context) if fake is None and real else self.given(fake, name, args))
        except ToolFailed:
            if is_last:
                raise _Crash from None
            raise
        self.values[key] = value
        if is_last:
            raise _Crash
        return value

    def found(self, sent: str) -> TookPlace | str:
        """What a person finds who looks whether a call took place: its value, or that it must be made."""
        for call in self.calls:
            if call.sent == sent and call.key in self.values:
                return TookPlace(self.values[call.key])
        return "retry"


class _Run:
    """One run with a journal of its own, resumed after its crash."""

    def __init__(
        self, rehearsals: Rehearsals, plan: Plan, world: _World, replies: tuple[Reply, ...], journal: Path
    ) -> None:
        self._rehearsals, self._plan, self._world = rehearsals, plan, world
        self._replies, self._journal = replies, journal

    def play(self, inputs: Mapping[str, JSON], secrets: Mapping[str, JSON]) -> RunResult:
        """Run it to its end, through its crash."""
        with suppress(_Crash):
            result = self._process(
                lambda runtime: runtime.run(self._plan, inputs, run_id=_RUN, secrets=secrets)
            )
            return self._on(result)
        return self._on(self._process(lambda runtime: runtime.resume(_RUN)))

    def _on(self, result: RunResult) -> RunResult:
        """Decide what is in doubt by what has happened, until the run has ended."""
        for _ in range(_MOST_ROUNDS):
            if result.status is not RunStatus.IN_DOUBT:
                return result
            call = result.in_doubt[0]
            self._world.doubts.append(call_text(call.tool, call.args))
            found: Any = self._world.found(call.key)

            async def decided(runtime: Any, key: str = call.key, found: Any = found) -> RunResult:
                await runtime.decide(_RUN, key, found)
                return await runtime.resume(_RUN)

            result = self._process(decided)
        return result

    def _process(self, work: Callable[[Any], Any]) -> RunResult:
        """What a process of its own would do: open a runtime, work, and close it or crash."""

        def carried_out() -> RunResult:
            loop = asyncio.new_event_loop()
            try:
                runtime = self._rehearsals.stand(
                    self._plan, self._world, journal=self._journal, on_approval=self._reply
                )
                return loop.run_until_complete(work(runtime))
            finally:
                loop.run_until_complete(end_tasks())
                loop.run_until_complete(loop.shutdown_default_executor())
                loop.close()

        return self._rehearsals.in_thread(carried_out)

    def _reply(self, ask: PendingAsk) -> Answer | bool | None:
        reply = next((one for one in self._replies if one.fits(ask)), None)
        return False if reply is None else reply.answer
