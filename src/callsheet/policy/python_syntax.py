"""What statements and expressions of Python name: what they read, store and change, in which scope.

In: nodes of a syntax tree. Out: names, nodes, what can be told of a value from its text alone. Raises
NotUnderstood for what reaches variables in other ways: classes with methods, reflection, decorators.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from typing import TypeGuard

from callsheet.policy import python_words as words
from callsheet.policy.python_words import REFLECTION

_LEAVING = (ast.Break, ast.Continue, ast.Return, ast.Raise, ast.Try)


def form_of(node: ast.expr) -> str | None:
    """The form of a value, as far as it can be seen."""
    match node:
        case ast.Constant(value=bool()):
            return "bool"
        case ast.Constant(value=int() | float()):
            return "number"
        case ast.Constant(value=str()) | ast.JoinedStr():
            return "text"
        case ast.List() | ast.ListComp():
            return "list"
        case ast.Dict() | ast.DictComp():
            return "dict"
        case ast.Compare() | ast.UnaryOp(op=ast.Not()):
            return "bool"
        case ast.Call(func=ast.Name(id=name)):
            return words.KINDS.get(name)
        case ast.BinOp(left=left, right=right):
            return form_of(left) or form_of(right)
        case ast.IfExp(body=one, orelse=other) if form_of(one) == form_of(other):
            return form_of(one)
        case _:
            return None


def has_defaults(node: ast.expr | None) -> bool:
    """Whether a value is a dict that makes what is asked of it."""
    return isinstance(node, ast.Call) and "defaultdict" in ast.dump(node.func)


def is_new(node: ast.expr) -> bool:
    """Whether a value is an object that nothing else holds."""
    match node:
        case ast.Constant() | ast.JoinedStr() | ast.Compare() | ast.BinOp() | ast.UnaryOp():
            return True
        case ast.List() | ast.Dict() | ast.Set() | ast.ListComp() | ast.DictComp() | ast.SetComp():
            return True
        case ast.Call(func=ast.Name(id=name)):
            return name in words.MAKING
        case _:
            return False


def may_fail_when_called(node: ast.expr) -> bool:
    """Whether a value is a function that fails for some contents."""
    match node:
        case ast.Name(id=name):
            return name in words.FUNCTIONS and name not in words.TOTAL
        case ast.Attribute(value=ast.Name(id=name), attr=attr) if name in words.MODULES | words.FUNCTIONS:
            return attr not in words.TOTAL_METHODS
        case _:
            return False


def divides(op: ast.operator, right: ast.expr) -> bool:
    """Whether an operator fails for some right operands."""
    is_division = isinstance(op, ast.Div | ast.FloorDiv | ast.Mod | ast.Pow | ast.LShift | ast.RShift)
    return is_division and not (isinstance(right, ast.Constant) and bool(right.value))


def is_literal(index: ast.expr) -> bool:
    """Whether an index is written in the text."""
    match index:
        case ast.Constant() | ast.Slice() | ast.UnaryOp(operand=ast.Constant()):
            return True
        case _:
            return False


def is_pair(value: ast.expr) -> bool:
    """Whether a value always has as many parts as it is taken apart into."""
    return isinstance(value, ast.Tuple | ast.List) or (
        isinstance(value, ast.Call)
        and isinstance(value.func, ast.Name | ast.Attribute)
        and (value.func.id if isinstance(value.func, ast.Name) else value.func.attr) in words.PAIRS
    )


def all_inside(block: Iterable[ast.stmt]) -> Iterator[ast.stmt]:
    """The statements of a block and all statements inside them."""
    for statement in block:
        yield statement
        for one in ast.iter_child_nodes(statement):
            if isinstance(one, ast.stmt):
                yield from all_inside([one])
            elif isinstance(one, ast.ExceptHandler | ast.match_case):
                yield from all_inside(one.body)


def own_nodes(statement: ast.AST) -> Iterator[ast.AST]:
    """The nodes of a statement but those of the statements inside it."""
    waiting: list[ast.AST] = [statement]
    while waiting:
        node = waiting.pop()
        yield node
        waiting += [
            one
            for one in ast.iter_child_nodes(node)
            if not isinstance(one, ast.stmt | ast.ExceptHandler | ast.match_case)
        ]


def names_read(node: ast.AST) -> frozenset[str]:
    """The names that a node reads; those of comprehensions are among them, which does no harm."""
    return frozenset(
        one.id for one in ast.walk(node) if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Load)
    )


def own_names_read(statement: ast.stmt) -> frozenset[str]:
    """The names that a statement itself reads."""
    return frozenset[str]().union(
        *(names_read(node) for node in own_nodes(statement) if isinstance(node, ast.Name))
    )


def all_names(node: ast.AST) -> frozenset[str]:
    """All variables that a node names, arguments of functions and captures of patterns among them."""
    found: set[str] = set()
    for one in ast.walk(node):
        match one:
            case ast.Name(id=name) | ast.arg(arg=name):
                found.add(name)
            case ast.MatchAs(name=str() as name) | ast.MatchStar(name=str() as name):
                found.add(name)
            case ast.MatchMapping(rest=str() as name):
                found.add(name)
            case _:
                pass
    return frozenset(found)


def names_stored(target: ast.AST) -> frozenset[str]:
    """The names that a target assigns."""
    return frozenset(
        one.id for one in ast.walk(target) if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store)
    )


def names_stored_by(statement: ast.stmt) -> frozenset[str]:
    """The names that a statement itself assigns, not those inside it."""
    own = [node for node in own_nodes(statement) if isinstance(node, ast.Name)]
    return frozenset(one.id for one in own if isinstance(one.ctx, ast.Store))


def assignments(statement: ast.stmt) -> Iterator[tuple[ast.expr, ast.expr]]:
    """Each target of a statement, with the value that it takes from."""
    match statement:
        case ast.Assign(targets=targets, value=value):
            yield from ((target, value) for target in targets)
        case ast.AnnAssign(target=target, value=value) if value is not None:
            yield target, value
        case ast.AugAssign(target=target, value=value) | ast.For(target=target, iter=value):
            yield target, value
        case _:
            pass
    for one in own_nodes(statement):
        if isinstance(one, ast.NamedExpr):
            yield one.target, one.value
        elif isinstance(one, ast.comprehension):
            yield one.target, one.iter


def is_change(node: ast.AST) -> TypeGuard[ast.Call]:
    """Whether a node calls a method that changes what it is called on."""
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return False
    return node.func.attr in words.CHANGING


def names_changed_by(statement: ast.AST) -> frozenset[str] | None:
    """The variables whose objects a statement changes; None if it changes an object that it does not name."""
    changed: set[str] = set()
    for node in own_nodes(statement):
        roots: set[str] | None = None
        if isinstance(node, ast.Attribute | ast.Subscript) and not isinstance(node.ctx, ast.Load):
            roots = roots_of(node)
        elif is_change(node):
            roots = roots_of(node.func)
        if roots is not None:
            if not roots:
                return None
            changed |= roots
    return frozenset(changed)


def names_shared(node: ast.expr) -> frozenset[str]:
    """The names whose objects a value may be, or hold; none if it is a text, a number or a truth value."""
    match node:
        case ast.Constant() | ast.JoinedStr() | ast.Compare() | ast.UnaryOp():
            return frozenset()
        case ast.Call(func=ast.Name(id=name)) if words.KINDS.get(name) in ("number", "text", "bool"):
            return frozenset()
        case ast.Subscript(value=value) | ast.Attribute(value=value):
            return names_shared(value)
        case ast.IfExp(body=one, orelse=other):
            return names_shared(one) | names_shared(other)
        case _:
            return names_read(node)


def names_deciding(block: Iterable[ast.stmt]) -> frozenset[str]:
    """The names that decide how often a loop with this body goes on, if something may leave it."""
    every = list(all_inside(block))
    if not any(isinstance(one, _LEAVING) for one in every):
        return frozenset()
    found: set[str] = set()
    for statement in every:
        if isinstance(statement, ast.If | ast.While):
            found |= names_read(statement.test)
        elif isinstance(statement, ast.For):
            found |= names_read(statement.iter)
        elif isinstance(statement, ast.Try | ast.Match | ast.With):
            found |= names_read(statement)
    return frozenset(found)


def holds_iterator(statement: ast.stmt) -> bool:
    """Whether a statement keeps what is used up when it is gone through."""
    return any(
        isinstance(one, ast.GeneratorExp)
        or (
            isinstance(one, ast.Call)
            and isinstance(one.func, ast.Name | ast.Attribute)
            and (one.func.id if isinstance(one.func, ast.Name) else one.func.attr) in words.ITERATORS
        )
        for _, value in assignments(statement)
        if isinstance(statement, ast.Assign | ast.AnnAssign | ast.AugAssign)
        for one in (value, *(value.elts if isinstance(value, ast.Tuple | ast.List) else ()))
    )


def roots_of(node: ast.AST) -> set[str]:
    """The variables that a target or a receiver is part of."""
    while isinstance(node, ast.Attribute | ast.Subscript | ast.Starred):
        node = node.value
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        return roots_of(node.func)
    if isinstance(node, ast.Tuple | ast.List):
        return {name for one in node.elts for name in roots_of(one)}
    return {node.id} if isinstance(node, ast.Name) else set()


class NotUnderstood(Exception):
    """A program whose flow cannot be read."""


def scoped(parsed: ast.Module) -> ast.Module:
    """The tree with the locals of functions renamed; the tree that is given is left as it is."""
    for node in ast.walk(parsed):
        match node:
            case ast.ClassDef():
                _check_class(node)
            case ast.FunctionDef(decorator_list=[_, *_]):
                raise NotUnderstood("a decorator")
            case ast.AsyncFunctionDef() | ast.AsyncFor() | ast.AsyncWith() | ast.Await():
                raise NotUnderstood("async")
            case ast.Name(id=name) if name in REFLECTION or name.startswith("__"):
                raise NotUnderstood(name)
            case ast.Attribute(attr=attr) if attr.startswith("_"):
                raise NotUnderstood(attr)
            case _:
                pass
    return ast.Module([_Renamer({}).visit(one) for one in parsed.body], [])


def _check_class(node: ast.ClassDef) -> None:
    if any(not isinstance(one, ast.AnnAssign | ast.Assign | ast.Pass | ast.Expr) for one in node.body):
        raise NotUnderstood("a class with methods")
    for one in node.decorator_list:
        named = one.func if isinstance(one, ast.Call) else one
        if not (isinstance(named, ast.Name) and named.id == "dataclass"):
            raise NotUnderstood("a decorator")


def free_names(function: ast.FunctionDef) -> frozenset[str]:
    """The names that a renamed function reads from around it."""
    read = {one.id for one in ast.walk(function) if isinstance(one, ast.Name)}
    return frozenset(name for name in read if not name.startswith(f"{function.name}."))


class _Renamer(ast.NodeTransformer):
    """Renames what is local; nested functions and lambdas see the names around them."""

    def __init__(self, known: dict[str, str]) -> None:
        self._known = known

    def visit_Name(self, node: ast.Name) -> ast.Name:
        return ast.copy_location(ast.Name(self._known.get(node.id, node.id), node.ctx), node)

    def visit_arg(self, node: ast.arg) -> ast.arg:
        return ast.arg(self._known.get(node.arg, node.arg))

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.FunctionDef:
        outer: set[str] = set()
        made = {one.arg for one in ast.walk(node.args) if isinstance(one, ast.arg)}
        waiting: list[ast.AST] = list(node.body)
        while waiting:
            one = waiting.pop()
            match one:
                case (
                    ast.FunctionDef(name=name)
                    | ast.ClassDef(name=name)
                    | ast.ExceptHandler(name=str() as name)
                ):
                    made.add(name)
                case ast.Name(id=name, ctx=ast.Store()):
                    made.add(name)
                case ast.MatchAs(name=str() as name) | ast.MatchStar(name=str() as name):
                    raise NotUnderstood("a pattern in a function")
                case ast.Global(names=names) | ast.Nonlocal(names=names):
                    outer.update(names)
                case _:
                    pass
            if not isinstance(one, ast.FunctionDef | ast.Lambda):
                waiting += ast.iter_child_nodes(one)
        inner = {**self._known, **{name: f"{node.name}.{name}" for name in made - outer}}
        defaults = [*node.args.defaults, *(one for one in node.args.kw_defaults if one is not None)]
        within = _Renamer(inner)
        name = self._known.get(node.name, node.name)
        body = [within.visit(one) for one in node.body]
        for one in ast.walk(ast.Module(body, [])):
            if isinstance(one, ast.ExceptHandler) and one.name in made - outer:
                one.name = f"{node.name}.{one.name}"
        # what a default reads is read by the function
        body += [ast.Expr(self.visit(one)) for one in defaults]
        return ast.copy_location(ast.FunctionDef(name, _no_arguments(), body, []), node)

    def visit_Lambda(self, node: ast.Lambda) -> ast.Lambda:
        own = {one.arg for one in ast.walk(node.args) if isinstance(one, ast.arg)}
        inner = _Renamer({name: to for name, to in self._known.items() if name not in own})
        defaults = [self.visit(one) for one in node.args.defaults]
        made = ast.Lambda(_no_arguments(), inner.visit(node.body))
        if defaults:
            made.body = ast.Tuple([made.body, *defaults], ast.Load())
        return ast.copy_location(made, node)


def _no_arguments() -> ast.arguments:
    return ast.arguments([], [], None, [], [], None, [])
