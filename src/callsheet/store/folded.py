"""The state of a folded run: the machine, the commands it waits for, and what is known about its calls.

In: events to feed to the machine. Out: which commands have no outcome, which of them were issued, which are
in doubt, what people are asked. How rows become events is not known here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import field
from typing import TYPE_CHECKING, assert_never

from callsheet.ir import JSON, Effect
from callsheet.lazy import dataclass
from callsheet.machine import (
    AgentTurn,
    Approval,
    Ask,
    Awaited,
    CallModel,
    CallTool,
    Cancelled,
    Command,
    Compile,
    Decision,
    Edited,
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
from callsheet.machine.keys import place_in_tree
from callsheet.policy.model import Policy
from callsheet.sealing.keys import WITHHELD, has_placeholder
from callsheet.sealing.sealer import SEALED
from callsheet.store.events import Event as Row
from callsheet.store.events import EventType
from callsheet.store.snapshots import AskTimes, SideRecord
from callsheet.store.start import Start

if TYPE_CHECKING:
    from callsheet.machine import Enforcement
    from callsheet.machine.tree.variables import LoopUnderWay

_OF_THE_RUN = Started | Cancelled | Reopened | TimeUp | LimitsChanged | PolicyChanged
"""Events that are not about a call."""
_WORDS = frozenset({EventType.SIGNAL, EventType.CANCEL, EventType.LATE})
"""Events that may come while a process only waits for people."""


@dataclass(slots=True)
class Clock:
    """Adds up how long processes have worked on a run, from the times of its events.

    Time in which only answers from people are missing does not count.
    """

    seconds: float = 0.0
    _epoch: int = 0
    _mono: float = 0.0

    def tick(self, row: Row, waiting: Mapping[str, Awaited] | None = None) -> None:
        """Count the time up to the next event; `waiting` are the commands that were open before it."""
        rests = row.type in _WORDS and bool(waiting) and all(isinstance(c, Ask) for c in waiting.values())
        if row.epoch == self._epoch and row.type is not EventType.END and not rests:
            self.seconds += max(0.0, row.mono - self._mono)
        self._epoch, self._mono = row.epoch, row.mono


@dataclass(slots=True)
class Folded:
    """A run as folded from its journal.

    `waiting` are the commands without an outcome, by key; `side_record` records when they were issued, when
    timers are due, and what people were asked and have decided.
    """

    start: Start
    machine: Machine
    side_record: SideRecord
    waiting: dict[str, Awaited] = field(default_factory=dict[str, Awaited])
    ended: bool = False
    """Whether the journal has the end of the run."""
    has_diverged: bool = False
    """Whether the fold took another path than the run, because sealed values decided steps."""
    clock: Clock = field(default_factory=Clock)
    look: Callable[[Machine], None] | None = None
    """Called before each statement, which are then executed one by one; it must change nothing."""
    sealed_steps: set[str] = field(default_factory=set[str])
    """The statements of a plan with blocks whose results have placeholders of sealed values."""
    recorded_response: str | None = None
    """What the run has answered, where the fold, over placeholders of secrets, comes to something else."""

    def sees_sealed(self, row: Row) -> None:
        """Note whether the next event has placeholders, and of the result of which statement."""
        if row.body and SEALED in row.body:
            self.start = self.start.under(row.body)
            self.sealed_steps.add(place_in_tree(row.key or "").rpartition("/")[2].partition("[")[0])

    def variables_to_show(self) -> dict[str, JSON]:
        """The variables, those of items and sub-plans by their places.

        What is computed from a sealed value is withheld, since only its placeholder is there.
        """
        return self._without_computed(self.machine.all_variables())

    def _without_computed(self, values: dict[str, JSON]) -> dict[str, JSON]:
        tree = self.machine.program.plan.tree
        if tree is None or not self.start.is_veiled:
            return values
        from callsheet.ir.tree import all_statements, variables_set  # noqa: PLC0415 - only with secrets
        from callsheet.machine.tree.variables import without_computed  # noqa: PLC0415 - as above

        steps = (one for one in all_statements(tree) if one.id in self.sealed_steps)
        return without_computed(
            tree, values, has_placeholder, (name for one in steps for name in variables_set(one))
        )

    def loops_to_show(self) -> list[LoopUnderWay]:
        """The loops of a plan with blocks that are under way; results as `variables_to_show` shows values."""
        tree = self.machine.program.plan.tree
        if tree is None or self.machine.result is not None:
            return []
        from callsheet.machine.tree.variables import loops_under_way  # noqa: PLC0415 - only for version 2

        loops = loops_under_way(self.machine)
        made = {
            f"{loop.place}[{item}]/{loop.variable}": value
            for loop in loops
            for item, value in loop.results.items()
        }
        seen = self._without_computed({**self.machine.all_variables(), **made})
        return [
            loop._replace(
                results={item: seen[f"{loop.place}[{item}]/{loop.variable}"] for item in loop.results}
            )
            for loop in loops
        ]

    @property
    def response_to_show(self) -> str | None:
        """The answer as it was recorded; None as long as there is none."""
        result = self.machine.result
        return None if result is None else self.recorded_response or result.response

    @property
    def answer_to_show(self) -> JSON:
        """The answer as data; withheld where the fold, over placeholders, comes to another than the run."""
        result = self.machine.result
        if result is None or self.recorded_response in (None, result.response):
            return None if result is None else result.answer
        if isinstance(result.answer, str):
            return self.recorded_response
        return WITHHELD

    @property
    def seconds(self) -> float:
        """How many seconds processes have worked on the run, each from its first event to its last."""
        return self.clock.seconds

    def usage(self) -> Usage:
        """What the run has used."""
        return self.machine.usage()._replace(seconds=round(self.seconds, 3))

    @property
    def policy(self) -> Policy | None:
        """The current policy of the run; None without one."""
        enforcement = self.enforcement
        return None if enforcement is None else enforcement.policy

    @property
    def enforcement(self) -> Enforcement | None:
        """The enforcement of the run's current policy; None without one."""
        monitor = self.machine.monitor
        return None if monitor is None else monitor.enforcement

    @property
    def facts(self) -> dict[str, ToolFacts]:
        """The facts about tools, including those of new plans."""
        return self.side_record.facts

    @property
    def launched(self) -> dict[str, float]:
        """The wall times at which the calls without an outcome were issued."""
        return self.side_record.launched

    @property
    def due(self) -> dict[str, float]:
        """The wall time at which each timer is due."""
        return self.side_record.due

    @property
    def asked(self) -> dict[str, str]:
        """Why calls are in doubt, for those that the journal says are."""
        return self.side_record.asked

    @property
    def decided(self) -> dict[str, Decision | TookPlace]:
        """The last decision on each call that was in doubt."""
        return self.side_record.decided

    @property
    def posed(self) -> dict[str, AskTimes]:
        """When the open questions were asked and are due, by digest."""
        return self.side_record.posed

    def open_asks(self) -> Iterator[tuple[str, Ask, AskTimes]]:
        """The open questions with their keys; not those that were still to be asked when the run stopped."""
        for key, command in self.waiting.items():
            if isinstance(command, Ask) and command.asked.digest in self.posed:
                yield key, command, self.posed[command.asked.digest]

    def start_now(self) -> Start:
        """The start of the run, with its current policy and its tools at their current places."""
        return self.start._replace(policy=self.policy).at_places(self.side_record.moved)

    def effect_of(self, command: Awaited) -> Effect:
        """The effect of carrying out a command."""
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
        """The calls that were issued, have no outcome, and must not be repeated without a decision."""
        return {
            key: command
            for key, command in self.waiting.items()
            if isinstance(command, CallTool | RunAgent)
            and key in self.launched
            and not self.effect_of(command).may_rerun
            and (key not in self.side_record.tasks or key in self.asked)
        }

    def open_tools(self) -> set[str]:
        """The tools of calls without an outcome: under way, in doubt, or about which a person is asked."""
        tools: set[str] = set()
        for command in self.waiting.values():
            match command:
                case CallTool(tool=tool) | Probe(call=CallTool(tool=tool)) | Ask(asked=Approval(tool=tool)):
                    tools.add(tool)
                case _:
                    pass
        return tools

    def has_more_to_do(self) -> bool:
        """Whether there is a command that had not been begun when the journal ended."""
        begun = self.launched.keys() | self.due.keys()
        return any(
            c.asked.digest not in self.posed
            if isinstance(c, Ask)
            else key not in begun or isinstance(c, Probe)
            for key, c in self.waiting.items()
        )

    def probing(self) -> dict[str, CallTool]:
        """The calls in doubt for which a probe is to be made."""
        return {key: command.call for key, command in self.waiting.items() if isinstance(command, Probe)}

    def adopt(self, key: str, digest: str) -> None:
        """Set the digest of a question to the recorded one.

        Without the secrets it cannot be computed, and an older version may have worded the reasons otherwise.
        """
        self.machine.asking.adopt(key, digest)
        command = self.waiting.get(key)
        if isinstance(command, Ask):
            self.waiting[key] = command._replace(asked=command.asked._replace(digest=digest))

    def _fed_slowly(self, event: Event, look: Callable[[Machine], None]) -> list[Command]:
        machine = self.machine
        commands = machine.feed(event, 0)
        while machine.is_paused:
            look(machine)
            commands += machine.go_on(1)
        look(machine)
        return commands

    def feed(self, event: Event) -> None:
        """Feed an event to the machine, and update the waiting commands."""
        commands = self.machine.feed(event) if self.look is None else self._fed_slowly(event, self.look)
        if isinstance(event, Edited):
            is_open = set(self.machine.open_keys())  # calls issued ahead of their turn were dropped
            self.waiting = {key: command for key, command in self.waiting.items() if key in is_open}
        elif not isinstance(event, _OF_THE_RUN):
            key, before = event.key, self.waiting.get(event.key)
            if not self.machine.is_open(key):
                self.waiting.pop(key, None)
            elif isinstance(before, Probe):
                self.waiting[key] = before.call  # the probe could not tell
        for key in self.machine.withdrawn:
            self.waiting.pop(key, None)
        for command in commands:
            if isinstance(command, Finish):
                continue
            self.waiting[command.key] = command
            if not isinstance(command, Probe):  # it has not been issued yet
                self.launched.pop(command.key, None)
                self.asked.pop(command.key, None)
