"""Issues calls before their turn, and keeps their outcomes until the machine asks for the calls.

In: what the machine waits for, and the outcomes of early calls. Out: further calls, and each kept outcome
once the machine asks for its call. The machine executes the plan in text order and knows nothing of this:
some of its calls are simply answered at once. So a call may start early only if the machine is certain to
ask for it, with the same arguments:

- Nothing starts past an unsettled step that may lead elsewhere, so no call is made in vain.
- A step starts once the nearest setters of the variables it reads are settled. An early setter that has its
  value is settled before it is committed, and its value is used. A setter certain to be skipped is passed
  over in favour of the one before it.
- A step that reads the outside world waits for every earlier step that may write.
- A step that may write, asks people or leads elsewhere starts in its turn.
"""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heappop, heappush
from typing import Any, NamedTuple

from callsheet.ir import JSON, Cast
from callsheet.machine.ahead.state import (
    AheadState,
    EarlyStep,
    Headroom,
    Outcome,
    PatchedVariables,
    Patches,
    command_of,
    value_of,
    value_or_error,
)
from callsheet.machine.ahead.waits import Dependencies, Read, links_of
from callsheet.machine.budget import Budget
from callsheet.machine.commands import CallModel, CallTool, Command, Finish
from callsheet.machine.events import Event, Failed, Succeeded
from callsheet.machine.program import NOWHERE, Kind, Program, StepCode
from callsheet.machine.usage import SIZED, Spent, size_of
from callsheet.machine.values import items_of

HORIZON = 256
"""How many steps past the current one are examined."""
_MOST_ITEMS = 1_000
"""A FOREACH over more items starts in its turn."""
_SETTLED = -2
_NOTHING = Spent()


class Turn(NamedTuple):
    """Where the machine waits: the steps from `first` to before `end`, and the state of the run."""

    first: int
    end: int
    open: int
    """How many of them have open calls."""
    items: int | None
    """The number of items, if the current step is a FOREACH."""
    slots: list[Any]
    visits: Sequence[int]
    generation: str
    budget: Budget


