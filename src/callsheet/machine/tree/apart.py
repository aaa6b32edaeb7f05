"""Large expressions of plan trees, which a driver has evaluated apart from the machine.

Before an operation is executed its expressions are evaluated with little work. Where that does not suffice,
the machine pauses, and the driver says what the expression gives, as data that it may have recorded. Which
expressions are large follows from counted work alone, so a replay asks for the same ones. What is not asked
for here (what a statement does about its own failure, the words of a REQUIRE) the machine evaluates itself.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any, Final, NamedTuple, NoReturn, assert_never

from callsheet.diagnostics import Span
from callsheet.ir import JSON
from callsheet.ir.expression import Call, Comprehension, Expression, Kind, Method, nodes
from callsheet.ir.tree import Foreach, Statement, Tree, all_statements, operands
from callsheet.machine.commands import Command
from callsheet.machine.expressions import Compiled, ExpressionFailed
from callsheet.machine.expressions.values import Environment, FailureKind
from callsheet.machine.tree.activations import WAITING, Activation, new_environment
from callsheet.machine.tree.program import (
    BranchOp,
    BreakOp,
    CallOp,
    CatchOp,
    ClockOp,
    ComputeOp,
    Const,
    EndFinalOp,
    EnterOp,
    GuardOp,
    InvokeOp,
    JumpOp,
    LeaveRoundsOp,
    LetOp,
    LimitOp,
    LoopOp,
    Operand,
    Operation,
    ParallelOp,
    ReplanOp,
    RequireOp,
    RoundOp,
    SayOp,
    TimerOp,
    UnguardOp,
    UntilOp,
    YieldOp,
)
from callsheet.machine.tree.values import is_data, tagged, untagged

if TYPE_CHECKING:
    from callsheet.machine.run import Run
    from callsheet.machine.tree.execution import CarryOut, Execution

_LITTLE: Final = 200_000
"""The work that the machine itself does for an expression: less than a quarter of a second."""
_WORTH_KEEPING: Final = 1_000
"""From how much work on a value is kept for its operation, and not computed once more."""
_VALUE, _TAGGED, _FAILED = "value", "tagged", "failed"
UNSTORABLE: Final[Mapping[str, JSON]] = {}
"""What is given for a value that can be stored nowhere, so that the machine makes it itself."""


class Evaluation(NamedTuple):
    """An expression that is large: what it reads, and the time of its statement."""

    operand: Compiled
    slots: list[Any]
    now: datetime

    def made(self) -> dict[str, JSON]:
        """What the expression gives, as JSON data for `Apart.give`; takes as long as it takes."""
        env = new_environment()
        env.now = self.now
        try:
            value = self.operand(self.slots, env)
        except ExpressionFailed as failure:
            return {_FAILED: _failure_to_json(failure)}
        if is_data(value):
            return {_VALUE: value}
        try:
            return {_TAGGED: tagged(value, tells_failures=True)}
        except ExpressionFailed:
            return dict(UNSTORABLE)


class Apart:
    """Asks for the values of large expressions of one run; `wanted` is the one that the machine waits for."""

    __slots__ = ("_asking", "_known", "wanted")

    def __init__(self) -> None:
        self.wanted: Evaluation | None = None
        self._asking: Activation | None = None
        self._known: dict[int, tuple[Activation, dict[int, Operand]]] = {}
        """For activations that have paused, by identity, what stands for which of their operands."""

    def attend(self, tree: Execution, plan: Tree) -> None:
        """Look at each operation of a tree before it is executed; used before the tree goes on.

        Not if the plan keeps generators: each gives its items once, to whoever evaluates them first.
        """
        if any(map(_keeps_generator, all_statements(plan))):
            return
        tree.carry_out = {kind: partial(self._carry_out, execute) for kind, execute in tree.carry_out.items()}

    def give(self, made: Mapping[str, Any]) -> None:
        """Say what the wanted expression gives; then the machine can go on."""
        wanted, act = self.wanted, self._asking
        assert wanted is not None
        assert act is not None
        self.wanted = self._asking = None
        self._known[id(act)][1][id(wanted.operand)] = _operand_of(made, wanted.operand)

    def _carry_out(
        self, execute: CarryOut, tree: Execution, run: Run, act: Activation, op: Any, out: list[Command]
    ) -> int:
        _, known = self._known.get(id(act)) or (act, dict[int, Operand]())
        try:
            prepared = with_operands(op, partial(_evaluated, tree, act, known))
        except _Large as large:
            self._known[id(act)] = act, known
            self._asking = act
            self.wanted = Evaluation(large.operand, [*act.slots], act.now)
            run.units_left = 0
            run.is_paused = True
            tree.paused.append(act)
            return WAITING
        self._known.pop(id(act), None)
        return execute(tree, run, act, prepared if known else op, out)


def _keeps_generator(statement: Statement) -> bool:
    """Whether a generator of a statement may outlast it: it is no argument of what goes through it."""
    every = list(operands(statement))
    gone_through = every[:1] if isinstance(statement, Foreach) else []
    found: list[Expression] = []
    for one in chain.from_iterable(map(nodes, every)):
        if _is_generator(one):
            found.append(one)
        elif isinstance(one, Call) or (isinstance(one, Method) and len(one.arguments) == 1 and not one.named):
            gone_through += [*one.arguments, *(value for _, value in one.named)]
    known = set(map(id, gone_through))
    return any(id(one) not in known for one in found)


def _is_generator(node: Expression) -> bool:
    return isinstance(node, Comprehension) and node.kind is Kind.GENERATOR


class _Large(Exception):
    """An operand takes more work than the machine does itself."""

    def __init__(self, operand: Compiled) -> None:
        super().__init__()
        self.operand = operand


def _evaluated(tree: Execution, act: Activation, known: dict[int, Operand], operand: Operand) -> Operand:
    """What stands for an operand of an operation that is about to be executed. Raises _Large."""
    if not isinstance(operand, Compiled):
        return operand
    if id(operand) in known:
        return known[id(operand)]
    env = tree.env
    env.work, env.now = _LITTLE, act.now
    try:
        value = operand(act.slots, env)
    except ExpressionFailed:
        if env.work < 0:
            raise _Large(operand) from None
        return operand  # it fails once more where it stands
    spent = _LITTLE - env.work
    if spent >= _WORTH_KEEPING:
        tree.worked += spent
        known[id(operand)] = Const(value)
    return known.get(id(operand), operand)


def _operand_of(made: Mapping[str, Any], operand: Compiled) -> Operand:
    """What stands for an operand of which a driver says what it gives."""
    if _FAILED in made:
        return _failing(made[_FAILED])
    if _VALUE in made:
        return Const(made[_VALUE])
    return Const(untagged(made[_TAGGED])) if _TAGGED in made else operand


def _failure_to_json(failure: ExpressionFailed) -> JSON:
    span: JSON = None if failure.span is None else [*failure.span]
    return [failure.kind.value, failure.message, failure.is_absent, failure.words, span]


def _failing(said: list[Any]) -> Compiled:
    """An expression that fails like the one whose failure was told."""
    kind, message, is_absent, words, span = said

    def fail(_: list[Any], __: Environment) -> NoReturn:
        failure = ExpressionFailed(FailureKind(kind), message, is_absent=is_absent, words=words)
        failure.span = None if span is None else Span(*span)
        raise failure

    return Compiled(fail, 0)


def with_operands(op: Operation, give: Callable[[Operand], Operand]) -> Operation:  # noqa: PLR0911 - a case for each kind
    """An operation with what `give` returns in place of each operand that it evaluates in any case."""
    match op:
        case CallOp():
            named = tuple((name, give(one)) for name, one in op.named)
            return replace(op, named=named, positional=tuple(give(one) for one in op.positional))
        case LetOp() | YieldOp():
            return replace(op, value=give(op.value))
        case RequireOp() | BranchOp():
            return replace(op, condition=give(op.condition))
        case SayOp() | ReplanOp():
            return replace(op, values=tuple(give(one) for one in op.values))
        case EnterOp():
            return replace(op, most=None if op.most is None else give(op.most))
        case RoundOp():
            return replace(op, while_=None if op.while_ is None else give(op.while_))
        case UntilOp():
            return replace(op, until=None if op.until is None else give(op.until))
        case LoopOp():
            limit = None if op.limit is None else give(op.limit)
            return replace(op, source=give(op.source), limit=limit)
        case LimitOp():
            return replace(op, limit=give(op.limit))
        case InvokeOp():
            return replace(op, arguments=tuple((slot, give(one), kind) for slot, one, kind in op.arguments))
        case (
            ComputeOp() | ClockOp() | JumpOp() | LeaveRoundsOp() | BreakOp() | ParallelOp() | TimerOp()
            | GuardOp() | UnguardOp() | CatchOp() | EndFinalOp()
        ):  # fmt: skip
            return op
    assert_never(op)
