"""Rewrites straight plans of version 1 as trees: guards as blocks, texts and paths as expressions."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from callsheet.ir import (
    And,
    Compare,
    CompareOp,
    Condition,
    DictExpr,
    Goto,
    IsEmpty,
    ListExpr,
    Literal,
    Not,
    NotEmpty,
    Or,
    Order,
    Plan,
    Ref,
    Replan,
    Respond,
    Step,
    Template,
    Terminate,
    Value,
)
from callsheet.ir import expression as e
from callsheet.ir.statement_ids import with_ids
from callsheet.ir.tree import (
    Act,
    Again,
    Branch,
    Foreach,
    If,
    Input,
    Into,
    Invoke,
    Leave,
    Let,
    Parallel,
    Recovery,
    Say,
    Statement,
    SubPlan,
    Tree,
    Word,
    recovery_of,
    statements,
    variables_read,
    variables_set,
)
from callsheet.ir.tree_edits import plan_of_tree
from callsheet.ir.types import Basic


class CannotNest(Exception):
    """The plan jumps, or is a graph."""


def converted(plan: Plan, *, by_let: bool = False) -> Plan:
    """The plan as a tree. With `by_let` every composed argument is a variable of its own first.

    Raises CannotNest.
    """
    if plan.order is not Order.TEXT or any(isinstance(step.action, Goto) for step in plan.steps):
        raise CannotNest
    maker = _Maker(by_let)
    body: list[Statement] = [Let("", name, maker.value(value)) for name, value in plan.variables]
    group: list[Statement] = []
    for number, step in enumerate(plan.steps):
        made = maker.statements(step)
        if step.group is None:
            body += made
            continue
        group += made
        if number + 1 == len(plan.steps) or plan.steps[number + 1].group != step.group:
            body.append(Parallel("", tuple(group)))
            group = []
    if len({step.id for step in plan.steps}) < len(plan.steps):
        raise CannotNest
    return plan_of_tree(with_ids(Tree(tuple(body))), goal=plan.goal)


class _Maker:
    def __init__(self, by_let: bool) -> None:
        self._by_let = by_let
        self._count = 0
        self._lets: list[Statement] = []

    def value(self, value: Value) -> e.Expression:
        match value:
            case Literal():
                return value
            case Ref():
                return self._ref(value)
            case Template(parts=parts):
                return e.Text(tuple(one if isinstance(one, str) else e.Hole(self._ref(one)) for one in parts))
            case ListExpr(items=items):
                return e.Display(e.Kind.LIST, tuple(map(self.value, items)))
            case DictExpr(items=items):
                return e.Mapping(tuple((Literal(key), self.value(one)) for key, one in items))

    def _ref(self, ref: Ref) -> e.Expression:
        made: e.Expression = e.Variable(ref.name)
        for part in ref.path:
            made = e.Index(made, Literal(part)) if isinstance(part, int) else e.Field(made, part)
        return made

    def _argument(self, value: Value) -> e.Expression:
        made = self.value(value)
        if not self._by_let or isinstance(made, Literal | e.Variable):
            return made
        self._count += 1
        self._lets.append(Let("", f"let_{self._count}", made))
        return e.Variable(f"let_{self._count}")

    def statements(self, step: Step) -> list[Statement]:
        """The statements of a step: its action, with what guards it around it."""
        self._lets = []
        inner = self._action(step)
        made: list[Statement] = [*self._lets, inner]
        into = getattr(inner, "into", None) if step.foreach is not None else None
        if into is not None and isinstance(inner, Act):
            made[-1] = replace(inner, into=Into(f"{into.name}_item"))
            made.append(Say("", Word.YIELD, (e.Variable(f"{into.name}_item"),)))
        if step.condition is not None:  # in a loop it is tested for each item
            made = [If("", (Branch(self._condition(step.condition), tuple(made)),))]
        if step.foreach is not None:
            source = self.value(step.foreach.source)
            made = [Foreach("", step.foreach.var, source, tuple(made), into=into)]
        return made

    def _action(self, step: Step) -> Statement:
        if step.call is None:
            values = tuple(map(self._argument, step.values()))
            match step.action:
                case Respond():
                    return Say(step.id, Word.RESPOND, values)
                case Terminate():
                    return Say(step.id, Word.TERMINATE, values)
                case Replan():
                    return Say(step.id, Word.REPLAN, values)
                case _:
                    raise CannotNest
        call = step.call
        into = None if step.output is None else Into(step.output.var)
        return Act(
            step.id,
            call.tool,
            tuple(map(self._argument, call.positional)),
            tuple((name, self._argument(value)) for name, value in call.named),
            into,
            self._recovery(step),
        )

    def _recovery(self, step: Step) -> Recovery | None:
        if step.on_fail is None:
            return None
        recovery = Recovery()
        if step.retries:
            recovery = replace(recovery, again=Again(step.retries))
        if step.after_failure.jump is not None:
            raise CannotNest
        if step.after_failure.leaves:
            recovery = replace(recovery, remedy=Leave(tuple(map(self.value, step.failure_values()))))
        return None if recovery == Recovery() else recovery

    def _condition(self, condition: Condition) -> e.Expression:
        match condition:
            case Compare(op=CompareOp.CONTAINS, left=left, right=right):
                return e.Compared(self.value(right), ((e.Comparison.IN, self.value(left)),))
            case Compare(op=op, left=left, right=right):
                return e.Compared(self.value(left), ((e.Comparison(op.value), self.value(right)),))
            case IsEmpty(value=value):
                return e.Call("is_empty", (self.value(value),))
            case NotEmpty(value=value):
                return e.Unary(e.UnaryOp.NOT, e.Call("is_empty", (self.value(value),)))
            case Not(condition=inner):
                return e.Unary(e.UnaryOp.NOT, self._condition(inner))
            case And(conditions=inner):
                return e.Logic(e.LogicOp.AND, tuple(map(self._condition, inner)))
            case Or(conditions=inner):
                return e.Logic(e.LogicOp.OR, tuple(map(self._condition, inner)))


def in_sub_plan(plan: Plan) -> Plan:
    """A converted plan with all but its answers in a sub-plan, which returns what the answers read."""
    tree = plan.tree
    assert tree is not None
    body = list(tree.body)
    last: list[Statement] = []
    while body and isinstance(body[-1], Say):
        last.insert(0, body.pop())
    if not body or any(isinstance(one, Say) or _may_end(one) for one in statements(tuple(body))):
        raise CannotNest
    names = dict.fromkeys(name for one in _outer(body) for name in variables_set(one))
    if any(name not in names for one in last for name in variables_read(one)):
        raise CannotNest
    result = e.Mapping(tuple((Literal(name), e.Variable(name)) for name in names))
    sub = SubPlan("all", (Input("go", Basic.STR),), (*body, Say("", Word.RETURN, (result,))))
    call = Invoke("all_of_it", "all", (("go", Literal("now")),), Into("out"))
    lets = tuple(Let("", name, e.Field(e.Variable("out"), name)) for name in names)
    return plan_of_tree(with_ids(Tree((call, *lets, *last), plans=(sub,))), goal=plan.goal)


def _may_end(statement: Statement) -> bool:
    recovery = recovery_of(statement)
    return recovery is not None and isinstance(recovery.remedy, Leave)


def _outer(body: Iterable[Statement]) -> Iterable[Statement]:
    """The statements that set variables on every way through."""
    for one in body:
        if isinstance(one, Parallel):
            yield from one.members
        elif not isinstance(one, If):
            yield one
