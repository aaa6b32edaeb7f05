"""The simulated driver: the same machine in virtual time, without a loop, a clock or a tool.

In: a machine and a function that says, for each command, how long it takes and what comes of
it. Out: the result, the virtual time it took and the order of all that happened. For tests of
schedules and crashes, and for estimates.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, TypeAlias

from callsheet.ir import JSON
from callsheet.machine import Command, Event, Finish, Machine, Result, Sleep, Started, TimerFired, TimeUp

Respond: TypeAlias = "Callable[[Command], tuple[float, Event]]"
"""How many virtual seconds a command takes, and the event that it ends with."""


class Launch(NamedTuple):
    """A command that left at this virtual time."""

    at: float
    command: Command


class Simulation:
    """One run in virtual time. Events of the same time happen in the order they were launched.

    `seconds` is how long the run has taken before: it counts against its limit.
    """

    def __init__(self, machine: Machine, respond: Respond, seconds: float = 0.0) -> None:
        self.now = 0.0
        self.launched: list[Launch] = []
        self.events: list[Event] = []
        self.machine = machine
        self._respond = respond
        limit = machine.limits.max_seconds
        self._deadline = math.inf if limit is None else limit - seconds
        self._before = seconds
        self._due: list[tuple[float, int, Event]] = []

    def run(self, inputs: Mapping[str, JSON] | None = None) -> Result:
        """Start the machine with these variables and go on to its end."""
        self.start(inputs)
        return self.go_on(())

    def start(self, inputs: Mapping[str, JSON] | None = None) -> None:
        """Start the machine with these variables."""
        self.launch(self._feed(Started(inputs or {})))

    @property
    def seconds(self) -> float:
        """How long the run has taken, with what it had taken before."""
        return self._before + self.now

    def go_on(self, commands: Sequence[Command]) -> Result:
        """Carry out commands until the end; for a machine that has been fed before."""
        self.launch(commands)
        while self.machine.result is None and self.step():
            pass
        if self.machine.result is None:
            raise RuntimeError("the machine waits for something that was never launched")
        return self.machine.result

    def step(self) -> bool:
        """Let the next event happen; False when none is due."""
        if not self._due:
            return False
        if self._due[0][0] > self._deadline:
            self.now = max(self.now, self._deadline)
            self.launch(self._feed(TimeUp(self.seconds)))
            return True
        self.now, _, event = heapq.heappop(self._due)
        self.launch(self._feed(event))
        return True

    def _feed(self, event: Event) -> list[Command]:
        self.events.append(event)
        return self.machine.feed(event)

    def launch(self, commands: Sequence[Command]) -> None:
        """Carry out commands, as far as the next event."""
        for command in commands:
            self.launched.append(Launch(self.now, command))
            if isinstance(command, Finish):
                continue
            seconds, event = (
                (command.seconds, TimerFired(command.key))
                if isinstance(command, Sleep)
                else self._respond(command)
            )
            heapq.heappush(self._due, (self.now + seconds, len(self.launched), event))
