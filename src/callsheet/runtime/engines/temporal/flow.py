"""The workflow: one machine, fed from its history, whose commands become activities and timers.

In: an order, and signals from people. Out: how the run ended. Every decision is determined by the history, so
another worker can replay it to the same state; events are collected on the way, from which a client writes
the journal.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any, cast

from temporalio import activity, workflow
from temporalio.api.common.v1 import Payload
from temporalio.common import RawValue
from temporalio.exceptions import ApplicationError, FailureError, is_cancelled_exception

from callsheet.machine import (
    Answered,
    Ask,
    Awaited,
    CallTool,
    Cancelled,
    Command,
    Decided,
    Doubted,
    Event,
    Failed,
    Finish,
    Limits,
    LimitsChanged,
    PlanCompiled,
    Probe,
    Result,
    Sleep,
    Started,
    Succeeded,
    TimeUp,
    ToolFacts,
    Verdict,
)
from callsheet.machine.doubt import call_of, with_limit
from callsheet.machine.keys import MACHINE_VERSION
from callsheet.machine.tree.apart import UNSTORABLE, Apart, Evaluation
from callsheet.runtime.answers import find_answer
from callsheet.runtime.engines.temporal.call_rules import held_for
from callsheet.runtime.engines.temporal.payloads import ClaimCheck, OrderedJson
from callsheet.runtime.engines.temporal.pending import PendingWork
from callsheet.runtime.engines.temporal.wire import (
    EVALUATE,
    HAPPENED,
    KEEP,
    MEMO,
    PAST,
    RESTING,
    RUNNING,
    WORKFLOW,
    Carried,
    Refolded,
    Reopening,
    Row,
    RunOrder,
    kept_to_json,
    plan_of,
    read_kept,
    refold,
    row_of,
    state_of,
)
from callsheet.runtime.gateway import NOTES, describe
from callsheet.store.kept_calls import Kept
from callsheet.store.mailbox import Message
from callsheet.store.records import event_of, result_body
from callsheet.store.replay import begin
from callsheet.store.snapshots import AskTimes

HAND_OVER = "callsheet: hand over an evaluation"
"""The name among a worker's extern functions with which a run gives it an evaluation, or takes that back."""
_THREADS = 2
_LONGEST = timedelta(hours=1)


class Evaluations:
    """The evaluations of all runs that one worker drives."""

    def __init__(self, claims: ClaimCheck) -> None:
        self._claims = claims
        self.handed: dict[str, Evaluation] = {}
        """Those that runs wait for, by token."""
        self._threads = ThreadPoolExecutor(_THREADS, "callsheet-evaluation")

    def close(self) -> None:
        """Forget what was handed over; what is under way ends in the background."""
        self.handed.clear()
        self._threads.shutdown(wait=False, cancel_futures=True)

    def hand_over(self, token: str, evaluation: Evaluation | None) -> None:
        """Take an evaluation whose activity, with this token, is about to start; None if it is over."""
        if evaluation is None:
            self.handed.pop(token, None)
        else:
            self.handed[token] = evaluation

    @activity.defn(name=EVALUATE)
    async def evaluate(self, token: str) -> RawValue:
        """Evaluate what was handed over and return what it gives, as data."""
        evaluation = self.handed.get(token)
        if evaluation is None:
            raise ApplicationError(f"this worker has no evaluation {token}")
        payload = await asyncio.get_running_loop().run_in_executor(self._threads, _payload_of, evaluation)
        (encoded,) = await self._claims.of(activity.info().workflow_id or "").encode([payload])
        return RawValue(encoded)


def _payload_of(evaluation: Evaluation) -> Payload:
    """What an evaluation gives. Raises ApplicationError for a fault, which ends the run at once."""
    try:
        return OrderedJson().to_payload(evaluation.made())
    except ValueError:  # JSON text has no integer of thousands of digits
        return OrderedJson().to_payload(UNSTORABLE)
    except Exception as error:
        said = f"an expression could not be evaluated: {describe(error)}"
        raise ApplicationError(said, type=type(error).__name__, non_retryable=True) from error