class Ahead:
    """The steps that have started before their turn, in a run of one program in text order."""

    def __init__(self, program: Program, links: Dependencies) -> None:
        self.state = AheadState()
        self.is_looking = True
        self._codes = program.steps
        self._links = links
        self._room = Headroom(program.steps)

    @classmethod
    def of(cls, program: Program, gated: frozenset[int]) -> Ahead | None:
        """The Ahead of a program; None for a graph, or if every step waits for the one before it.

        `gated` are the numbers of the steps whose calls need an approval.
        """
        if program.graph is not None:
            return None
        links = links_of(program, gated)
        return cls(program, links) if links.is_of_use else None

    # ------------------------------------------------------------ what the machine asks

    def is_open(self, key: str) -> bool:
        """Whether the call with this key was issued early and has no outcome yet."""
        call = self.state.calls.get(key)
        return call is not None and call[1] not in call[0].outcomes

    def open_keys(self) -> list[str]:
        """The keys of the early calls that have no outcome yet."""
        return [key for key, (early, index) in self.state.calls.items() if index not in early.outcomes]

    def open_commands(self, slots: list[Any]) -> list[CallTool | CallModel]:
        """The commands of the early calls without an outcome; `slots` are the values of the variables."""
        commands: list[CallTool | CallModel] = []
        for key, (early, index) in self.state.calls.items():
            if index not in early.outcomes:
                patches = early.patches
                if early.items is not None:
                    patches = [*patches, (early.code.loop_slot, early.items[index])]
                with_values = PatchedVariables(slots, patches)
                commands.append(command_of(key, early.code, with_values.slots))
                with_values.restore()
        return commands

    def take_over(self, state: AheadState) -> None:
        """Take over the state of another run of the same program."""
        self.state = state
        for early, index in state.calls.values():
            if index in early.outcomes:
                self._weigh(early.outcomes[index], 1)

    def arrive(self, event: Event) -> None:
        """Keep an event if it is the outcome of an early call."""
        if not isinstance(event, Succeeded | Failed) or not self.is_open(event.key):
            return
        early, index = self.state.calls[event.key]
        early.outcomes[index] = event
        early.arrivals[index] = self.state.arrived = self.state.arrived + 1
        early.open -= 1
        self._weigh(event, 1)
        self.state.moved.append(early)

    def claim_started(self, out: list[Command], since: int) -> None:
        """Remove from `out[since:]` the commands already issued; `next_outcome` gives their outcomes."""
        if not self.state.calls:
            return
        position = since
        for command in out[since:]:
            call = None if isinstance(command, Finish) else self.state.calls.pop(command.key, None)
            if call is None:
                out[position] = command
                position += 1
                continue
            early, index = call
            if not early.is_taken:
                early.is_taken = True
                self.state.open -= early.open > 0
            outcome = early.outcomes.get(index)
            if outcome is not None:
                self._weigh(outcome, -1)
                heappush(self.state.queue, (early.arrivals[index], outcome))
        del out[position:]

    def next_outcome(self) -> Outcome | None:
        """The next kept outcome of a call that the machine has asked for, in order of arrival, or None."""
        return heappop(self.state.queue)[1] if self.state.queue else None

    def drop(self, budget: Budget) -> None:
        """Drop all early calls, because the run jumped or ended; count them and their cost as wasted."""
        for early, index in self.state.calls.values():
            budget.waste(early.code.tool, asks_model=early.code.kind is Kind.MODEL)
            if index in early.outcomes:
                self._weigh(early.outcomes[index], -1)
                self.state.queue.append((0, early.outcomes[index]))
        for _, outcome in self.state.queue:
            budget.measure(value_or_error(outcome))
            budget.spend(outcome.spent or _NOTHING)
        self.state.calls.clear()
        self.state.queue.clear()
        self.state.forget()

    def _weigh(self, outcome: Outcome, sign: int) -> None:
        """Add (or, with sign -1, remove) the size and cost of an outcome that the budget has not counted."""
        room, spent, size = self._room, outcome.spent, value_or_error(outcome)
        if type(size) in SIZED:
            room.bytes += sign * size_of(size)
        if spent is not None:
            room.spent = room.spent.plus(spent, sign)

    # ------------------------------------------------------------ looking ahead

    def start_ready(self, turn: Turn, out: list[Command]) -> list[str]:
        """Start the steps that may start before their turn; returns their ids."""
        if not self.is_looking:
            return []
        started: list[str] = []
        self._pass_to(turn)
        for early in self.state.moved:
            self._move(early, turn, out)
        self.state.moved.clear()
        horizon = min(turn.first + HORIZON, len(self._codes))
        while True:
            if self.state.woken:
                number = heappop(self.state.woken)
            elif self.state.ready and self._has_slot(turn):
                number = heappop(self.state.ready)
            elif self.state.next < horizon and (
                not self.state.stops or self._is_inside_group(self.state.next)
            ):
                number = self.state.next
                self.state.next += 1
            else:
                return started
            if number >= turn.end and number not in self.state.steps and number not in self.state.skipped:
                self._examine(number, turn, out, started)
            if self._links.natures[number].control and not self._is_settled(number):
                self.state.stops.add(number)

    def _pass_to(self, turn: Turn) -> None:
        """Advance to the current turn: steps before it are settled, steps in it may still lead elsewhere."""
        first, control = turn.first, self._links.natures
        if self.state.low == NOWHERE:
            self.state.low = self.state.next = first
        for number in range(self.state.low, first):
            self._settle(number)
            self.state.skipped.discard(number)
            self.state.steps.pop(number, None)
        self.state.low = first
        for number in range(max(self.state.next, first), turn.end):
            if control[number].control:
                self.state.stops.add(number)
        self.state.next = max(self.state.next, turn.end)

    def _is_inside_group(self, number: int) -> bool:
        """Whether the step before is in the same group, so that nothing in it can prevent this one."""
        return self._codes[number - 1].group_end > number

    def _has_slot(self, turn: Turn) -> bool:
        return turn.open + self.state.open < turn.budget.limits.max_concurrency

    def _is_settled(self, number: int) -> bool:
        if number < self.state.low or number in self.state.skipped:
            return True
        early = self.state.steps.get(number)
        return early is not None and early.is_known

    def _settle(self, number: int) -> None:
        """A step is settled: wake the steps that wait for it."""
        self.state.stops.discard(number)
        for waiter in self.state.waiters.pop(number, ()):
            heappush(self.state.woken, waiter)

    def _examine(self, number: int, turn: Turn, out: list[Command], started: list[str]) -> None:
        """Start a step, or find that it is certain to be skipped, or register what it waits for."""
        code, links = self._codes[number], self._links
        patches: Patches = []
        if code.condition is not None and code.source is None:
            if self._waits(number, self._read(links.asks[number], patches)):
                return
            with_values = PatchedVariables(turn.slots, patches)
            if not code.condition(with_values.slots):
                with_values.restore()
                self.state.skipped.add(number)
                self._settle(number)
                return
            with_values.restore()
        nature = links.natures[number]
        if not nature.may_lead or self._waits(number, self._read(links.takes[number], patches)):
            return
        if nature.looks and self._waits(number, self._writer_before(number)):
            return
        if not self._has_slot(turn):
            heappush(self.state.ready, number)
            return
        if self._waits(number, self._holder_of(code.tool, turn)):
            return
        self._start(code, patches, turn, out, started)

    def _waits(self, number: int, blocker: int) -> bool:
        if blocker == _SETTLED:
            return False
        self.state.waiters.setdefault(blocker, []).append(number)
        return True

    def _read(self, reads: tuple[Read, ...], patches: Patches) -> int:
        """Add to `patches` what variables will hold at its turn; returns a step to wait for, or _SETTLED."""
        before = self._links.setter_before
        for _, slot, nearest in reads:
            setter = nearest
            while setter in self.state.skipped:
                setter = before[setter]
            if setter >= self.state.low:
                early = self.state.steps.get(setter)
                if early is None or not early.is_known:
                    return setter
                patches.append((slot, early.value))
        return _SETTLED

    def _writer_before(self, number: int) -> int:
        """The nearest earlier step that may write and is not committed, or _SETTLED."""
        writer = self._links.writer_before[number]
        while writer in self.state.skipped:
            writer = self._links.writer_link[writer]
        return writer if writer >= self.state.low else _SETTLED

    def _holder_of(self, tool: str, turn: Turn) -> int:
        """A step to wait for if a tool has as many open steps as it may have, or _SETTLED."""
        most = turn.budget.limits.max_concurrency_by_tool.get(tool)
        if most is None:
            return _SETTLED
        busy = [n for n in range(turn.first, turn.end) if self._codes[n].tool == tool]
        busy += [
            n
            for n, early in self.state.steps.items()
            if n >= turn.end and early.open and early.code.tool == tool
        ]
        return busy[0] if len(busy) >= most else _SETTLED

    # ------------------------------------------------------------ starting

    def _start(
        self, code: StepCode, patches: Patches, turn: Turn, out: list[Command], started: list[str]
    ) -> None:
        """Start a step; if the limits leave no ample room, it starts in its turn instead."""
        items: list[JSON] | None = None
        if code.source is not None:
            with_values = PatchedVariables(turn.slots, patches)
            items = items_of(code.source(with_values.slots))
            with_values.restore()
            if len(items) > _MOST_ITEMS:
                return
        number = code.number
        visit = turn.visits[code.identity] + 1
        prefix = code.prefix if visit == 1 else f"{code.prefix[:-1]}@{visit}."
        early = EarlyStep(code, turn.generation + prefix, items, patches)
        self.state.steps[number] = early
        self.state.high = max(self.state.high, number)

        def items_known(number: int) -> int | None:
            if number == turn.first:
                return turn.items
            known = self.state.steps.get(number)
            return None if known is None or known.items is None else len(known.items)

        count = 1 if items is None else len(items)
        if not self._room.is_ample(code, turn.first, self.state.high, count, turn.budget, items_known):
            del self.state.steps[number]
            return
        self._fill(early, turn, out)
        if early.open:
            self.state.open += 1
            started.append(code.id)
        elif early.stopped:
            del self.state.steps[number]
        else:
            self._conclude(early)

    def _move(self, early: EarlyStep, turn: Turn, out: list[Command]) -> None:
        """An outcome of an early step has arrived: start further items, or conclude the step."""
        if early.is_taken or self.state.steps.get(early.code.number) is not early or early.is_known:
            return
        self._fill(early, turn, out)
        if not early.open:
            self.state.open -= 1
            self._conclude(early)

    def _fill(self, early: EarlyStep, turn: Turn, out: list[Command]) -> None:
        """Make the call of a step, or those of as many items as the window has room for."""
        code, items = early.code, early.items
        with_values = PatchedVariables(turn.slots, early.patches)
        slots = with_values.slots
        if items is None:
            if not early.next:
                early.next = 1
                self._call(early, 0, turn.budget, slots, out)
        else:
            window, before = turn.budget.limits.window, slots[code.loop_slot]
            early.stopped |= code.leads_on and any(isinstance(o, Failed) for o in early.outcomes.values())
            while early.next < len(items) and early.open < window and not early.stopped:
                slots[code.loop_slot] = items[early.next]
                if code.condition is None or code.condition(slots):
                    self._call(early, early.next, turn.budget, slots, out)
                early.next += not early.stopped
            slots[code.loop_slot] = before
        with_values.restore()

    def _call(
        self, early: EarlyStep, index: int, budget: Budget, slots: list[Any], out: list[Command]
    ) -> None:
        """Make a call, unless a step in a cycle has made it too often."""
        code, key = early.code, f"{early.prefix}{index}.1"
        command = command_of(key, code, slots)
        if code.recurs:
            made_of = command.args if isinstance(command, CallTool) else [command.inputs, command.args]
            if budget.repeats_too_often(code.tool, made_of):
                early.stopped = True
                return
        self.state.calls[key] = early, index
        early.ran.append(index)
        early.open += 1
        budget.early += 1
        out.append(command)

    def _conclude(self, early: EarlyStep) -> None:
        """All calls of a step have ended: find the value that its variable will hold, if that is certain."""
        code = early.code
        failed = any(isinstance(outcome, Failed) for outcome in early.outcomes.values())
        if early.stopped or (failed and code.handles_failure):
            return
        if early.items is None:
            outcome = early.outcomes[0]
            early.value = value_of(outcome, code.cast)
        else:
            cast = None if code.cast is Cast.LIST else code.cast
            early.value = [value_of(early.outcomes[index], cast) for index in early.ran]
        early.is_known = True
        self._settle(code.number)
