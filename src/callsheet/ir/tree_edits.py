"""Trees made of trees: other blocks, missing inputs, no places in a text; and the plan that a tree is."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import fields, replace
from itertools import count
from operator import is_not
from typing import Any, Final, TypeVar, assert_never, cast

from callsheet import lazy
from callsheet.diagnostics import Span
from callsheet.ir import step
from callsheet.ir.expr import ListExpr, Literal, Value
from callsheet.ir.expression import Display, Expression, Kind, Variable
from callsheet.ir.operations import CallKind
from callsheet.ir.plan import Order, Plan
from callsheet.ir.tree import (
    ERROR_VARIABLE,
    Act,
    Assign,
    Block,
    Compute,
    Foreach,
    Handler,
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
    is_single,
    recovery_of,
    statements,
    variables_read,
    variables_set,
)
from callsheet.ir.types import Basic

_S = TypeVar("_S")
_NUMBER = lazy.pattern(r"_\d+\Z")
_BARE: Final = {
    **dict.fromkeys(("span", "remark", "help")),
    **{"comments": (), "is_open": False, "is_placeholder": False},
}


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


def with_own_failures(tree: Tree) -> Tree:
    """The tree in which the variable of each handler means one failure: that of its own block.

    The variable of a handler gets another name, as `$error_2`, if it stands in a handler with the same name,
    if another member of its @PARALLEL has one, or if the plan has a variable of that name.
    """
    plans = tuple(replace(one, body=_with_own_failures(one.inputs, one.body)) for one in tree.plans)
    return replace(tree, plans=plans, body=_with_own_failures(tree.inputs, tree.body))


def _with_own_failures(inputs: tuple[Input, ...], body: Block) -> Block:
    bound = [each.binds for one in statements(body) for each in _handlers(one)]
    if not bound:  # most plans
        return body
    read = {name for one in statements(body) for name in variables_read(one)}
    if read.isdisjoint(bound):  # whose failure it is makes no difference
        return body
    naming = _OwnFailures(inputs, body, bound)
    is_distinct = len(bound) == len(set(bound)) and naming.made.isdisjoint(bound)
    return body if is_distinct else naming.block(body, frozenset())


def with_written_failures(tree: Tree) -> Tree:
    """The tree with the variables of handlers as people write them: `$error` for `$error_2`.

    What `with_own_failures` makes of it is the given tree.
    """
    plans = tuple(replace(one, body=_with_written_failures(one.inputs, one.body)) for one in tree.plans)
    return replace(tree, plans=plans, body=_with_written_failures(tree.inputs, tree.body))


def _with_written_failures(inputs: tuple[Input, ...], body: Block) -> Block:
    bound = {each.binds for one in statements(body) for each in _handlers(one)}
    known = bound | {ERROR_VARIABLE}
    written = {name: old for name in bound if (old := _NUMBER.sub("", name)) != name and old in known}
    if not written:
        return body

    def change(node: Any) -> Any:
        if not isinstance(node, Handler) or node.binds not in written:
            return None
        old = written[node.binds]
        return replace(node, binds=old, body=_renamed(changed_nodes(node.body, change), node.binds, old))

    made = changed_nodes(body, change)
    return made if _with_own_failures(inputs, made) == body else body


class _OwnFailures:
    """Gives the variables of handlers their names in the main plan or a sub-plan."""

    def __init__(self, inputs: tuple[Input, ...], body: Block, bound: Collection[str]) -> None:
        every = tuple(statements(body))
        self.made = {one.name for one in inputs} | {one.var for one in every if isinstance(one, Foreach)}
        self.made.update(name for one in every for name in variables_set(one))
        self.taken = self.made.union(bound)
        self.given: dict[str, None] = {}
        self.numbers = count(2)

    def block(self, block: Block, known: frozenset[str], *, is_group: bool = False) -> Block:
        """The block where handlers have bound the names `known`, in a group also those of other members."""
        made: list[Statement] = []
        for one in block:
            made.append(self.statement(one, known))
            if is_group:
                bound = {each.binds for inner in statements((made[-1],)) for each in _handlers(inner)}
                known |= bound - self.given.keys()
        return tuple(made)

    def statement(self, one: Statement, known: frozenset[str]) -> Statement:
        """The statement in a place where handlers have bound the names `known`."""
        if is_single(one):
            return one
        recovery = recovery_of(one)
        if recovery is not None and recovery.handlers:
            handlers = tuple(self.handler(each, known) for each in recovery.handlers)
            one = replace(cast("Try", one), recovery=replace(recovery, handlers=handlers))
        inside = {id(each.body): known | {each.binds} for each in _handlers(one)}
        members = one.members if isinstance(one, Parallel) else None

        def change(block: Block) -> Block:
            return self.block(block, inside.get(id(block), known), is_group=block is members)

        return map_blocks(one, change)

    def handler(self, one: Handler, known: frozenset[str]) -> Handler:
        """The handler under a name of its own; one whose block uses the name in other ways keeps it."""
        old = one.binds
        if old not in known and old not in self.made:
            return one
        if any(old in variables_set(each) or old in _names_of_code(each) for each in statements(one.body)):
            return one
        new = next(name for n in self.numbers if (name := f"{old}_{n}") not in self.taken)
        self.given[new] = None
        return replace(one, binds=new, body=_renamed(one.body, old, new))


def _handlers(one: Statement) -> tuple[Handler, ...]:
    recovery = recovery_of(one)
    return () if recovery is None else recovery.handlers


def _names_of_code(one: Statement) -> tuple[str, ...]:
    return one.names if isinstance(one, Compute) else ()


def _renamed(body: Block, old: str, new: str) -> Block:
    """The block that reads `new` for `old`, but in a handler whose variable that is."""

    def change(node: Any) -> Any:
        if isinstance(node, Variable):
            return replace(node, name=new) if node.name == old else node
        return node if isinstance(node, Handler) and node.binds == old else None

    return changed_nodes(body, change)


def changed_nodes(node: _S, change: Callable[[Any], Any]) -> _S:
    """The node, or tuple of nodes, with what `change` gives for the nodes in it; None is to go on inside."""
    return _changed(node, change)


def _changed(node: Any, change: Callable[[Any], Any]) -> Any:
    made = change(node)
    if made is not None:
        return made
    if isinstance(node, tuple):
        parts: list[Any] = [_changed(one, change) for one in cast("tuple[Any, ...]", node)]
        return tuple(parts) if any(map(is_not, parts, cast("tuple[Any, ...]", node))) else node  # pyright: ignore[reportUnknownVariableType]
    if not hasattr(node, "__dataclass_fields__"):
        return node
    held = {part.name: getattr(node, part.name) for part in fields(node) if part.init and part.compare}
    changed = {name: new for name, old in held.items() if (new := _changed(old, change)) is not old}
    return replace(node, **changed) if changed else node


def without_spans(node: _S) -> _S:
    """The same node, with no place in a text and no comment, also inside it."""
    return _with_every(node, _BARE)


def placed(node: _S, span: Span | None) -> _S:
    """The same node, where it and all inside it have this place in a text."""
    return _with_every(node, {"span": span})


def _with_every(node: Any, values: Mapping[str, Any]) -> Any:
    """The node in which all fields of these names that do not count in comparisons have these values."""
    if isinstance(node, tuple):
        return tuple(_with_every(one, values) for one in node)  # pyright: ignore[reportUnknownVariableType]
    if not hasattr(node, "__dataclass_fields__"):
        return node
    changed: dict[str, Any] = {}
    for part in fields(node):
        if not part.init:
            continue
        if part.compare:
            changed[part.name] = _with_every(getattr(node, part.name), values)
        elif part.name in values:
            changed[part.name] = values[part.name]
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
