"""Abstract interpretation of one step: what it would do with the given variables, and where it leads.

In: a step, a table of variables, what is known of the world. Out: a `StepOutcome`. The rules are those of
`machine.machine`, over values of which some are unknown.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import NamedTuple, TypeAlias, assert_never

from callsheet.ir import (
    JSON,
    And,
    Call,
    CallKind,
    Cast,
    Compare,
    CompareOp,
    Condition,
    Course,
    DictExpr,
    Goto,
    IsEmpty,
    ListExpr,
    Literal,
    Not,
    NotEmpty,
    Or,
    Plan,
    Ref,
    Replan,
    Respond,
    Step,
    Template,
    Terminate,
    Value,
)
from callsheet.ir.flow import uses_of
from callsheet.ir.plan import named_arguments
from callsheet.machine.compiling import fact_of
from callsheet.machine.forecasting.forecast import Begun, Times, Visit
from callsheet.machine.forecasting.partial_values import (
    MOST_STEPS,
    Binding,
    Foreseen,
    Knowledge,
    Unknown,
    VariableTable,
    at_path,
    cast_foreseen,
    dict_of,
    emptiness,
    is_known,
    items_foreseen,
    list_of,
    parts_of_text,
    text_of,
)
from callsheet.machine.values import cast_value, compare

Scope: TypeAlias = "Callable[[str], Foreseen]"
"""Returns the value of a variable by name, null if it is not set."""


def evaluate(value: Value, scope: Scope) -> Foreseen:
    """The value as far as it is known."""
    match value:
        case Literal(value=scalar):
            return scalar
        case Ref(name=name, path=path):
            return at_path(scope(name), path)
        case Template(parts=parts):
            return text_of([text for part in parts for text in _texts(part, scope)])
        case ListExpr(items=items):
            return list_of([evaluate(item, scope) for item in items])
        case DictExpr(items=pairs):
            return dict_of([(key, evaluate(item, scope)) for key, item in pairs])
    assert_never(value)


def _texts(part: str | Ref, scope: Scope) -> tuple[str | Unknown, ...]:
    return (part,) if isinstance(part, str) else parts_of_text(evaluate(part, scope))


def decide(condition: Condition, scope: Scope) -> bool | None:
    """Whether the condition holds; None if that depends on unknown values."""
    match condition:
        case Compare(op=op, left=left, right=right):
            return _compare(op, evaluate(left, scope), evaluate(right, scope))
        case IsEmpty(value=value):
            return emptiness(evaluate(value, scope))
        case NotEmpty(value=value):
            return opposite(emptiness(evaluate(value, scope)))
        case Not(condition=inner):
            return opposite(decide(inner, scope))
        case And(conditions=inner):
            return all_hold(decide(c, scope) for c in inner)
        case Or(conditions=inner):
            return opposite(all_hold(opposite(decide(c, scope)) for c in inner))
    assert_never(condition)


def _compare(op: CompareOp, left: Foreseen, right: Foreseen) -> bool | None:
    if not is_known(left) or not is_known(right):
        return None
    return compare(op, left, right)  # pyright: ignore[reportArgumentType]


def opposite(verdict: bool | None) -> bool | None:
    """The negation; None stays None."""
    return None if verdict is None else not verdict


def all_hold(verdicts: Iterable[bool | None]) -> bool | None:
    """Whether all hold, in three-valued logic: False if one is False, else None if one is None."""
    result: bool | None = True
    for verdict in verdicts:
        if verdict is False:
            return False
        if verdict is None:
            result = None
    return result


_MOST_RESULTS = 1_000
"""The result of a FOREACH over more items is taken to be unknown."""


class ExitCertainty(Enum):
    """How certain it is that an exit of a step is taken."""

    SURE = "sure"
    MAYBE = "maybe"
    FAILURE = "failure"


class Exit(NamedTuple):
    """An edge from a step to another than the next one; `has_failed` says that it follows a failure."""

    target: int
    certainty: ExitCertainty
    has_failed: bool = False


@dataclass(frozen=True, slots=True)
class StepOutcome:
    """What a step does at one point of a plan.

    `binding` is what its variable is bound to where it succeeds, `if_failed` where it fails and
    leads elsewhere; `is_sure` tells whether it is bound on every path.
    """

    visits: tuple[Visit, ...] = ()
    times: Times = field(default_factory=Times)
    items: Foreseen = None
    is_per_item: bool = False
    exits: tuple[Exit, ...] = ()
    binding: Binding | None = None
    if_failed: Binding | None = None
    is_sure: bool = True
    may_fail: bool = False
    is_computed: bool = False
    why_not: str | None = None
    depends_on: tuple[int, ...] = ()


class PlanContext(NamedTuple):
    """The plan with what does not change while it is looked at."""

    plan: Plan
    slots: Mapping[str, int]
    number_of: Mapping[str, int]
    knowledge: Knowledge

    @property
    def end(self) -> int:
        """The number behind the last step."""
        return len(self.plan.steps)


class _Outcome(NamedTuple):
    """A call's value, and whether it fails; None if it may."""

    value: Foreseen
    fails: bool | None


