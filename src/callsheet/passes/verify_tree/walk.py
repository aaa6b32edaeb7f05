"""The state and the rules of the walk over a tree: what is set, what decides, what a failure tells."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

from callsheet.ir.expression import Expression
from callsheet.ir.labels import LITERAL, Label, join
from callsheet.ir.tree import (
    Statement,
    Tree,
)
from callsheet.ir.tree_flow import Region, TreeFlow, failing_by_name, flow_of_block
from callsheet.passes.verify.persisted_labels import NOTHING_LEFT, PersistedLabels
from callsheet.passes.verify.subject import TREE_START, TreePosition
from callsheet.passes.verify_tree.calls import CallLabels, Record
from callsheet.passes.verify_tree.state import Counters, Layers, Origins, Site
from callsheet.policy.calls import CallView, bare
from callsheet.policy.expression_labels import ExpressionLabels
from callsheet.policy.judge import Judge
from callsheet.policy.labelled import NOTHING as UNSET
from callsheet.policy.labelled import Labelled, is_shown, of_origins, origins_of, raised, said_by
from callsheet.policy.model import Implicit

WIDENED = 3
"""How many ways of composing a value are told apart that changes from round to round."""


@dataclass(slots=True)
class Frame:
    """One body at one place where it is called: the main plan, or a sub-plan."""

    path: tuple[str, ...]
    flow: TreeFlow
    counters: Counters
    variables: Layers = field(default_factory=Layers)
    base: Label = LITERAL
    why: tuple[int, ...] = ()
    in_loop: bool = False
    returned: Labelled | None = None
    content: Label = LITERAL
    """The label of tests of content that may end the body as failed."""
    caught: Label = LITERAL
    """The label of all that its failure tells to what handles it."""
    can_fail: bool = False
    words: Label = LITERAL
    """The label of the words of its failure."""
    exits: list[Exit] = field(default_factory=list["Exit"])
    """What was stored where it returns early, in layers of places above `depth`."""
    depth: int = 0


class Exit(NamedTuple):
    """What is set where something ends early: variables, places, and the files that are written for sure."""

    variables: dict[str, Labelled]
    places: dict[str, Labelled]
    written: frozenset[str]


@dataclass(slots=True)
class Protected:
    """A block whose failures something handles: what was set on the way, and what the failure says.

    `frame` is the body that it stands in: what a sub-plan stores in places counts, its variables do not.
    """

    frame: Frame
    set_: dict[str, Labelled] = field(default_factory=dict[str, Labelled])
    places: dict[str, Labelled] = field(default_factory=dict[str, Labelled])
    words: Label = LITERAL
    origins: tuple[int, ...] = ()
    given: Label = LITERAL
    """The label of all that the calls inside it send and give."""
    led: Label = LITERAL
    """The label of all decisions that lead to them."""


class Called(NamedTuple):
    """A call as something that may fail: the labels of its result, and of whether it gives one.

    `words` is the label of what its failure says, beyond its result. `reveals` says that it computes with
    private data, `is_program` that the plan writes what it does with it.
    """

    result: Label
    present: Label
    reveals: bool = True
    is_program: bool = False
    words: Label = LITERAL


@dataclass(slots=True)
class Loop:
    """A loop that is walked: what its items yield, and what decides which of them there are.

    A round of a REPEAT is no item: what it yields belongs to the loop around it. `exits` is what was set
    where a round or item ended early, in layers above `depths` of variables and places.
    """

    is_items: bool = True
    yields: list[Labelled] = field(default_factory=list[Labelled])
    ends: Label = LITERAL
    words: Label = LITERAL
    """The label of what the failure of an item or a round says."""
    around: Label = LITERAL
    depths: tuple[int, int] = (0, 0)
    exits: list[Exit] = field(default_factory=list[Exit])


Ways: TypeAlias = "list[tuple[dict[str, Labelled], dict[str, Labelled]]]"
"""What each way through sets: variables, and places."""


class Walk:
    """What the analysis knows while it goes through a tree; `records` are its result."""

    def __init__(
        self,
        tree: Tree,
        judge: Judge,
        inputs: Mapping[str, Label],
        parameters: Callable[[str], tuple[str, ...]],
        left: PersistedLabels = NOTHING_LEFT,
        *,
        every_bit: bool = False,
        position: TreePosition = TREE_START,
    ) -> None:
        self.tree = tree
        self.judge = judge
        self.labels = CallLabels(judge, left)
        self.records: dict[Site, Record] = {}
        self.origins = Origins()
        self.bits: Counter[Site] = Counter()
        """How many bits of private data the statements let through."""
        self.unset: dict[Site, str] = {}
        """Statements that read a variable which nothing has set, with its name."""
        self._given = inputs
        self._parameters = parameters
        self._planner = judge.policy.planner
        self._strict = every_bit or judge.policy.implicit is Implicit.STRICT
        self._plans = {plan.name: plan for plan in tree.plans}
        self._by_name = failing_by_name(tree.plans)
        self._flows: dict[str, TreeFlow] = {}
        self._frames: dict[tuple[str, ...], Frame] = {}
        self._carried: dict[Site, tuple[dict[str, Labelled], dict[str, Labelled]]] = {}
        self._made: dict[int, frozenset[str]] = {}
        self._places = Layers()
        self._written: frozenset[str] = frozenset()
        self._clock = self._elapsed = position.clock
        """The label of the time: of all decisions and calls; those since the outermost time limit began."""
        self._timed: int = 0
        """How many blocks are around of which time decides how far they come."""
        self._least = position.labels
        self._risen = 0
        self._protected: list[Protected] = []
        self._loops: list[Loop] = []
        self._retries: int = 0
        self._again: int = 0
        self._beside: str | None = None
        self._items: int = 0
        """How many loops are around whose items may run beside each other."""
        self._frame = self._main()
        for region, label in position.decided:
            why = self.origins.add(((), ""), "what the run has decided", label, ())
            self._frame.counters.note((region,), label, why)

    @property
    def _version(self) -> tuple[int, Label, Label]:
        """What changes whenever anything rises that is not a variable or a place."""
        return self._risen, self._clock, self._elapsed

    def _takes_time(self, label: Label) -> None:
        """Something of this label happens, which the clock tells of."""
        self._clock, self._elapsed = self._clock.join(label), self._elapsed.join(label)

    @contextmanager
    def _against_time(self) -> Generator[None]:
        """A block of which time decides how far it comes; its time is reckoned from where it begins.

        The monitor reckons it with what runs beside the block, so that here all counts if anything does.
        """
        outer = self._elapsed
        if not self._timed:
            self._elapsed = self._clock if self._beside is not None or self._items else LITERAL
        self._timed += 1
        yield
        self._timed -= 1
        self._elapsed = outer.join(self._elapsed)

    def _main(self) -> Frame:
        flow = flow_of_block(self.tree.body, self._by_name)
        frame = Frame((), flow, Counters(flow))
        self._frames[()] = frame
        declared = {one.name: one for one in self.tree.inputs}
        for name in dict.fromkeys((*declared, *self._given)):
            label = self._given.get(name, self.judge.policy.inputs)
            one = declared.get(name)
            if one is not None and one.is_secret:
                label = Label(label.untrusted, frozenset())
            if one is not None and not one.is_required:
                label = label.join(self._planner)
            origin = self.origins.add(((), ""), f"the input ${name}", label, ())
            frame.variables.put(name, Labelled(label, LITERAL, (), (origin,)))
        return frame

    def _site(self, statement: Statement) -> Site:
        return self._frame.path, statement.id

    def _pc(self, statement: Statement) -> Label:
        frame = self._frame
        label = frame.counters.labels[frame.flow.of[statement.id].number]
        if self._timed:
            label = label.join(self._reached())
        return label if frame.base is LITERAL else frame.base.join(label)

    def _reached(self) -> Label:
        """Who may know how long something has taken; nobody chooses anything by it."""
        return Label(False, self._elapsed.readers)

    def _why(self, statement: Statement) -> tuple[int, ...]:
        frame = self._frame
        return (*frame.counters.why[frame.flow.of[statement.id].number], *frame.why)

    def _in_loop(self, statement: Statement) -> bool:
        return self._again > 0 or self._frame.in_loop or self._frame.flow.of[statement.id].in_loop

    def _counts(self, statement: Statement) -> bool:
        """Whether a single bit counts here in full."""
        return self._strict or self._in_loop(statement)

    def _evaluator(self, statement: Statement) -> ExpressionLabels:
        variables = self._frame.variables

        def variable(name: str) -> Labelled:
            found = variables.get(name)
            if found is None:
                self.unset[self._site(statement)] = name
                return UNSET
            return found

        return ExpressionLabels(self.judge, variable, lambda: self._clock.join(self._pc(statement)))

    def _set(self, statement: Statement, name: str, value: Labelled) -> None:
        """A statement sets a variable."""
        pc = self._pc(statement)
        if self._least and not self._frame.path and name in self._least:
            least = self._least[name]
            label, presence = value.label.join(least), value.presence.join(least)
            value = value._replace(label=label, presence=presence, fields=None)
        origin = self.origins.add(
            self._site(statement), f"{statement.id} ${name}", value.label, value.origins
        )
        value = of_origins(value, (origin, *self._why(statement)[:2]))
        self._frame.variables.put(name, value, pc)
        if not self._protected:
            return
        value = raised(value, pc)
        for protected in self._protected:
            if protected.frame is not self._frame:
                continue
            before = protected.set_.get(name)
            protected.set_[name] = value if before is None else self._joined(before, value)

    def _joined(self, one: Labelled, other: Labelled) -> Labelled:
        return self._evaluate.joined(one, other)

    def _widened(self, one: Labelled, other: Labelled) -> Labelled:
        return self._evaluate.joined(one, other, most=WIDENED)

    @property
    def _evaluate(self) -> ExpressionLabels:
        return ExpressionLabels(self.judge, lambda _: UNSET)

    def _ended(self, *, loop: Loop | None) -> None:
        """Something ends early here: a round or item of a loop, or else the sub-plan that returns."""
        places, written = self._places, self._written
        if loop is not None:
            around, (variables, depth) = loop.around, loop.depths
            loop.exits.append(
                Exit(self._frame.variables.since(variables, around), places.since(depth, around), written)
            )
        elif self._frame.path:
            self._frame.exits.append(Exit({}, places.since(self._frame.depth, LITERAL), written))

    def _store(self, place: str, value: Labelled, *, sure: bool) -> None:
        before = self._places.get(place)
        if not sure and before is not None:
            value = self._joined(before, value)
        self._places.put(place, value)
        for protected in self._protected:
            known = protected.places.get(place)
            protected.places[place] = value if known is None else self._joined(known, value)

    def _decide(
        self, statement: Statement, label: Label, sources: tuple[int, ...], *, pc: bool = False
    ) -> None:
        """A statement decides by data of this label what is executed; with `pc` it is an early end."""
        if pc:
            label = label.join(self._pc(statement))
        frame = self._frame
        decides = frame.flow.of[statement.id].decides
        self._takes_time(label)
        if label is LITERAL and not any(region.is_raced for region in decides):
            return
        number = self.origins.add(self._site(statement), statement.id, label, sources)
        for region in decides:
            raced = self._readers_of_time(region)
            self._risen += frame.counters.note((region,), label.join(raced), number)

    def _readers_of_time(self, region: Region) -> Label:
        """Who may know when something happens, for what time decides; nobody chooses anything by it."""
        return Label(False, self._clock.readers) if region.is_raced else LITERAL

    def _may_fail(
        self,
        statement: Statement,
        evaluator: ExpressionLabels,
        sources: tuple[int, ...],
        called: Called | None = None,
        words: Label = LITERAL,
        content: Label = LITERAL,
    ) -> Label:
        """A statement may fail: gives the label of what its failure tells to what handles it.

        `called` are, for a call, the labels of its result and of whether it gives one.
        """
        frame, pc = self._frame, self._pc(statement)
        governed = frame.flow.of[statement.id]
        tested = evaluator.content.join(content)
        if tested is not LITERAL or evaluator.fails_by_content:
            tested = tested.join(pc)
        if called is None and not evaluator.can_fail and tested is LITERAL:
            return LITERAL
        in_loop = self._in_loop(statement)
        full = self._strict or in_loop
        handled = pc if tested is LITERAL else tested.join(pc)
        if called is not None:
            handled = handled.join(called.result if full else called.present)
            words = words.join(called.words)
            may_tell = called.reveals and (governed.is_caught or called.is_program)
            told = handled if governed.is_caught else pc
            if may_tell and not full and not is_shown(called.result, told):
                self.bits[self._site(statement)] = 1
        if evaluator.can_fail:
            handled = handled.join(evaluator.reads if called is None or full else evaluator.content)
        said = words.join(evaluator.reads).join(handled)
        number = -1
        if handled is not LITERAL:
            number = self.origins.add(self._site(statement), statement.id, handled, sources)
        for region in governed.stops:
            label = tested
            if governed.is_caught or self._strict:
                label = handled.join(self._readers_of_time(region))
            elif in_loop and not region.is_behind_loop:  # nobody chooses anything by stopping a run
                told = handled.join(self._readers_of_time(region))
                label = Label(tested.untrusted, told.readers)
            self._risen += frame.counters.note((region,), label, number)
        if governed.escapes:
            frame.can_fail = True
            frame.content = frame.content.join(tested)
            frame.caught = frame.caught.join(handled)
            frame.words = frame.words.join(said)
        if governed.ends_item:
            for loop in self._loops:
                loop.ends = loop.ends.join(handled)
                loop.words = loop.words.join(said)
        for protected in self._protected:
            if protected.frame is not frame:
                continue
            protected.words = protected.words.join(said)
            protected.origins = tuple(dict.fromkeys((*protected.origins, *sources)))[:8]
        return handled

    def _record(
        self,
        statement: Statement,
        tool: str,
        calls: list[CallView],
        values: tuple[tuple[str, Labelled], ...],
        pc: Label,
    ) -> Record:
        site = self._site(statement)
        known = self.records.get(site)
        record = Record(
            site,
            statement,
            tool,
            self.judge.prepared(tool),
            calls,
            values,
            pc,
            self._why(statement),
            len(self.records) if known is None else known.order,
            self._in_loop(statement) or bool(self._retries),
            self._beside,
        )
        self.records[site] = record
        return record

    def _calls(
        self,
        statement: Statement,
        tool: str,
        named: Sequence[tuple[str, Expression]],
        evaluator: ExpressionLabels,
        pc: Label,
        retries: int = 0,
    ) -> tuple[list[CallView], tuple[tuple[str, Labelled], ...]]:
        """The calls that a statement may make, and what is known of its arguments."""
        ways = evaluator.arguments(named)
        repeats = self._again > 0
        pc = pc if self._planner is LITERAL else self._planner.join(pc)
        count = max(retries, self._retries)
        calls: list[CallView] = [
            bare(CallView, (statement.id, tool, arguments, pc, count, False, False, repeats, ()))
            for arguments, _ in ways
        ]
        if len(ways) == 1:
            return calls, tuple([(name, value) for (name, _), value in zip(named, ways[0][1], strict=True)])
        known: list[tuple[str, Labelled]] = []
        for number, (name, _) in enumerate(named):
            values = [values[number] for _, values in ways]
            joined = values[0]
            for value in values[1:]:
                joined = self._joined(joined, value)
            known.append((name, joined))
        return calls, tuple(known)

    def _read(self, places: Sequence[str], *, is_note: bool = False) -> Labelled:
        """What is known of what the plan has stored in these places, as one value."""
        if not places:
            return UNSET
        known = [value for place in places if (value := self._places.get(place)) is not None]
        label = join(value.label for value in known)
        if is_note:
            named = (place for place in places if place.startswith("note:") and place != "note:?")
            if any(self._places.get(place) is None for place in named):
                label = label.join(self.judge.policy.memory)
        said = said_by(known)
        return Labelled(label, join(value.presence for value in known), (), origins_of(known), said)
