"""The lineage of a run: visits of steps, writes of variables, calls, and which of them read which.

In: what a recorder has noted of a run. Out: answers about it. What is asked for seldom is found out
when it is asked for, so that recording a long run stays cheap.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from typing import NamedTuple

from callsheet.ir import JSON, Step
from callsheet.machine import Awaited, Machine, Program
from callsheet.machine.keys import parse_key
from callsheet.machine.program import StepCode
from callsheet.store.events import decode_intents
from callsheet.trace.lineage.reads import Reads, reads_of

NONE = -1
"""No write, or no visit."""
ANSWER = "answer"
"""What the answer of a run is called where no variable has that name."""


class Made(StrEnum):
    """How a variable came to a value."""

    INPUT = "input"
    """The run was started with it."""
    PLAN = "plan"
    """The plan itself gives it."""
    EDIT = "edit"
    """Somebody has set it, in a run that was forked."""
    STEP = "step"
    ERROR = "error"
    """A step has failed, and its error stands where its result would."""
    ANSWER = "answer"
    """It is the answer of the run, and no variable."""


class Write(NamedTuple):
    """That a variable was set, at the event `seq`, by the visit of that number.

    `is_odd` says that the value did not fit its cast and was kept as it was.
    """

    id: int
    name: str
    value: JSON
    seq: int
    made: Made
    visit: int = NONE
    is_odd: bool = False


class Visit(NamedTuple):
    """One visit of a step: the `visit`-th, of the program of that number, begun at the event `seq`.

    `versions` are the writes that its variables stood at then, in the order of its `Reads.names`.
    `skipped` says why it did nothing, where it did nothing.
    """

    id: int
    program: int
    number: int
    visit: int
    seq: int
    versions: tuple[int, ...]
    skipped: str = ""


class Outcome(NamedTuple):
    """What came of a call: at which event, of which type, and the value or the error."""

    seq: int
    type: str
    value: JSON


@dataclass(slots=True)
class Failure:
    """That a step failed for good, and why."""

    visit: int
    seq: int
    error: str


@dataclass
class Lineage:
    """What has happened to the data of a run, up to its event `seq`."""

    machine: Machine
    programs: list[Program]
    planned: list[int] = field(default_factory=list[int])
    """For each program, the event that it came with."""
    writes: list[Write] = field(default_factory=list[Write])
    visits: list[Visit] = field(default_factory=list[Visit])
    write_of: dict[int, int] = field(default_factory=dict[int, int])
    """The write of each visit that has one."""
    failures: list[Failure] = field(default_factory=list[Failure])
    commands: dict[str, Awaited] = field(default_factory=dict[str, Awaited])
    """The calls, by key."""
    intents: list[tuple[int, bytes]] = field(default_factory=list[tuple[int, bytes]])
    """Of each entry in which calls left, the number of its event, and the calls as the journal has them."""
    lone: dict[str, int] = field(default_factory=dict[str, int])
    """Of calls that left with no event before them in their entry, the events, by key."""
    outcomes: dict[str, Outcome] = field(default_factory=dict[str, Outcome])
    current: dict[str, int] = field(default_factory=dict[str, int])
    """The last write of each variable."""
    seq: int = 0
    ended: int = 0
    """The event that ends the run; 0 where there is none."""
    answer: int = NONE
    """The write that stands for the answer."""
    reads: dict[tuple[int, int], Reads] = field(default_factory=dict[tuple[int, int], Reads])
    """What the steps read that have been come to, by program and number."""

    # ------------------------------------------------------------ steps and visits

    def code(self, visit: Visit) -> StepCode:
        """The step of a visit, as the machine has it."""
        return self.programs[visit.program].steps[visit.number]

    def step(self, visit: Visit) -> Step:
        """The step of a visit, as the plan has it."""
        return self.programs[visit.program].plan.steps[visit.number]

    def reads_at(self, program: int, number: int) -> Reads:
        """What a step reads."""
        found = self.reads.get((program, number))
        if found is None:
            of = self.programs[program]
            found = self.reads[program, number] = reads_of(of.plan.steps[number], of.steps[number])
        return found

    def reads_of(self, visit: Visit) -> Reads:
        """What the step of a visit reads."""
        return self.reads_at(visit.program, visit.number)

    def version(self, visit: Visit, name: str) -> int:
        """The write that a variable stood at in a visit; NONE where it was not set."""
        names = self.reads_of(visit).names
        return visit.versions[names.index(name)] if name in names else NONE

    def prefix(self, visit: Visit) -> str:
        """What the keys of a visit's calls begin with."""
        own = self.code(visit).prefix[:-1]
        generation = f"r{visit.program}/" if visit.program else ""
        return f"{generation}{own}" if visit.visit == 1 else f"{generation}{own}@{visit.visit}"

    def label(self, visit: Visit) -> str:
        """A visit in words for people: the step, and which visit it is where it is not the first."""
        own = self.code(visit).id
        return own if visit.visit == 1 else f"{own}@{visit.visit}"

    # ------------------------------------------------------------ calls

    @cached_property
    def left(self) -> dict[str, int]:
        """The events at which calls left last, by key."""
        found = {
            key: seq
            for first, data in self.intents
            for seq, (key, _) in enumerate(decode_intents(data), first + 1)
        }
        for key, seq in self.lone.items():
            found[key] = max(seq, found.get(key, 0))
        return found

    @cached_property
    def _keys(self) -> dict[str, list[str]]:
        found: defaultdict[str, list[str]] = defaultdict(list)
        for key in self.commands:
            found[key.rsplit(".", 2)[0]].append(key)
        return found

    def keys_of(self, visit: Visit) -> Sequence[str]:
        """The keys of all calls of a visit, retries and those of an agent included, as they were made."""
        return self._keys.get(self.prefix(visit), ())

    def items_of(self, visit: Visit) -> list[int]:
        """The items for which a visit has made calls, in their order; of a step without FOREACH it is 0."""
        return sorted({int(key.rsplit(".", 2)[1]) for key in self.keys_of(visit)})

    def keys_of_item(self, visit: Visit, item: int) -> list[str]:
        """The keys of the calls for one item."""
        return [key for key in self.keys_of(visit) if int(key.rsplit(".", 2)[1]) == item]

    def last_key(self, visit: Visit, item: int) -> str:
        """The key of the last attempt for an item, not of what an agent did in it; "" without one."""
        keys = self.keys_of_item(visit, item)
        return max(keys, key=lambda key: parse_key(key).attempt).partition("/t")[0] if keys else ""

    def last_keys(self, visit: Visit) -> Sequence[str]:
        """The key of the last attempt of each item, in their order."""
        keys = self.keys_of(visit)
        if len(keys) <= 1:
            return keys
        return [self.last_key(visit, item) for item in self.items_of(visit)]

    # ------------------------------------------------------------ who reads

    @cached_property
    def readers(self) -> dict[int, list[int]]:
        """The visits that have read each write."""
        found: defaultdict[int, list[int]] = defaultdict(list)
        for visit in self.visits:
            for write in visit.versions:
                if write != NONE:
                    found[write].append(visit.id)
        return found

    def write_named(self, name: str) -> int:
        """The last write of a variable, or the answer; NONE where there is none of that name."""
        found = self.current.get(name, NONE)
        return self.answer if found == NONE and name == ANSWER else found

    def names(self) -> list[str]:
        """The variables that have been set."""
        return list(self.current)
