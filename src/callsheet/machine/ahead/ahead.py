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
from callsheet.machine.ahead.dependencies import Dependencies, Read, links_of
from callsheet.machine.ahead.headroom import Headroom
from callsheet.machine.ahead.prediction import PatchedVariables, command_of, said_of, value_of
from callsheet.machine.ahead.state import AheadState, EarlyStep, Outcome, Patches
from callsheet.machine.budget import Budget
from callsheet.machine.commands import CallModel, CallTool, Command, Finish
from callsheet.machine.events import Event, Failed, Succeeded
from callsheet.machine.program import NOWHERE, Kind, Program, StepCode
from callsheet.machine.sizes import SIZED, size_of
from callsheet.machine.usage import Spent
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
        self.at = AheadState()
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
        found = self.at.calls.get(key)
        return found is not None and found[1] not in found[0].outcomes

    def open_keys(self) -> list[str]:
        """The keys of the early calls that have no outcome yet."""
        return [key for key, (early, index) in self.at.calls.items() if index not in early.outcomes]

    def open_commands(self, slots: list[Any]) -> list[CallTool | CallModel]:
        """The commands of the early calls without an outcome; `slots` are the values of the variables."""
        made: list[CallTool | CallModel] = []
        for key, (early, index) in self.at.calls.items():
            if index not in early.outcomes:
                patches = early.patches
                if early.items is not None:
                    patches = [*patches, (early.code.loop_slot, early.items[index])]
                with_values = PatchedVariables(slots, patches)
                made.append(command_of(key, early.code, with_values.slots))
                with_values.restore()
        return made

    def take(self, at: AheadState) -> None:
        """Take over the state of another run of the same program."""
        self.at = at
        for early, index in at.calls.values():
            if index in early.outcomes:
                self._weigh(early.outcomes[index], 1)

    def arrive(self, event: Event) -> None:
        """Keep an event if it is the outcome of an early call."""
        if not isinstance(event, Succeeded | Failed) or not self.is_open(event.key):
            return
        early, index = self.at.calls[event.key]
        early.outcomes[index] = event
        early.arrivals[index] = self.at.arrived = self.at.arrived + 1
        early.open -= 1
        self._weigh(event, 1)
        self.at.moved.append(early)

    def take_up(self, out: list[Command], since: int) -> None:
        """Remove from `out[since:]` the commands already issued; `next_outcome` gives their outcomes."""
        if not self.at.calls:
            return
        kept = since
        for command in out[since:]:
            found = None if isinstance(command, Finish) else self.at.calls.pop(command.key, None)
            if found is None:
                out[kept] = command
                kept += 1
                continue
            early, index = found
            if not early.is_taken:
                early.is_taken = True
                self.at.open -= early.open > 0
            outcome = early.outcomes.get(index)
            if outcome is not None:
                self._weigh(outcome, -1)
                heappush(self.at.queue, (early.arrivals[index], outcome))
        del out[kept:]

    def next_outcome(self) -> Outcome | None:
        """The next kept outcome of a call that the machine has asked for, in order of arrival, or None."""
        return heappop(self.at.queue)[1] if self.at.queue else None

    def drop(self, budget: Budget) -> None:
        """Drop all early calls, because the run jumped or ended; count them and their cost as wasted."""
        for early, index in self.at.calls.values():
            budget.waste(early.code.tool, asks_model=early.code.kind is Kind.MODEL)
            if index in early.outcomes:
                self._weigh(early.outcomes[index], -1)
                self.at.queue.append((0, early.outcomes[index]))
        for _, outcome in self.at.queue:
            budget.measure(said_of(outcome))
            budget.spend(outcome.spent or _NOTHING)
        self.at.calls.clear()
        self.at.queue.clear()
        self.at.forget()

    def _weigh(self, outcome: Outcome, sign: int) -> None:
        """Add (or, with sign -1, remove) the size and cost of an outcome that the budget has not counted."""
        room, spent, size = self._room, outcome.spent, said_of(outcome)
        if type(size) in SIZED:
            room.bytes += sign * size_of(size)
        if spent is not None:
            room.spent = room.spent.plus(spent, sign)

    # ------------------------------------------------------------ looking ahead

    def look(self, turn: Turn, out: list[Command]) -> list[str]:
        """Start the steps that may start before their turn; gives their ids."""
        if not self.is_looking:
            return []
        started: list[str] = []
        self._pass_to(turn)
        for early in self.at.moved:
            self._move(early, turn, out)
        self.at.moved.clear()
        horizon = min(turn.first + HORIZON, len(self._codes))
        while True:
            if self.at.woken:
                number = heappop(self.at.woken)
            elif self.at.ready and self._has_slot(turn):
                number = heappop(self.at.ready)
            elif self.at.next < horizon and (not self.at.stops or self._is_inside_group(self.at.next)):
                number = self.at.next
                self.at.next += 1
            else:
                return started
            if number >= turn.end and number not in self.at.steps and number not in self.at.skipped:
                self._examine(number, turn, out, started)
            if self._links.natures[number].control and not self._is_settled(number):
                self.at.stops.add(number)

    def _pass_to(self, turn: Turn) -> None:
        """Advance to the current turn: steps before it are settled, steps in it may still lead elsewhere."""
        first, control = turn.first, self._links.natures
        if self.at.low == NOWHERE:
            self.at.low = self.at.next = first
        for number in range(self.at.low, first):
            self._settle(number)
            self.at.skipped.discard(number)
            self.at.steps.pop(number, None)
        self.at.low = first
        for number in range(max(self.at.next, first), turn.end):
            if control[number].control:
                self.at.stops.add(number)
        self.at.next = max(self.at.next, turn.end)

    def _is_inside_group(self, number: int) -> bool:
        """Whether the step before is in the same group, so that nothing in it can prevent this one."""
        return self._codes[number - 1].group_end > number

    def _has_slot(self, turn: Turn) -> bool:
        return turn.open + self.at.open < turn.budget.limits.max_concurrency

    def _is_settled(self, number: int) -> bool:
        if number < self.at.low or number in self.at.skipped:
            return True
        early = self.at.steps.get(number)
        return early is not None and early.is_known

    def _settle(self, number: int) -> None:
        """A step is settled: wake the steps that wait for it."""
        self.at.stops.discard(number)
        for waiter in self.at.waiters.pop(number, ()):
            heappush(self.at.woken, waiter)

    def _examine(self, number: int, turn: Turn, out: list[Command], started: list[str]) -> None:
        """Start a step, or find that it is certain to be skipped, or register what it waits for."""
        code, links = self._codes[number], self._links
        patches: Patches = []
        if code.condition is not None and code.source is None:
            if self._waits(number, self._read(links.asks[number], turn.slots, patches)):
                return
            with_values = PatchedVariables(turn.slots, patches)
            if not code.condition(with_values.slots):
                with_values.restore()
                self.at.skipped.add(number)
                self._settle(number)
                return
            with_values.restore()
        nature = links.natures[number]
        if not nature.may_lead or self._waits(number, self._read(links.takes[number], turn.slots, patches)):
            return
        if nature.looks and self._waits(number, self._writer_before(number)):
            return
        if not self._has_slot(turn):
            heappush(self.at.ready, number)
            return
        if self._waits(number, self._holder_of(code.tool, turn)):
            return
        self._start(code, patches, turn, out, started)

    def _waits(self, number: int, blocker: int) -> bool:
        if blocker == _SETTLED:
            return False
        self.at.waiters.setdefault(blocker, []).append(number)
        return True

    def _read(self, reads: tuple[Read, ...], slots: list[Any], patches: Patches) -> int:
        """Add to `patches` what variables will hold at its turn; gives a step to wait for, or _SETTLED."""
        before = self._links.setter_before
        for _, slot, nearest in reads:
            setter = nearest
            while setter in self.at.skipped:
                setter = before[setter]
            if setter >= self.at.low:
                early = self.at.steps.get(setter)
                if early is None or not early.is_known:
                    return setter
                patches.append((slot, early.value))
        return _SETTLED

    def _writer_before(self, number: int) -> int:
        """The nearest earlier step that may write and is not committed, or _SETTLED."""
        writer = self._links.writer_before[number]
        while writer in self.at.skipped:
            writer = self._links.writer_link[writer]
        return writer if writer >= self.at.low else _SETTLED

    def _holder_of(self, tool: str, turn: Turn) -> int:
        """A step to wait for if a tool has as many open steps as it may have, or _SETTLED."""
        most = turn.budget.limits.max_concurrency_by_tool.get(tool)
        if most is None:
            return _SETTLED
        busy = [n for n in range(turn.first, turn.end) if self._codes[n].tool == tool]
        busy += [
            n
            for n, early in self.at.steps.items()
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
        self.at.steps[number] = early
        self.at.high = max(self.at.high, number)

        def items_known(number: int) -> int | None:
            if number == turn.first:
                return turn.items
            known = self.at.steps.get(number)
            return None if known is None or known.items is None else len(known.items)

        count = 1 if items is None else len(items)
        if not self._room.is_ample(code, turn.first, self.at.high, count, turn.budget, items_known):
            del self.at.steps[number]
            return
        self._fill(early, turn, out)
        if early.open:
            self.at.open += 1
            started.append(code.id)
        elif early.stopped:
            del self.at.steps[number]
        else:
            self._conclude(early)

    def _move(self, early: EarlyStep, turn: Turn, out: list[Command]) -> None:
        """An outcome of an early step has arrived: start further items, or conclude the step."""
        if early.is_taken or self.at.steps.get(early.code.number) is not early or early.is_known:
            return
        self._fill(early, turn, out)
        if not early.open:
            self.at.open -= 1
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
            leads_on = code.fail_target is not None or code.fail_message is not None
            early.stopped |= leads_on and any(isinstance(o, Failed) for o in early.outcomes.values())
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
        self.at.calls[key] = early, index
        early.ran.append(index)
        early.open += 1
        budget.early += 1
        out.append(command)

    def _conclude(self, early: EarlyStep) -> None:
        """All calls of a step have ended: find the value that its variable will hold, if that is certain."""
        code = early.code
        leads_on = code.fail_target is not None or code.fail_message is not None
        failed = any(isinstance(outcome, Failed) for outcome in early.outcomes.values())
        if early.stopped or (failed and (leads_on or code.retries)):
            return
        if early.items is None:
            outcome = early.outcomes[0]
            early.value = value_of(outcome, code.cast)
        else:
            cast = None if code.cast is Cast.LIST else code.cast
            early.value = [value_of(early.outcomes[index], cast) for index in early.ran]
        early.is_known = True
        self._settle(code.number)
