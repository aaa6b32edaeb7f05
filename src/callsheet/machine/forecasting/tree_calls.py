"""What the calls of a plan with blocks would be, as far as known: their arguments, and their outcomes.

The base of the abstract interpreter: it has the variables' values, the time and the rows of the forecast.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, NamedTuple, TypeAlias, cast

from callsheet.ir import JSON, Call, Plan, Step
from callsheet.ir.expression import Expression
from callsheet.ir.operations import CLOCK, COMPUTE, CallKind
from callsheet.ir.plan import named_arguments
from callsheet.ir.tree import (
    Act,
    Assign,
    Compute,
    Foreach,
    Invoke,
    Let,
    Say,
    Statement,
    SubPlan,
    Word,
    variables_read,
)
from callsheet.ir.types import Type, type_text
from callsheet.machine.compiling import compile_plan, fact_of
from callsheet.machine.expressions import ExpressionFailed
from callsheet.machine.forecasting.forecast import Times, Visit, When
from callsheet.machine.forecasting.partial_expressions import Evaluator
from callsheet.machine.forecasting.partial_values import Foreseen, Knowledge, Unknown, is_known, is_same
from callsheet.machine.keys import segment
from callsheet.machine.program import ToolFacts
from callsheet.machine.tree.compiling import asks_time_in_code
from callsheet.machine.tree.program import LoopOp, loop_operations
from callsheet.machine.tree.values import conformed, plain, read_outputs, tagged

MOST_SETTERS = 8
"""How many of the statements that may have set a variable are told."""
ONCE = Times(1, 1)


class Binding(NamedTuple):
    """The value of a variable, and the statements that may have set it."""

    value: Foreseen
    steps: tuple[str, ...] = ()


Changes: TypeAlias = "dict[str, Binding | None]"
"""What differs from a scope as it was: None for a variable that is not set there any more."""


class Scope:
    """The variables at a place, with a log by which a branch can be left again."""

    def __init__(self) -> None:
        self._values: dict[str, Binding] = {}
        self._log: list[tuple[str, Binding | None]] = []

    def read(self, name: str) -> Foreseen:
        """The value of a variable; Unknown for one that is not set."""
        found = self._values.get(name)
        return Unknown(f"${name}") if found is None else found.value

    def find(self, name: str) -> Binding | None:
        """The binding of a variable; None if it is not set."""
        return self._values.get(name)

    def put(self, name: str, binding: Binding) -> None:
        """Set a variable."""
        self._log.append((name, self._values.get(name)))
        self._values[name] = binding

    def mark(self) -> int:
        """A point to which `undo` can return."""
        return len(self._log)

    def undo(self, mark: int) -> Changes:
        """Return to how it was at a mark; what had changed since."""
        changed: Changes = {}
        while len(self._log) > mark:
            name, before = self._log.pop()
            changed.setdefault(name, self._values.get(name))
            if before is None:
                self._values.pop(name, None)
            else:
                self._values[name] = before
        return changed

    def join(self, ways: Sequence[Changes]) -> None:
        """Go on where one of several ways was taken."""
        for name in dict.fromkeys(name for way in ways for name in way):
            found = [way.get(name, self._values.get(name)) for way in ways]
            first = found[0]
            if first is not None and all(
                one is not None and is_same(first.value, one.value) for one in found
            ):
                self.put(name, first)
                continue
            steps = dict.fromkeys(step for one in found if one is not None for step in one.steps)
            self.put(name, Binding(Unknown(f"${name}"), tuple(steps)[:MOST_SETTERS]))


class Out(NamedTuple):
    """How a block may be left: each True, False, or None for perhaps.

    `on` is its end, `again` CONTINUE, `broken` BREAK, `over` the end of the plan or sub-plan, `failed` a
    failure that is sure; failures that are not are not counted.
    """

    on: bool | None = True
    again: bool | None = False
    broken: bool | None = False
    over: bool | None = False
    failed: bool | None = False
    why: str = ""

    def then(self, other: Out) -> Out:
        """This one, and what follows where it goes on."""
        if self.on is True:
            return other
        again, broken, over, failed = (
            mine if theirs is False else None for mine, theirs in zip(self[1:5], other[1:5], strict=True)
        )
        on = None if other.on is not False else False
        return Out(on, again, broken, over, failed, self.why or other.why)


ON = Out()


def either(ways: Sequence[Out]) -> Out:
    """One of several ways; those that are sure to fail are not counted unless all are."""
    counted = [way for way in ways if way.failed is not True] or list(ways)
    on, again, broken, over, failed = (
        first if all(one is first for one in rest) else None
        for first, *rest in zip(*(way[:5] for way in counted), strict=True)
    )
    return Out(on, again, broken, over, failed, next((way.why for way in ways if way.why), ""))


@dataclass(slots=True)
class Frame:
    """A plan or sub-plan that is walked: its path, the blocks around, and what it has returned so far."""

    path: str = ""
    within: tuple[str, ...] = ()
    returns: list[tuple[Foreseen, bool]] = field(default_factory=list["tuple[Foreseen, bool]"])
    yielded: Foreseen = None


class At(NamedTuple):
    """Where a statement is walked: how often, what its keys begin with, whether only after a failure.

    `key` is None where the item or the round is not known. `item` is the index of the innermost loop.
    """

    times: Times = ONCE
    key: str | None = ""
    after_failure: bool = False
    item: int | None = None
    repeats: bool = False

    def perhaps(self) -> At:
        """The same place, where it is not sure that it is reached."""
        return self._replace(times=Times(0, self.times.most))

    def failing(self) -> At:
        """The same place, reached only after a failure."""
        return self._replace(times=Times(0, self.times.most), after_failure=True)

    def when(self) -> When:
        """When it is reached."""
        if self.times.least:
            return When.ALWAYS
        return When.ON_FAILURE if self.after_failure else When.MAYBE


@dataclass(slots=True)
class Row:
    """A step of the forecast in the making."""

    step: Step
    statement: Statement
    within: tuple[str, ...]
    visits: list[Visit] = field(default_factory=list[Visit])
    times: Times = field(default_factory=Times)
    tries: int = 1
    is_usual: bool = False
    repeats: bool = False
    is_per_item: bool = False
    is_computed: bool = False
    depends_on: dict[str, None] = field(default_factory=dict[str, None])
    results: list[Foreseen] = field(default_factory=list[Foreseen])
    why_not: str = "nothing leads to it"


@dataclass(slots=True)
class BlockRow:
    """A block of the forecast in the making."""

    id: str
    statement: Statement
    part: str
    within: tuple[str, ...]
    times: Times = field(default_factory=Times)
    is_usual: bool = False
    items: Foreseen = None
    count: int | None = 0


_WAITING_WORDS = frozenset({Word.WAIT, Word.REPLAN})


class _Counted(NamedTuple):
    """What was counted as sure in a row, in which of its visits; without a row only that a call waits."""

    row: Row | BlockRow | None
    sure: int
    visit: int

    @property
    def waits(self) -> bool:
        """Whether what comes after it comes after a call."""
        row = self.row
        return row is None or (
            isinstance(row, Row)
            and not (isinstance(row.statement, Say) and row.statement.word not in _WAITING_WORDS)
        )


class Stopped:
    """What was counted as sure in the tasks of groups that stop at a failure, to be taken back after one.

    Before any of its tasks has ended, a group is sure to have come to the first call of each.
    """

    def __init__(self) -> None:
        self._counted: list[_Counted] = []
        self._groups = 0

    def count(self, row: Row | BlockRow | None, times: Times, visit: int = -1) -> None:
        """Note what is counted in a row, or that a call outside of rows waits."""
        if self._groups:
            self._counted.append(_Counted(row, times.least, visit))

    @contextmanager
    def group(self, at: At, *, stops: bool) -> Generator[list[tuple[int, Out]]]:
        """A group; the block adds the place where each task begins, and how it may end."""
        tasks: list[tuple[int, Out]] = []
        self._groups += stops
        yield tasks
        if not stops:
            return
        failed = [number for number, (_, out) in enumerate(tasks) if out.failed is True]
        ends = [*(begin for begin, _ in tasks), self.here][1:]
        for number, ((begin, _), end) in enumerate(zip(tasks, ends, strict=True)):
            if failed and failed != [number]:
                self._take_back(begin, end, at.times.least)
        self._groups -= 1
        if not self._groups:
            self._counted.clear()

    @property
    def here(self) -> int:
        """The place of what is counted next."""
        return len(self._counted)

    def _take_back(self, begin: int, end: int, sure: int) -> None:
        """Leave of what was counted in a task only what comes up to its first call."""
        for place in range(begin, end):
            row, counted, visit = one = self._counted[place]
            left = min(counted, sure)
            sure = 0 if one.waits else sure
            if row is None or left == counted:
                continue
            row.times = Times(row.times.least - counted + left, row.times.most)
            if isinstance(row, Row) and visit >= 0 and not left:
                row.visits[visit] = row.visits[visit]._replace(is_sure=False)
            self._counted[place] = one._replace(sure=left)


_MOST_STATEMENTS = 200_000
"""So many statements are walked one by one; then loops are walked once for all their items."""


class ForeseenCall(NamedTuple):
    """A call that the plan would make: its place, its statement, and its arguments as far as known.

    `place` is its key without the attempt, "" if the item or round is not known.
    """

    place: str
    statement: Act | Compute | Statement
    tool: str
    inputs: tuple[Foreseen, ...]
    arguments: Mapping[str, Foreseen]
    wants_data: bool
    when: When

    @property
    def is_known(self) -> bool:
        """Whether all arguments are known."""
        return all(map(is_known, self.inputs)) and all(map(is_known, self.arguments.values()))


class Recalled(NamedTuple):
    """The value of a call that is known although it cannot be computed: another run has made it."""

    value: JSON


Recall: TypeAlias = "Callable[[ForeseenCall], Recalled | None]"


class CallForecast:
    """The values and calls of a plan that is walked; `recall` is asked about each call."""

    def __init__(self, plan: Plan, knowledge: Knowledge, recall: Recall) -> None:
        assert plan.tree is not None
        self._plan, self._tree = plan, plan.tree
        self._knowledge, self._recall = knowledge, recall
        self._named = plan.tree.named_types
        self._evaluator = Evaluator()
        self._listed = {step.id: step for step in plan.steps}
        program = compile_plan(plan, knowledge.facts)
        assert program.tree is not None
        self._loops: Mapping[str, LoopOp] = {op.id: op for op in loop_operations(program.tree)}
        self._rows: dict[str, Row] = {}
        self._blocks: dict[str, BlockRow] = {}
        self._left = _MOST_STATEMENTS
        self._stopped = Stopped()

    # -------------------------------------------------------------- values

    def _value(self, node: Expression, scope: Scope) -> Foreseen:
        return self._evaluator.value(node, scope.read)

    def _read_all(self, node: Expression, scope: Scope) -> Foreseen:
        try:
            return self._evaluator.value(node, scope.read)
        except ExpressionFailed:
            return Unknown("a failure")

    def _typed(self, value: Foreseen, kind: Type | None, *, of_tool: bool = False) -> Foreseen:
        """A value checked against a type. Raises ExpressionFailed for a known one that is not of it."""
        if kind is None:
            return value
        if isinstance(value, Unknown):
            return replace(value, kind=type_text(kind))
        if not is_known(value):
            return value
        made, wrong = conformed(value, kind, self._named, reads_text=of_tool)
        if wrong:
            raise cast_failed(wrong)
        return made

    def _default(self, each: Any, called: SubPlan) -> Foreseen:
        if each.must_be_given:
            return Unknown(f"${each.name}")
        return conformed(each.default, each.type, self._named)[0]

    def _put(self, scope: Scope, name: str, value: Foreseen, one: Statement, frame: Frame) -> None:
        """Set a variable; it depends on what the variables depend on that its statement reads."""
        steps = self._setters(one, scope) if not isinstance(one, Act | Invoke | Foreach) else ()
        own = () if isinstance(one, Let | Assign) else (frame.path + one.id,)
        scope.put(name, Binding(value, (*own, *steps)[:MOST_SETTERS]))

    def _setters(self, one: Statement, scope: Scope) -> tuple[str, ...]:
        found = (scope.find(name) for name in variables_read(one))
        return tuple(dict.fromkeys(step for each in found if each is not None for step in each.steps))

    def _clock(self, one: Statement, at: At) -> None:
        """What the time is known to be at a statement, if another run has asked for it."""
        self._stopped.count(None, at.times)
        place = "" if at.key is None else at.key + segment(f"{one.id}:clock")
        found = self._recall(ForeseenCall(place, one, CLOCK, (), {}, False, at.when()))
        try:
            self._evaluator.now = None if found is None else datetime.fromisoformat(str(found.value))
        except ValueError:
            self._evaluator.now = None

    def _note_failed(self, one: Statement, frame: Frame, why: str) -> None:
        row = self._rows.get(frame.path + one.id)
        if row is not None:
            row.why_not = f"it fails: {why}"

    # -------------------------------------------------------------- calls

    def _act(self, one: Act, scope: Scope, at: At, frame: Frame) -> Out:
        row = self._rows[frame.path + one.id]
        inputs, arguments = arguments_of(one, self._knowledge.facts, lambda node: self._value(node, scope))
        self._visited(row, one, scope, at, inputs, arguments)
        wants_data = one.into is not None and one.into.type is not None and type_text(one.into.type) != "str"
        place = "" if at.key is None else at.key + segment(one.id)
        call_ = ForeseenCall(place, one, one.tool, inputs, arguments, wants_data, at.when())
        value = self._outcome(row, one, call_)
        row.results.append(value)
        if one.into is not None:
            value = self._typed(value, one.into.type, of_tool=True)
            self._put(scope, one.into.name, value, one, frame)
        return ON

    def _outcome(self, row: Row, one: Act, call: ForeseenCall) -> Foreseen:
        """The value of a call: recalled, assumed, computed, or a placeholder. Raises ExpressionFailed."""
        recalled = self._recall(call)
        if recalled is not None:
            return recalled.value
        for name in (row.step.id, one.id):
            if name in self._knowledge.assumed:
                return self._knowledge.assumed[name]
        if one.kind is CallKind.TRANSFORM and call.is_known:
            computed = self._knowledge.compute(one.tool, dict(call.arguments))
            if computed is not None:
                row.is_computed = True
                if not computed.succeeds:
                    raise cast_failed(str(computed.value))
                return computed.value
        return Unknown(f"{one.tool} result", row.step.id)

    def _visited(
        self,
        row: Row,
        one: Statement,
        scope: Scope,
        at: At,
        inputs: tuple[Foreseen, ...],
        arguments: Mapping[str, Foreseen],
    ) -> None:
        row.times += at.times
        row.is_usual = row.is_usual or not at.after_failure
        row.repeats = row.repeats or at.repeats
        row.is_per_item = row.is_per_item or at.key is None
        row.depends_on.update(dict.fromkeys(self._setters(one, scope)))
        number = -1
        if len(row.visits) < self._knowledge.most_visits:
            place = "" if at.key is None else at.key + segment(one.id)
            visit = Visit(at.item, inputs, tuple(arguments.items()), bool(at.times.least), place)
            is_again = bool(row.visits) and at.key is None and row.visits[-1][1:3] == visit[1:3]
            if not is_again:
                number = len(row.visits)
                row.visits.append(visit)
        self._stopped.count(row, at.times, number)

    def _compute(self, one: Compute, scope: Scope, at: At, frame: Frame) -> Out:
        row = self._rows[frame.path + one.id]
        self._visited(row, one, scope, at, (), {name: data_of(scope.read(name)) for name in one.names})
        values = {name: scope.read(name) for name in one.names}
        made: Mapping[str, Any] = {}
        now: datetime | None = None
        asks = asks_time_in_code(one.source)
        if asks:
            self._clock(one, at)
            now = self._evaluator.now
        if all(map(is_known, values.values())) and not (asks and now is None):
            given = {name: tagged(value) for name, value in values.items()}
            arguments: dict[str, Any] = {"source": one.source, "inputs": given, "outputs": [*one.into]}
            if now is not None:
                arguments["now"] = now.isoformat()
            place = "" if at.key is None else at.key + segment(one.id)
            found = self._recall(ForeseenCall(place, one, COMPUTE, (), arguments, False, at.when()))
            made = {} if found is None else read_outputs(found.value)
        for name in one.into:
            value = made[name] if name in made else Unknown(f"${name}", row.step.id)
            self._put(scope, name, value, one, frame)
        return ON


def arguments_of(
    one: Act, facts: Mapping[str, ToolFacts], value: Callable[[Expression], Foreseen]
) -> tuple[tuple[Foreseen, ...], dict[str, Foreseen]]:
    """What a call is given: its inputs, if a model or an agent takes them, and its arguments by name."""
    positional = [value(node) for node in one.positional]
    named = tuple((name, value(node)) for name, node in one.named)
    if one.kind not in (CallKind.MODEL, CallKind.AGENT) and positional:
        named = named_arguments(positional, named, fact_of(Call(one.tool), facts).parameters)
        positional = []
    return tuple(map(data_of, positional)), {name: data_of(each) for name, each in named}


def data_of(value: Foreseen) -> Foreseen:
    """A value as JSON data, where it is known."""
    return cast("Foreseen", plain(value)) if is_known(value) else value


def cast_failed(message: str) -> ExpressionFailed:
    """The failure of a value that is not of its type."""
    from callsheet.machine.expressions import FailureKind  # noqa: PLC0415 - only for a failure

    return ExpressionFailed(FailureKind.TYPE, message)
