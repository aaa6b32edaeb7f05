"""The lineage of a run of a plan tree: statements of blocks, items, rounds and sub-plans.

Each execution of a statement that reads or sets something is a visit, named by its path (`S2[4]/S5`). What a
write is made of follows from the expression that made it, part by part; the list of a FOREACH has its parts
from the YIELDs of its items, the result of a CALL is that of the RETURN. Conditions around a statement flow
into what it sets.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

from callsheet import lazy
from callsheet.ir import JSON, Call, Order, Plan, Respond, Step
from callsheet.ir.expression import Call as FunctionCall
from callsheet.ir.tree import Act, Assign, Compute, Foreach, Invoke, Say, Statement
from callsheet.machine.keys import place_in_tree
from callsheet.machine.program import Program, StepCode
from callsheet.machine.values import walk
from callsheet.store.events import EventType
from callsheet.trace.lineage.lineage import NONE, Flow, Lineage, Node, ValueSource, Visit, Write
from callsheet.trace.lineage.reads import Computed, Path, Reads, Role, Source, Use, overlap, sources_of


class Around(NamedTuple):
    """A statement around another whose conditions, or with `is_failure` whose failure, leads to that.

    With `is_retried` the failure leads to another attempt of it.
    """

    id: str
    is_failure: bool = False
    is_retried: bool = False


class Site(NamedTuple):
    """A statement, or a condition of one, as a place of a plan that reads or sets variables.

    `makes` is how it composes the value that it makes, None if that depends on all that it reads. `around`
    has the statements around it, in its own body, that decide whether it is reached.
    """

    number: int
    id: str
    statement: Statement
    reads: Reads
    makes: tuple[Source, ...] | None
    around: tuple[Around, ...]
    condition: str = ""
    """The condition, as the plan writes it."""


class Part(NamedTuple):
    """What a part of a value is made of: with `is_copy` the same value, so that a path goes on in it.

    With `of_whole` only the value as a whole is, as the number of results of a FOREACH is of its source.
    """

    at: Path
    is_copy: bool
    flow: Flow
    of_whole: bool = False


class Reasons(NamedTuple):
    """Why a statement was reached: the visits of conditions, and failures.

    Those are the failures whose handlers it is in, and those of the attempts before it.
    """

    conditions: tuple[int, ...] = ()
    failures: tuple[int, ...] = ()


NO_REASONS = Reasons()
_AROUND = (Foreach, Invoke)
"""The statements whose insides are visits of their own."""
_ITEM = lazy.pattern(r"\[[^\[\]]*\]$")
_MOST_ORIGINS = 64
_ENDS_IN_ATTEMPT = lazy.pattern(r"\.[0-9]+(/t[0-9]+(c[0-9]+)?)?$")
DATA = frozenset({Role.ARGUMENT, Role.SOURCE})
"""The roles of reads of which a value is made."""


def listed(sites: Sequence[Site], program: Program, before: Program | None = None) -> Program:
    """A plan tree as a list of its sites, for those who ask a lineage for the step of a visit.

    With `before` it is the next part of a plan: its sites follow those.
    """
    codes = {code.id: code for code in program.steps}
    earlier = () if before is None else before.plan.steps
    steps = [*earlier, *(Step(site.id, _action(site)) for site in sites)]
    plan = Plan(
        tuple(steps),
        Order.TEXT,
        (),
        program.plan.id,
        program.plan.title,
        program.plan.goal,
        tree=program.plan.tree,
        in_python=program.plan.in_python,
    )
    of_sites = [] if before is None else [*before.steps]
    of_sites += [codes.get(site.id) or StepCode(site.number, steps[site.number]) for site in sites]
    return Program(plan, of_sites, {}, program.slot_of, program.names, {}, None, program.tree)


def _action(site: Site) -> Call | Respond:
    match site.statement:
        case Act(tool=tool):
            return Call(tool)
        case Compute():
            return Call("callsheet.compute")
        case _:
            return Respond(())


def word_of_statement(statement: Statement) -> str:
    """The word for a statement, as an agent in a document or the name of a span."""
    match statement:
        case Act(tool=tool):
            return f"@{tool}"
        case Invoke():
            return "CALL"
        case Assign():
            return "SET"
        case Say(word=word):
            return word.value.removeprefix("@")
        case _:
            return type(statement).__name__.upper()


@dataclass
class TreeLineage(Lineage):
    """The lineage of a run of a plan tree."""

    sites: list[Site] = field(default_factory=list[Site])
    parts: dict[int, tuple[Part, ...]] = field(default_factory=dict[int, tuple[Part, ...]])
    """What writes are made of whose parts follow from the run: items, lists of results, results of CALLs."""
    reasons: dict[int, Reasons] = field(default_factory=dict[int, Reasons])
    """Why each visit was reached, where conditions or failures decided that."""
    main: dict[str, int] = field(default_factory=dict[str, int])
    """The last write of each variable of the main plan."""
    placed: dict[tuple[str, str], int] = field(default_factory=dict[tuple[str, str], int])
    """The last write of each variable by its place and name: `("S2[4]/", "x")`."""
    last_at: dict[str, int] = field(default_factory=dict[str, int])
    """The last visit of each path."""
    did_not_hold: set[int] = field(default_factory=set[int])
    """The visits of conditions that were false."""
    attempts: dict[int, int] = field(default_factory=dict[int, int])
    """Which attempt of a block each failure ended that another attempt followed, by its write."""
    planners: dict[str, int] = field(default_factory=dict[str, int])
    """The visit of the RE-PLAN that asked for each part of the plan, by what the part's paths begin with."""
    unused: dict[int, str] = field(default_factory=dict[int, str])
    """Why the result of a call was not used, by the visit: it came too late."""
    lines: Mapping[str, str] = field(default_factory=dict[str, str])
    """Where the statements of a Python plan stand in its file, by id."""

    def forget(self) -> None:
        """Drop cached results, as more has happened since."""
        super().forget()
        for name in ("_read_by", "_decided"):
            self.__dict__.pop(name, None)

    # ------------------------------------------------------------ visits and their calls

    def site(self, visit: Visit) -> Site:
        """The place in the plan of a visit."""
        return self.sites[visit.number]

    def planner_of(self, visit: Visit) -> Visit | None:
        """The RE-PLAN whose planner wrote the statement of a visit; None for the plan itself."""
        part, is_part, _ = visit.path.partition("//")
        return self.visits[self.planners[part]] if is_part and part in self.planners else None

    def reads_at(self, program: int, number: int) -> Reads:
        """What a statement reads."""
        return self.sites[number].reads

    def prefix(self, visit: Visit) -> str:
        """The common prefix of the keys of a visit's calls."""
        return visit.path

    def label(self, visit: Visit) -> str:
        """A visit for display: its path, and its number unless it is the first with that path."""
        return visit.path if visit.visit == 1 else f"{visit.path}@{visit.visit}"

    @cached_property
    def _keys(self) -> dict[str, list[str]]:
        keys_of: defaultdict[str, list[str]] = defaultdict(list)
        for key in self.commands:
            keys_of[place_in_tree(key)].append(key)
        return keys_of

    @cached_property
    def _open_prefixes(self) -> frozenset[str]:
        return frozenset(place_in_tree(key) for key in self.machine.open_keys())

    def items_of(self, visit: Visit) -> Sequence[int]:
        """Item 0 if a visit has made calls: the items of a FOREACH are visits of their own."""
        return [0] if self._keys.get(visit.path) else []

    def keys_of_item(self, visit: Visit, item: int) -> Sequence[str]:
        """The keys of a visit's calls."""
        return self.keys_of(visit)

    def last_keys(self, visit: Visit) -> Sequence[str]:
        """The key of the last attempt."""
        last = self.last_key(visit, 0)
        return [last] if last else []

    def around(self, visit: Visit) -> Visit | None:
        """The visit of the FOREACH or CALL that a visit is inside of; None outside of them."""
        path = visit.path
        while "/" in path:
            path = path[: path.rindex("/")]
            for place in (path, _ITEM.sub("", path)):
                number = self.last_at.get(place)
                if number is not None and isinstance(
                    self.sites[self.visits[number].number].statement, _AROUND
                ):
                    return self.visits[number]
        return None

    def origins_of(self, visit: Visit) -> tuple[int, ...]:
        """The results of calls, loops and sub-plans that a visit has read, at most some dozens.

        What other statements have made of them is passed through.
        """
        waiting = deque(flow.node.write for flow in self.flows_of(visit) if flow.role is not Role.MESSAGE)
        if isinstance(self.site(visit).statement, _AROUND) and visit.id in self.write_of:
            waiting.extend(part.flow.node.write for part in self.parts_of(self.write_of[visit.id]))
        seen: set[int] = set()
        found: list[int] = []
        while waiting and len(found) < _MOST_ORIGINS and len(seen) < 4 * _MOST_ORIGINS:
            number = waiting.popleft()
            if number == NONE or number in seen:
                continue
            seen.add(number)
            write = self.writes[number]
            made_by = None if write.visit == NONE else self.site(self.visits[write.visit]).statement
            if (
                write.visit != visit.id
                and self.write_of.get(write.visit) == number
                and isinstance(made_by, (*_AROUND, Act, Compute))
            ):
                found.append(number)
                continue
            waiting.extend(part.flow.node.write for part in self.parts_of(number))
        return tuple(found)

    # ------------------------------------------------------------ naming

    def visit_at(self, place: str) -> Visit | None:
        """The last visit at a path; None if there is none."""
        number = self.last_at.get(place)
        return None if number is None else self.visits[number]

    def visit_named(self, text: str) -> Visit | None:
        """The last visit that a path, the key of a call, or else the id of a statement names."""
        visit = self.visit_at(text)
        if visit is None and _ENDS_IN_ATTEMPT.search(text) is not None:
            visit = self.visit_at(place_in_tree(text))
        if visit is None:
            visit = next((v for v in reversed(self.visits) if self.sites[v.number].id == text), None)
        return visit

    def write_named(self, name: str) -> int:
        """The last write of a variable: of the main plan, of any scope, or of one as in `S2[4]/x`."""
        place, _, own = name.rpartition("/")
        if place:
            return self.placed.get((f"{place}/", own.removeprefix("$")), NONE)
        write = self.main.get(name, NONE)
        return super().write_named(name) if write == NONE else write

    def result_of(self, visit: Visit) -> int:
        """The write of what a visit made; NONE if it has made nothing.

        That of a call whose result no variable has, and of a condition, is made when it is asked for.
        """
        write = self.write_of.get(visit.id, NONE)
        if write != NONE:
            return write
        outcome = self.outcomes.get(self.last_key(visit, 0))
        if outcome is not None:
            made = ValueSource.ERROR if outcome.type == EventType.ERR else ValueSource.INNER
            return self._add(visit, "result", outcome.value, outcome.seq, made)
        if self.site(visit).condition:
            holds = visit.id not in self.did_not_hold
            write = self._add(visit, "condition", holds, visit.seq, ValueSource.INNER)
            self.parts[write] = tuple(Part((), False, flow) for flow in self.own_flows(visit))
        return write

    def _add(self, visit: Visit, name: str, value: JSON, seq: int, made: ValueSource) -> int:
        write = self.write_of[visit.id] = len(self.writes)
        place = visit.path[: visit.path.rfind("/") + 1]
        self.writes.append(Write(write, name, value, seq, made, visit.id, place=place))
        self.forget()
        return write

    # ------------------------------------------------------------ what flows where

    def node_of(self, visit: Visit, use: Use) -> Node:
        """The place that a use has read, with the keys that the variables in it had."""
        return self.resolved(visit, use.name, (*use.path, *use.rest))

    def resolved(self, visit: Visit, name: str, place: Sequence[str | int | Computed]) -> Node:
        """A place in a variable as a visit read it: no longer than what there is in the value."""
        write = self.version(visit, name)
        if write == NONE:
            return Node(NONE, tuple(key for key in place if not isinstance(key, Computed)))
        path: list[str | int] = []
        value = self.writes[write].value
        for each in place:
            key = self._key(visit, each) if isinstance(each, Computed) else each
            if isinstance(value, list) and isinstance(key, int):
                if not -len(value) <= key < len(value):
                    break
                key %= len(value)
                value = value[key]
            elif isinstance(value, dict) and key in value:
                value = value[str(key)]
            elif isinstance(value, dict) and isinstance(key, str):
                path.append(key)  # it was absent: that is what was read
                break
            else:
                break
            path.append(key)
        return Node(write, tuple(path))

    def _key(self, visit: Visit, computed: Computed) -> str | int | None:
        write = self.version(visit, computed.name)
        key = None if write == NONE else walk(self.writes[write].value, computed.path)
        return key if isinstance(key, str) or (isinstance(key, int) and not isinstance(key, bool)) else None

    def parts_of(self, number: int) -> tuple[Part, ...]:
        """What the parts of a write are made of, without the conditions that led to it."""
        made = self.parts.get(number)
        write = self.writes[number]
        if made is not None or write.visit == NONE:
            return made or ()
        visit = self.visits[write.visit]
        site = self.site(visit)
        if write.made in (ValueSource.ERROR, ValueSource.USE):
            return tuple(Part((), False, flow) for flow in self.own_flows(visit))
        if site.makes is not None:
            return tuple(self.part(visit, source) for source in site.makes)
        return tuple(Part((), False, flow) for flow in self.own_flows(visit) if flow.role in DATA)

    def part(self, visit: Visit, source: Source) -> Part:
        """What a source of an expression has given in a visit."""
        node = self.resolved(visit, source.name, source.place)
        return Part(source.at, source.is_copy, Flow(Role.ARGUMENT, "", None, source.name, node))

    def item_parts(self, visit: Visit, index: int) -> Iterator[Part]:
        """What an item of the FOREACH of a visit is made of."""
        statement = self.site(visit).statement
        assert isinstance(statement, Foreach)
        given = statement.source
        while isinstance(given, FunctionCall) and given.function == "list" and len(given.arguments) == 1:
            given = given.arguments[0]  # as a loop of Python says it: the members are the same
        for source in sources_of(given):
            node = self.resolved(visit, source.name, source.place)
            flow = Flow(Role.SOURCE, "", index, source.name, node)
            if source.at:
                if source.at[0] == index:
                    yield Part(source.at[1:], source.is_copy, flow)
            elif source.is_copy and node.write != NONE and isinstance(self.value_at(node), list):
                yield Part((), True, flow._replace(node=Node(node.write, (*node.path, index))))
            else:
                yield Part((), False, flow)

    def result_parts(self, visit: Visit, done: Iterable[int], yields: Mapping[int, int]) -> Iterator[Part]:
        """What the list of a FOREACH is made of: the `yields` of the items that are `done`, in order."""
        for flow in self.own_flows(visit):
            yield Part((), False, flow, of_whole=True)
        for number, index in enumerate(done):
            if index in yields:
                flow = Flow(Role.ARGUMENT, "", index, "YIELD", Node(yields[index], ()))
                yield Part((number,), True, flow)

    def own_flows(self, visit: Visit) -> Iterator[Flow]:
        """The flows of everything that a visit has read itself, its messages included."""
        for use in self.site(visit).reads.uses:
            yield Flow(use.role, use.argument, None, use.name, self.node_of(visit, use))

    def flows_of(self, visit: Visit) -> tuple[Flow, ...]:
        """The flows of everything that a visit has read, and of what led to it."""
        own = (flow for flow in self.own_flows(visit) if flow.role is not Role.MESSAGE)
        return tuple(dict.fromkeys((*own, *self.because(visit))))

    def because(self, visit: Visit) -> Iterator[Flow]:
        """The flows of the conditions and failures that led to a visit."""
        reasons = self.reasons.get(visit.id, NO_REASONS)
        for number in reasons.conditions:
            visit = self.visits[number]
            text = self.site(visit).condition
            said = f"not ({text})" if number in self.did_not_hold else text
            for flow in self.own_flows(visit):
                if flow.role is Role.CONDITION:
                    yield flow._replace(argument=said)
        for number in reasons.failures:
            attempt = self.attempts.get(number)
            said = "" if attempt is None else f"attempt {attempt} failed"
            yield Flow(Role.CONDITION, said, None, self.writes[number].name, Node(number, ()))

    def flows_into(self, node: Node) -> tuple[Flow, ...]:
        """The flows into a node: of the parts that it overlaps, and of what led to its write."""
        path = self._settled(node)
        flows: dict[Flow, None] = {}
        for part in self.parts_of(node.write):
            if overlap(part.at, path) and not (part.of_whole and path):
                source = part.flow.node
                if part.is_copy and source.write != NONE and len(path) > len(part.at):
                    source = Node(source.write, source.path + path[len(part.at) :])
                flows[part.flow._replace(node=source)] = None
        write = self.writes[node.write]
        if write.visit != NONE:
            flows.update(dict.fromkeys(self.because(self.visits[write.visit])))
        return tuple(flows)

    def _settled(self, node: Node) -> Path:
        """A path with numbers from the end as those from the beginning."""
        if not any(isinstance(key, int) and key < 0 for key in node.path):
            return node.path
        value, path = self.writes[node.write].value, list[str | int]()
        for key in node.path:
            is_from_end = isinstance(key, int) and key < 0 and isinstance(value, list)
            path.append(key + len(value) if is_from_end else key)  # type: ignore[operator, arg-type]
            value = walk(value, (key,))
        return tuple(path)

    def flows_from(self, node: Node) -> tuple[Flow, ...]:
        """The flows out of a node, into the parts that it overlaps and what it decided about."""
        flows: dict[Flow, None] = {}
        path = self._settled(node)
        for target, part in self._read_by.get(node.write, ()):
            source = part.flow.node
            if not overlap(source.path, path):
                continue
            at = part.at
            if part.is_copy and len(path) > len(source.path):
                at += path[len(source.path) :]
            write = self.writes[target]
            flows[part.flow._replace(name=write.name, node=Node(target, at))] = None
        return tuple(flows)

    @cached_property
    def _read_by(self) -> Mapping[int, list[tuple[int, Part]]]:
        """The parts of writes that each write went into."""
        read_by: defaultdict[int, list[tuple[int, Part]]] = defaultdict(list)
        for write in self.writes:
            for part in self.parts_of(write.id):
                if part.flow.node.write != NONE:
                    read_by[part.flow.node.write].append((write.id, part))
            if write.visit != NONE:
                for flow in self.because(self.visits[write.visit]):
                    read_by[flow.node.write].append((write.id, Part((), False, flow)))
        return read_by

    def touched(self, visit: Visit, node: Node) -> Iterator[tuple[Role, str]]:
        """The reads of a node in a visit: the role and the argument of each."""
        path = self._settled(node)
        own = (flow for flow in self.own_flows(visit) if flow.role is not Role.MESSAGE)
        read = (
            (f.role, f.argument) for f in own if f.node.write == node.write and overlap(f.node.path, path)
        )
        yield from dict.fromkeys(read)

    def decided_by(self, visit: Visit) -> Sequence[Visit]:
        """The visits that a visit of a condition led to."""
        return self._decided.get(visit.id, ())

    @cached_property
    def _decided(self) -> Mapping[int, list[Visit]]:
        decided: defaultdict[int, list[Visit]] = defaultdict(list)
        for number, reasons in self.reasons.items():
            for condition in reasons.conditions:
                decided[condition].append(self.visits[number])
        return decided
