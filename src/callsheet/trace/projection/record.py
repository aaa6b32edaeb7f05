"""What a run did, visit by visit: what each read, what it wrote, how it came out.

In: a plan and the events of its journal. Out: a `Record`. A variable that is set again is a new write, so
that a reader is bound to the very value it was given.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from callsheet.ir import Goto, Plan, Replan, Step
from callsheet.machine import Result, Status, ToolFacts

BEFORE_ALL = -1
"""The place of what was there before the first step: what the run was given."""


class Outcome(StrEnum):
    """How a visit came out."""

    OK = "ok"
    FAILED = "failed"
    SKIPPED = "skipped"
    STOPPED = "stopped"
    """It was under way when the run ended."""
    OPEN = "open"
    """It is under way."""


class Item(NamedTuple):
    """One result of a FOREACH, in words; `is_error` says that it is the text of an error."""

    text: str
    is_error: bool


class Write(NamedTuple):
    """A value that a variable was set to: which, in words, and by the visit of which place.

    `number` counts the writes of a run from 1. `is_error` says that it is the text of an error. `items` are
    the results of a FOREACH one by one, where they were asked for.
    """

    number: int
    var: str
    text: str
    visit: int
    is_error: bool = False
    items: tuple[Item, ...] = ()


@dataclass(frozen=True, slots=True)
class Visit:
    """One visit of a step, or the making of a new plan, in the order in which they were settled.

    `label` is its name in the run, such as `r1/S3@2`; `step` is None where no step did it. `plan` counts
    the plans of the run from 0, `number` the steps of that plan. `data` are the writes that its
    arguments were made of, `control` those that decided whether it is done. `wrote` are in order. `started`
    and `settled` are moments of the run that can be compared, `seconds` how long it took. Of a FOREACH
    `failures` counts the items that failed. `expired` says that nobody answered its question in time.
    `stated` is how sure an agent has said that it is, the least where it has said so several times.
    """

    label: str
    step: Step | None
    plan: int
    number: int
    outcome: Outcome
    detail: str = ""
    data: tuple[Write, ...] = ()
    control: tuple[Write, ...] = ()
    wrote: tuple[Write, ...] = ()
    started: int = 0
    settled: int = 0
    seconds: float = 0.0
    attempts: int = 1
    failures: int = 0
    cast_failed: bool = False
    expired: bool = False
    cuts: tuple[str, ...] = ()
    is_edit: bool = False
    """Whether somebody set a variable by hand."""
    stated: float | None = None

    @property
    def reads(self) -> tuple[Write, ...]:
        """All that it read, each once."""
        return tuple(dict.fromkeys((*self.data, *self.control)))


@dataclass(frozen=True, slots=True)
class Record:
    """A run: what it was given, its visits as they were settled, those under way, and its end if it has one.

    `given` are the variables that it was started with, `own` the numbers of those that the plan itself
    sets. `facts` is what is known of the tools.
    """

    plans: tuple[Plan, ...]
    given: tuple[Write, ...]
    own: frozenset[int]
    visits: tuple[Visit, ...]
    under_way: tuple[Visit, ...]
    result: Result | None
    facts: Mapping[str, ToolFacts]

    def current(self, upto: int) -> dict[str, Write]:
        """The last write of each variable after so many visits."""
        found = {write.var: write for write in self.given}
        found.update((write.var, write) for visit in self.visits[:upto] for write in visit.wrote)
        return found

    def batches(self) -> list[int]:
        """For each visit the number of its batch, from 0.

        The visits of a batch had begun before any of them was settled: none has read what another wrote.
        """
        numbers: list[int] = []
        first = -1
        for visit in self.visits:
            if not numbers or visit.started > first:
                numbers.append(numbers[-1] + 1 if numbers else 0)
                first = visit.settled
            else:
                numbers.append(numbers[-1])
        return numbers

    def ending(self) -> int | None:
        """The place of the visit that ended the run; None if no visit did."""
        if self.result is None or not self.result.ended_at:
            return None
        step = self.result.ended_at
        places = range(len(self.visits) - 1, BEFORE_ALL, -1)
        place = next((p for p in places if _is_of(self.visits[p], step)), None)
        if place is None or self.result.status is Status.DONE or self.visits[place].outcome is not Outcome.OK:
            return place
        return place if self._has_failed_after_all(place) else None

    def _has_failed_after_all(self, place: int) -> bool:
        """Whether a visit that came out well did end the run, and no further one that never began."""
        batches, step = self.batches(), self.visits[place].step
        if batches[place] != batches[-1] or step is None or self.result is None:
            return False
        leads_nowhere = isinstance(step.action, Goto) and self.result.refusal is None
        return leads_nowhere or step.foreach is not None or isinstance(step.action, Replan)


def _is_of(visit: Visit, step: str) -> bool:
    return visit.step is not None and visit.step.id == step and visit.outcome is not Outcome.SKIPPED
