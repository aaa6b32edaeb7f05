"""Trees made of trees: other blocks, missing inputs, no places in a text; and the plan that a tree is."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import fields, replace
from typing import Any, TypeVar, assert_never

from callsheet.ir import step
from callsheet.ir.expr import ListExpr, Literal, Value
from callsheet.ir.expression import Display, Expression, Kind
from callsheet.ir.operations import CallKind
from callsheet.ir.plan import Order, Plan
from callsheet.ir.tree import (
    Act,
    Assign,
    Compute,
    Foreach,
    If,
    Input,
    Invoke,
    Let,
    Parallel,
    Repeat,
    Require,
    Say,
    Statement,
    Tree,
    Try,
    acts,
    recovery_of,
    statements,
    variables_read,
    variables_set,
)
from callsheet.ir.types import Basic

_S = TypeVar("_S")


def with_inputs(tree: Tree, names: Collection[str]) -> Tree:
    """The tree with an input of any type for each of these variables that it reads and nowhere makes."""
    every = tuple(statements(tree.body))
    made = {one.name for one in tree.inputs} | {one.var for one in every if isinstance(one, Foreach)}
    made.update(name for one in every if not isinstance(one, Assign) for name in variables_set(one))
    read = dict.fromkeys(
        name
        for one in every
        for name in (*variables_read(one), *(variables_set(one) if isinstance(one, Assign) else ()))
    )
    added = tuple(Input(name, Basic.JSON) for name in read if name in names and name not in made)
    return replace(tree, inputs=(*tree.inputs, *added)) if added else tree


def without_spans(node: _S) -> _S:
    """The same node, with no place in a text and no comment, also inside it."""
    return _stripped(node)


def _stripped(node: Any) -> Any:
    if isinstance(node, tuple):
        return tuple(_stripped(one) for one in node)  # pyright: ignore[reportUnknownVariableType]
    if not hasattr(node, "__dataclass_fields__"):
        return node
    changed: dict[str, Any] = {}
    for part in fields(node):
        if not part.init:
            continue
        value = getattr(node, part.name)
        if not part.compare:
            changed[part.name] = () if part.name == "comments" else None
        else:
            changed[part.name] = _stripped(value)
    return replace(node, **changed)


def map_blocks(statement: Statement, change: Any) -> Statement:
    """The statement with each block directly inside it replaced by what `change` gives for it."""
    match statement:
        case If(branches=branches, otherwise=otherwise):
            made = tuple(replace(one, body=change(one.body)) for one in branches)
            return replace(
                statement, branches=made, otherwise=None if otherwise is None else change(otherwise)
            )
        case Foreach() | Repeat():
            statement = replace(statement, body=change(statement.body))
        case Try():
            statement = replace(statement, body=change(statement.body))
        case Parallel():
            statement = replace(statement, members=change(statement.members))
        case Act() | Invoke() | Compute() | Let() | Assign() | Require() | Say():
            pass
        case _:
            assert_never(statement)
    recovery = recovery_of(statement)
    if recovery is None or isinstance(statement, Let | Assign | Require | Say | If):
        return statement
    handlers = tuple(replace(one, body=change(one.body)) for one in recovery.handlers)
    final = None if recovery.final is None else change(recovery.final)
    return replace(statement, recovery=replace(recovery, handlers=handlers, final=final))


# ------------------------------------------------------------------ as a plan


def plan_of_tree(
    tree: Tree,
    *,
    id: str | None = None,  # noqa: A002 - the name of the field
    title: str | None = None,
    goal: str | None = None,
    comments: tuple[str, ...] = (),
    in_python: bool = False,
) -> Plan:
    """The plan of version 2 that this tree is; its statements must have ids (`with_ids`)."""
    steps = tuple(_listed(act) for act in acts(tree))
    return Plan(steps, Order.TREE, (), id, title, goal, comments, tree, in_python)


def with_tree(plan: Plan, made: Tree) -> Plan:
    """The plan with another tree, whose statements have ids."""
    return plan_of_tree(
        made, id=plan.id, title=plan.title, goal=plan.goal, comments=plan.comments, in_python=plan.in_python
    )


def _tool_names(value: Expression) -> Value:
    """The names of the tools that an agent is given, if the plan says them; else null, which names none."""
    if isinstance(value, Display) and value.kind is Kind.LIST:
        items = [item for item in value.items if isinstance(item, Literal)]
        if len(items) == len(value.items):
            return ListExpr(tuple(items))
    return Literal(None)


def _listed(act: Act) -> step.Step:
    positional: tuple[Literal, ...] = ()
    if act.positional:
        literals = tuple([value for value in act.positional if isinstance(value, Literal)])
        positional = literals if len(literals) == len(act.positional) else ()
    named: list[tuple[str, Value]] = []
    for name, value in act.named:
        if isinstance(value, Literal):
            named.append((name, value))
        elif name == "tools" and act.kind is CallKind.AGENT:
            named.append((name, _tool_names(value)))
    call = step.Call(act.tool, positional, tuple(named), act.span)
    return step.Step(act.id, call, title=act.title, comments=act.comments, remark=act.remark, span=act.span)