class _Item(NamedTuple):
    """What the step does with one item, or without items: whether, and the variables of it."""

    number: int | None
    holds: bool | None
    scope: Scope


def interpret_step(setting: PlanContext, number: int, table: VariableTable) -> StepOutcome:
    """What the step of this number does with these variables."""
    look_ = _look(setting, number, table)
    match setting.plan.steps[number].action:
        case Call() as call:
            return look_.at_call(call)
        case Respond(values=values):
            return look_.at_answer(values)
        case Goto(target=target):
            return look_.at_control((), setting.number_of.get(target, setting.end))
        case Terminate(values=values):
            return look_.at_control(values, setting.end)
        case Replan(values=values):
            return look_.at_replan(values)


def interpret_begun(setting: PlanContext, number: int, table: VariableTable, begun: Begun) -> StepOutcome:
    """What a step does that has begun: its visits are the items that it has not started.

    Its guard and its items were evaluated when it began, so nothing is known of its outcome.
    """
    return _look(setting, number, table).at_begun(begun)


def _look(setting: PlanContext, number: int, table: VariableTable) -> _StepInterpreter:
    step, slots = setting.plan.steps[number], setting.slots

    def scope(name: str) -> Foreseen:
        return table[slots[name]].value

    given = {setter for use in uses_of(step, number) for setter in table[slots[use.ref.name]].steps}
    return _StepInterpreter(setting, step, number, scope, tuple(sorted(given))[:MOST_STEPS])


