"""The workflow: one machine, fed with what a history tells, whose commands become activities and timers.

In: an order, and signals of people. Out: how the run ended. All that is decided here follows from the
history, so a worker that takes over replays it to the same state; what happened is kept by the way, from
which a client writes the journal.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Coroutine, Sequence
from datetime import timedelta
from typing import Any

from temporalio import workflow
from temporalio.common import RetryPolicy
from temporalio.exceptions import ActivityError, ApplicationError, TimeoutType
from temporalio.exceptions import TimeoutError as CallLost

with workflow.unsafe.imports_passed_through():
    from callsheet.machine import (
        AgentTurn,
        Answered,
        Ask,
        CallModel,
        CallTool,
        Cancelled,
        Command,
        Compile,
        Decided,
        Doubted,
        Event,
        Failed,
        Finish,
        PlanCompiled,
        Probe,
        RunAgent,
        Sleep,
        Started,
        Succeeded,
        TimerFired,
        TimeUp,
        ToolFacts,
        Verdict,
    )
    from callsheet.machine.version import MACHINE_VERSION
    from callsheet.runtime.answers import found
    from callsheet.runtime.engines.temporal.happenings import Happening, What
    from callsheet.runtime.engines.temporal.orders import CARRY_OUT, MODELS, TOOLS, WORKFLOW, Order
    from callsheet.runtime.engines.temporal.wire import Remote, command_to_json, outcome_from_json
    from callsheet.store.inbox import Letter
    from callsheet.store.records import event_of, facts_to_json, result_body
    from callsheet.store.replay import begin
    from callsheet.store.snapshots import Posed

_MOST_AT_ONCE = 500
"""Calls of one run under way at once: far below the 2,000 at which a server refuses more."""
_UNITS = 20_000
"""How many steps and items the machine does in one workflow task, which may last two seconds."""
_LONGEST_CALL = timedelta(days=1)
_AGAIN = RetryPolicy(initial_interval=timedelta(seconds=1), maximum_interval=timedelta(seconds=30))
"""For calls that may be made again: without end, for only a worker that was lost leads to it."""
_ONCE = RetryPolicy(maximum_attempts=1)
_OF_CALLS = Succeeded | Failed | PlanCompiled | Doubted | Decided | Answered
"""Events that count only while something waits for them."""
_LOST = {
    TimeoutType.HEARTBEAT: "the worker that carried it out was lost",
    TimeoutType.START_TO_CLOSE: "no answer came in time",
}


@workflow.defn(name=WORKFLOW)
class PlanRun:
    """One run of a plan."""

    @workflow.init
    def __init__(self, order: dict[str, Any]) -> None:
        self._order = Order.from_json(order)
        if self._order.core != MACHINE_VERSION:
            raise ValueError(
                f"the run was begun by version {self._order.core} of the machine that runs plans, and this"
                f" worker has version {MACHINE_VERSION}: a worker of that version has to carry it on"
            )
        start = self._order.start
        self._machine = begin(self._order.plan, start).machine
        self._facts = dict(start.facts)
        self._happened: list[Happening] = []
        self._arrived: list[Event] = []
        self._tasks: dict[asyncio.Task[None], None] = {}  # in an order that a replay has as well
        self._waiting: deque[Remote] = deque()
        self._under_way: Counter[str] = Counter()
        self._asks: dict[str, tuple[Ask, Posed]] = {}
        self._letters: list[Letter] = []
        self._doubted: dict[str, Remote] = {}
        self._rested = 0.0

    @property
    def happened(self) -> Sequence[Happening]:
        """All that has happened, for who replays the history."""
        return self._happened

    @property
    def order(self) -> Order:
        """What the run was started with."""
        return self._order

    @workflow.run
    async def run(self, order: dict[str, Any]) -> dict[str, Any]:
        """Carry the run to its end; gives the body of the journal's `end`."""
        del order  # read before the first signal
        began, machine = workflow.now(), self._machine
        self._spawn(self._watch_time())
        commands = machine.feed(Started(self._order.start.inputs), _UNITS)
        try:
            while True:
                await self._catch_up(commands)
                if machine.result is not None:
                    break
                self._launch(commands)
                commands = self._take(await self._arrivals())
        except asyncio.CancelledError:
            if (
                workflow.cancellation_reason() is None
            ):  # the worker lets go of the run, which goes on elsewhere
                raise
            self._take([*self._arrived, Cancelled("cancelled")])
        for task in tuple(self._tasks):
            task.cancel()
        result = machine.result
        assert result is not None
        seconds = (workflow.now() - began).total_seconds() - self._rested
        result = result.timed(round(seconds, 3))
        self._note(result)
        return result_body(result)

    # ------------------------------------------------------------ what people say

    @workflow.signal
    def decide(self, key: str, said: dict[str, Any]) -> None:
        """Decide about a call in doubt: `said` is the body of the journal's `decided`."""
        if self._doubted.pop(key, None) is not None:
            event = event_of("decided", key, said, _no_plan)
            assert event is not None
            self._arrived.append(event)

    @workflow.signal
    def answer(self, topic: str, msg_id: str, said: dict[str, Any]) -> None:
        """Answer a question, asked or still to come: as a letter of the journal's inbox does."""
        if all(letter.msg_id != msg_id for letter in self._letters):
            self._letters.append(Letter(topic, msg_id, said, workflow.now().timestamp()))
            for key in tuple(self._asks):
                self._look_for(key)

    @workflow.signal
    def cancel(self, reason: str) -> None:
        """End the run for good."""
        self._arrived.append(Cancelled(reason))

    @workflow.signal
    def resume(self) -> None:
        """Ask models again that have given no answer."""
        for key, command in tuple(self._doubted.items()):
            if isinstance(command, CallModel | AgentTurn | Compile):
                del self._doubted[key]
                self._waiting.append(command)
        self._fill()

    @workflow.query
    def standing(self) -> str:
        """`running`, `resting` where only people carry it on, or `ended`."""
        if self._machine.result is not None:
            return "ended"
        return "resting" if self._rests() else "running"

    # ------------------------------------------------------------ the machine

    def _note(self, what: What, due: float | None = None) -> None:
        self._happened.append(Happening(workflow.now().timestamp(), what, due))

    def _take(self, events: Sequence[Event]) -> list[Command]:
        """Tell the machine what has happened; gives what follows."""
        commands: list[Command] = []
        for event in events:
            if self._machine.result is not None:
                break
            if isinstance(event, _OF_CALLS) and not self._machine.is_open(event.key):
                continue
            if isinstance(event, PlanCompiled):
                self._facts.update(event.facts)
            self._note(event)
            commands += self._machine.feed(event, _UNITS)
            if isinstance(event, Doubted | Decided) and not self._machine.is_open(event.key):
                self._doubted.pop(event.key, None)  # its tool's policy has decided, or its probe
        self._arrived = []
        return commands

    async def _catch_up(self, commands: list[Command]) -> None:
        """Let the machine do all that follows, in as many workflow tasks as it takes."""
        while self._machine.is_paused:
            await workflow.sleep(0.001)
            commands += self._machine.go_on(_UNITS)

    async def _arrivals(self) -> list[Event]:
        """What happens next; while only people are waited for, the run's time stands still."""
        rests, since = self._rests(), workflow.now()
        await workflow.wait_condition(lambda: bool(self._arrived))
        if rests:
            self._rested += (workflow.now() - since).total_seconds()
        return self._arrived

    def _rests(self) -> bool:
        """Whether nothing is under way, and only what people say carries the run on."""
        return not (self._under_way or self._waiting or self._arrived) and bool(self._asks or self._doubted)

    async def _watch_time(self) -> None:
        """End the run when it has been worked on for as long as it may be."""
        limit, began = self._machine.limits.max_seconds, workflow.now()
        while limit is not None:
            left = limit - (workflow.now() - began).total_seconds() + self._rested
            if left <= 0 and not self._rests():
                self._arrived.append(TimeUp(limit))
                return
            await workflow.sleep(max(left, 1.0))

    # ------------------------------------------------------------ commands

    def _launch(self, commands: Sequence[Command]) -> None:
        for command in commands:
            if isinstance(command, Ask):
                self._ask(command)
            elif isinstance(command, Sleep):
                self._note(command, workflow.now().timestamp() + command.seconds)
                self._under_way[""] += 1
                self._spawn(self._sleep(command))
            elif not isinstance(command, Finish):
                self._waiting.append(command)
        self._fill()

    def _fill(self) -> None:
        """Let calls leave for which there is room, in the order in which they were asked for."""
        held: deque[Remote] = deque()
        caps = self._machine.limits.max_concurrency_by_tool
        while self._waiting and self._under_way.total() < _MOST_AT_ONCE:
            command = self._waiting.popleft()
            tool = _tool_of(command)
            if self._under_way[tool] >= caps.get(tool, _MOST_AT_ONCE):
                held.append(command)
                continue
            self._under_way[tool] += 1
            if not isinstance(command, Probe):
                self._note(command)
            self._spawn(self._call(command))
        self._under_way += Counter()
        self._waiting = held + self._waiting

    async def _call(self, command: Remote) -> None:
        key, tool, may_rerun = command.key, _tool_of(command), self._may_rerun(command)
        try:
            outcome = await workflow.execute_activity(
                CARRY_OUT,
                args=[self._order.run_id, command_to_json(command), self._facts_for(tool)],
                activity_id=key,
                task_queue=self._order.queue + (TOOLS if isinstance(command, CallTool | Probe) else MODELS),
                start_to_close_timeout=_LONGEST_CALL,
                heartbeat_timeout=timedelta(seconds=self._order.heartbeat),
                retry_policy=_AGAIN if may_rerun else _ONCE,
                summary=f"@{tool}" if tool else None,
                result_type=dict[str, Any],
            )
            event = outcome_from_json(outcome)
        except ActivityError as error:
            if self._machine.result is not None:
                return  # given up with the run
            event = _lost(key, error, may_rerun=may_rerun)
        if isinstance(event, Doubted):
            self._doubted[key] = command.call if isinstance(command, Probe) else command
        self._end(tool)
        self._arrived.append(event)

    def _end(self, tool: str) -> None:
        """A call is under way no more."""
        self._under_way[tool] -= 1
        if not self._under_way[tool]:
            del self._under_way[tool]
        self._fill()

    def _may_rerun(self, command: Remote) -> bool:
        """Whether the engine may make a call again whose worker was lost."""
        if isinstance(command, CallTool):
            return self._facts.get(command.tool, ToolFacts()).effect.may_rerun
        return not isinstance(command, RunAgent)

    def _facts_for(self, tool: str) -> dict[str, Any]:
        return facts_to_json({tool: self._facts[tool]} if tool in self._facts else {})

    async def _sleep(self, command: Sleep) -> None:
        await workflow.sleep(command.seconds, summary=command.key)
        self._end("")
        self._arrived.append(TimerFired(command.key))

    def _ask(self, ask: Ask) -> None:
        now, timeout = workflow.now().timestamp(), ask.asked.timeout
        posed = Posed(now, None if timeout is None else now + timeout)
        self._note(ask, posed.due)
        self._asks[ask.key] = ask, posed
        if not self._look_for(ask.key) and timeout is not None:
            self._spawn(self._expire(ask, timeout))

    def _look_for(self, key: str) -> bool:
        """Take the answer to a question if one is there."""
        ask, posed = self._asks[key]
        event = found(ask, posed, self._letters, float("-inf"))
        if event is not None:
            del self._asks[key]
            self._arrived.append(event)
        return event is not None

    async def _expire(self, ask: Ask, seconds: float) -> None:
        await workflow.sleep(seconds, summary=ask.key)
        still = self._asks.get(ask.key)
        if still is not None and still[0].asked.digest == ask.asked.digest:
            del self._asks[ask.key]
            self._arrived.append(Answered(ask.key, ask.asked.digest, Verdict.EXPIRE))

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks[task] = None
        task.add_done_callback(lambda done: self._tasks.pop(done, None))


def _tool_of(command: Remote) -> str:
    if isinstance(command, Probe):
        return command.call.tool
    return "" if isinstance(command, Compile) else command.tool


def _lost(key: str, error: ActivityError, *, may_rerun: bool) -> Doubted | Failed:
    """What is known of a call whose worker gave no outcome."""
    cause = error.cause
    if isinstance(cause, CallLost):
        why = _LOST.get(cause.type or TimeoutType.START_TO_CLOSE, "no worker took it in time")
    elif isinstance(cause, ApplicationError):
        why = f"its worker failed: {cause.message}"
    else:
        why = "somebody has cancelled it on the server"
    return Failed(key, why, unsettled=True) if may_rerun else Doubted(key, why)


def _no_plan(digest: str) -> Any:
    raise ValueError(f"no plan {digest}")
