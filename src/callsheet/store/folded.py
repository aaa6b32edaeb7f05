"""A run as its journal tells it: the machine, what it waits for, and what else is known of its calls.

In: an event that the machine is to be told. Out: which commands have no outcome, which of them left, which
may not be repeated unasked, what people are asked. How rows become events is not known here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import assert_never

from callsheet.ir import Effect
from callsheet.machine import (
    AgentTurn,
    Ask,
    Awaited,
    CallModel,
    CallTool,
    Cancelled,
    Compile,
    Decision,
    Edited,
    Enforcement,
    Event,
    Finish,
    LimitsChanged,
    Machine,
    PolicyChanged,
    Probe,
    Reopened,
    RunAgent,
    Sleep,
    Started,
    TimeUp,
    TookPlace,
    ToolFacts,
    Usage,
)
from callsheet.policy.model import Policy
from callsheet.store.events import Event as Row
from callsheet.store.events import EventType
from callsheet.store.records import Start
from callsheet.store.snapshots import Book, Posed

_OF_THE_RUN = Started | Cancelled | Reopened | TimeUp | LimitsChanged | PolicyChanged
"""Events of no call."""
_WORDS = frozenset({EventType.SIGNAL, EventType.CANCEL, EventType.LATE})
"""What may come while a process waits for people."""


@dataclass(slots=True)
class Clock:
    """Adds up how long processes have worked on a run, by the times of their events.

    What passes while nothing but answers of people is missing is not worked on.
    """

    seconds: float = 0.0
    _epoch: int = 0
    _mono: float = 0.0

    def tick(self, row: Row, waiting: Mapping[str, Awaited] | None = None) -> None:
        """Take the next event, before which the run waited for these."""
        rests = row.type in _WORDS and bool(waiting) and all(isinstance(c, Ask) for c in waiting.values())
        if row.epoch == self._epoch and row.type is not EventType.END and not rests:
            self.seconds += max(0.0, row.mono - self._mono)
        self._epoch, self._mono = row.epoch, row.mono


@dataclass(slots=True)
class Folded:
    """A run as its journal tells it.

    `waiting` are the commands without an outcome by key; `book` says, of those, when they left,
    when timers are due, and what people were asked and have decided.
    """

    start: Start
    machine: Machine
    book: Book
    waiting: dict[str, Awaited] = field(default_factory=dict[str, Awaited])
    ended: bool = False
    """Whether the journal holds the end of the run."""
    is_astray: bool = False
    """Whether its events lead elsewhere here: what a sealed value says has decided steps."""
    clock: Clock = field(default_factory=Clock)

    @property
    def seconds(self) -> float:
        """How long processes have worked on the run, from their first event each to their last."""
        return self.clock.seconds

    def usage(self) -> Usage:
        """What the run has used."""
        return self.machine.usage()._replace(seconds=round(self.seconds, 3))

    @property
    def policy(self) -> Policy | None:
        """The policy of the run now; None for a run without one."""
        enforcement = self.enforcement
        return None if enforcement is None else enforcement.policy

    @property
    def enforcement(self) -> Enforcement | None:
        """What holds under the policy of the run now; None for a run without one."""
        monitor = self.machine.monitor
        return None if monitor is None else monitor.enforcement

    @property
    def facts(self) -> dict[str, ToolFacts]:
        """What is known of the tools, those of new plans included."""
        return self.book.facts

    @property
    def launched(self) -> dict[str, float]:
        """The wall time at which each call left that has no outcome."""
        return self.book.launched

    @property
    def due(self) -> dict[str, float]:
        """The wall time at which each timer is due."""
        return self.book.due

    @property
    def asked(self) -> dict[str, str]:
        """Why calls are in doubt, where the journal says already that they are."""
        return self.book.asked

    @property
    def decided(self) -> dict[str, Decision | TookPlace]:
        """The last decision on each call that was in doubt."""
        return self.book.decided

    @property
    def posed(self) -> dict[str, Posed]:
        """Of what a person is asked and has not answered, by the digest of the question."""
        return self.book.posed

    def effect_of(self, command: Awaited) -> Effect:
        """What carrying out this command may do to the world."""
        match command:
            case CallTool(tool=tool):
                return self.facts.get(tool, ToolFacts()).effect
            case RunAgent():
                return Effect.UNSAFE
            case CallModel() | AgentTurn() | Compile():
                return Effect.LLM
            case Sleep() | Ask():
                return Effect.PURE
            case Probe():
                return Effect.READ
        assert_never(command)

    def in_doubt(self) -> dict[str, CallTool | RunAgent]:
        """The calls that left, have no outcome, and must not be repeated unasked."""
        return {
            key: command
            for key, command in self.waiting.items()
            if isinstance(command, CallTool | RunAgent)
            and key in self.launched
            and not self.effect_of(command).may_rerun
        }

    def has_more_to_do(self) -> bool:
        """Whether something is to be done that had not begun when the journal ended."""
        begun = self.launched.keys() | self.due.keys()
        return any(
            c.asked.digest not in self.posed
            if isinstance(c, Ask)
            else key not in begun or isinstance(c, Probe)
            for key, c in self.waiting.items()
        )

    def probing(self) -> dict[str, CallTool]:
        """The calls in doubt that a probe is about to look for."""
        return {key: command.call for key, command in self.waiting.items() if isinstance(command, Probe)}

    def adopt(self, key: str, digest: str) -> None:
        """Take the digest of a question from the journal, where its arguments are not seen."""
        self.machine.asking.adopt(key, digest)
        command = self.waiting.get(key)
        if isinstance(command, Ask):
            self.waiting[key] = command._replace(asked=command.asked._replace(digest=digest))

    def take(self, event: Event) -> None:
        """Tell the machine of an event, and keep what it asks for then."""
        commands = self.machine.feed(event)
        if isinstance(event, Edited):
            is_open = set(self.machine.open_keys())  # what had left before its turn counts no more
            self.waiting = {key: command for key, command in self.waiting.items() if key in is_open}
        elif not isinstance(event, _OF_THE_RUN):
            key, before = event.key, self.waiting.get(event.key)
            if not self.machine.is_open(key):
                self.waiting.pop(key, None)
            elif isinstance(before, Probe):
                self.waiting[key] = before.call  # the probe could not tell
        for command in commands:
            if isinstance(command, Finish):
                continue
            self.waiting[command.key] = command
            if not isinstance(command, Probe):  # it has not left yet
                self.launched.pop(command.key, None)
                self.asked.pop(command.key, None)
