"""What the printing of a plan tree as Python asks of it: what is one call, what yields, what is set."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Final

from callsheet.frontends.expressions.names import METHOD_NAMES, VERSION_1
from callsheet.ir import Cast, tree
from callsheet.ir import expression as ir
from callsheet.ir.expr import Literal
from callsheet.ir.expression import Expression, variables_in


def changes_in_place(node: ast.AST) -> bool:
    """Whether code may change a value in place here."""
    match node:
        case ast.Call(func=ast.Attribute(attr=attr)):
            return attr not in METHOD_NAMES
        case ast.Subscript(ctx=context) | ast.Attribute(ctx=context):
            return not isinstance(context, ast.Load)
        case ast.AugAssign():
            return True
        case _:
            return False


def single_call(block: tree.Block) -> tree.Act | tree.Invoke | None:
    """The call of a body that is one call and at most a YIELD of its result."""
    match block:
        case (tree.Act(recovery=None, into=None) | tree.Invoke(recovery=None, into=None) as call,):
            return call
        case (
            tree.Act(recovery=None, into=tree.Into(name=name, type=None))
            | tree.Invoke(recovery=None, into=tree.Into(name=name, type=None)) as call,
            tree.Say(word=tree.Word.YIELD, values=(ir.Variable(name=given),)),
        ) if name == given:
            return call
        case _:
            return None


def leaves(block: tree.Block) -> bool:
    """Whether it is certain that nothing after the statement goes on that a block is in."""
    last = block[-1] if block else None
    stays = (tree.Word.NOTE, tree.Word.YIELD, tree.Word.WAIT)
    return isinstance(last, tree.Say) and last.word not in stays


def cannot_fail(value: Expression, var: str | None) -> bool:
    """Whether computing an argument cannot fail."""
    match value:
        case Literal() | ir.Variable() | ir.Bound():
            return True
        case ir.Index(target=ir.Variable(name=name), index=Literal(value=int())):
            return name == var
        case ir.Display(items=items):
            return all(cannot_fail(one, var) for one in items)
        case _:
            return False


def with_element(call: tree.Act | tree.Invoke, var: str, source: Expression) -> tree.Act | tree.Invoke | None:
    """The call with what each item is computed as in place of the item; None unless it is read just once."""
    if not isinstance(source, ir.Comprehension) or source.kind is not ir.Kind.LIST:
        return None
    element = source.element
    parts = element.items if isinstance(element, ir.Display) and element.kind is ir.Kind.TUPLE else None
    used: list[object] = []

    def put(node: Expression) -> Expression:
        match node:
            case ir.Index(target=ir.Variable(name=name), index=Literal(value=int(number))) if (
                name == var and parts is not None and 0 <= number < len(parts)
            ):
                used.append(number)
                return parts[number]
            case ir.Variable(name=name) if name == var:
                used.append(None)
                return element
            case ir.Comprehension() | ir.Lambda():
                used.extend((None, None) if var in variables_in(node) else ())
                return node
            case _:
                return ir.mapped(node, put)

    named = tuple((name, put(value)) for name, value in call.named)
    made: tree.Act | tree.Invoke = replace(call, named=named)
    if isinstance(made, tree.Act):
        made = replace(made, positional=tuple(map(put, made.positional)))
    wanted = [None] if parts is None else [*range(len(parts))]
    return made if sorted(used, key=repr) == sorted(wanted, key=repr) else None


def own_statements(block: tree.Block) -> Iterator[tree.Statement]:
    """The statements of a body, without those of loops inside it."""
    for one in block:
        yield one
        if not isinstance(one, (tree.Foreach, tree.Repeat)):
            for inner in tree.inner_blocks(one):
                yield from own_statements(inner)


def yields(block: tree.Block) -> bool:
    """Whether a body gives a value to the loop around it."""
    return any(isinstance(one, tree.Say) and one.word is tree.Word.YIELD for one in _deep_yields(block))


def _deep_yields(block: tree.Block) -> Iterator[tree.Statement]:
    for one in block:
        yield one
        if not isinstance(one, tree.Foreach):
            for inner in tree.inner_blocks(one):
                yield from _deep_yields(inner)


def yields_once(block: tree.Block) -> bool:
    """Whether each way through a body ends with its only YIELD."""
    if not block:
        return False
    *before, last = block
    if yields(tuple(before)) or any(
        isinstance(one, tree.Say) and one.word in {tree.Word.CONTINUE, tree.Word.BREAK}
        for one in own_statements(block)
    ):
        return False
    match last:
        case tree.Say(word=tree.Word.YIELD):
            return True
        case tree.If(branches=branches, otherwise=otherwise) if otherwise is not None:
            return all(yields_once(one) for one in (*(each.body for each in branches), otherwise))
        case _:
            return False


def binds(one: tree.Statement) -> Iterator[str]:
    """The variables of an item or a handler that a statement brings."""
    if isinstance(one, tree.Foreach):
        yield one.var
    recovery = tree.recovery_of(one)
    if recovery is not None:
        yield from (handler.binds for handler in recovery.handlers)


def all_variables(of: tree.Tree) -> set[str]:
    """The names of all inputs and variables of a plan and its sub-plans."""
    found = {one.name for one in of.inputs}
    for plan in of.plans:
        found |= {one.name for one in plan.inputs}
    for one in tree.all_statements(of):
        found |= {*tree.variables_set(one), *tree.variables_read(one), *binds(one)}
        if isinstance(one, tree.Invoke):
            found |= {name for name, _ in one.named}
    return found


def lenient_variables(blocks: Iterable[tree.Block]) -> frozenset[str]:
    """The variables of which a failure counts as the text of its error wherever they are read.

    Functions of version 1 read it so, and `LET $x = v1.value($x)` makes it one.
    """
    leniently, settled, asked, otherwise = set[str](), set[str](), set[str](), set[str]()
    for one in (each for block in blocks for each in tree.statements(block)):
        nodes = list(tree.operands(one))
        otherwise |= {*one.names} if isinstance(one, tree.Compute) else set()
        match one:
            case tree.Let(name=name, value=ir.Call(function=function, arguments=(ir.Variable(name=of),))) if (
                name == of and function in VERSION_1
            ):
                settled.add(name)
            case _:
                pass
        while nodes:
            match node := nodes.pop():
                case ir.Call(function=function, arguments=arguments) if function in VERSION_1:
                    leniently |= {each.name for each in arguments if isinstance(each, ir.Variable)}
                    nodes += (each for each in arguments if not isinstance(each, ir.Variable))
                case (
                    ir.Call(function="FAILED", arguments=(ir.Variable(name=name), *_))
                    | ir.Field(target=ir.Variable(name=name))
                ):
                    asked.add(name)
                case ir.Variable(name=name):
                    otherwise.add(name)
                case _:
                    nodes += ir.children(node)
    return frozenset((leniently - (otherwise - settled)) - asked)


def is_cast(one: tree.Statement) -> str | None:
    """The variable of `LET $x = v1.int($x)`, which leaves a failure as it is; None for all else."""
    match one:
        case tree.Let(name=name, value=ir.Call(function=function, arguments=(ir.Variable(name=of),))):
            return name if name == of and function in _CASTS else None
        case _:
            return None


_CASTS: Final = frozenset(f"v1.{one.value}" for one in Cast)
"""The casts of version 1, which leave a failure as it is."""
