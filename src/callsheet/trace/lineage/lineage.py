"""The lineage of a run: visits of steps, writes of variables, calls, and which of them read which.

In: what a recorder has recorded of a run. Out: answers about it. What is rarely asked for is computed on
demand, so that recording a long run stays cheap.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cached_property
from typing import NamedTuple

from callsheet.ir import JSON, Step
from callsheet.machine import Awaited, Machine, Program
from callsheet.machine.keys import parse_key
from callsheet.machine.program import StepCode
from callsheet.store.events import decode_many_intents
from callsheet.trace.lineage.reads import Reads, reads_of
from callsheet.trace.lineage.uses import LastUses

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
    EARLIER = "earlier"
    """It came to it before the events that a lineage begins with."""


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


class _Items(NamedTuple):
    """The items of a visit for which there are calls, and the keys of those by item, both in their order."""

    items: list[int]
    keys: dict[int, list[str]]


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
    begins: int = 1
    """The event that it begins with: the first one, or a snapshot."""
    before: int = 0
    """How many visits had begun before that event."""
    earlier: set[int] = field(default_factory=set[int])
    """Those of them that ended later: of these it has the number alone."""
    uses: LastUses | None = None
    """Of one that ends before the run does: where the plan uses its variables last."""
    seq: int = 0
    ended: int = 0
    """The event that ends the run; 0 where there is none."""
    answer: int = NONE
    """The write that stands for the answer."""
    reads: dict[tuple[int, int], Reads] = field(default_factory=dict[tuple[int, int], Reads])
    """What the steps read that have been come to, by program and number."""
    has_members: dict[int, bool] = field(default_factory=dict[int, bool])
    """Of visits that were asked about, whether they went through the members of a list."""

    def copied(self, machine: Machine) -> Lineage:
        """The same, to go on apart from this one with a machine that stands where this one's does."""
        return replace(
            self,
            machine=machine,
            programs=list(self.programs),
            planned=list(self.planned),
            writes=list(self.writes),
            visits=list(self.visits),
            write_of=dict(self.write_of),
            failures=list(self.failures),
            commands=dict(self.commands),
            intents=list(self.intents),
            lone=dict(self.lone),
            outcomes=dict(self.outcomes),
            current=dict(self.current),
            earlier=set(self.earlier),
            reads=dict(self.reads),
            has_members={},
        )

    def renumber(self, seqs: Mapping[int, int]) -> None:
        """Give visits and writes the numbers of their events in another run, which has done the same.

        `seqs` holds those that are not the same there.
        """
        self.visits = [
            visit._replace(seq=seqs[visit.seq]) if visit.seq in seqs else visit for visit in self.visits
        ]
        self.writes = [
            write._replace(seq=seqs[write.seq]) if write.seq in seqs else write for write in self.writes
        ]

    def forget(self) -> None:
        """Let go of what was found out: more has happened since."""
        for name in ("left", "readers", "_keys", "_by_item", "_open_prefixes"):
            self.__dict__.pop(name, None)

    @property
    def visited(self) -> int:
        """How many visits the run has come to."""
        return self.before + len(self.visits) - len(self.earlier)

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
        firsts = [first for first, _ in self.intents]
        told = decode_many_intents([data for _, data in self.intents])
        found = {
            key: seq
            for first, left in zip(firsts, told, strict=True)
            for seq, (key, _) in enumerate(left, first + 1)
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

    def _items(self, visit: Visit) -> _Items:
        prefix = self.prefix(visit)
        found = self._by_item.get(prefix)
        if found is None:
            held: defaultdict[int, list[str]] = defaultdict(list)
            for key in self._keys.get(prefix, ()):
                held[int(key.rsplit(".", 2)[1])].append(key)
            items = sorted(held)
            found = self._by_item[prefix] = _Items(items, {item: held[item] for item in items})
        return found

    @cached_property
    def _by_item(self) -> dict[str, _Items]:
        return {}

    def items_of(self, visit: Visit) -> Sequence[int]:
        """The items for which a visit has made calls, in their order; of a step without FOREACH it is 0."""
        return self._items(visit).items

    def keys_of_item(self, visit: Visit, item: int) -> Sequence[str]:
        """The keys of the calls for one item."""
        return self._items(visit).keys.get(item, ())

    def last_key(self, visit: Visit, item: int) -> str:
        """The key of the last attempt for an item, not of what an agent did in it; "" without one."""
        return _last_of(self.keys_of_item(visit, item))

    def last_keys(self, visit: Visit) -> Sequence[str]:
        """The key of the last attempt of each item, in their order."""
        keys = self.keys_of(visit)
        if len(keys) <= 1:
            return keys
        return [_last_of(of_item) for of_item in self._items(visit).keys.values()]

    def is_under_way(self, visit: Visit) -> bool:
        """Whether a visit waits for something at the last event."""
        return self.prefix(visit) in self._open_prefixes

    @cached_property
    def _open_prefixes(self) -> frozenset[str]:
        return frozenset(key.rsplit(".", 2)[0] for key in self.machine.open_keys())

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

    def knows(self, write: int) -> bool:
        """Whether it tells where a write came from: one from before its first event it has the value of."""
        at = self.writes[write]
        return at.made is not Made.EARLIER and at.visit not in self.earlier

    def names(self) -> list[str]:
        """The variables that have been set."""
        return list(self.current)


def _last_of(keys: Sequence[str]) -> str:
    """The key of the last attempt among those of an item."""
    if len(keys) <= 1:
        return keys[0].partition("/t")[0] if keys else ""
    return max(keys, key=lambda key: parse_key(key).attempt).partition("/t")[0]
