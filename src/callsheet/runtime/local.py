"""The local driver: runs one machine with concurrent calls on an asyncio loop.

In: a machine and its open commands. Out: its result. The recorder, if any, gets every intent before the call
leaves and every outcome before anything depends on it. A single call is awaited in place; concurrent ones are
carried out by `ConcurrentCalls`.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import TYPE_CHECKING, Any, Protocol, cast

from callsheet.ir import JSON
from callsheet.machine import (
    Ask,
    Awaited,
    CallTool,
    Cancelled,
    Command,
    Event,
    Failed,
    Finish,
    Machine,
    Result,
    Sleep,
    Succeeded,
    TimerFired,
    TimeUp,
)
from callsheet.ports.calls import CallListener, ServerQuestion
from callsheet.ports.threads import stop_sharing
from callsheet.ports.timeouts import give_up
from callsheet.runtime.asking import OpenQuestions, People
from callsheet.runtime.concurrent_calls import ConcurrentCalls
from callsheet.runtime.gateway import Carried, Gateway, Outcome

if TYPE_CHECKING:
    from callsheet.runtime.server_questions import ServerQuestions
    from callsheet.store.events import EventType

CarryOut = Callable[[Carried], Coroutine[Any, Any, Outcome]]


def followed(gateway: Gateway) -> CarryOut:
    """How calls are carried out, with the gateway's listener told of them."""
    carry_out: CarryOut = gateway.carry_out
    if gateway.kept is not None:
        from callsheet.runtime.kept_outcomes import keeping  # noqa: PLC0415 - only for edited plans

        carry_out = keeping(gateway, gateway.kept)
    return carry_out if gateway.listener is None else _telling(carry_out, gateway.listener)


def _telling(carry_out: CarryOut, listener: CallListener) -> CarryOut:
    began, ended = listener.began, listener.ended

    async def carry_out_told(command: Carried) -> Outcome:
        if type(command) is Sleep:
            return await carry_out(command)
        began(command.key)
        succeeded = False
        try:
            outcome = await carry_out(command)
            succeeded = type(outcome) is Succeeded
            return outcome
        finally:
            ended(command.key, succeeded=succeeded)

    return carry_out_told


_SECONDS_BETWEEN_YIELDS = 0.002
_PATIENCE = 5.0
"""Seconds that commits have to end when the driver does."""
SLICE = 500
"""How many steps and items a machine processes before others on the loop get a turn."""


_NOT_CARRIED_OUT = frozenset({Ask, Finish})
_ONLY_CALLS = frozenset({CallTool})


class Recorder(Protocol):
    """Records what a run is about to do and what has happened."""

    def intent(self, command: Awaited) -> None:
        """A call is about to leave, or a wait to begin."""

    def event(self, event: Event) -> Event:
        """Record an event; returns the event to feed to the machine."""
        ...

    def late(self, event: Succeeded | Failed) -> None:
        """Record an outcome that arrived after its call was given up; the machine is not told."""

    def beside(self, kind: EventType, key: str, body: dict[str, Any], msg_id: str = "") -> None:
        """Record something about a call that the machine does not take; `msg_id` is what it answers."""

    def became_task(self, key: str, task: str) -> None:
        """A call has become a task of its server."""

    def commit(self, is_idle: bool) -> Awaitable[None] | None:
        """Make the records durable: at once (None), or once the returned awaitable has completed.

        `is_idle` means that no call of the run is under way which waiting for a disk could delay.
        """
        ...


class Pace(Protocol):
    """Decides when a machine goes on, statement by statement: a debugger."""

    def stops(self, machine: Machine) -> bool:
        """Whether the run stops here, before the next statement or at the end of a batch."""
        ...

    async def stopped(self) -> None:
        """Wait until the run goes on."""
        ...


def slice_of(pace: Pace | None) -> int:
    """How many steps and items a machine processes before its driver looks at it."""
    return SLICE if pace is None else 0


