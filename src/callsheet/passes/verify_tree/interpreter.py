"""Walks a tree with labels in place of values: what every variable, counter and call can have in any run.

In: a tree, a policy, the labels of the run's inputs. Out: a record of each call at each place where its
sub-plan is called. Blocks are walked in the order of the text, loops until nothing rises any more. Labels
only rise, so the last visit of a statement is the one that counts.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias, assert_never

from callsheet.ir.expression import Call as Function
from callsheet.ir.expression import Comprehension, Display, Expression, Method
from callsheet.ir.labels import LITERAL, Label, join
from callsheet.ir.plan import filled_parameters
from callsheet.ir.tree import (
    Act,
    Assign,
    Block,
    Compute,
    Foreach,
    GoOn,
    Handler,
    If,
    Input,
    Invoke,
    Leave,
    Let,
    Parallel,
    Recovery,
    Repeat,
    Require,
    Say,
    Skip,
    Statement,
    Tree,
    Try,
    Use,
    Word,
)
from callsheet.ir.tree_flow import TreeFlow, flow_of_block, names_made
from callsheet.passes.verify.persisted_labels import NOTHING_LEFT, PersistedLabels
from callsheet.passes.verify_tree.calls import CallLabels, Record, only_file, replaced_file
from callsheet.passes.verify_tree.programs import ProgramFlow, program_flow
from callsheet.passes.verify_tree.state import Counters, Layers, Origins, Site
from callsheet.policy.calls import CallView
from callsheet.policy.expression_labels import (
    NOTHING as UNSET,
)
from callsheet.policy.expression_labels import (
    ExpressionLabels,
    Labelled,
    Says,
    is_shown,
    origins_of,
    raised,
)
from callsheet.policy.judge import Judge
from callsheet.policy.model import Implicit

_MOST_ROUNDS = 8
"""After this many rounds of a loop all that it carries is joined, so that long chains end at once."""
_WIDENED = 3
"""How many ways of composing a value are told apart that changes from round to round."""


@dataclass(slots=True)
class _Frame:
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


@dataclass(slots=True)
class _Protected:
    """A block whose failures something handles: what was set on the way, and what the failure says."""

    set_: dict[str, Labelled] = field(default_factory=dict[str, Labelled])
    places: dict[str, Labelled] = field(default_factory=dict[str, Labelled])
    words: Label = LITERAL
    origins: tuple[int, ...] = ()


class _Called(NamedTuple):
    """A call as something that may fail: the labels of its result, and of whether it gives one.

    `reveals` says that it computes with private data, `is_program` that the plan writes what it does with it.
    """

    result: Label
    present: Label
    reveals: bool = True
    is_program: bool = False


@dataclass(slots=True)
class _Loop:
    """A loop that is walked: what its items yield, and what decides which of them there are."""

    yields: list[Labelled] = field(default_factory=list[Labelled])
    ends: Label = LITERAL
    path: tuple[str, ...] = ()


_Ways: TypeAlias = "list[tuple[dict[str, Labelled], dict[str, Labelled]]]"
"""What each way through sets: variables, and places."""


class Interpreter:
    """The walk; `records` are the result."""

    def __init__(
        self,
        tree: Tree,
        judge: Judge,
        inputs: Mapping[str, Label],
        parameters: Callable[[str], tuple[str, ...]],
        left: PersistedLabels = NOTHING_LEFT,
        *,
        every_bit: bool = False,
    ) -> None:
        self.tree = tree
        self.judge = judge
        self.labels = CallLabels(judge, left)
        self.records: dict[Site, Record] = {}
        self.origins = Origins()
        self.bits: set[Site] = set()
        """The statements that let a single bit of private data through."""
        self.unset: dict[Site, str] = {}
        """Statements that read a variable which nothing has set, with its name."""
        self._given = inputs
        self._parameters = parameters
        self._planner = judge.policy.planner
        self._strict = every_bit or judge.policy.implicit is Implicit.STRICT
        self._plans = {plan.name: plan for plan in tree.plans}
        self._flows: dict[str, TreeFlow] = {}
        self._frames: dict[tuple[str, ...], _Frame] = {}
        self._carried: dict[Site, tuple[dict[str, Labelled], dict[str, Labelled]]] = {}
        self._made: dict[int, frozenset[str]] = {}
        self._places = Layers()
        self._written: frozenset[str] = frozenset()
        self._clock = LITERAL
        self._protected: list[_Protected] = []
        self._loops: list[_Loop] = []
        self._retries: int = 0
        self._again: int = 0
        self._beside: str | None = None
        self._frame = self._main()

    def run(self) -> None:
        """Walk the plan."""
        self._block(self.tree.body)

    # ------------------------------------------------------------ frames and values

    def _main(self) -> _Frame:
        flow = flow_of_block(self.tree.body)
        frame = _Frame((), flow, Counters(flow))
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
        return frame.base.join(frame.counters.labels[frame.flow.of[statement.id].number])

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
        origin = self.origins.add(
            self._site(statement), f"{statement.id} ${name}", value.label, value.origins
        )
        value = value._replace(origins=(origin, *self._why(statement)[:2]))
        self._frame.variables.put(name, value, pc)
        value = raised(value, pc)
        for protected in self._protected:
            before = protected.set_.get(name)
            protected.set_[name] = value if before is None else self._joined(before, value)

    def _joined(self, one: Labelled, other: Labelled) -> Labelled:
        return self._evaluate.joined(one, other)

    def _widened(self, one: Labelled, other: Labelled) -> Labelled:
        return self._evaluate.joined(one, other, most=_WIDENED)

    @property
    def _evaluate(self) -> ExpressionLabels:
        return ExpressionLabels(self.judge, lambda _: UNSET)

    def _store(self, place: str, value: Labelled, *, sure: bool) -> None:
        before = self._places.get(place)
        if not sure and before is not None:
            value = self._joined(before, value)
        self._places.put(place, value)
        for protected in self._protected:
            known = protected.places.get(place)
            protected.places[place] = value if known is None else self._joined(known, value)

    # ------------------------------------------------------------ decisions and failures

    def _decide(
        self, statement: Statement, label: Label, sources: tuple[int, ...], *, pc: bool = False
    ) -> None:
        """A statement decides by data of this label what is executed; with `pc` it is an early end."""
        if pc:
            label = label.join(self._pc(statement))
        if label is LITERAL:
            return
        self._clock = self._clock.join(label)
        frame = self._frame
        number = self.origins.add(self._site(statement), statement.id, label, sources)
        frame.counters.note(frame.flow.of[statement.id].decides, label, number)

    def _may_fail(
        self,
        statement: Statement,
        evaluator: ExpressionLabels,
        sources: tuple[int, ...],
        called: _Called | None = None,
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
        full = self._counts(statement)
        handled = tested.join(pc)
        if called is not None:
            handled = handled.join(called.result if full else called.present)
            may_tell = called.reveals and (governed.is_caught or called.is_program)
            told = handled if governed.is_caught else pc
            if may_tell and not full and not is_shown(called.result, told):
                self.bits.add(self._site(statement))
        if evaluator.can_fail:
            handled = handled.join(evaluator.reads if called is None or full else evaluator.content)
        said = words.join(evaluator.reads).join(handled)
        number = -1
        if handled is not LITERAL:
            number = self.origins.add(self._site(statement), statement.id, handled, sources)
        in_loop = self._in_loop(statement)
        for region in governed.stops:
            label = tested
            if governed.is_caught or self._strict:
                label = handled
            elif in_loop and not region.is_behind_loop:  # nobody chooses anything by stopping a run
                label = Label(tested.untrusted, handled.readers)
            frame.counters.note((region,), label, number)
        if governed.escapes:
            frame.can_fail = True
            frame.content = frame.content.join(tested)
            frame.caught = frame.caught.join(handled)
            frame.words = frame.words.join(said)
        if governed.ends_item:
            for loop in self._loops:
                loop.ends = loop.ends.join(handled)
        for protected in self._protected:
            protected.words = protected.words.join(said)
            protected.origins = tuple(dict.fromkeys((*protected.origins, *sources)))[:8]
        return handled

    # ------------------------------------------------------------ statements

    def _block(self, block: Block) -> None:
        for statement in block:
            self._statement(statement)

    def _statement(self, statement: Statement) -> None:
        match statement:
            case Act():
                self._act(statement)
            case Invoke():
                self._invoke(statement)
            case Compute():
                self._compute(statement)
            case Let(name=name, value=value) | Assign(name=name, value=value):
                evaluator = self._evaluator(statement)
                known = evaluator.value(value)
                self._may_fail(statement, evaluator, known.origins)
                self._set(statement, name, known)
            case Require():
                self._require(statement)
            case Say():
                self._say(statement)
            case If():
                self._if(statement)
            case Foreach():
                self._foreach(statement)
            case Repeat():
                self._repeat(statement)
            case Try(body=body):
                self._recovering(statement, statement.recovery, lambda: self._block(body))
            case Parallel():
                self._parallel(statement)
            case _:
                assert_never(statement)

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
        pc = self._planner.join(pc)
        count = max(retries, self._retries)
        calls = [CallView(statement.id, tool, arguments, pc, count, repeats=repeats) for arguments, _ in ways]
        known: list[tuple[str, Labelled]] = []
        for number, (name, _) in enumerate(named):
            values = [values[number] for _, values in ways]
            joined = values[0]
            for value in values[1:]:
                joined = self._joined(joined, value)
            known.append((name, joined))
        return calls, tuple(known)

    def _named(self, act: Act) -> list[tuple[str, Expression]]:
        """The arguments of a call; positional ones are named after their parameter, or their place."""
        if not act.positional:
            return list(act.named)
        names = tuple(name for name, _ in act.named)
        filled = filled_parameters(self._parameters(act.tool), names, len(act.positional))
        places = (*filled, *map(str, range(len(filled), len(act.positional))))
        return [*zip(places, act.positional, strict=True), *act.named]

    def _act(self, act: Act) -> None:
        pc = self._pc(act)
        evaluator = self._evaluator(act)
        recovery = act.recovery
        retries = 0 if recovery is None or recovery.again is None else recovery.again.count
        calls, known = self._calls(act, act.tool, self._named(act), evaluator, pc, retries)
        calls = [
            call.behind(call.pc.join(self._guard_of(act, evaluator)), repeats=call.repeats) for call in calls
        ]
        values = [value for _, value in known]
        prepared = self.judge.prepared(act.tool)
        access = self.labels.access(act.tool, calls)
        read = self._read(access.reads, is_note=prepared.tool == "GET_WM")
        own = only_file(access)
        is_own = own is not None and own in self._written
        calls = self.labels.with_sent(calls, access, read.label, own=is_own)
        record = self._record(act, act.tool, calls, known, pc)
        record.access = access
        result = self.labels.result(act, prepared, calls, read.label, (*values, read))
        left = LITERAL if is_own else self.labels.left_for(prepared, calls, access)
        if not left.flows_to(result):
            record.reads_left = True
            result = self.labels.declassified(act, result.join(left))
        record.result = result
        present = self.labels.present(act, prepared, (*values, read), pc, result)
        sources = origins_of((*values, read))
        said = read.says
        if prepared.traits is None or not prepared.traits.no_echo:
            for value in values:
                said |= value.says
        self._clock = self._clock.join(result)
        if access.writes:
            stored = self.labels.stored(prepared, calls, access, read.label, result, pc)
            origin = self.origins.add(self._site(act), f"{act.id} the file", stored, sources)
            kept = Labelled(stored, present, (), (origin,), said | read.says)
            for place in access.writes:
                sure = place in access.overwrites and not self._in_loop(act)
                self._store(place, kept, sure=sure)
            self._written |= frozenset(replaced_file(act.tool, access))
        value = Labelled(result, present, (), sources, said)
        if prepared.tool == "FORMAT" and len(known) == 1:  # a spelling of an expression
            value = known[0][1]
        given = join(value.label for value in values)
        called = _Called(result, present, reveals=not given.is_public, is_program=prepared.is_program)
        self._done(act, act.into.name if act.into else None, value, evaluator, called)

    def _guard_of(self, act: Act, evaluator: ExpressionLabels) -> Label:
        """The label of what decides whether the arguments of a call can be evaluated, as they must be.

        That data has the form which the plan expects is no choice of whoever wrote it.
        """
        label = evaluator.content
        if evaluator.can_fail and self._counts(act):
            label = label.join(Label(False, evaluator.reads.readers))
        return label

    def _read(self, places: Iterable[str], *, is_note: bool = False) -> Labelled:
        """What is known of what the plan has stored in these places, as one value."""
        known = [value for place in places if (value := self._places.get(place)) is not None]
        label = join(value.label for value in known)
        if is_note:
            named = (place for place in places if place.startswith("note:") and place != "note:?")
            if any(self._places.get(place) is None for place in named):
                label = label.join(self.judge.policy.memory)
        said = Says.NOTHING
        for value in known:
            said |= value.says
        return Labelled(label, join(value.presence for value in known), (), origins_of(known), said)

    def _done(
        self,
        statement: Act | Invoke | Compute | Foreach,
        name: str | None,
        value: Labelled,
        evaluator: ExpressionLabels,
        called: _Called | None,
        content: Label = LITERAL,
    ) -> None:
        """A statement has its result, or fails and says what is done then."""
        words = value.label
        recovery = statement.recovery
        protected = _Protected()
        handled = self._may_fail(statement, evaluator, value.origins, called, words, content)
        record = self.records.get(self._site(statement))
        if record is not None and self._frame.flow.of[statement.id].escapes:
            record.failure = words.join(handled)
        protected.words, protected.origins = words.join(handled).join(evaluator.reads), value.origins
        if recovery is None:
            if name is not None:
                self._set(statement, name, value)
            return
        match recovery.remedy:
            case GoOn():
                value = raised(value, handled)._replace(label=value.label.join(protected.words))
            case Use(value=other):
                given = self._evaluator(statement).value(other)
                value = self._joined(value, raised(given, handled))
                value = value._replace(presence=value.presence.join(handled))
            case Leave(values=values):
                self._leave(statement, values, self._pc(statement).join(handled))
            case Skip() | None:
                pass
            case _:
                assert_never(recovery.remedy)
        self._handlers(statement, recovery, protected, lambda: self._set_result(statement, name, value))

    def _set_result(self, statement: Statement, name: str | None, value: Labelled) -> None:
        if name is not None:
            self._set(statement, name, value)

    def _leave(self, statement: Statement, values: Sequence[Expression], pc: Label) -> None:
        """`ON_FAIL TERMINATE (…)`: a message, and the end."""
        evaluator = self._evaluator(statement)
        named = [(str(number), value) for number, value in enumerate(values)]
        calls, known = self._calls(statement, "TERMINATE", named, evaluator, pc)
        site = (self._frame.path, f"{statement.id} ON_FAIL")
        record = Record(
            site, statement, "TERMINATE", self.judge.prepared("TERMINATE"), calls, known, pc,
            self._why(statement), len(self.records), self._in_loop(statement),
        )  # fmt: skip
        if values:
            self.records[site] = record

    def _handlers(
        self, statement: Statement, recovery: Recovery, protected: _Protected, succeed: Callable[[], None]
    ) -> None:
        """Walk what happens after success and in each handler, then the FINALLY block."""
        variables, places = self._frame.variables, self._places
        written = self._written
        after: _Ways = []
        outcomes: list[frozenset[str]] = []
        with self._branch(after, self._pc(statement)):
            succeed()
        outcomes.append(self._written)
        failing = self._before(protected)
        if recovery.final is not None:  # it sees what a handler has set before it failed, too
            self._protected.append(protected)
        for handler in recovery.handlers:
            self._written = written
            with self._branch(after, self._pc(statement), failing):
                self._handler(statement, handler, protected)
            outcomes.append(self._written)
        if recovery.final is not None:
            self._protected.pop()
            failing = self._before(protected)
        self._written = _in_all(outcomes)
        variables.merge((one for one, _ in after), self._joined, self._pc(statement))
        places.merge((one for _, one in after), self._joined)
        if recovery.final is not None:
            variables.push({name: self._either(variables.get(name), v) for name, v in failing[0].items()})
            places.push({name: self._either(places.get(name), v) for name, v in failing[1].items()})
            final: _Ways = []
            with self._branch(final, self._pc(statement)):
                self._block(recovery.final)
            variables.pop()
            places.pop()
            variables.merge((one for one, _ in final), self._joined, self._pc(statement))
            places.merge((one for _, one in final), self._joined)

    def _either(self, one: Labelled | None, other: Labelled) -> Labelled:
        return other if one is None else self._joined(one, other)

    def _before(self, protected: _Protected) -> tuple[dict[str, Labelled], dict[str, Labelled]]:
        """What may have been set when a failure came: the values before, or those on the way."""
        variables, places = self._frame.variables, self._places
        return (
            {name: self._either(variables.get(name), value) for name, value in protected.set_.items()},
            {name: self._either(places.get(name), value) for name, value in protected.places.items()},
        )

    def _handler(self, statement: Statement, handler: Handler, protected: _Protected) -> None:
        if handler.body:
            label = protected.words.join(self._pc(handler.body[0]))
            origin = self.origins.add(
                self._site(statement), f"{statement.id} $error", label, protected.origins
            )
            self._frame.variables.put(handler.binds, Labelled(label, label, (), (origin,)))
            self._block(handler.body)

    @contextmanager
    def _branch(
        self,
        collected: _Ways,
        around: Label,
        known: tuple[Mapping[str, Labelled], Mapping[str, Labelled]] = ({}, {}),
    ) -> Generator[None]:
        """One way through: what it sets is collected, not kept."""
        self._frame.variables.push(known[0])
        self._places.push(known[1])
        yield
        collected.append((self._frame.variables.pop(around), self._places.pop()))

    def _recovering(self, statement: Statement, recovery: Recovery | None, walk: Callable[[], None]) -> None:
        """Walk a block whose failures the statement handles, then what it does about them."""
        if recovery is None:
            walk()
            return
        protected = _Protected()
        if recovery.again is not None:
            retries, count = self._retries, recovery.again.count
            self._retries = max(retries, count)
            self._again += 1
            self._protected.append(protected)
            self._rounds(statement, walk, lambda _: True)
            self._protected.pop()
            self._again -= 1
            self._retries = retries
            self._handlers(statement, recovery, protected, lambda: None)
            return

        def succeed() -> None:
            self._protected.append(protected)
            walk()
            self._protected.pop()

        if isinstance(recovery.remedy, Leave):
            succeed()
            self._leave(statement, recovery.remedy.values, self._pc(statement).join(protected.words))
            succeed = _nothing
        elif isinstance(recovery.remedy, GoOn | Use | Skip):
            before: _Ways = []
            with self._branch(before, self._pc(statement)):
                succeed()
            ways = [before[0], self._before(protected)]
            self._frame.variables.merge((one for one, _ in ways), self._joined, self._pc(statement))
            self._places.merge((one for _, one in ways), self._joined)
            succeed = _nothing
        self._handlers(statement, recovery, protected, succeed)

    # ------------------------------------------------------------ sub-plans and programs

    def _invoke(self, call: Invoke) -> None:
        evaluator = self._evaluator(call)
        given = {name: evaluator.value(value) for name, value in call.named}
        pc = self._pc(call)
        plan = self._plans.get(call.plan)
        if plan is None:
            self._done(call, call.into.name if call.into else None, UNSET, evaluator, None)
            return
        flow = self._flows.get(plan.name)
        if flow is None:
            flow = self._flows[plan.name] = flow_of_block(plan.body)
        path = (*self._frame.path, call.id)
        frame = self._frames.get(path)
        if frame is None:
            frame = self._frames[path] = _Frame(path, flow, Counters(flow))
        frame.base = frame.base.join(pc)
        frame.why = self._why(call)
        frame.in_loop = frame.in_loop or self._in_loop(call)
        outer, protected, loops = self._frame, self._protected, self._loops
        for one in plan.inputs:
            frame.variables.put(one.name, self._input(call, one, given))
        again = 0
        if call.recovery is not None and call.recovery.again is not None:
            again = call.recovery.again.count
        retries = self._retries
        self._frame, self._protected, self._loops = frame, [], []
        self._retries = max(retries, again)
        self._again += again > 0
        while True:
            version = frame.counters.version
            self._block(plan.body)
            if frame.counters.version == version or not again:
                break
        self._again -= again > 0
        self._frame, self._protected, self._loops, self._retries = outer, protected, loops, retries
        result = frame.returned or UNSET
        failed = _Called(frame.caught.join(frame.words), frame.caught)
        self._done(
            call,
            call.into.name if call.into else None,
            result,
            evaluator,
            failed if frame.can_fail else None,
            frame.content,
        )

    def _input(self, call: Invoke, declared: Input, given: Mapping[str, Labelled]) -> Labelled:
        known = given.get(declared.name)
        if known is None:
            return Labelled(self._planner)
        value = known
        site = ((*self._frame.path, call.id), "")
        origin = self.origins.add(site, f"{call.id} ${declared.name}", value.label, value.origins)
        return value._replace(origins=(origin,))

    def _compute(self, program: Compute) -> None:
        evaluator = self._evaluator(program)
        variables = self._frame.variables
        values: list[Labelled] = []
        for name in program.names:
            known = variables.get(name)
            if known is None:
                self.unset[self._site(program)] = name
            values.append(evaluator.forgotten(known or UNSET))
        given = dict(zip(program.names, values, strict=True))
        flow = program_flow(program.source)
        every = join(value.label for value in values)
        may_link = not every.is_public and evaluator.text_may_link(program.source, every)
        evaluator.reads = every
        evaluator.can_fail = True
        evaluator.fails_by_content = flow.tests_content
        content = join(given[name].label for name in program.names if name in flow.tested)
        results = {name: self._output(flow, name, given, may_link=may_link) for name in program.into}
        recovery = program.recovery
        if recovery is not None and isinstance(recovery.remedy, GoOn | Use):
            results = {name: value._replace(label=value.label.join(every)) for name, value in results.items()}
        for name in program.into[1:]:
            self._set(program, name, results[name])
        first = program.into[0] if program.into else None
        whole = UNSET if first is None else results[first]
        self._done(program, first, whole, evaluator, None, content)

    def _output(
        self, flow: ProgramFlow, name: str, given: Mapping[str, Labelled], *, may_link: bool
    ) -> Labelled:
        """What is known of a variable that a program sets: it is made of the inputs that lead to it."""
        values = [value for one, value in given.items() if one in flow.inputs_of(name, given)]
        label = self._planner.join(join(value.label for value in values))
        if may_link:
            label = self.judge.unshown(label)
        said = Says.NOTHING
        for value in values:
            said |= value.says
        return Labelled(label, label, (), origins_of(values), said)

    # ------------------------------------------------------------ simple statements

    def _require(self, statement: Require) -> None:
        evaluator = self._evaluator(statement)
        decision = evaluator.decision(statement.condition, counts_bits=self._counts(statement))
        if decision.reveals_bit:
            self.bits.add(self._site(statement))
        evaluator.fails_by_content = evaluator.can_fail = True
        self._may_fail(statement, evaluator, decision.origins, content=decision.label)
        if statement.message is not None:
            self._message(statement, (statement.message,), decision.label)

    def _message(self, statement: Statement, values: Sequence[Expression], decided: Label) -> None:
        """A text of the plan that people may read beside the run's results."""
        evaluator = self._evaluator(statement)
        pc = self._pc(statement).join(decided)
        named = [(str(number), value) for number, value in enumerate(values)]
        calls, known = self._calls(statement, "TERMINATE", named, evaluator, pc)
        self._record(statement, "NOTE", calls, known, pc)
        for protected in self._protected:
            protected.words = protected.words.join(evaluator.reads)
        self._frame.words = self._frame.words.join(evaluator.reads)

    def _say(self, statement: Say) -> None:
        evaluator = self._evaluator(statement)
        pc = self._pc(statement)
        named = [(str(number), value) for number, value in enumerate(statement.values)]
        is_answer = statement.word is Word.RESPOND or (statement.word is Word.RETURN and not self._frame.path)
        match statement.word:
            case Word.RESPOND | Word.TERMINATE | Word.REPLAN | Word.RETURN if is_answer or (
                statement.word is not Word.RETURN
            ):
                tool = "RESPOND" if is_answer else str(statement.word)
                calls, known = self._calls(statement, tool, named, evaluator, pc)
                record = self._record(statement, tool, calls, known, pc)
                record.shown = join(value.presence for _, value in known)
                self._may_fail(statement, evaluator, origins_of(value for _, value in known))
                self._decide(statement, LITERAL, (), pc=True)
            case Word.RETURN:
                value = evaluator.value(statement.values[0]) if statement.values else UNSET
                self._may_fail(statement, evaluator, value.origins)
                frame = self._frame
                value = value if pc.flows_to(frame.base) else raised(value, pc)
                frame.returned = value if frame.returned is None else self._joined(frame.returned, value)
                self._decide(statement, LITERAL, value.origins, pc=True)
            case Word.YIELD:
                value = evaluator.value(statement.values[0]) if statement.values else UNSET
                self._may_fail(statement, evaluator, value.origins)
                if self._loops:
                    self._loops[-1].yields.append(raised(value, pc))
            case Word.NOTE:
                self._message(statement, statement.values, LITERAL)
                self._may_fail(statement, evaluator, ())
            case Word.FAIL:
                self._message(statement, statement.values, LITERAL)
                evaluator.fails_by_content = evaluator.can_fail = True
                self._may_fail(statement, evaluator, (), content=pc)
            case Word.BREAK | Word.CONTINUE:
                if self._loops:
                    self._loops[-1].ends = self._loops[-1].ends.join(pc)
                self._decide(statement, LITERAL, (), pc=True)
            case Word.WAIT:
                for value in statement.values:
                    self._clock = self._clock.join(evaluator.value(value).label)
                self._may_fail(statement, evaluator, ())
            case _:
                raise AssertionError(statement.word)

    def _if(self, statement: If) -> None:
        evaluator = self._evaluator(statement)
        label, origins, reveals = LITERAL, (), False
        for branch in statement.branches:
            decision = evaluator.decision(branch.condition, counts_bits=self._counts(statement))
            label, origins = label.join(decision.label), (*origins, *decision.origins)
            reveals = reveals or decision.reveals_bit
        if reveals:
            self.bits.add(self._site(statement))
        self._may_fail(statement, evaluator, origins)
        self._decide(statement, label.join(self._pc(statement)), origins)
        after: _Ways = []
        written = self._written
        outcomes: list[frozenset[str]] = []
        for body in (*(branch.body for branch in statement.branches), statement.otherwise or ()):
            self._written = written
            with self._branch(after, self._pc(statement)):
                self._block(body)
            outcomes.append(self._written)
        self._written = _in_all(outcomes)
        self._frame.variables.merge((one for one, _ in after), self._joined, self._pc(statement))
        self._places.merge((one for _, one in after), self._joined)

    def _parallel(self, statement: Parallel) -> None:
        """The members start together: each sees what was set before, and any file that another one writes."""

        def walk() -> None:
            beside, self._beside = self._beside, statement.id
            stored: dict[str, Labelled] = {}
            after: _Ways = []
            for _ in range(2):
                after = []
                for member in statement.members:
                    known = {name: self._either(self._places.get(name), v) for name, v in stored.items()}
                    with self._branch(after, self._pc(statement), ({}, known)):
                        self._statement(member)
                for _, places in after:
                    for name, value in places.items():
                        stored[name] = self._either(stored.get(name), value)
            self._beside = beside
            makers: dict[str, list[Labelled]] = {}
            for one, _ in after:
                for name, value in one.items():
                    makers.setdefault(name, []).append(value)
            for name, values in makers.items():
                made = values[0]
                for value in values[1:]:
                    made = self._joined(made, value)
                self._frame.variables.put(name, made, self._pc(statement))
            for name, value in stored.items():
                self._places.put(name, self._either(self._places.get(name), value))

        self._recovering(statement, statement.recovery, walk)

    # ------------------------------------------------------------ loops

    def _rounds(self, statement: Statement, walk: Callable[[], None], keeps: Callable[[str], bool]) -> None:
        """Walk a body until nothing rises, and keep what it may have set of the names that are kept."""
        frame, variables, places = self._frame, self._frame.variables, self._places
        kept, stored = self._carried.setdefault(self._site(statement), ({}, {}))
        for count in itertools.count():
            version = frame.counters.version
            after: _Ways = []
            known = (
                {name: self._either(variables.get(name), value) for name, value in kept.items()},
                {name: self._either(places.get(name), value) for name, value in stored.items()},
            )
            written = self._written
            with self._branch(after, self._pc(statement), known):
                walk()
            self._written = written
            changed = [
                self._carry(kept, {n: v for n, v in after[0][0].items() if keeps(n)}),
                self._carry(stored, after[0][1]),
            ]
            if not any(changed) and frame.counters.version == version:
                break
            if count >= _MOST_ROUNDS:
                _flood(kept, self._evaluate)
        for name, value in kept.items():
            before = variables.get(name)
            variables.put(
                name, value if before is None else self._widened(before, value), self._pc(statement)
            )
        for name, value in stored.items():
            places.put(name, self._either(places.get(name), value))

    def _carry(self, kept: dict[str, Labelled], changed: Mapping[str, Labelled]) -> bool:
        """Join what a round set into what rounds carry; whether anything rose."""
        rose = False
        for name, value in changed.items():
            before = kept.get(name)
            joined = value if before is None else self._widened(before, value)
            if before is None or before._replace(origins=()) != joined._replace(origins=()):
                rose = True
            kept[name] = joined
        return rose

    def _foreach(self, loop: Foreach) -> None:
        evaluator = self._evaluator(loop)
        source = evaluator.value(loop.source)
        label = source.label
        if loop.limit is not None:
            label = label.join(evaluator.value(loop.limit).label)
        item = evaluator.items_of(source)
        label = label.join(item.label)
        evaluator.can_fail = True  # what is no list fails
        if not isinstance(loop.source, Method | Function | Comprehension | Display):
            evaluator.content = evaluator.content.join(source.presence)
        self._may_fail(loop, evaluator, source.origins)
        self._decide(loop, label.join(self._pc(loop)), source.origins)
        made = self._made.get(id(loop))
        if made is None:
            made = self._made[id(loop)] = names_made(loop.body) | {loop.var}
        walked = _Loop()
        pc = self._pc(loop)

        def body() -> None:
            walked.yields.clear()
            origin = self.origins.add(self._site(loop), f"{loop.id} ${loop.var}", item.label, item.origins)
            self._frame.variables.put(loop.var, item._replace(origins=(origin,)))
            self._loops.append(walked)
            self._block(loop.body)
            self._loops.pop()

        outer = made
        self._recovering(loop, loop.recovery, lambda: self._rounds(loop, body, lambda n: n not in outer))
        first = self._pc(loop.body[0]) if loop.body else pc
        listed = label.join(walked.ends).join(first)
        for value in walked.yields:
            listed = listed.join(evaluator.forgotten(value).label)
        said = Says.NOTHING
        for value in walked.yields:
            said |= value.says
        result = Labelled(
            listed, label.join(walked.ends).join(first), (), origins_of((source, *walked.yields)), said
        )
        if loop.into is not None:
            recovery = loop.recovery
            if recovery is not None and isinstance(recovery.remedy, Use):
                given = self._evaluator(loop).value(recovery.remedy.value)
                result = self._joined(result, raised(given, walked.ends))
            self._set(loop, loop.into.name, result)

    def _repeat(self, loop: Repeat) -> None:
        evaluator = self._evaluator(loop)
        for one in (loop.most, loop.every):
            if one is not None:
                self._clock = self._clock.join(evaluator.value(one).label)
        self._may_fail(loop, evaluator, ())
        self._decide(loop, evaluator.reads.join(self._pc(loop)), ())
        walked = _Loop()

        def decide(condition: Expression | None) -> None:
            if condition is None:
                return
            tests = self._evaluator(loop)
            decision = tests.decision(condition, counts_bits=True)
            self._decide(loop, decision.label.join(tests.content), decision.origins)
            tests.fails_by_content = tests.can_fail = True
            self._may_fail(loop, tests, decision.origins, content=decision.label)

        def body() -> None:
            decide(loop.while_)
            self._loops.append(walked)
            self._again += 1
            self._block(loop.body)
            self._again -= 1
            self._loops.pop()
            decide(loop.until)

        self._recovering(loop, loop.recovery, lambda: self._rounds(loop, body, lambda _: True))


def _in_all(sets: Sequence[frozenset[str]]) -> frozenset[str]:
    return sets[0].intersection(*sets[1:])


def _flood(kept: dict[str, Labelled], evaluator: ExpressionLabels) -> None:
    """Join everything that a loop carries into each of its variables."""
    label = join(evaluator.forgotten(value).label for value in kept.values())
    presence = join(value.presence for value in kept.values())
    for name, value in kept.items():
        kept[name] = Labelled(label, presence, (), value.origins, value.says)


def _nothing() -> None:
    """Nothing is left to walk."""
