"""Manages the open work of a run outside its workflow: calls of tools and models, and timers.

In: commands of the machine. Out: events of their outcomes. Calls leave in the order in which they were
issued, as capacity allows; a call whose worker is lost is repeated or falls into doubt, as its effect allows.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Callable, Coroutine, Iterable, Mapping
from datetime import timedelta
from typing import Any, cast

from temporalio import workflow
from temporalio.common import RetryPolicy
from temporalio.exceptions import ActivityError, ApplicationError, TimeoutType
from temporalio.exceptions import TimeoutError as CallLost

from callsheet.machine import (
    AgentTurn,
    CallModel,
    CallTool,
    Compile,
    Doubted,
    Event,
    Failed,
    Probe,
    RunAgent,
    Sleep,
    TimerFired,
    ToolFacts,
)
from callsheet.machine.keys import item_of
from callsheet.runtime.engines.temporal.call_rules import talk_of
from callsheet.runtime.engines.temporal.heartbeats import is_sent
from callsheet.runtime.engines.temporal.wire import (
    CARRY_OUT,
    CARRY_OUT_ONCE,
    MODELS,
    TOOLS,
    UNSENT,
    Remote,
    RunOrder,
    command_to_json,
    outcome_from_json,
)
from callsheet.store.start import facts_to_json

_MOST_AT_ONCE = 500
"""Maximum concurrent calls of one run, far below the 2,000 that a server accepts."""
_LONGEST_CALL = timedelta(days=1)
_AGAIN = RetryPolicy(initial_interval=timedelta(seconds=1), maximum_interval=timedelta(seconds=30))
"""For calls that may be repeated: without limit, since only a lost worker leads to a retry."""
_ONCE = RetryPolicy(maximum_attempts=1)
AT_HAND = "callsheet: calls at hand"
"""The name among a worker's extern functions with which it says that it also makes the calls of its runs."""
_MOST_AT_HAND = 3
"""Concurrent calls that a run offers to the worker that drives it: as many as the SDK starts with a task."""
_AT_HAND_PATIENCE = timedelta(seconds=5)
"""How long a call waits for the worker at hand before it is offered to all."""
_TELLS = "calls that tell when they are sent"
"""The patch with which histories have `CARRY_OUT_ONCE`."""
_UNKNOWN_ACTIVITY = "NotFoundError"
"""The type of the failure of a worker that is too old to know an activity."""
_FIRST_PAUSE, _LONGEST_PAUSE = 1.0, 30.0
nap = workflow.sleep
"""The timer for waits in plans."""
_LOST = {
    TimeoutType.HEARTBEAT: "the worker that carried it out was lost",
    TimeoutType.START_TO_CLOSE: "no answer came in time",
}