class LocalDriver:
    """Drives one machine to its end.

    `after_batch` is awaited after each batch of events, for progress to be forwarded. `seconds` is the time
    spent on the run before, which counts against its limit. With a `pace` the machine goes on statement by
    statement: it is fed for `slice_of` it at the start, and while it is stopped the clock of the run is, too.
    """

    def __init__(
        self,
        machine: Machine,
        gateway: Gateway,
        recorder: Recorder | None = None,
        after_batch: Callable[[], Awaitable[None]] | None = None,
        seconds: float = 0.0,
        people: People | None = None,
        pace: Pace | None = None,
    ) -> None:
        self._machine = machine
        self._pace = pace
        self._slice = slice_of(pace)
        self._gateway = gateway
        self._recorder = recorder
        self._after_batch = after_batch
        self._is_watched = recorder is not None or after_batch is not None
        self._carry_out = followed(gateway)
        self._concurrent = ConcurrentCalls(self._carry_out)
        self._people = people
        self._questions: OpenQuestions | None = None
        """Created with the first question."""
        self._of_servers: ServerQuestions | None = None
        self._driving: asyncio.Task[object] | None = None
        self._ending: Cancelled | TimeUp | None = None
        self._is_ending = False
        self._is_pausing = False
        self.unsent: list[str] = []
        """The keys of commands that were about to leave when the run was paused, and did not."""
        self.on_asked: Callable[[], None] | None = None
        """Looks at once for what the owner of the run is asked by messages; None if there is no inbox."""
        self._seconds = seconds
        self._since: float | None = None
        self._timer: asyncio.Handle | None = None
        self._beside: set[asyncio.Future[None]] = set()
        """Commits that the driver does not wait for."""

    @property
    def seconds(self) -> float:
        """The seconds spent on the run, by this driver and before, without time spent waiting only for
        people.
        """
        if self._since is None:
            return self._seconds
        return self._seconds + time.monotonic() - self._since

    def cancel(self, reason: str = "cancelled") -> None:
        """End the run: calls under way are cancelled, and no more are made."""
        self._end_by(Cancelled(reason))

    def pause(self) -> None:
        """Send no further call: `run` awaits those under way, records them, and returns None."""
        self._is_pausing = True
        self._gateway.withhold()
        if self._driving is not None:
            self._driving.get_loop().call_soon(self._stop_waiting)

    def _stop_waiting(self) -> None:
        """Let the driver see that the run is to be paused, although nothing arrives; waits are given up."""
        self._gateway.end_timers()
        self._concurrent.wake()

    def _note_late(self, event: Succeeded | Failed) -> None:
        """Record an outcome that arrived after its call was given up, while the run goes on."""
        recorder = self._recorder
        if recorder is not None and self._driving is not None and self._machine.result is None:
            recorder.late(event)
            self._settle_beside()

    async def _answer_server(self, key: str, question: ServerQuestion) -> JSON:
        """Answer what a server asks during a call, while the run goes on."""
        if self._driving is None or self._machine.result is not None:
            return None
        if self._of_servers is None:
            from callsheet.runtime.server_questions import ServerQuestions  # noqa: PLC0415 - few servers ask

            people = self._people or People("")
            self._of_servers = ServerQuestions(
                people, self._recorder, self._settle_beside, lambda: self._driving is not None
            )
        return await self._of_servers.answer(key, question)

    async def _became_task(self, key: str, task: str) -> None:
        """Record that a call has become a task of its server."""
        if self._recorder is not None and self._driving is not None and self._machine.result is None:
            self._recorder.became_task(key, task)
            self._settle_beside()

    def _is_left(self) -> bool:
        """Whether the run is recorded, and interrupted rather than ended."""
        driving = self._driving
        interrupted = driving is not None and driving.cancelling() > 0 and self._ending is None
        return interrupted and self._recorder is not None

    def _settle_beside(self) -> None:
        """Make durable what was recorded beside the calls, even if nothing else happens for long."""
        recorder = self._recorder
        if recorder is not None and not self._concurrent.wake() and not self._machine.is_paused:
            self._commit_beside(recorder)

    def _commit_beside(self, recorder: Recorder) -> None:
        """Commit late records while the driver awaits a call in place, which may take long.

        The driver notices errors at its own next commit.
        """
        unsettled = recorder.commit(is_idle=False)
        if unsettled is not None:
            commit = asyncio.ensure_future(unsettled)
            self._beside.add(commit)
            commit.add_done_callback(self._committed_beside)

    def _committed_beside(self, commit: asyncio.Future[None]) -> None:
        self._beside.discard(commit)
        if not commit.cancelled():
            commit.exception()  # retrieved, so that asyncio does not report it

    def _end_by(self, ending: Cancelled | TimeUp) -> None:
        self._ending = self._ending or ending
        if self._driving is not None:  # later: a tool may call this while it is being started
            self._driving.get_loop().call_soon(self._interrupt)

    def _interrupt(self) -> None:
        """Wake a waiting driver so that it ends the run, unless it already does."""
        if self._driving is not None and not self._is_ending:
            self._is_ending = True
            self._driving.cancel()

    def _watch_time(self) -> None:
        """Start the run's clock, and end the run when its time limit is reached."""
        self._since = time.monotonic()
        limit = self._machine.limits.max_seconds
        if limit is None:
            return
        if limit <= self._seconds:
            self._ending = self._ending or TimeUp(round(self._seconds, 3))
            return
        self._timer = asyncio.get_running_loop().call_soon(self._set_timer, limit)

    def _set_timer(self, limit: float) -> None:
        """Set the timer for the limit; in the loop's next turn, so that runs which never wait need none."""
        self._timer = asyncio.get_running_loop().call_later(limit - self.seconds, self._time_is_up, limit)

    def _time_is_up(self, limit: float) -> None:
        self._end_by(TimeUp(max(limit, round(self.seconds, 3))))

    def _stop_time(self) -> None:
        """Stop the run's clock."""
        self._seconds, self._since = self.seconds, None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    async def _arrival(self) -> None:
        """Wait for the next event; while only people are waited for, the run's clock is stopped."""
        if not self._concurrent.is_idle:
            await self._concurrent.arrival()
            return
        self._stop_time()
        await self._concurrent.arrival()
        self._watch_time()

    async def run(self, commands: Sequence[Command]) -> Result | None:
        """Carry out commands until the machine has its result; None if a person has to decide or answer.

        Raises what the recorder's commit raises; then nothing more was launched, and calls under way have
        been cancelled.
        """
        stop_sharing()  # where a tool runs a plan: `_driving` has to remain its task
        self._driving = asyncio.current_task()
        self._gateway.on_late, self._gateway.on_server = self._note_late, self._answer_server
        self._gateway.on_task, self._gateway.is_left = self._became_task, self._is_left
        self._gateway.why_ended = self._machine.why_ended
        self._watch_time()
        try:
            if self._ending is not None:
                return await self._end_with(self._ending)
            return await self._drive(commands)
        except asyncio.CancelledError:
            self._is_ending = True
            if self._questions is not None:
                await self._questions.close()
            await self._concurrent.dismiss()
            if self._ending is None:
                await self._keep_arrived()
                raise
            assert self._driving is not None
            while self._driving.cancelling():
                self._driving.uncancel()
            return await self._end_with(self._ending)
        finally:
            self._driving = self._gateway.on_late = self._gateway.on_server = self._gateway.on_task = None
            self._gateway.is_left = self._gateway.why_ended = None
            self._stop_time()
            if self._questions is not None and not self._questions.is_idle:
                await self._questions.close()
            if not self._concurrent.are_workers_idle:
                await self._concurrent.dismiss()
            if self._beside:
                await give_up({*self._beside}, _PATIENCE)

    async def _drive(self, commands: Sequence[Command]) -> Result | None:
        machine, concurrent, now = self._machine, self._concurrent, time.monotonic
        until = now() + _SECONDS_BETWEEN_YIELDS
        is_watched, recorder = self._is_watched, self._recorder
        carry_out = cast("Callable[[Command], Awaitable[Event]]", self._carry_out)
        if machine.is_paused:
            commands = [*commands, *await self._caught_up()]
        if is_watched:
            await self._settled(commands)
        while machine.result is None:
            is_alone = concurrent.is_idle and (self._questions is None or not self._questions.open)
            is_alone = is_alone and not self._is_pausing
            while is_alone and len(commands) == 1 and type(command := commands[0]) not in _NOT_CARRIED_OUT:
                event: Event = await carry_out(command)
                if self._ending is not None or self._is_pausing:
                    concurrent.arrived.append(event)
                    return await self._rest(())
                commands = machine.feed(event if recorder is None else recorder.event(event), self._slice)
                if machine.is_paused or self._pace is not None:
                    commands += await self._caught_up()
                if is_watched:
                    unsettled = self._settle(commands)
                    if unsettled is not None:
                        await unsettled
                    if self._after_batch is not None:
                        await self._after_batch()
                if now() > until:
                    await asyncio.sleep(0)
                    until = now() + _SECONDS_BETWEEN_YIELDS
            if machine.result is not None:
                break
            if self._is_pausing:
                return await self._rest(commands)
            following = await self._side_by_side(commands)
            if following is None:
                return None  # the rest is in doubt or waits for people
            commands = following
            if concurrent.is_behind or now() > until:
                await asyncio.sleep(0)
                until = now() + _SECONDS_BETWEEN_YIELDS
        return machine.result

    async def _side_by_side(self, commands: Sequence[Command]) -> list[Command] | None:
        """Start calls and return the commands that follow from the next events; None if none can arrive."""
        concurrent = self._concurrent
        concurrent.start(self._without_questions(commands))
        if concurrent.is_idle and (self._questions is None or not self._questions.is_awaited()):
            return None
        if not concurrent.arrived:
            await self._arrival()
        if self._ending is not None:
            raise asyncio.CancelledError
        if self._is_pausing:
            return []
        batch = concurrent.collect()
        following = await self._take(batch)
        if self._is_watched:
            await self._settled(following)
        return following

    async def _rest(self, commands: Sequence[Command]) -> Result | None:
        """Take what the calls under way give, and send nothing more; the result if the run ends with that.

        Timers that ran go on when the run does: when they are due is recorded.
        """
        concurrent, gateway = self._concurrent, self._gateway
        if self._ending is not None:
            raise asyncio.CancelledError
        self.unsent = [one.key for one in (*commands, *concurrent.withdraw()) if not isinstance(one, Finish)]
        if self._questions is not None:
            await self._questions.close()
        while self._machine.result is None and not concurrent.is_idle:
            if not concurrent.arrived:
                await self._arrival()
            if self._ending is not None:
                raise asyncio.CancelledError
            arrived = concurrent.collect()
            sent = (one for one in arrived if not isinstance(one, TimerFired))
            await self._take([one for one in sent if getattr(one, "key", "") not in gateway.withheld])
            await self._settled(())
        self.unsent += gateway.withheld
        return self._machine.result

    def _without_questions(self, commands: Sequence[Command]) -> Sequence[Carried]:
        """The commands to carry out as calls; questions are passed to the open questions."""
        if _ONLY_CALLS.issuperset(map(type, commands)):  # as nearly always
            return cast("Sequence[Carried]", commands)
        calls: list[Carried] = []
        for command in commands:
            if isinstance(command, Ask):
                self._questions = self._questions or OpenQuestions(
                    self._people or People(""), self._concurrent
                )
                self._questions.ask(command)
            elif not isinstance(command, Finish):
                calls.append(command)
        return calls

    async def _take(self, batch: list[Event]) -> list[Command]:
        """As `_apply`, yielding to others; events left by an interruption count as just arrived."""
        machine, recorder = self._machine, self._recorder
        feed = machine.feed
        commands: list[Command] = []
        taken = 0
        try:
            for event in batch:
                taken += 1
                following = feed(event if recorder is None else recorder.event(event), self._slice)
                if following:
                    commands += following
                if machine.is_paused or self._pace is not None:
                    commands += await self._caught_up()
                for key in machine.withdrawn:
                    self._gateway.end_timer(key)
                    if self._questions is not None:
                        self._questions.open.pop(key, None)
                if machine.told:
                    self._gateway.recall(machine.told)
        finally:
            if taken < len(batch):
                self._concurrent.arrived[:0] = batch[taken:]
        return commands

    async def _caught_up(self) -> list[Command]:
        """The remaining commands of a paused machine, obtained slice by slice."""
        commands: list[Command] = []
        pace = self._pace
        while self._machine.is_paused:
            if pace is None:
                await asyncio.sleep(0)
            else:
                await self._look(pace)
            commands += self._machine.go_on(SLICE if pace is None else 1)
        if pace is not None:
            await self._look(pace)
        return commands

    async def _look(self, pace: Pace) -> None:
        """Stop where the pace says so, with all that has happened in the journal."""
        if not pace.stops(self._machine):
            await asyncio.sleep(0)
            return
        await self._settled(())
        self._stop_time()
        await pace.stopped()
        self._watch_time()

    def _apply(self, batch: Sequence[Event]) -> list[Command]:
        """Record and feed events; return the commands that follow."""
        feed, recorder = self._machine.feed, self._recorder
        commands: list[Command] = []
        for event in batch:
            commands += feed(event if recorder is None else recorder.event(event))
        return commands

    def _settle(self, commands: Sequence[Command]) -> Awaitable[None] | None:
        """Record commands before they leave; returns what has still to be awaited."""
        recorder = self._recorder
        if recorder is None:
            return None
        if self._machine.result is None and not self._is_pausing:  # else no earlier command leaves
            for command in commands:
                if not isinstance(command, Finish):
                    recorder.intent(command)
        return recorder.commit(self._concurrent.is_idle)

    async def _settled(self, commands: Sequence[Command]) -> None:
        """Complete `_settle`, then notify the listener."""
        unsettled = self._settle(commands)
        if unsettled is not None:
            await unsettled
        if self._after_batch is not None:
            await self._after_batch()

    async def _keep_arrived(self) -> None:
        """Record what has arrived when the run is interrupted, so that it is not repeated."""
        if self._recorder is not None:
            self._apply(self._concurrent.arrived)
            self._concurrent.arrived = []
            await self._settled(())

    async def _end_with(self, ending: Cancelled | TimeUp) -> Result:
        self._apply([*self._concurrent.arrived, ending])
        self._concurrent.arrived = []
        await self._settled(())
        result = self._machine.result
        assert result is not None
        return result