async def evaluated(evaluation: Evaluation, number: int) -> dict[str, Any]:
    """In a workflow: what an expression gives, as data; `number` is that of the evaluation in its run."""
    functions = cast("dict[str, Callable[[str, Evaluation | None], None]]", workflow.extern_functions())  # pyright: ignore[reportUnknownMemberType]
    token = f"{workflow.info().run_id}/{number}"
    hand_over = functions.get(HAND_OVER)
    if hand_over is not None:  # a replay by a client executes no activity
        hand_over(token, evaluation)
    try:
        return await workflow.execute_local_activity(
            EVALUATE, token, start_to_close_timeout=_LONGEST, result_type=dict[str, Any]
        )
    finally:
        if hand_over is not None:  # also in a replay, in which no activity takes it
            hand_over(token, None)


_UNITS = 8_000
"""Steps, items and pieces of work per workflow task, so that it lasts about half a second at most."""
_UNITS_BEFORE = 20_000
"""The same in histories of earlier versions."""
_MOST_GIVEN = 500
"""Kept outcomes per workflow task."""
_OF_CALLS = Succeeded | Failed | PlanCompiled | Doubted | Decided | Answered
"""Events that count only while their call or question is open."""
_KEEPING = timedelta(minutes=5)
_MOST_SAID = 48 * 1024
"""Bytes of a result that are not yet moved out of the history."""


