"""Lets the decisions of a plan tree be recorded, and replayed over placeholders for secret values.

In: a decision log, a program that no other machine uses. Out: the same program, whose conditions, loops and
expressions ask the log: which way they went, how many items there were, what could not be computed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, TypeAlias

from callsheet.machine.decision_log import DecisionKind, DecisionLog
from callsheet.machine.expressions import Compiled, ExpressionFailed, FailureKind
from callsheet.machine.tree.program import (
    Body,
    BranchOp,
    CallOp,
    CatchOp,
    Const,
    EnterOp,
    InvokeOp,
    LetOp,
    LimitOp,
    LoopOp,
    Operand,
    Operation,
    ParallelOp,
    RemedyCode,
    RequireOp,
    RoundOp,
    SayOp,
    TreeProgram,
    UntilOp,
    YieldOp,
    value_of,
)

if TYPE_CHECKING:
    from callsheet.machine.expressions.values import Environment

_UNKNOWN = "[sealed]"
"""Stands for what an expression gave whose value over placeholders cannot be computed."""
_SIZED: tuple[type, ...] = (list, tuple, dict, set, frozenset, range)
_Outcome: TypeAlias = "tuple[FailureKind | None, Any]"
"""The kind of failure, or what was decided."""


def lead_tree(log: DecisionLog, program: TreeProgram) -> None:
    """Intercept the decisions of a program by changing it."""
    _Leader(log).body(program.main)


class _Leader:
    def __init__(self, log: DecisionLog) -> None:
        self._log = log
        self._seen: set[int] = set()
        self._places: Iterator[int] = iter(range(10**9))

    def body(self, body: Body) -> None:
        """Intercept the decisions of a body and of those inside it, each once."""
        if id(body) in self._seen:
            return
        self._seen.add(id(body))
        for operation in body.operations:
            self._operation(operation)

    def _operation(self, operation: Operation) -> None:  # noqa: PLR0912 - a case for each
        match operation:
            case BranchOp():
                operation.condition = self._test(operation.condition)
            case RequireOp():
                operation.condition = self._test(operation.condition)
                operation.message = self._maybe(operation.message)
            case RoundOp(while_=test) if test is not None:
                operation.while_ = self._test(test)
            case UntilOp():
                operation.until = None if operation.until is None else self._test(operation.until)
                operation.every = self._maybe(operation.every)
            case LoopOp():
                operation.source = self._items(operation.source)
                operation.limit = self._maybe(operation.limit)
                if operation.distinction is not None:
                    operation.distinction.decide = self._differ(next(self._places))
                self.body(operation.body)
            case InvokeOp():
                operation.arguments = tuple(
                    (slot, self._value(given), kind) for slot, given, kind in operation.arguments
                )
                self.body(operation.body)
            case ParallelOp(members=members):
                for member in members:
                    self.body(member)
            case CallOp():
                operation.positional = tuple(map(self._value, operation.positional))
                operation.named = tuple((name, self._value(given)) for name, given in operation.named)
                operation.remedy = self._remedy(operation.remedy)
            case LetOp() | YieldOp():
                operation.value = self._value(operation.value)
            case SayOp():
                operation.values = tuple(map(self._value, operation.values))
            case EnterOp():
                operation.most = self._maybe(operation.most)
            case LimitOp():
                operation.limit = self._value(operation.limit)
            case CatchOp():
                operation.remedy = self._remedy(operation.remedy)
            case _:
                pass

    def _remedy(self, remedy: RemedyCode | None) -> RemedyCode | None:
        return None if remedy is None else remedy._replace(values=tuple(map(self._value, remedy.values)))

    def _maybe(self, operand: Operand | None) -> Operand | None:
        return None if operand is None else self._value(operand)

    def _decided(self, kind: DecisionKind, place: int, own: _Outcome) -> Any:
        """What was decided; raises ExpressionFailed if it was that the expression fails."""
        failed, outcome = self._log.decide(kind, place, own)
        if failed is not None:
            raise ExpressionFailed(failed, "a secret value decided that")
        return outcome

    def _value(self, operand: Operand) -> Operand:
        """An expression: whether it can be computed."""
        if isinstance(operand, int | Const):
            return operand
        place = next(self._places)

        def value(slots: list[Any], env: Environment) -> Any:
            try:
                made = operand(slots, env)
            except ExpressionFailed as failed:
                own = failed.kind, None
                self._raise_own(failed, self._log.decide(DecisionKind.LOST, place, own))
                return _UNKNOWN
            self._decided(DecisionKind.LOST, place, (None, None))
            return made

        return Compiled(value, 0)

    @staticmethod
    def _raise_own(failed: ExpressionFailed, decided: _Outcome) -> None:
        if decided[0] is not None:
            raise failed

    def _test(self, operand: Operand) -> Operand:
        """A condition: whether it holds."""
        place = next(self._places)

        def test(slots: list[Any], env: Environment) -> bool:
            try:
                own: _Outcome = None, bool(value_of(operand, slots, env))
            except ExpressionFailed as failed:
                own = failed.kind, None
            return self._decided(DecisionKind.HOLDS, place, own)

        return Compiled(test, 0)

    def _differ(self, place: int) -> Callable[[bool], bool]:
        """Whether the items of a loop differ in what they touch."""
        return lambda own: self._log.decide(DecisionKind.HOLDS, place, own)

    def _items(self, operand: Operand) -> Operand:
        """What a loop goes through: how many items it has."""
        place = next(self._places)

        def items(slots: list[Any], env: Environment) -> Any:
            made: Any = _UNKNOWN
            try:
                made = value_of(operand, slots, env)
                own: _Outcome = None, _length(made)
            except ExpressionFailed as failed:
                own = failed.kind, None
            count = self._decided(DecisionKind.ITEMS, place, own)
            if count is None or own == (None, count):
                return made
            known: list[Any] = [] if _length(made) is None else list(made)
            return (known + [_UNKNOWN] * count)[:count]

        return Compiled(items, 0)


def _length(value: Any) -> int | None:
    return len(value) if isinstance(value, _SIZED) else None
