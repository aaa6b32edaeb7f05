"""The labels of a run of a plan tree: of the variables of an activation, and what they are read from.

A variable is behind the decisions that governed the place where it was set, or might have been set; whoever
reads it outside of what they govern learns of them.

It knows how a statement reads a variable, what is noted when something decides, and what is told by whether
a statement failed.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, cast

from callsheet.ir import JSON
from callsheet.ir.expression import Expression, asks_time, nodes, variables_in
from callsheet.ir.labels import LITERAL, Label
from callsheet.ir.scopes import assigned_outside
from callsheet.ir.tree import (
    Act,
    Assign,
    Block,
    Foreach,
    Invoke,
    Let,
    Require,
    Say,
    Statement,
    Tree,
    Word,
    all_statements,
    statements,
    variables_read,
    variables_set,
)
from callsheet.ir.tree_flow import (
    ByName,
    Governed,
    Region,
    TreeFlow,
    failing_by_name,
    flow_of_block,
)
from callsheet.ir.types import Basic, Type
from callsheet.machine.monitor.enforcement import Enforcement, Judging
from callsheet.machine.monitor.reads import argument_of
from callsheet.machine.monitor.variable_labels import Origins, VariableLabels
from callsheet.policy.calls import Argument, Hole
from callsheet.policy.expression_labels import ExpressionLabels
from callsheet.policy.field_labels import FieldLabels
from callsheet.policy.judge import Judge, judge_of
from callsheet.policy.labelled import NOTHING, Labelled, is_failure, one_shape, raised
from callsheet.policy.limits import CallHistory
from callsheet.policy.model import Implicit
from callsheet.policy.rules.base import pairs


def stored(value: Labelled, evaluator: ExpressionLabels, judge: Judge) -> Labelled:
    """What is known of a value that is stored: as one piece of data, with the labels of its parts."""
    whole, shape = evaluator.forgotten(value), one_shape(value)
    if shape is None or not shape.items:
        return whole
    parts = _parts(shape, judge)
    return whole._replace(shapes=(parts._replace(label=whole.label),), fields=None) if parts.items else whole


def _parts(shape: Argument, judge: Judge) -> Argument:
    label = judge.of_items(shape)
    values = pairs(shape)
    if values is None:
        items = tuple(_parts(item, judge) for item in shape.items)
    elif all(isinstance(part, str) for key in shape.items[::2] for part in key.parts):
        each = (_parts(value, judge) for value in values)
        items = tuple(one for pair in zip(shape.items[::2], each, strict=True) for one in pair)
    else:  # keys that are data
        items = ()
    if all(not item.items and item.label == label for item in (items if values is None else items[1::2])):
        return Argument(shape.name, (Hole("", label),), label)
    return Argument(shape.name, (), label, items)


def read(shape: Argument, value: JSON, variable: str) -> Argument | None:
    """The present value of a variable with the labels that are stored of its parts; None if it has others."""
    if not shape.items:
        return argument_of(shape.name, value, shape.label, variable)
    values = pairs(shape)
    parts: list[Argument | None]
    if values is None:
        if not isinstance(value, list) or len(value) != len(shape.items):
            return None
        parts = [read(item, one, variable) for item, one in zip(shape.items, value, strict=True)]
    else:
        if not isinstance(value, dict) or [one.name for one in values] != [*cast("dict[str, Any]", value)]:
            return None
        members = cast("dict[str, JSON]", value).values()
        pairs_ = zip(shape.items[::2], values, members, strict=True)
        parts = [part for key, item, one in pairs_ for part in (key, read(item, one, variable))]
    if None in parts:
        return None
    return Argument(shape.name, (), shape.label, tuple(part for part in parts if part is not None))


class Noted(NamedTuple):
    """A decision by data of this label, and what it governs; `by` are the steps with its untrusted data."""

    region: Region
    label: Label
    by: Origins = ()


@dataclass(slots=True)
class Known:
    """What is known of a variable: `noted` are the decisions behind which it was set, or might have been."""

    value: Labelled
    noted: tuple[Noted, ...] = ()
    has_known_links: bool = False
    """Whether it is the result of a tool whose addresses are known to those who wrote them."""


@dataclass(slots=True)
class Body:
    """What the statements of a main plan or sub-plan govern, and where they set variables."""

    flow: TreeFlow
    numbers: list[int]
    names: list[str]

    @classmethod
    def of(cls, block: Block, by_name: ByName) -> Body:
        """The table of a body; `by_name` are the sub-plans that fail by name."""
        flow = flow_of_block(block, by_name)
        places = [(flow.of[one.id].number, name) for one in statements(block) for name in _made_by(one)]
        places.sort()
        return cls(flow, [number for number, _ in places], [name for _, name in places])

    def set_in(self, region: Region) -> Iterable[str]:
        """The variables that the statements of a region may set."""
        first, last = bisect_left(self.numbers, region.first), bisect_left(self.numbers, region.last + 1)
        return dict.fromkeys(self.names[first:last])


YIELDED, RETURNED = "YIELD", "RETURN"
RESULTS = frozenset({YIELDED, RETURNED})
"""Stand for the result of an item, and of a sub-plan, among the variables that statements set."""


def _made_by(statement: Statement) -> tuple[str, ...]:
    """The variables that a statement sets, and the result that it gives."""
    if isinstance(statement, Say) and statement.word in (Word.YIELD, Word.RETURN):
        return (YIELDED if statement.word is Word.YIELD else RETURNED,)
    return variables_set(statement)


@dataclass(slots=True)
class Lists:
    """The list of a loop under way: the label of its items and of which of them there are."""

    label: Label = LITERAL
    item: Labelled = NOTHING


@dataclass(slots=True)
class Scope:
    """The labels of one activation: the main plan, a sub-plan that is called, or an item of a loop.

    An item's scope sees that of what is around it; they share `noted`, which a sub-plan has for itself.
    """

    body: Body
    parent: Scope | None = None
    base: Label = LITERAL
    in_loop: bool = False
    is_timed: bool = False
    """Whether time decides how far the sub-plan comes."""
    variables: dict[str, Known] = field(default_factory=dict[str, Known])
    noted: list[Noted] = field(default_factory=list[Noted])
    result: Labelled = NOTHING
    """What the item yields, or the sub-plan returns."""
    failure: Label = LITERAL
    """The label of the failure that is under way, with its words."""
    content: Label = LITERAL
    """Of a plan or sub-plan, the label of the tests of content that may have ended it as failed."""
    caught: Label = LITERAL
    """The label of all that its failure, or that there is none, tells to what handles it."""
    told: dict[str, Label] = field(default_factory=dict[str, Label])
    """By statement, the label of all that its last call has sent and given."""
    fields: dict[str, FieldLabels] = field(default_factory=dict[str, FieldLabels])
    """By statement, the labels of the fields of what its call will give."""
    computed: dict[str, dict[str, Labelled]] = field(default_factory=dict[str, dict[str, Labelled]])
    """By COMPUTE, what is known of the results that it has not given yet."""
    lists: dict[str, Lists] = field(default_factory=dict[str, Lists])
    """The loops under way, by their ids."""
    before: list[tuple[Scope, str, Known]] = field(default_factory=list[tuple["Scope", str, "Known"]])
    """What was known before an item of the outer variables that it may SET."""

    def find(self, name: str) -> Known | None:
        """What is known of a variable here or around."""
        scope: Scope | None = self
        while scope is not None:
            known = scope.variables.get(name)
            if known is not None:
                return known
            scope = scope.parent
        return None

    @property
    def root(self) -> Scope:
        """The scope of the whole plan or sub-plan that it is in."""
        scope = self
        while scope.parent is not None:
            scope = scope.parent
        return scope

    def home_of(self, name: str) -> Scope:
        """The scope that has a variable; this one if none has it."""
        scope: Scope | None = self
        while scope is not None:
            if name in scope.variables:
                return scope
            scope = scope.parent
        return self


Values = Callable[[str], Any]
"""The present value of a variable, by its name."""
ABSENT = object()
"""Stands for the value of a variable that is not known."""


MOST_ORIGINS = 8


def no_value(_name: str) -> Any:
    """The values of variables where none is known."""
    return ABSENT


_NO_TEXT = frozenset({int, float, bool, type(None)})
"""The types of values that cannot be an address, or be composed of parts."""


def _has_fields(value: JSON, fields: FieldLabels) -> bool:
    """Whether a value is of the form of which a policy says the labels of its parts."""
    if isinstance(value, list):
        return not (fields.is_of_items and any(isinstance(item, list | dict) for item in value))
    return isinstance(value, dict) and not fields.is_of_items


class LabelReading:
    """The labels of variables as statements read and set them; what decisions and failures tell."""

    def __init__(self, tree: Tree, enforcement: Enforcement, *, literal: Label | None = None) -> None:
        rules = enforcement.rules or judge_of(enforcement.policy)
        self._judge = rules
        self._enforcement = enforcement
        self.history = CallHistory(rules.policy)
        """The calls so far, as far as the policy's limits are about them."""
        self.judging = Judging(enforcement.judge, VariableLabels(), policy=rules.policy, history=self.history)
        self._strict = rules.policy.implicit is Implicit.STRICT
        self._literal = rules.policy.planner if literal is None else literal
        self._tree = tree
        self._statements: dict[str, Statement] = {one.id: one for one in all_statements(tree)}
        self._ids = list(self._statements)
        self._places = {id_: place for place, id_ in enumerate(self._ids)}
        self._bodies: dict[str, Body] = {}
        self._by_name = failing_by_name(tree.plans)
        self._outer: dict[str, frozenset[str]] = {}
        self._names: dict[int, tuple[Expression, tuple[str, ...]]] = {}
        """Expressions with their variables, by identity; being held here, none gets that of another."""
        self._timed: set[int] = set()
        """The expressions among them that ask for the time, which all calls and decisions lead to."""
        self.known_links_opened: int = 0
        """How many calls have opened an address that was found in a result."""
        self.clock = LITERAL
        """The label of the time: that of all decisions and calls so far."""
        self.elapsed = LITERAL
        """That of those since the outermost block began of which time decides how far it comes."""
        self.timed: int = 0
        """How many such blocks are under way."""

    def apply(self, enforcement: Enforcement, literal: Label) -> None:
        """Judge by another policy from now on; `literal` is the label of what the plan itself says."""
        rules = enforcement.rules or judge_of(enforcement.policy)
        self._judge, self._enforcement, self._literal = rules, enforcement, literal
        self._strict = rules.policy.implicit is Implicit.STRICT
        self.history = self.history.taken_over(rules.policy)
        self.judging.apply(enforcement.judge, self.history, rules.policy)

    def resume(self, literal: Label, clock: Label, links: int) -> None:
        """Restore what was known of the plan itself and of the time, and how many calls have opened a link.

        `literal` may be more than this policy says: that of each one before it counts.
        """
        self._literal, self.clock, self.known_links_opened = literal, clock, links

    # ------------------------------------------------------------ scopes

    def begin(self, names: Iterable[str]) -> Scope:
        """The scope of the main plan, whose inputs have these names."""
        scope = Scope(self._body("", self._tree.body))
        secret = {one.name for one in self._tree.inputs if one.is_secret}
        for name in names:
            label = self._enforcement.inputs.get(name, self._enforcement.given)
            label = Label(label.untrusted, frozenset()) if name in secret else label
            label = LITERAL if label == LITERAL else label
            scope.variables[name] = Known(Labelled(label))
        if self._literal is not LITERAL:
            for one in self._tree.inputs:
                if not one.is_required:  # else nothing is known of a default of the plan
                    scope.variables.setdefault(one.name, Known(Labelled(self._literal)))
        return scope

    def go_on(
        self, known: Mapping[str, Label], base: Label, clock: Label, history: CallHistory, links: int = 0
    ) -> Scope:
        """The scope of the next part of a plan, with the labels of the variables that are set.

        All in it is behind the decisions of `base`. Of the run so far, `clock` is the label of the time,
        `history` has the calls, and `links` says how many calls have opened an address that a result had.
        """
        scope = self.begin(())
        scope.base = base
        secret = {one.name for one in self._tree.inputs if one.is_secret}
        for name, label in known.items():
            own = Label(label.untrusted, frozenset()) if name in secret else label
            scope.variables[name] = Known(Labelled(own, own))
        self.clock = clock.join(base)
        self.known_links_opened = links
        self.history = history.taken_over(self._judge.policy)
        self.judging.apply(self._enforcement.judge, self.history, self._judge.policy)
        return scope

    def item(self, scope: Scope, id_: str) -> Scope:
        """The scope of one item of a loop."""
        loop = self._statements[id_]
        assert isinstance(loop, Foreach)
        listed = scope.lists[id_]
        inner = Scope(scope.body, scope, scope.base, True, scope.is_timed, noted=scope.noted)
        inner.variables[loop.var] = Known(listed.item)
        for name in self.outer_names(id_):
            home = scope.home_of(name)
            if name in home.variables:
                inner.before.append((home, name, home.variables[name]))
        return inner

    @staticmethod
    def led_to(scope: Scope, label: Label) -> None:
        """Decisions of this label have led to all that follows in a scope."""
        scope.base = scope.base.join(label)

    def outer_names(self, id_: str) -> frozenset[str]:
        """The outer variables that the items of a loop assign."""
        if id_ not in self._outer:
            loop = self._statements[id_]
            self._outer[id_] = assigned_outside(loop) if isinstance(loop, Foreach) else frozenset()
        return self._outer[id_]

    def _body(self, name: str, block: Block) -> Body:
        if name not in self._bodies:
            self._bodies[name] = Body.of(block, self._by_name)
        return self._bodies[name]

    def name_of(self, body: Body) -> str:
        """The name of the sub-plan with this table, "" for the main plan."""
        return next(name for name, one in self._bodies.items() if one is body)

    def body_called(self, name: str) -> Body:
        """The table of the sub-plan of this name, of the main plan for ""; raises ValueError without one."""
        plan = self._tree.plan(name)
        if plan is None and name:
            raise ValueError(f"there is no sub-plan {name}")
        return self._body(name, self._tree.body if plan is None else plan.body)

    def statement(self, id_: str) -> Statement:
        """The statement with this id."""
        return self._statements[id_]

    # ------------------------------------------------------------ reading

    def counter(self, scope: Scope, id_: str) -> Label:
        """The label of all decisions that led to a statement."""
        number = scope.body.flow.of[id_].number
        label = scope.base
        for noted in scope.noted:
            if noted.region.first <= number <= noted.region.last:
                label = label.join(noted.label)
        if scope.is_timed or scope.body.flow.of[id_].is_timed:
            label = label.join(self._reached())
        return label

    def _reached(self) -> Label:
        """Who may know how long something has taken; nobody chooses anything by it."""
        return Label(False, self.elapsed.readers)

    def takes_time(self, label: Label) -> None:
        """Something of this label happens, which the clock tells of."""
        self.clock, self.elapsed = self.clock.join(label), self.elapsed.join(label)

    def against_time(self, label: Label = LITERAL) -> None:
        """A block begins of which time decides how far it comes.

        `label` is that of its time limit, or of what attempts before have used of it.
        """
        self.elapsed = self.elapsed if self.timed else LITERAL
        self.timed += 1
        self.takes_time(label)

    def time_over(self, scope: Scope, id_: str) -> None:
        """That block has ended, or something has ended it: which of them, time has decided.

        So time has decided whether it fails, too, unless it leaves out what has failed.
        """
        governed, over = self._governed(scope, id_), self._reached()
        self.timed -= 1
        self._note(scope, governed.decides, over)
        if not governed.skips:
            self._tell(scope, governed, LITERAL, self.counter(scope, id_).join(over))

    def deciders(self, scope: Scope, id_: str) -> Origins:
        """The steps by whose untrusted data a statement is reached, as far as a person can be told."""
        number = scope.body.flow.of[id_].number
        governing = (one for one in scope.noted if one.region.first <= number <= one.region.last)
        return tuple(dict.fromkeys(step for one in governing for step in one.by))

    def _untrusted_in(self, scope: Scope, tested: Expression) -> Origins:
        """The steps whose untrusted data an expression reads."""
        known = (found.value for name in self.names_of(tested) if (found := scope.find(name)) is not None)
        steps = (step for value in known if value.label.untrusted for step in self._sources(value))
        return tuple(dict.fromkeys(steps))

    def label_of(self, scope: Scope, name: str, id_: str) -> Label:
        """The label of a variable as a statement reads it."""
        return self._read(scope, name, scope.body.flow.of[id_].number).label

    def finals(self, scope: Scope) -> dict[str, tuple[Label, Origins]]:
        """The label of each variable of a scope as it is seen after the plan, and what it was made by."""
        values = {name: self._read(scope, name, -1) for name in scope.variables}
        return {name: (value.label, self._steps((value,))) for name, value in values.items()}

    def _read(self, scope: Scope, name: str, number: int) -> Labelled:
        known = scope.find(name)
        if known is None:
            return NOTHING
        value = known.value
        for region, label, _ in known.noted:
            if not region.first <= number <= region.last:
                value = raised(value, label)
        return value

    def _evaluator(
        self, scope: Scope, id_: str, values: Values, *, has_call: bool = True
    ) -> ExpressionLabels:
        """What evaluates the labels of a statement; texts of numbers matter only to one that `has_call`."""
        number = scope.body.flow.of[id_].number

        def variable(name: str) -> Labelled:
            known = self._read(scope, name, number)
            value: JSON = values(name)
            if value is ABSENT or is_failure(known) or (not has_call and type(value) in _NO_TEXT):
                return known
            if known.fields is not None and not _has_fields(value, known.fields):
                known = known._replace(fields=None)  # a text in which others may have written a field
            composed = one_shape(known)
            shape = None if composed is None else read(composed, value, name)
            if shape is None:
                shape = argument_of("", value, known.label, name, fields=known.fields)
            return known._replace(shapes=(shape,))

        def clock() -> Label:
            return self.clock.join(self.counter(scope, id_))

        return ExpressionLabels(self._judge, variable, clock, self._literal)

    def names_of(self, node: Expression) -> tuple[str, ...]:
        """The variables that an expression of the plan reads."""
        known = self._names.get(id(node))
        if known is None:
            known = self._names[id(node)] = node, variables_in(node)
            if any(asks_time(one) for one in nodes(node)):
                self._timed.add(id(node))
        return known[1]

    def _is_plain(self, scope: Scope, node: Expression) -> bool:
        """Whether nothing that an expression reads has a label, so that nothing need be worked out."""
        if self._literal is not LITERAL:
            return False
        for name in self.names_of(node):
            known = scope.find(name)
            if known is not None and (known.noted or known.value.label is not LITERAL):
                return False
        return not (id(node) in self._timed and (self.clock is not LITERAL or scope.noted))

    def _governed(self, scope: Scope, id_: str) -> Governed:
        return scope.body.flow.of[id_]

    def _counts(self, scope: Scope, id_: str) -> bool:
        return self._strict or scope.in_loop or self._governed(scope, id_).in_loop

    def _steps(self, values: Iterable[Labelled]) -> Origins:
        """The ids of the statements that these values come from."""
        places = dict.fromkeys(one for value in values for one in value.origins)
        return tuple(self._ids[place] for place in places)[-MOST_ORIGINS:]

    def _sources(self, value: Labelled) -> Origins:
        """What a person is told that a value comes from: LET and SET only if there is nothing else."""
        ids = self._steps((value,))
        made = tuple(id_ for id_ in ids if not isinstance(self._statements[id_], Let | Assign))
        return made or ids

    def listed(self, scope: Scope, id_: str) -> Label:
        """The label of a loop's list so far, with the words of the failures of its items."""
        known = scope.lists.get(id_)
        return LITERAL if known is None else known.label

    # ------------------------------------------------------------ setting

    def _store(self, scope: Scope, id_: str, value: Labelled) -> None:
        for name in variables_set(self._statements[id_]):
            self._put(scope, id_, name, value)

    def _put(self, scope: Scope, id_: str, name: str, value: Labelled) -> None:
        number = scope.body.flow.of[id_].number
        behind = tuple(one for one in scope.noted if one.region.first <= number <= one.region.last)
        place = self._places[id_]
        origins = tuple(one for one in value.origins if one != place)[1 - MOST_ORIGINS :]
        known = Known(value._replace(origins=(*origins, place)), behind)
        home = scope if isinstance(self._statements[id_], Let) else scope.home_of(name)
        home.variables[name] = known

    def _note(self, scope: Scope, regions: Iterable[Region], label: Label, by: Origins = ()) -> None:
        """A decision by data of this label governs these regions, and what may be set in them."""
        self.takes_time(label)
        for region in regions:
            known = label.join(Label(False, self.clock.readers)) if region.is_raced else label
            if known is LITERAL:
                continue
            noted = Noted(region._replace(is_raced=False), known, by)
            if noted in scope.noted:
                continue
            scope.noted.append(noted)
            for name in scope.body.set_in(region):
                if name in RESULTS:
                    home = scope if name == YIELDED else scope.root
                    home.result = raised(home.result, known)
                    continue
                variable = scope.find(name)
                if variable is not None:
                    variable.noted = (*variable.noted, noted)

    # ------------------------------------------------------------ what failures tell

    def _may_fail(
        self, scope: Scope, statement: Statement, evaluator: ExpressionLabels, content: Label = LITERAL
    ) -> None:
        """Note what is told by whether the expressions of a statement could be evaluated.

        Whether the arguments of a call could is part of the one bit that its failure is, where that is less.
        """
        tested = evaluator.content.join(content)
        governed = self._governed(scope, statement.id)
        if tested is not LITERAL or isinstance(statement, Require):
            tested = tested.join(self.counter(scope, statement.id))
        is_of_call = isinstance(statement, Act | Invoke) and not self._counts(scope, statement.id)
        told = tested.join(evaluator.reads) if evaluator.can_fail and not is_of_call else tested
        self._tell(scope, governed, tested, told)

    def _tell(self, scope: Scope, governed: Governed, content: Label, caught: Label) -> None:
        """Note what is told by whether a statement has failed: `caught` where the run goes on with that.

        `content` are the tests of content among it. A failure may end the plan or sub-plan around it.
        """
        in_loop = scope.in_loop or governed.in_loop
        for region in governed.stops:
            if governed.is_caught or self._strict:
                self._note(scope, (region,), caught)
            elif in_loop and not region.is_behind_loop:
                self._note(scope, (region,), Label(content.untrusted, caught.readers))
            else:
                self._note(scope, (region._replace(is_raced=False),), content)
        if governed.escapes:
            root = scope.root
            root.content = root.content.join(content)
            root.caught = root.caught.join(content).join(caught)

    def _checked(self, scope: Scope, statement: Statement, type_: Type | None, value: Labelled) -> None:
        """The result of a statement is checked against a type."""
        if type_ is not None and type_ is not Basic.JSON and value.label is not LITERAL:
            evaluator = self._evaluator(scope, statement.id, no_value)
            evaluator.casts(value, type_, self._tree.named_types)
            self._may_fail(scope, statement, evaluator)

    def words_of(self, scope: Scope, id_: str) -> Label:
        """The label of what a statement may say: of all that it reads and was given, and what led to it."""
        number = scope.body.flow.of[id_].number
        label = self.counter(scope, id_).join(scope.told.get(id_, LITERAL)).join(self.listed(scope, id_))
        for name in variables_read(self._statements[id_]):
            label = label.join(self._read(scope, name, number).label)
        return label
