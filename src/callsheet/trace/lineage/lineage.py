"""The lineage of a run: visits of steps, writes of variables, calls, and which of them read which.

In: what a recorder has recorded of a run. Out: answers to queries. What few queries need is computed on
demand, so that recording a long run stays cheap.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cached_property
from typing import NamedTuple

from callsheet.ir import JSON, Ending, Order, Plan, Step
from callsheet.ir.expr import names_in
from callsheet.machine import Awaited, Machine, Program
from callsheet.machine.keys import attempt_key, parse_key
from callsheet.machine.program import StepCode
from callsheet.machine.values import walk
from callsheet.store.events import decode_many_intents
from callsheet.trace.lineage.reads import Path, Reads, Role, Use, reads_of

NEVER = -1
"""A number below that of any step."""


class LastUses(NamedTuple):
    """The numbers of the last steps that read, and that set, each variable, by name."""

    read: Mapping[str, int]
    made: Mapping[str, int]


def last_uses(plan: Plan) -> LastUses | None:
    """The last uses of variables; None for a plan whose steps may run repeatedly or out of text order."""
    if plan.order is not Order.TEXT or any(map(_may_lead_back, plan.steps)):
        return None
    read: dict[str, int] = {}
    last_use: dict[str, int] = {}
    for number, step in enumerate(plan.steps):
        for _, nodes in step.reads():
            for name in names_in(nodes):
                read[name] = number
        if step.output is not None:
            last_use[step.output.var] = number
    return LastUses(read, last_use)


def _may_lead_back(step: Step) -> bool:
    return step.course.ends is Ending.NEW_PLAN or any(step.jumps())


NONE = -1
"""No write, or no visit."""
ANSWER = "answer"
"""The name of a run's answer, unless a variable has that name."""


class ValueSource(StrEnum):
    """Where a variable's value came from."""

    INPUT = "input"
    """The run was started with it."""
    PLAN = "plan"
    """The plan itself gives it."""
    EDIT = "edit"
    """Somebody has set it, in a run that was forked."""
    STEP = "step"
    ERROR = "error"
    """A step has failed, and its error stands where its result would."""
    USE = "use"
    """A step has failed, and this is the value that the plan uses instead."""
    ANSWER = "answer"
    """It is the answer of the run, and no variable."""
    ITEM = "item"
    """It is what a FOREACH goes through, one at a time."""
    INNER = "inner"
    """It is no variable: the YIELD of an item, the RETURN of a sub-plan, the time."""
    EARLIER = "earlier"
    """It was set before the first event of the lineage."""


class Write(NamedTuple):
    """The setting of a variable at the event `seq` by the visit with the number `visit`, NONE if by no visit.

    `is_odd` if the value did not fit its cast and was kept unchanged. `place` is what the paths of the places
    begin with that see the variable, in a plan tree: `S2[4]/` for one of an item.
    """

    id: int
    name: str
    value: JSON
    seq: int
    made: ValueSource
    visit: int = NONE
    is_odd: bool = False
    place: str = ""


class Visit(NamedTuple):
    """The `visit`-th visit (from 1) of step `number` of program `program`, begun at the event `seq`.

    `versions` are the writes that its variables had then, in the order of its `Reads.names`. `skipped` is the
    reason why it was skipped, empty if it was not. `path` is its place in a plan tree, such as `S2[4]/S5`.
    """

    id: int
    program: int
    number: int
    visit: int
    seq: int
    versions: tuple[int, ...]
    skipped: str = ""
    path: str = ""


class Node(NamedTuple):
    """A part of a value that a variable had: a write, and a path in its value."""

    write: int
    path: Path


class Flow(NamedTuple):
    """One edge of a slice: a flow of data through a visit.

    `item` is that of a FOREACH, None for all of them or a step without one. `node` is the other end: the
    source in a backward slice, what was made in a forward one. Its write is NONE if `name` was not set.
    """

    role: Role
    argument: str
    item: int | None
    name: str
    node: Node


class Outcome(NamedTuple):
    """The outcome of a call: the event, its type, the value or the error, and where its code raised.

    `label` says which label its server has given it, "" if none that counts.
    """

    seq: int
    type: str
    value: JSON
    traceback: str = ""
    label: str = ""


@dataclass(slots=True)
class Failure:
    """The final failure of a step, and its error."""

    visit: int
    seq: int
    error: str


class Beside(NamedTuple):
    """What no visit of a step did: an edit by hand, a new plan that took over, or that none was made.

    `made` is EDIT, PLAN or ERROR. `wrote` are the writes that it made, `carried` those that a new plan takes
    over. `tick` says when, as `Lineage.began` does, and `program` which plan was in force then.
    """

    tick: int
    program: int
    made: ValueSource
    detail: str = ""
    wrote: tuple[int, ...] = ()
    carried: tuple[int, ...] = ()


class _Items(NamedTuple):
    """The items of a visit that have calls, and the keys of these calls by item, both in order."""

    items: list[int]
    keys: dict[int, list[str]]