class PendingWork:
    """The calls and waits of one run.

    `note` is called with each command when it leaves, and with the wall time at which a wait ends; `arrived`
    receives the events. `caps` limits concurrent calls of single tools; `rules_of` returns a call's rules.
    While `is_closed`, no call leaves.
    """

    def __init__(
        self,
        order: RunOrder,
        caps: Callable[[], Mapping[str, int]],
        note: Callable[[Remote | Sleep, float | None], None],
        arrived: list[Event],
        rules_of: Callable[[Remote, Mapping[str, float]], dict[str, Any] | None],
    ) -> None:
        self._order = order
        self._caps = caps
        self._note = note
        self._arrived = arrived
        self._rules_of = rules_of
        self.began: dict[str, float] = {}
        """The wall times of agents' first turns, by the key of their call without the attempt."""
        self.facts: dict[str, ToolFacts] = dict(order.start.facts)
        self.waiting: deque[Remote] = deque()
        self.doubted: dict[str, Remote] = {}
        self.due: dict[str, float] = {}
        """The wall times at which waits end, by key."""
        self.is_closed = False
        self._under_way: Counter[str] = Counter()
        self._tasks: dict[asyncio.Task[None], None] = {}  # ordered, so that a replay has the same order
        self._fault: BaseException | None = None
        self._is_given_up = False

    @property
    def has_calls(self) -> bool:
        """Whether calls are under way."""
        return bool(self._under_way)

    @property
    def is_idle(self) -> bool:
        """Whether nothing is under way or about to be."""
        return not (self._under_way or self.waiting or self.due)

    def raise_fault(self) -> bool:
        """Raise an error of a background task; False if there is none."""
        if self._fault is not None:
            raise self._fault
        return False

    def launch(self, command: Remote | Sleep) -> None:
        """Start a wait, or queue a call, which leaves with `fill`."""
        if isinstance(command, Sleep):
            self.sleep(command, workflow.now().timestamp() + command.seconds)
            self._note(command, self.due[command.key])
        else:
            self.waiting.append(command)

    def sleep(self, command: Sleep, due: float) -> None:
        """Wait until this wall time, in seconds since 1970."""
        self.due[command.key] = due
        self.spawn(self._sleep(command.key, max(0.0, due - workflow.now().timestamp())))

    def fill(self) -> None:
        """Let queued calls leave as capacity allows."""
        postponed: deque[Remote] = deque()
        caps = self._caps()
        while self.waiting and not self.is_closed and self._under_way.total() < _MOST_AT_ONCE:
            command = self.waiting.popleft()
            tool = _tool_of(command)
            if self._under_way[tool] >= caps.get(tool, _MOST_AT_ONCE):
                postponed.append(command)
                continue
            self._under_way[tool] += 1
            if not isinstance(command, Probe):
                self._note(command, None)
            self.spawn(self._call(command, is_early=self._under_way.total() <= _MOST_AT_HAND))
        self._under_way += Counter()  # drops zero counts
        self.waiting = postponed + self.waiting

    def ask_models_again(self) -> None:
        """Repeat model calls that got no answer."""
        for key, command in tuple(self.doubted.items()):
            if isinstance(command, CallModel | AgentTurn | Compile):
                del self.doubted[key]
                self.waiting.append(command)
        self.fill()

    def give_up(self) -> None:
        """Cancel everything that is under way."""
        self._is_given_up = self.is_closed = True
        for task in tuple(self._tasks):
            task.cancel()

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Run a coroutine in the background."""
        task = asyncio.create_task(work)
        self._tasks[task] = None
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.pop(task, None)
        if not task.cancelled() and task.exception() is not None:
            self._fault = self._fault or task.exception()

    async def _call(self, command: Remote, *, is_early: bool) -> None:
        """Make a call, by the worker that drives the run if it makes calls and this is an early one.

        The server then starts it in the transaction that records it. Which workers make calls differs between
        workers and is unknown to a replay; a history fits all the same, since task queues and time-outs are
        not compared.
        """
        key, tool, may_rerun = command.key, _tool_of(command), self._may_rerun(command)
        talk = talk_of(command)
        if talk:
            self.began.setdefault(item_of(talk), workflow.now().timestamp())
        rules = self._rules_of(command, self.began)
        args: list[Any] = [self._order.run_id, command_to_json(command), self._facts_for((tool,))]
        tells = not may_rerun and workflow.patched(_TELLS)
        functions = cast("Mapping[str, object]", workflow.extern_functions())  # pyright: ignore[reportUnknownMemberType]
        at_hand = is_early and (may_rerun or tells) and AT_HAND in functions
        queue, pause = self._order.queue, _FIRST_PAUSE
        while True:
            try:
                outcome = await workflow.execute_activity(
                    CARRY_OUT_ONCE if tells else CARRY_OUT,
                    args=args if rules is None else [*args, rules],
                    activity_id=key,
                    task_queue=queue if at_hand else queue + _suffix_of(command),
                    schedule_to_start_timeout=_AT_HAND_PATIENCE if at_hand else None,
                    start_to_close_timeout=_LONGEST_CALL,
                    heartbeat_timeout=timedelta(seconds=self._order.heartbeat),
                    retry_policy=_AGAIN if may_rerun and not at_hand else _ONCE,
                    summary=f"@{tool}" if tool else None,
                    result_type=dict[str, Any],
                )
                event = outcome_from_json(outcome)
            except ActivityError as error:
                if self._is_given_up:
                    return
                if _may_try_again(error) if may_rerun else tells and _is_unsent(error):
                    await nap(pause, summary=f"{key} was not made")
                    at_hand, pause = False, min(2 * pause, _LONGEST_PAUSE)
                    continue
                event = _lost(key, error, may_rerun=may_rerun)
            break
        if isinstance(event, Doubted):
            self.doubted[key] = command.call if isinstance(command, Probe) else command
        self._under_way[tool] -= 1
        self._arrived.append(event)
        self.fill()

    def _may_rerun(self, command: Remote) -> bool:
        """Whether the engine may repeat a call whose worker was lost."""
        if isinstance(command, CallTool):
            return self.facts.get(command.tool, ToolFacts()).effect.may_rerun
        return not isinstance(command, RunAgent)

    def _facts_for(self, tools: Iterable[str]) -> dict[str, Any]:
        return facts_to_json({tool: self.facts[tool] for tool in tools if tool in self.facts})

    async def _sleep(self, key: str, seconds: float) -> None:
        await nap(seconds, summary=key)
        if self.due.pop(key, None) is not None:
            self._arrived.append(TimerFired(key))


def _tool_of(command: Remote) -> str:
    if isinstance(command, Probe):
        return command.call.tool
    return "" if isinstance(command, Compile) else command.tool


def _suffix_of(command: Remote) -> str:
    """What follows the name of the plans' task queue in that of the calls of this kind."""
    return TOOLS if isinstance(command, CallTool | Probe) else MODELS


def _may_try_again(error: ActivityError) -> bool:
    """Whether a call that may be repeated failed with its worker alone, so that all are to be asked."""
    cause = error.cause
    return isinstance(cause, CallLost) or (isinstance(cause, ApplicationError) and not cause.non_retryable)


def _is_unsent(error: ActivityError) -> bool:
    """Whether the call of an activity that tells when it is sent was certainly not sent."""
    cause = error.cause
    if isinstance(cause, CallLost):
        return not is_sent(cause.last_heartbeat_details)
    return isinstance(cause, ApplicationError) and cause.type in (UNSENT, _UNKNOWN_ACTIVITY)


def _lost(key: str, error: ActivityError, *, may_rerun: bool) -> Doubted | Failed:
    """The event of a call whose worker gave no outcome."""
    cause = error.cause
    if isinstance(cause, CallLost):
        why = _LOST.get(cause.type or TimeoutType.START_TO_CLOSE, "no worker started it in time")
    elif isinstance(cause, ApplicationError):
        why = f"its worker failed: {cause.message}"
    else:
        why = "it was cancelled on the server"
    return Failed(key, why, unsettled=True) if may_rerun else Doubted(key, why)
