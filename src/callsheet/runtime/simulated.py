"""The simulated driver: runs the machine in virtual time, without a loop, a clock or a tool.

In: a machine, and a function that gives each command's duration and outcome. Out: the result, the virtual
time and the order of events. For tests of schedules and crashes, and for estimates.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, TypeAlias

from callsheet.ir import JSON
from callsheet.machine import (
    Answered,
    Command,
    Event,
    Finish,
    Machine,
    Result,
    Sleep,
    Started,
    TimerFired,
    TimeUp,
)

Respond: TypeAlias = "Callable[[Command], tuple[float, Event | None]]"
"""The virtual seconds that a command takes, and the event that it ends with; None if it never ends."""


class Launch(NamedTuple):
    """A command that left at this virtual time, in seconds."""

    at: float
    command: Command


class Simulation:
    """One run in virtual time. Simultaneous events happen in the order in which they were launched.

    `seconds` is the time spent on the run before, which counts against its limit.
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
        self._idle = 0.0
        """The time in which only people were waited for, which does not count."""
        self._due: list[tuple[float, int, Event]] = []

    def run(self, inputs: Mapping[str, JSON] | None = None) -> Result:
        """Start the machine with these variables and run it to its end."""
        self.start(inputs)
        return self.go_on(())

    def start(self, inputs: Mapping[str, JSON] | None = None) -> None:
        """Start the machine with these variables."""
        self.launch(self._feed(Started(inputs or {})))

    @property
    def seconds(self) -> float:
        """The seconds spent on the run, including time before the simulation."""
        return self._before + self.now - self._idle

    def go_on(self, commands: Sequence[Command]) -> Result:
        """Carry out commands until the end, for a machine that was fed before; raises RuntimeError if it is
        stuck.
        """
        self.launch(commands)
        while self.machine.result is None and self.step():
            pass
        if self.machine.result is None:
            raise RuntimeError("the machine waits for a call that was never started")
        return self.machine.result

    def step(self) -> bool:
        """Process the next event; False if none is due."""
        if not self._due:
            return False
        if all(isinstance(event, Answered) for _, _, event in self._due):
            self._idle += self._due[0][0] - self.now
        if self._due[0][0] - self._idle > self._deadline:
            self.now = max(self.now, self._deadline + self._idle)
            self.launch(self._feed(TimeUp(self.seconds)))
            return True
        self.now, _, event = heapq.heappop(self._due)
        self.launch(self._feed(event))
        return True

    def _feed(self, event: Event) -> list[Command]:
        self.events.append(event)
        return self.machine.feed(event)

    def launch(self, commands: Sequence[Command]) -> None:
        """Launch commands and schedule the events that end them."""
        for command in commands:
            self.launched.append(Launch(self.now, command))
            if isinstance(command, Finish):
                continue
            seconds, event = (
                (command.seconds, TimerFired(command.key))
                if isinstance(command, Sleep)
                else self._respond(command)
            )
            if event is not None:
                heapq.heappush(self._due, (self.now + seconds, len(self.launched), event))