@workflow.defn(name=WORKFLOW)
class PlanRun:
    """One run of a plan.

    `carried` is the state at the end of its previous history; `again` makes a failed graph go on; `kept` is
    what it keeps of an earlier run.
    """

    @workflow.init
    def __init__(
        self,
        order: dict[str, Any],
        carried: dict[str, Any] | None = None,
        again: dict[str, Any] | None = None,
        kept: dict[str, Any] | None = None,
    ) -> None:
        self.order = RunOrder.from_json(order)
        if self.order.core != MACHINE_VERSION:
            raise ValueError(
                f"the run was begun by version {self.order.core} of the machine that runs plans, and this"
                f" worker has version {MACHINE_VERSION}: a worker of that version has to continue it"
            )
        self.carried = None if carried is None else Carried.from_json(carried)
        before = None if again is None else Reopening.from_json(again)
        self._refolded: Refolded | None = None if before is None else refold(self.order, before)
        self._worked_before = 0.0 if before is None else before.worked
        if self._refolded is not None:
            self._machine = self._refolded.machine
        elif self.carried is None:
            self._machine = begin(self.order.plan, self.order.start).machine
        else:
            self._machine = self.carried.machine(self.order)
            self._worked_before = self.carried.worked
        self._apart = Apart()
        if self.order.apart:
            self._machine.evaluate_apart(self._apart)
        self._units = _UNITS if self.order.apart else _UNITS_BEFORE
        self._evaluations = 0
        self.happened: list[Row] = [] if before is None else list(before.rows)
        self.past: tuple[str, ...] = () if self.carried is None else self.carried.past
        self._arrived: list[Event] = []
        self._pending_work = PendingWork(
            self.order,
            lambda: self._machine.limits.max_concurrency_by_tool,
            self._note,
            self._arrived,
            lambda command, began: held_for(self.order, self._machine, command, began),
        )
        self._asks: dict[str, tuple[Ask, AskTimes]] = {}
        self._messages: list[Message] = [] if self.carried is None else list(self.carried.letters)
        self._plan_facts: dict[str, ToolFacts] = {}
        self._doubts: Counter[str] = Counter({} if self.carried is None else self.carried.doubts)
        self._words: dict[tuple[str, int], dict[str, Any]] = {}
        self._published: str = workflow.memo_value(MEMO, RUNNING)
        self._kept = None if kept is None else read_kept(self.order.plan, kept)
        self._given = 0
        """The kept outcomes that were given since the last workflow task began."""
        self._rested = 0.0
        self._began = workflow.now()

    @workflow.run
    async def run(
        self,
        order: dict[str, Any],
        carried: dict[str, Any] | None = None,
        again: dict[str, Any] | None = None,
        kept: dict[str, Any] | None = None,
    ) -> dict[str, Any]:
        """Carry the run to its end.

        Returns the body of the journal's `end` event, and beside it what happened, unless that is large: so a
        client that comes after the end reads the history's last event instead of replaying all of them.
        """
        del order, carried, again, kept  # read in __init__, before the first signal
        machine = self._machine
        try:
            self._pending_work.spawn(self._watch_time())
            commands: list[Command] = []
            if self._refolded is not None:
                commands = self._go_on(self._refolded)
            elif self.carried is None:
                commands = machine.feed(Started(self.order.start.inputs), self._units)
            else:
                self._continue_waits(self.carried)
            while True:
                await self._catch_up(commands)
                if machine.result is not None:
                    break
                self._launch(commands)
                if self._given > _MOST_GIVEN:
                    self._given = 0
                    await workflow.sleep(0.001)
                if self._is_long():
                    await self._turn_over()
                commands = self._take(await self._arrivals())
        except asyncio.CancelledError:
            if workflow.cancellation_reason() is None:  # evicted from this worker's cache
                raise
            self._take([*self._arrived, Cancelled("cancelled")])
        self._pending_work.give_up()
        result = machine.result
        assert result is not None
        result = result.timed(round(self._worked(), 3))
        self._note(result)
        said = {HAPPENED: self.happened, PAST: list(self.past)}
        return {**result_body(result), **(said if _is_small(said) else {})}

    # ------------------------------------------------------------ what people say

    @workflow.signal
    def decide(self, key: str, time: int, decision: dict[str, Any]) -> None:
        """Decide about a call in doubt, for its `time`-th doubt, which may be yet to come.

        `decision` is the body of the journal's `decided` event. It applies once, and not to another doubt of
        the call.
        """
        if time > self._doubts[key]:
            self._words[key, time] = decision
        elif time == self._doubts[key] and self._pending_work.doubted.pop(key, None) is not None:
            self._arrived.append(_decided(key, decision))

    @workflow.signal
    def answer(self, topic: str, msg_id: str, payload: dict[str, Any]) -> None:
        """Answer a question, asked or yet to come, like a message in a journal's inbox."""
        if all(message.msg_id != msg_id for message in self._messages):
            self._messages.append(Message(topic, msg_id, payload, workflow.now().timestamp()))
            for key in tuple(self._asks):
                self._look_for(key)

    @workflow.signal
    def cancel(self, reason: str) -> None:
        """End the run for good."""
        self._arrived.append(Cancelled(reason))

    @workflow.signal
    def bound(self, limits: dict[str, Any]) -> None:
        """Set the limits that apply from now on."""
        self._arrived.append(LimitsChanged(Limits.from_json(limits)))

    @workflow.signal
    def resume(self) -> None:
        """Repeat model calls that got no answer."""
        self._pending_work.ask_models_again()
        self._publish_status()

    # ------------------------------------------------------------ the machine

    def _note(self, entry: Event | Awaited | Result, due: float | None = None) -> None:
        self.happened.append(row_of(workflow.now().timestamp(), entry, due))

    def _take(self, events: Sequence[Event]) -> list[Command]:
        """Feed events to the machine; returns the commands that follow."""
        commands: list[Command] = []
        self._arrived.clear()
        for number, arrived in enumerate(events):
            if self._machine.result is not None:
                break
            if self._apart.wanted is not None:
                self._arrived.extend(events[number:])
                break
            event = self._limited(arrived) if isinstance(arrived, Decided) else arrived
            if isinstance(event, _OF_CALLS) and not self._machine.is_open(event.key):
                continue
            if isinstance(event, PlanCompiled):
                self._pending_work.facts.update(event.facts)
                self._plan_facts = dict(event.facts)
            self._note(event)
            commands += self._machine.feed(event, self._units)
            for key in self._machine.withdrawn:
                self._asks.pop(key, None)
                self._pending_work.due.pop(key, None)
            if isinstance(event, LimitsChanged):
                self._pending_work.spawn(self._watch_time())
            if isinstance(event, Doubted | Decided):
                self._after_doubt(event)
        return commands

    def _limited(self, event: Decided) -> Decided | Doubted:
        """A decision; a doubt about its call where a probe would have that made once too often."""
        attempt = self._machine.call(event.key)
        limited = with_limit(event, attempt)
        if attempt is not None and isinstance(limited, Doubted):
            self._pending_work.doubted[event.key] = call_of(attempt)
        return limited

    def _after_doubt(self, event: Doubted | Decided) -> None:
        """Count the doubts of a call; apply a decision that arrived before its doubt."""
        key, doubted = event.key, self._pending_work.doubted
        self._doubts[key] += isinstance(event, Doubted)
        if not self._machine.is_open(key):
            doubted.pop(key, None)  # decided by its tool's policy or its probe
        decision = self._words.pop((key, self._doubts[key]), None)
        if decision is not None and doubted.pop(key, None) is not None:
            self._arrived.append(_decided(key, decision))

    async def _catch_up(self, commands: list[Command]) -> None:
        """Let a paused machine finish, in as many workflow tasks as needed."""
        while self._machine.is_paused:
            wanted = self._apart.wanted
            if wanted is None:
                await workflow.sleep(0.001)
            else:
                self._evaluations += 1
                try:
                    self._apart.give(await evaluated(wanted, self._evaluations))
                except FailureError as error:
                    if is_cancelled_exception(error):
                        raise
                    # nothing in the plan: a journal, which evaluates for itself, would go on behind it
                    self._note(fault := Cancelled(error.message))
                    commands += self._machine.feed(fault)
                    return
            commands += self._machine.go_on(self._units)

    async def _arrivals(self) -> list[Event]:
        """Wait for events; while only people are waited for, the run's clock is stopped."""
        self._publish_status()
        rests, since = self._is_idle(), workflow.now()
        await workflow.wait_condition(lambda: bool(self._arrived) or self._pending_work.raise_fault())
        if rests:
            self._rested += (workflow.now() - since).total_seconds()
        return list(self._arrived)

    def _publish_status(self) -> None:
        """Publish in the memo whether only people can continue the run; reading it needs no worker."""
        status = RESTING if self._is_idle() else RUNNING
        if status != self._published:
            self._published = status
            workflow.upsert_memo({MEMO: status})

    def _is_idle(self) -> bool:
        """Whether nothing is under way and only people can continue the run."""
        idle = self._pending_work.is_idle and not self._arrived
        return idle and bool(self._asks or self._pending_work.doubted)

    def _worked(self) -> float:
        """The seconds spent on the run."""
        return self._worked_before + (workflow.now() - self._began).total_seconds() - self._rested

    async def _watch_time(self) -> None:
        """End the run when its time limit is reached."""
        while (limit := self._machine.limits.max_seconds) is not None:
            seconds_left = limit - self._worked()
            if seconds_left <= 0 and not self._is_idle():
                self._arrived.append(TimeUp(limit))
                return
            await workflow.sleep(max(seconds_left, 1.0))

    # ------------------------------------------------------------ commands

    def _launch(self, commands: Sequence[Command]) -> None:
        for command in commands:
            if isinstance(command, Ask):
                now, timeout = workflow.now().timestamp(), command.asked.timeout
                posed = AskTimes(now, None if timeout is None else now + timeout)
                self._note(command, posed.due)
                self._ask(command, posed)
            elif not (isinstance(command, Finish) or self._is_kept(command)):
                self._pending_work.launch(command)
        self._pending_work.fill()

    def _is_kept(self, command: Command) -> bool:
        """Give a call the outcome of the same call of an earlier run, if there is one."""
        if self._kept is None or not isinstance(command, Kept):
            return False
        if isinstance(command, CallTool) and command.tool == NOTES:
            return False  # what it notes is needed by this run as well
        outcome = self._kept.outcome_of(command)
        if outcome is None:
            return False
        self._note(command)
        self._given += 1
        if isinstance(outcome, Doubted):
            self._pending_work.doubted[command.key] = command
        self._arrived.append(outcome)
        return True

    def _ask(self, ask: Ask, posed: AskTimes) -> None:
        self._asks[ask.key] = ask, posed
        if not self._look_for(ask.key) and posed.due is not None:
            self._pending_work.spawn(self._expire(ask, posed.due))

    def _look_for(self, key: str) -> bool:
        """Take the answer to a question if there is one."""
        ask, posed = self._asks[key]
        event = find_answer(ask, posed, self._messages, float("-inf"))
        if event is not None:
            del self._asks[key]
            self._arrived.append(event)
        return event is not None

    async def _expire(self, ask: Ask, due: float) -> None:
        await workflow.sleep(max(0.0, due - workflow.now().timestamp()), summary=ask.key)
        still = self._asks.get(ask.key)
        if still is not None and still[0].asked.digest == ask.asked.digest:
            del self._asks[ask.key]
            self._arrived.append(Answered(ask.key, ask.asked.digest, Verdict.EXPIRE))

    # ------------------------------------------------------------ from one history to the next

    def _is_long(self) -> bool:
        info = workflow.info()
        return info.is_continue_as_new_suggested() or info.get_current_history_length() > self.order.turn_over

    async def _turn_over(self) -> None:
        """Continue in a new history once no call is under way; return if that is not possible now."""
        outside = self._pending_work
        outside.is_closed = True
        await workflow.wait_condition(
            lambda: not outside.has_calls or bool(self._arrived) or outside.raise_fault()
        )
        if outside.has_calls or self._arrived:
            return
        state, count = state_of(self._machine, self.order), len(self.happened)
        if state is not None:
            digest = await workflow.execute_activity(
                KEEP, args=[self.happened], start_to_close_timeout=_KEEPING, result_type=str
            )
            if not self._arrived and count == len(self.happened):
                kept = None if self._kept is None else kept_to_json(self._kept.left(), self._kept.again)
                carried = self._carried(state, digest).to_json()
                workflow.continue_as_new(args=[self.order.to_json(), carried, None, kept])
        outside.is_closed = False
        outside.fill()

    def _carried(self, state: dict[str, Any], digest: str) -> Carried:
        outside = self._pending_work
        plan = plan_of(self._machine, self._plan_facts)
        if plan is not None and self.carried is not None and not self._plan_facts:
            plan = self.carried.plan
        return Carried(
            state,
            plan,
            outside.facts,
            (*self.past, digest),
            tuple(outside.doubted),
            dict(outside.due),
            {key: posed for key, (_, posed) in self._asks.items()},
            tuple(self._messages),
            self._worked(),
            dict(self._doubts),
            dict(outside.began),
        )

    def _go_on(self, refolded: Refolded) -> list[Command]:
        """Record what the reopened machine was told; returns the commands that follow."""
        self._pending_work.facts = refolded.facts
        self._plan_facts = refolded.plan_facts
        for event in refolded.events:
            self._note(event)
        return refolded.commands

    def _continue_waits(self, carried: Carried) -> None:
        """Launch commands that had not left, and continue the waits of the previous history."""
        outside = self._pending_work
        outside.facts = dict(carried.facts)
        outside.began = dict(carried.began)
        for key, command in self._machine.open_commands().items():
            if key in carried.doubted and not isinstance(command, Sleep | Ask):
                outside.doubted[key] = command.call if isinstance(command, Probe) else command
            elif isinstance(command, Sleep) and key in carried.due:
                outside.sleep(command, carried.due[key])
            elif isinstance(command, Ask) and key in carried.posed:
                self._ask(command, carried.posed[key])
            else:
                self._launch([command])
        outside.fill()


def _is_small(said: dict[str, Any]) -> bool:
    """Whether data is so small that a history has room for it twice."""
    return len(OrderedJson().to_payload(said).data) <= _MOST_SAID


def _decided(key: str, decision: dict[str, Any]) -> Event:
    event = event_of("decided", key, decision, _no_plan)
    assert event is not None
    return event


def _no_plan(digest: str) -> Any:
    raise ValueError(f"no plan {digest}")