@dataclass
class Lineage:
    """What happened to the data of a run up to its event `seq`."""

    machine: Machine
    programs: list[Program]
    planned: list[int] = field(default_factory=list[int])
    """The event with which each program came."""
    writes: list[Write] = field(default_factory=list[Write])
    visits: list[Visit] = field(default_factory=list[Visit])
    write_of: dict[int, int] = field(default_factory=dict[int, int])
    """The number of the write of each visit that has one."""
    failures: list[Failure] = field(default_factory=list[Failure])
    began: list[int] = field(default_factory=list[int])
    """When each visit began, as a number of what has happened so far; comparable with `settled`."""
    settled: dict[int, int] = field(default_factory=dict[int, int])
    """When each visit that is over was, in that order; that of a member of a group is with its group."""
    stopped: dict[int, str] = field(default_factory=dict[int, str])
    """Why a step of version 1 ended before it was done, by the visit."""
    beside: list[Beside] = field(default_factory=list[Beside])
    failed: set[int] = field(default_factory=set[int])
    """The visits that failed; not a loop that has finished in spite of items that failed."""
    commands: dict[str, Awaited] = field(default_factory=dict[str, Awaited])
    """The calls, by key."""
    intents: list[tuple[int, bytes]] = field(default_factory=list[tuple[int, bytes]])
    """For each entry in which calls left: the number of its event, and the calls as in the journal."""
    lone: dict[str, int] = field(default_factory=dict[str, int])
    """The events of calls that have an entry of their own, by key."""
    outcomes: dict[str, Outcome] = field(default_factory=dict[str, Outcome])
    current: dict[str, int] = field(default_factory=dict[str, int])
    """The last write of each variable."""
    begins: int = 1
    """The first event that it covers: that of the run, or a snapshot."""
    before: int = 0
    """How many visits had begun before that event."""
    earlier: set[int] = field(default_factory=set[int])
    """Those visits of them that ended later; what they read is unknown."""
    uses: LastUses | None = None
    """Where the plan uses its variables last, if the lineage ends before the run does."""
    seq: int = 0
    ended: int = 0
    """The event that ends the run; 0 where there is none."""
    answer: int = NONE
    """The write that stands for the answer."""
    differs: tuple[int, str] | None = None
    """The event from which on the run is not replayed as it was recorded, and what differs there."""
    reads: dict[tuple[int, int], Reads] = field(default_factory=dict[tuple[int, int], Reads])
    """What the steps visited so far read, by program and number."""
    has_members: dict[int, bool] = field(default_factory=dict[int, bool])
    """Cache: whether a visit's FOREACH iterates over the members of a list."""

    def value_at(self, node: Node) -> JSON:
        """The value at a node; null if there is none."""
        return None if node.write == NONE else walk(self.writes[node.write].value, node.path)

    def copied(self, machine: Machine) -> Lineage:
        """An independent copy, for a machine that is in the same state as this one's."""
        return replace(
            self,
            machine=machine,
            programs=list(self.programs),
            planned=list(self.planned),
            writes=list(self.writes),
            visits=list(self.visits),
            write_of=dict(self.write_of),
            failures=list(self.failures),
            began=list(self.began),
            settled=dict(self.settled),
            stopped=dict(self.stopped),
            beside=list(self.beside),
            failed=set(self.failed),
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
        """Give visits and writes the event numbers of another run that has done the same.

        `seqs` maps the numbers that differ.
        """
        self.visits = [
            visit._replace(seq=seqs[visit.seq]) if visit.seq in seqs else visit for visit in self.visits
        ]
        self.writes = [
            write._replace(seq=seqs[write.seq]) if write.seq in seqs else write for write in self.writes
        ]

    def forget(self) -> None:
        """Drop cached results, as more has happened since."""
        for name in ("left", "readers", "_keys", "_by_item", "_open_prefixes"):
            self.__dict__.pop(name, None)

    @property
    def visited(self) -> int:
        """The number of visits in the run so far."""
        return self.before + len(self.visits) - len(self.earlier)

    # ------------------------------------------------------------ steps and visits

    def code(self, visit: Visit) -> StepCode:
        """The compiled step of a visit."""
        return self.programs[visit.program].steps[visit.number]

    def step(self, visit: Visit) -> Step:
        """The step of a visit in the plan."""
        return self.programs[visit.program].plan.steps[visit.number]

    def reads_at(self, program: int, number: int) -> Reads:
        """What a step reads."""
        reads = self.reads.get((program, number))
        if reads is None:
            of = self.programs[program]
            reads = self.reads[program, number] = reads_of(of.plan.steps[number], of.steps[number])
        return reads

    def reads_of(self, visit: Visit) -> Reads:
        """What the step of a visit reads."""
        return self.reads_at(visit.program, visit.number)

    def version(self, visit: Visit, name: str) -> int:
        """The write that a variable had in a visit; NONE if it was not set or is not read."""
        names = self.reads_of(visit).names
        return visit.versions[names.index(name)] if name in names else NONE

    def node_of(self, visit: Visit, use: Use) -> Node:
        """The place that a use has read in a visit."""
        return Node(self.version(visit, use.name), use.path)

    def prefix(self, visit: Visit) -> str:
        """The common prefix of the keys of a visit's calls."""
        own = self.code(visit).prefix[:-1]
        generation = f"r{visit.program}/" if visit.program else ""
        return f"{generation}{own}" if visit.visit == 1 else f"{generation}{own}@{visit.visit}"

    def label(self, visit: Visit) -> str:
        """A visit for display: the step's id, and the number of the visit unless it is the first."""
        own = self.code(visit).id
        return own if visit.visit == 1 else f"{own}@{visit.visit}"

    def place(self, visit: Visit) -> str:
        """The step of a visit: its id, or its path in a plan with blocks."""
        return visit.path or self.code(visit).id

    # ------------------------------------------------------------ calls

    @cached_property
    def left(self) -> dict[str, int]:
        """The last event at which each call left, by key."""
        firsts = [first for first, _ in self.intents]
        intents = decode_many_intents([data for _, data in self.intents])
        left_over = {
            key: seq
            for first, left in zip(firsts, intents, strict=True)
            for seq, (key, _) in enumerate(left, first + 1)
        }
        for key, seq in self.lone.items():
            left_over[key] = max(seq, left_over.get(key, 0))
        return left_over

    @cached_property
    def _keys(self) -> dict[str, list[str]]:
        keys_of: defaultdict[str, list[str]] = defaultdict(list)
        for key in self.commands:
            keys_of[key.rsplit(".", 2)[0]].append(key)
        return keys_of

    def keys_of(self, visit: Visit) -> Sequence[str]:
        """The keys of all calls of a visit in order, including retries and the calls of an agent."""
        return self._keys.get(self.prefix(visit), ())

    def _items(self, visit: Visit) -> _Items:
        prefix = self.prefix(visit)
        items_of = self._by_item.get(prefix)
        if items_of is None:
            keys_of_item: defaultdict[int, list[str]] = defaultdict(list)
            for key in self._keys.get(prefix, ()):
                keys_of_item[int(key.rsplit(".", 2)[1])].append(key)
            items = sorted(keys_of_item)
            items_of = self._by_item[prefix] = _Items(items, {item: keys_of_item[item] for item in items})
        return items_of

    @cached_property
    def _by_item(self) -> dict[str, _Items]:
        return {}

    def items_of(self, visit: Visit) -> Sequence[int]:
        """The items for which a visit has made calls, in order; without FOREACH only item 0."""
        return self._items(visit).items

    def keys_of_item(self, visit: Visit, item: int) -> Sequence[str]:
        """The keys of a visit's calls for one item."""
        return self._items(visit).keys.get(item, ())

    def last_key(self, visit: Visit, item: int) -> str:
        """The key of the last attempt for an item, not of an agent's call within it; "" if there is none."""
        return _last_of(self.keys_of_item(visit, item))

    def last_keys(self, visit: Visit) -> Sequence[str]:
        """The key of the last attempt for each item, in the order of the items."""
        keys = self.keys_of(visit)
        if len(keys) <= 1:
            return keys
        return [_last_of(of_item) for of_item in self._items(visit).keys.values()]

    def is_under_way(self, visit: Visit) -> bool:
        """Whether a visit has an open call after the last event."""
        return self.prefix(visit) in self._open_prefixes

    @cached_property
    def _open_prefixes(self) -> frozenset[str]:
        return frozenset(key.rsplit(".", 2)[0] for key in self.machine.open_keys())

    # ------------------------------------------------------------ who reads

    @cached_property
    def readers(self) -> dict[int, list[int]]:
        """The numbers of the visits that have read each write."""
        readers: defaultdict[int, list[int]] = defaultdict(list)
        for visit in self.visits:
            for write in visit.versions:
                if write != NONE:
                    readers[write].append(visit.id)
        return readers

    def visit_at(self, place: str) -> Visit | None:
        """The last visit of the step with an id, in the last plan; None if there is none."""
        number, program = self.machine.program.number_of.get(place, NEVER), len(self.programs) - 1
        return next((v for v in reversed(self.visits) if (v.program, v.number) == (program, number)), None)

    def write_named(self, name: str) -> int:
        """The last write of a variable, or the answer; NONE if there is none of that name."""
        write = self.current.get(name, NONE)
        return self.answer if write == NONE and name == ANSWER else write

    def knows(self, write: int) -> bool:
        """Whether the origin of a write is known; of one from before the first event only the value is."""
        at = self.writes[write]
        return at.made is not ValueSource.EARLIER and at.visit not in self.earlier

    def names(self) -> list[str]:
        """The variables that have been set."""
        return list(self.current)


def _last_of(keys: Sequence[str]) -> str:
    """The key of the last attempt among those of an item."""
    if len(keys) <= 1:
        return attempt_key(keys[0]) if keys else ""
    return attempt_key(max(keys, key=lambda key: parse_key(key).attempt))


def differing(lineage: Lineage) -> str:
    """What people are told of a run that is not replayed as it was recorded; "" for any other.

    The other runs are those whose events all have the same effect as when they were recorded.
    """
    if lineage.differs is None:
        return ""
    seq, why = lineage.differs
    return (
        f"from event {seq} on the run is not explained: {why}. Another version of callsheet has recorded it;"
        " that version explains it"
    )
