"""The local driver: one machine, its calls side by side on an asyncio loop.

In: a machine and the commands it waits for. Out: its result. The recorder, if there is one,
gets every intent before the call leaves and every outcome before anything depends on it. A
call that is alone is awaited in place; a task is made only where calls run side by side.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

from callsheet.machine import (
    Awaited,
    CallTool,
    Cancelled,
    Command,
    Event,
    Finish,
    Machine,
    Result,
    Sleep,
    TimerFired,
)
from callsheet.runtime.gateway import Gateway, give_up

_STEPS_BETWEEN_YIELDS = 256
_PATIENCE = 5.0
"""Seconds that calls have to end when their run is cancelled or interrupted."""


class Recorder(Protocol):
    """Writes down what a run is about to do and what came of it."""

    def intent(self, command: Awaited) -> None:
        """A call is about to leave, or a wait to begin."""

    def event(self, event: Event) -> Event:
        """Something happened; gives what the machine is to be told of it."""
        ...

    async def commit(self) -> None:
        """Make all of that durable; it is on disk, as durable as asked, when this returns."""


class LocalDriver:
    """Drives one machine to its end.

    `after_batch` is awaited after each batch of events, for progress that has to be sent on.
    """

    def __init__(
        self,
        machine: Machine,
        gateway: Gateway,
        recorder: Recorder | None = None,
        after_batch: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        self._machine = machine
        self._gateway = gateway
        self._recorder = recorder
        self._after_batch = after_batch
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._arrived: list[Event] = []
        self._arrival: asyncio.Future[None] | None = None
        self._driving: asyncio.Task[object] | None = None
        self._cancel_reason: str | None = None

    def cancel(self, reason: str = "cancelled") -> None:
        """End the run: calls under way are cancelled, none is made any more."""
        self._cancel_reason = reason
        if self._driving is not None:
            self._driving.cancel()

    async def run(self, commands: Sequence[Command]) -> Result:
        """Carry out commands until the machine has its result.

        Raises what the recorder's commit raises; then nothing more was launched, and calls
        that were under way have been cancelled.
        """
        self._driving = asyncio.current_task()
        try:
            if self._cancel_reason is not None:
                return await self._end_cancelled(self._cancel_reason)
            return await self._drive(commands)
        except asyncio.CancelledError:
            await self._drop_tasks()
            if self._cancel_reason is None:
                await self._keep_arrived()
                raise
            assert self._driving is not None
            while self._driving.cancelling():
                self._driving.uncancel()
            return await self._end_cancelled(self._cancel_reason)
        finally:
            self._driving = None
            await self._drop_tasks()

    async def _drive(self, commands: Sequence[Command]) -> Result:
        machine, tasks, direct = self._machine, self._tasks, 0
        is_watched = self._recorder is not None or self._after_batch is not None
        carry_out = self._gateway.carry_out
        await self._settle(commands)
        while machine.result is None:
            if len(commands) == 1 and not tasks and not self._arrived:
                command = commands[0]
                if type(command) is CallTool:
                    event: Event = await carry_out(command)
                else:
                    event = await self._carry_out(command)
                if self._cancel_reason is not None:
                    self._arrived.append(event)
                    raise asyncio.CancelledError
                if not is_watched:
                    commands = machine.feed(event)
                else:
                    commands = self._apply((event,))
                    await self._settle(commands)
                direct += 1
                if direct >= _STEPS_BETWEEN_YIELDS:
                    direct = 0
                    await asyncio.sleep(0)
                continue
            self._spawn(commands)
            commands = self._apply(await self._arrivals())
            await self._settle(commands)
        return machine.result

    def _apply(self, batch: Sequence[Event]) -> list[Command]:
        """Record and feed what has happened; give what is to be done now."""
        feed, recorder = self._machine.feed, self._recorder
        commands: list[Command] = []
        for event in batch:
            commands += feed(event if recorder is None else recorder.event(event))
        return commands

    async def _settle(self, commands: Sequence[Command]) -> None:
        """Write down what is about to leave, before it leaves."""
        if self._recorder is not None:
            for command in commands:
                if not isinstance(command, Finish):
                    self._recorder.intent(command)
            await self._recorder.commit()
        if self._after_batch is not None:
            await self._after_batch()

    async def _carry_out(self, command: Command) -> Event:
        if type(command) is Sleep:
            await asyncio.sleep(command.seconds)
            return TimerFired(command.key)
        assert not isinstance(command, Finish | Sleep)
        return await self._gateway.carry_out(command)

    # ------------------------------------------------------------ side by side

    def _spawn(self, commands: Sequence[Command]) -> None:
        """Start calls side by side; each puts its event with those that have arrived."""
        tasks, create, report = self._tasks, asyncio.create_task, self._report
        for command in commands:
            if not isinstance(command, Finish):
                tasks[command.key] = create(report(command))

    async def _report(self, command: Awaited) -> None:
        if type(command) is CallTool:
            event: Event = await self._gateway.carry_out(command)
        else:
            event = await self._carry_out(command)
        self._tasks.pop(command.key, None)
        self._arrived.append(event)
        arrival = self._arrival
        if arrival is not None and not arrival.done():
            arrival.set_result(None)

    async def _arrivals(self) -> list[Event]:
        """All that has arrived, as soon as something has."""
        if not self._arrived:
            self._arrival = asyncio.get_running_loop().create_future()
            await self._arrival
            self._arrival = None
        batch, self._arrived = self._arrived, []
        return batch

    async def _drop_tasks(self) -> None:
        """Cancel what is under way; a call that will not end is left to itself after a while."""
        tasks: set[asyncio.Future[None]] = set(self._tasks.values())
        self._tasks.clear()
        if tasks:
            await give_up(tasks, _PATIENCE)

    async def _keep_arrived(self) -> None:
        """Write down what has arrived when the run is interrupted, so that it is not asked again."""
        if self._recorder is not None:
            self._apply(self._arrived)
            self._arrived = []
            await self._recorder.commit()

    async def _end_cancelled(self, reason: str) -> Result:
        self._apply([*self._arrived, Cancelled(reason)])
        self._arrived = []
        await self._settle(())
        result = self._machine.result
        assert result is not None
        return result