class _StepInterpreter:
    """A look at one step."""

    def __init__(
        self, setting: PlanContext, step: Step, number: int, scope: Scope, depends_on: tuple[int, ...]
    ) -> None:
        self._setting = setting
        self._step = step
        self._number = number
        self._scope = scope
        self._depends_on = depends_on
        self._most_visits = setting.knowledge.most_visits
        self._source: Foreseen = None
        self._items: Sequence[Foreseen] | None = ()
        if step.foreach is not None:
            self._source = evaluate(step.foreach.source, scope)
            self._items = items_foreseen(self._source)

    # ------------------------------------------------------------ items and conditions

    def _acts(self) -> Iterator[_Item]:
        """The times that the step acts or may, those left out whose condition does not hold."""
        step = self._step
        if step.foreach is None:
            holds = True if step.condition is None else decide(step.condition, self._scope)
            if holds is not False:
                yield _Item(None, holds, self._scope)
            return
        findings = self._items
        for index, item in enumerate((any_item_of(self._source),) if findings is None else findings):
            scope = _with_variable(self._scope, step.foreach.var, item)
            holds = True if step.condition is None else decide(step.condition, scope)
            if holds is not False:
                yield _Item(index, None if findings is None else holds, scope)

    @property
    def _is_per_item(self) -> bool:
        return self._items is None

    def _times(self, holds: Sequence[bool | None]) -> Times:
        if self._is_per_item and holds:
            return Times(0, None)
        return Times(sum(h is True for h in holds), len(holds))

    def _passage(
        self,
        holds: Sequence[bool | None],
        visits: Sequence[Visit],
        exits: Sequence[Exit] = (),
        why_not: str | None = None,
    ) -> StepOutcome:
        if not holds and why_not is None:
            no_items = self._step.foreach is not None and self._items is not None and not self._items
            why_not = "there are no items" if no_items else "the condition does not hold"
        return StepOutcome(
            visits=tuple(visits),
            times=self._times(holds),
            items=self._source,
            is_per_item=self._is_per_item,
            exits=tuple(exits),
            is_sure=self._step.foreach is not None or (bool(holds) and holds[0] is True),
            why_not=why_not,
            depends_on=self._depends_on,
        )

    # ------------------------------------------------------------ control

    def at_answer(self, values: Sequence[Value]) -> StepOutcome:
        """RESPOND: ends the run, unless all its values are empty and further steps follow."""
        is_last = self._number + 1 == self._setting.end and self._step.foreach is None
        visits: list[Visit] = []
        ends: list[bool | None] = []
        for index, holds, scope in self._acts():
            inputs = tuple(evaluate(value, scope) for value in values)
            is_empty = all_hold(emptiness(value) for value in inputs)
            verdict = all_hold((holds, True if is_last else opposite(is_empty)))
            if verdict is not False:
                ends.append(verdict)
                if len(visits) < self._most_visits:
                    visits.append(Visit(index, inputs, (), verdict is True))
        why_not = None if ends or self._step.condition is not None else "there is nothing to answer with"
        passage = self._passage(ends, visits, self._ending(ends, self._setting.end), why_not)
        return replace(passage, times=_once(ends))

    def at_control(self, values: Sequence[Value], target: int) -> StepOutcome:
        """GOTO and TERMINATE: the first item that may act, if there are items."""
        holds: list[bool | None] = []
        visits: list[Visit] = []
        for index, verdict, scope in self._acts():
            holds.append(verdict)
            if len(visits) < self._most_visits:
                inputs = tuple(evaluate(value, scope) for value in values)
                visits.append(Visit(index, inputs, (), verdict is True))
            if verdict is True:
                break
        passage = self._passage(holds, visits, self._ending(holds, target))
        return replace(passage, times=_once(holds))

    def at_replan(self, values: Sequence[Value]) -> StepOutcome:
        """RE-PLAN: ends the plan, as what the new one does is unknown; ON_FAIL applies if there is none."""
        passage = self.at_control(values, self._setting.end)
        then = self._failure_target()
        if then is None or not passage.exits:
            return passage
        return replace(passage, exits=(Exit(then, ExitCertainty.FAILURE, True), *passage.exits))

    @staticmethod
    def _ending(holds: Sequence[bool | None], target: int) -> list[Exit]:
        if not holds:
            return []
        return [Exit(target, ExitCertainty.SURE if True in holds else ExitCertainty.MAYBE)]

    def _failure_target(self) -> int | None:
        return self._target(self._step.after_failure)

    def _target(self, course: Course) -> int | None:
        """Where a course leads, if not on to the next step."""
        if course.jump is not None:
            return self._setting.number_of.get(course.jump.target, self._setting.end)
        return None if course.ends is None else self._setting.end

    def at_begun(self, begun: Begun) -> StepOutcome:
        """A step that has begun: the items left, and every way on."""
        call, failure, onward = self._step.call, self._failure_target(), self._target(self._step.course)
        exits = [] if failure is None else [Exit(failure, ExitCertainty.MAYBE, True)]
        if onward is not None:
            exits.append(Exit(onward, ExitCertainty.MAYBE))
        binding = None
        if call is not None and self._step.sets is not None:
            binding = Binding(Unknown(f"{call.tool} result", self._step.id), (self._number,))
        return StepOutcome(
            visits=() if call is None else tuple(self._visits_left(call, begun)),
            times=Times(0, None),
            items=None if begun.items is None else list_of(begun.items),
            exits=tuple(exits),
            binding=binding,
            if_failed=binding,
            may_fail=True,
            depends_on=self._depends_on,
        )

    def _visits_left(self, call: Call, begun: Begun) -> Iterator[Visit]:
        if self._step.foreach is None or begun.items is None:
            return
        self._source, self._items = list_of(begun.items), begun.items
        positional, named = self._arguments(call)
        for index, holds, scope in self._acts():
            if index is not None and index >= begun.next:
                inputs = tuple(evaluate(value, scope) for value in positional)
                arguments = tuple((name, evaluate(value, scope)) for name, value in named)
                yield Visit(index, inputs, arguments, holds is True)

    # ------------------------------------------------------------ calls

    def at_call(self, call: Call) -> StepOutcome:
        """A call: its arguments, its outcome, and where a failure leads."""
        positional, named = self._arguments(call)
        holds: list[bool | None] = []
        visits: list[Visit] = []
        outcomes: list[_Outcome] = []
        is_pure = call.kind is CallKind.TRANSFORM
        is_assumed = self._step.id in self._setting.knowledge.assumed
        for index, verdict, scope in self._acts():
            holds.append(verdict)
            shown, counted = len(visits) < self._most_visits, len(outcomes) < _MOST_RESULTS
            if not shown and not (counted and is_pure):
                if counted:
                    outcomes.append(self._outcome(call, index, None))
                continue
            arguments = tuple((name, evaluate(value, scope)) for name, value in named)
            if shown:
                inputs = tuple(evaluate(value, scope) for value in positional)
                visits.append(Visit(index, inputs, arguments, verdict is True))
            if counted:
                given = arguments if is_pure and not is_assumed else None
                outcomes.append(self._outcome(call, index, given))
        passage = self._passage(holds, visits)
        outcome = self._assumed() if is_assumed else self._gathered(call, holds, outcomes)
        return self._with_outcome(passage, holds, outcome)

    def _arguments(self, call: Call) -> tuple[Sequence[Value], Sequence[tuple[str, Value]]]:
        """The positional and the named arguments, by the machine's rules."""
        if call.kind in (CallKind.MODEL, CallKind.AGENT):
            return call.positional, call.named
        fact = fact_of(call, self._setting.knowledge.facts)
        return (), named_arguments(call.positional, call.named, fact.parameters)

    def _outcome(
        self, call: Call, index: int | None, arguments: tuple[tuple[str, Foreseen], ...] | None
    ) -> _Outcome:
        """The outcome of one call; a pure one whose arguments are all known is evaluated."""
        if arguments is not None and all(is_known(value) for _, value in arguments):
            computed = self._setting.knowledge.compute(call.tool, dict(arguments))
            if computed is not None:
                return _Outcome(computed.value, not computed.succeeds)
        path = () if index is None or self._is_per_item else (index,)
        return _Outcome(Unknown(f"{call.tool} result", self._step.id, path), None)

    def _assumed(self) -> _Outcome:
        value = self._setting.knowledge.assumed[self._step.id]
        cast = self._cast()
        if cast is None:
            return _Outcome(value, False)
        if self._step.foreach is None:
            return _Outcome(cast_value(cast, value)[0], False)
        if not isinstance(value, list) or cast is Cast.LIST:
            return _Outcome(value, False)
        items: list[JSON] = value
        return _Outcome([cast_value(cast, item)[0] for item in items], False)

    def _cast(self) -> Cast | None:
        return self._step.output.cast if self._step.output is not None else None

    def _gathered(self, call: Call, holds: Sequence[bool | None], outcomes: Sequence[_Outcome]) -> _Outcome:
        """The step's value, from the cast values of its calls, and whether it fails."""
        cast = self._cast()
        if self._step.foreach is None:
            if not outcomes:
                return _Outcome(None, False)
            value, fails = outcomes[0]
            return _Outcome(value if fails else cast_foreseen(cast, value), fails)
        item_cast = None if cast is Cast.LIST else cast
        fails = _any_fails(holds, outcomes)
        if None in holds or self._is_per_item or len(holds) > len(outcomes):
            fails = None if holds else False
            return _Outcome(Unknown(f"{call.tool} result", self._step.id, (), "list"), fails)
        values = [value if failed else cast_foreseen(item_cast, value) for value, failed in outcomes]
        return _Outcome(list_of(values), fails)

    def _with_outcome(
        self, passage: StepOutcome, holds: Sequence[bool | None], outcome: _Outcome
    ) -> StepOutcome:
        """The passage with what its variable is bound to and where a failure leads."""
        value, fails = outcome
        if not holds and self._step.foreach is None:
            return passage
        target = self._failure_target()
        exits: list[Exit] = []
        if target is not None and holds and fails is not False:
            certainty = (
                ExitCertainty.FAILURE
                if fails is None
                else ExitCertainty.SURE
                if holds[0] is True
                else ExitCertainty.MAYBE
            )
            exits.append(Exit(target, certainty, True))
        error: Foreseen = value
        if fails is None or self._step.foreach is not None:
            error = Unknown(f"{_tool(self._step)} error", self._step.id)
        writes = self._step.output is not None
        return replace(
            passage,
            exits=tuple(exits),
            binding=Binding(value, (self._number,)) if writes else None,
            if_failed=Binding(error, (self._number,)) if writes else None,
            may_fail=fails is not False,
            is_computed=bool(holds) and is_known(value) and fails is not None,
        )


def any_item_of(source: Foreseen) -> Unknown:
    """The placeholder for any item of an unknown list."""
    if isinstance(source, Unknown):
        return Unknown(f"item of {str(source)[1:-1]}", source.step)
    return Unknown("item of a text")


def _with_variable(scope: Scope, name: str, value: Foreseen) -> Scope:
    return lambda asked: value if asked == name else scope(asked)


def _once(holds: Sequence[bool | None]) -> Times:
    """How often a step acts that stops at the first item for which it acts."""
    return Times(int(True in holds), int(bool(holds)))


def _any_fails(holds: Sequence[bool | None], outcomes: Sequence[_Outcome]) -> bool | None:
    """Whether one of the items fails; None if that is not certain."""
    failures = [outcome.fails for outcome in outcomes]
    if True in failures and None not in holds:
        return True
    return None if None in failures or True in failures else False


def _tool(step: Step) -> str:
    assert step.call is not None
    return step.call.tool
