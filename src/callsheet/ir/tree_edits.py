"""Trees made of trees: ids for statements, other blocks, missing inputs; and the plan that a tree is."""

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
    Block,
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
    all_statements,
    inner_blocks,
    is_single,
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
        value = getattr(node, part.name)
        if not part.compare:
            changed[part.name] = () if part.name == "comments" else None
        else:
            changed[part.name] = _stripped(value)
    return replace(node, **changed)


def with_ids(tree: Tree) -> Tree:
    """The plan with an id for each statement that has none, unique in the plan.

    A statement without a written id is named after the one around it, as in `S2.let1`: by the word for its
    kind and its number among those of this kind. Sub-plans give their name in front.
    """
    taken = {one.id: 0 for one in all_statements(tree) if one.id}
    plans = tuple(replace(one, body=_named_block(one.body, one.name, taken)) for one in tree.plans)
    return replace(tree, body=_named_block(tree.body, "", taken), plans=plans)


_WORDS: dict[type, str] = {
    Act: "call",
    Invoke: "plan",
    Compute: "compute",
    Let: "let",
    Assign: "set",
    Require: "require",
    If: "if",
    Foreach: "foreach",
    Repeat: "repeat",
    Try: "try",
    Parallel: "parallel",
}


def _word(statement: Statement) -> str:
    if isinstance(statement, Say):
        return statement.word.value.removeprefix("@").replace("-", "").lower()
    return _WORDS[type(statement)]


def _named_block(block: Block, around: str, taken: dict[str, int]) -> Block:
    return tuple(
        [one if one.id and is_single(one) else _named_statement(one, around, taken) for one in block]
    )


def _named_statement(statement: Statement, around: str, taken: dict[str, int]) -> Statement:
    """`taken` has the ids there are, and for each stem of made ones the last number."""
    own = statement.id
    if not own:
        stem = f"{around}.{_word(statement)}" if around else _word(statement)
        number = taken.get(stem, 0) + 1
        while (own := f"{stem}{number}") in taken:
            number += 1
        taken[stem] = number
        taken.setdefault(own, 0)
    return _with_inner(statement, own, taken)


def _with_inner(statement: Statement, own: str, taken: dict[str, int]) -> Statement:
    if own == statement.id and next(inner_blocks(statement), None) is None:
        return statement

    def inner(block: Block) -> Block:
        return _named_block(block, own, taken)

    made = replace(map_blocks(statement, inner), id=own)
    if isinstance(made, Try) and made.recovery.undo and not made.recovery.handlers:
        from callsheet.ir.sagas import with_undo_block  # noqa: PLC0415 - it edits trees itself

        return with_undo_block(made)
    return made


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
) -> Plan:
    """The plan of version 2 that this tree is; its statements must have ids (`with_ids`)."""
    steps = tuple(_listed(act) for act in acts(tree))
    return Plan(steps, Order.TREE, (), id, title, goal, comments, tree)


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
