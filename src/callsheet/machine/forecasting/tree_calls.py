"""What the calls of a plan with blocks would be, as far as known: their arguments, and their outcomes.

The base of the abstract interpreter: it has the variables' values, the time and the rows of the forecast.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any, NamedTuple, TypeAlias, cast

from callsheet.ir import JSON, Call, Plan
from callsheet.ir.expression import Expression
from callsheet.ir.operations import CLOCK, COMPUTE, CallKind
from callsheet.ir.plan import named_arguments
from callsheet.ir.tree import Act, Assign, Compute, Foreach, Invoke, Let, Statement, SubPlan, variables_read
from callsheet.ir.types import Type, type_text
from callsheet.machine.compiling import compile_plan, fact_of
from callsheet.machine.expressions import ExpressionFailed
from callsheet.machine.forecasting.forecast import Visit, When
from callsheet.machine.forecasting.partial_expressions import Evaluator
from callsheet.machine.forecasting.partial_values import Foreseen, Knowledge, Unknown, is_known
from callsheet.machine.forecasting.tree_state import (
    MOST_SETTERS,
    ON,
    At,
    Binding,
    BlockRow,
    Frame,
    Out,
    Row,
    Scope,
    Stopped,
)
from callsheet.machine.keys import segment
from callsheet.machine.program import ToolFacts
from callsheet.machine.tree.compiling import asks_time_in_code
from callsheet.machine.tree.program import LoopOp, loop_operations
from callsheet.machine.tree.values import conformed, plain, read_outputs, tagged

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
