"""Whether values are trees: surely no object stands in two of their places.

In: a function of `core` statements. A value that a plan hands on is a copy, in which what was one object is
several; of a tree that makes no difference. Here a value is a tree if each variable that is put into it is
put there once, under one path, in each round of the loops around that place.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Collection, Iterator
from typing import Final, NamedTuple, TypeAlias

from callsheet.frontends.python import core
from callsheet.frontends.python.analysis.constructors import keeps_each_once
from callsheet.frontends.python.analysis.container_words import PUTS
from callsheet.frontends.python.analysis.kinds import FLAT, Kinds
from callsheet.frontends.python.analysis.objects import Node, chain, find
from callsheet.frontends.python.analysis.shared_values import Comprehension
from callsheet.frontends.python.analysis.sharing import Sharing
from callsheet.frontends.python.analysis.variables import PureFlow
from callsheet.frontends.python.source import dotted, is_named, own_nodes, walk

_COPIES: Final = frozenset(
    {"list", "tuple", "sorted", "reversed", "dict", "set", "enumerate", "zip", "deque", "iter"}
)
_NOTHING: Final = (ast.Constant, ast.JoinedStr, ast.Compare, ast.Lambda)
"""What holds nothing that could be changed."""
_TAKES: Final = frozenset({"get", "values", "items", "copy", "pop", "popleft", "setdefault"})

Where: TypeAlias = "tuple[tuple[int, int], ...]"
"""The loops and branches around a statement: the id of each, and which of its branches; -1 for a loop."""


Carried: TypeAlias = "Callable[[core.Loop | core.While], Collection[str]]"
"""The variables that a round of a loop may read as the one before left them."""


class _NotTree(Exception):
    """The value may hold an object twice."""


class _Put(NamedTuple):
    """A variable's value, or its part under a path, is put somewhere; None in a path is any key."""

    name: str
    path: tuple[object, ...]
    where: Where


class _Made(NamedTuple):
    """An expression that a variable is set to, or that is put into it; a call where there is none."""

    value: ast.expr | core.Call | None
    where: Where
    is_binding: bool
    evaluated: Where
    """Where the expression is evaluated: that of a loop's item before the loop."""


class Calls(NamedTuple):
    """What is known of the results of async functions.

    Whether they are no part of what these are given, and whether they are trees.
    """

    is_fresh: Callable[[core.Call], bool]
    is_tree: Callable[[core.Call], bool]


def is_tree(function: core.Function, kinds: Kinds, carried: Carried, calls: Calls) -> bool:
    """Whether the function surely returns a tree."""
    reader = _Reader(function, kinds, carried, calls)
    return reader.is_tree(reader.returned)


class Trees:
    """Answers for the values of a function's expressions whether they hold an object in one place alone."""

    def __init__(
        self, function: core.Function, kinds: Kinds, carried: Carried, calls: Calls, sharing: Sharing
    ) -> None:
        self.reader = _Reader(function, kinds, carried, calls)
        self.sharing = sharing
        self.known: dict[tuple[str, Node], bool] = {}

    def hold_once(self, value: ast.expr, node: Node) -> bool:
        """Whether the value of an expression surely holds each object that a node stands for once at most."""
        key = ast.dump(value), find(node)
        if key not in self.known:
            self.reader.concern = self.sharing, find(node)
            self.known[key] = self.reader.is_tree([(value, ())])
        return self.known[key]


class _Reader:
    def __init__(self, function: core.Function, kinds: Kinds, carried: Carried, calls: Calls) -> None:
        self.function, self.kinds, self.carried, self.calls = function, kinds, carried, calls
        self.made: dict[str, list[_Made]] = {}
        self.returned: list[tuple[ast.expr, Where]] = []
        self.counted: dict[str, tuple[str, Where]] = {}
        """Variables that count through a list: that list, and what is around the loop."""
        self.kept: dict[int, Collection[str]] = {}
        """By the ids of loops, the variables that a round may read as the one before left them."""
        self.filled: list[str] = []
        """The lists that the loops around a place put values into."""
        self.skips = False
        """Whether a round of a loop may end early."""
        self.concern: tuple[Sharing, Node] | None = None
        """The one object that may stand in two places, None for any, and what variables share."""
        self._block(function.body, ())

    def is_tree(self, values: list[tuple[ast.expr, Where]]) -> bool:
        """Whether values that are put into one place are surely a tree there."""
        try:
            self._check(values)
        except _NotTree:
            return False
        return True

    def _check(self, values: list[tuple[ast.expr, Where]]) -> None:
        puts: dict[str, list[_Put]] = {}
        todo = [put for value, where in values for put in self._puts(value, where)]
        while todo:
            put = todo.pop()
            known = puts.setdefault(put.name, [])
            known.append(put)
            if len(known) > 1:
                continue
            for one in self._made_of(put.name):
                if isinstance(one.value, core.Call):
                    todo += self._given_by(one.value, one.where)
                elif one.value is not None:
                    todo += self._puts(one.value, one.evaluated)
        for known in puts.values():
            for number, put in enumerate(known):
                self._check_rounds(put)
                if any(_meet(put, other) for other in known[:number]):
                    raise _NotTree

    def _made_of(self, name: str) -> Iterator[_Made]:
        """What a variable is set to, and what is put into it, also under another name."""
        own = self.made.get(name, [])
        yield from own
        if self.concern is None:
            return
        sharing, seen = self.concern[0], {id(one.value) for one in own}
        held = {find(sharing.node(name))}
        for other, made in self.made.items():
            parts = [one for one in made if not one.is_binding and id(one.value) not in seen]
            if parts and find(sharing.node(other)) in held:
                seen |= {id(one.value) for one in parts}
                yield from parts

    def _given_by(self, call: core.Call, where: Where) -> list[_Put]:
        """What is in the result of a call. Raises _NotTree."""
        if call.helper is None:
            return []
        if not self.calls.is_tree(call):
            raise _NotTree
        if self.calls.is_fresh(call):
            return []
        given = [put for each in call.arguments for put in self._puts(each.value, where)]
        return [put._replace(path=(*put.path, None)) for put in given]

    def _check_rounds(self, put: _Put) -> None:
        """Raises _NotTree for what may be put in its place in two rounds of a loop."""
        loops = [number for number, (_, branch) in enumerate(put.where) if branch < 0]
        if not loops:
            return
        around = put.where[: loops[-1] + 1]
        bindings = [one.where for one in self.made.get(put.name, []) if one.is_binding]
        is_kept = put.name in self.kept.get(around[-1][0], ())
        if all(where[: len(around)] == around for where in bindings) and bindings and not is_kept:
            return
        if around not in bindings or self.skips or is_kept:
            raise _NotTree

    def _matters(self, node: ast.expr) -> bool:
        if self.concern is None or isinstance(node, ast.Yield):
            return True
        sharing, wanted = self.concern
        held = chain(sharing.value(node))  # which may merge what is wanted with more
        return find(wanted) in held

    # ------------------------------------------------------------ what is put where

    def _puts(self, node: ast.expr, where: Where) -> list[_Put]:  # noqa: PLR0911, PLR0912 - cases
        """What is in the value of an expression. Raises _NotTree."""
        if self.kinds.of(node) in FLAT or isinstance(node, _NOTHING):
            return []
        if not self._matters(node):
            return []
        match node:
            case ast.Name(id=name):
                return [] if self.kinds.is_flat(name) else [_Put(name, (), where)]
            case ast.Subscript(value=value, slice=ast.Name(id=number)) if (
                counted := self.counted.get(number)
            ) is not None and self._is_counted(counted[0], value):
                return self._puts(_any_item(ast.Name(counted[0], ast.Load())), counted[1])
            case ast.Subscript(value=value, slice=index):
                key = index.value if isinstance(index, ast.Constant) else None
                return [put._replace(path=(*put.path, key)) for put in self._puts(value, where)]
            case ast.Attribute(value=value, attr=attr):
                return [put._replace(path=(*put.path, attr)) for put in self._puts(value, where)]
            case ast.List(elts=parts) | ast.Tuple(elts=parts) | ast.Set(elts=parts):
                return [put for one in parts for put in self._puts(one, where)]
            case ast.Dict(values=parts):
                return [put for one in parts for put in self._puts(one, where)]
            case ast.Starred(value=value) | ast.NamedExpr(value=value):
                return self._puts(value, where)
            case ast.IfExp(body=first, orelse=second):
                return [
                    *self._puts(first, (*where, (id(node), 0))),
                    *self._puts(second, (*where, (id(node), 1))),
                ]
            case ast.BoolOp(values=parts):
                made = [self._puts(one, (*where, (id(node), at))) for at, one in enumerate(parts)]
                return [put for one in made for put in one]
            case ast.BinOp(left=left, op=ast.Add() | ast.BitOr(), right=right):
                return [*self._puts(left, where), *self._puts(right, where)]
            case ast.ListComp(elt=element) | ast.GeneratorExp(elt=element) | ast.DictComp(value=element):
                return self._of_comprehension(node, element, where)
            case ast.Call(func=ast.Name(id=name), args=args) if name in _COPIES:
                return [put for one in args for put in self._puts(one, where)]
            case ast.Call(func=ast.Name(id="max" | "min" | "next"), args=[only]):
                return [put._replace(path=(*put.path, None)) for put in self._puts(only, where)]
            case ast.Call(
                func=ast.Attribute(attr="pop" | "popleft", value=holder),
                args=[] | [ast.Constant(value=int())],
            ):  # it is in there no more
                return [put._replace(path=(*put.path, None), where=()) for put in self._puts(holder, where)]
            case ast.Call(func=ast.Attribute(attr=method, value=holder), args=args) if method in _TAKES:
                held = [put._replace(path=(*put.path, None)) for put in self._puts(holder, where)]
                given = _stored(method, args)
                return [*held, *(put for one in given for put in self._puts(one, where))]
            case ast.Call(func=ast.Name(id=name), args=args, keywords=words) if keeps_each_once(
                self.kinds.definitions.get(name)
            ):
                parts = [*args, *(word.value for word in words)]
                return [put for one in parts for put in self._puts(one, where)]
            case ast.Call(func=func) if dotted(func) in {"json.loads", "copy.deepcopy", "defaultdict"}:
                return []
            case _:
                raise _NotTree

    def _is_counted(self, name: str, value: ast.expr) -> bool:
        """Whether a value is a list that nothing is put into, so that each number has its own item."""
        return _first_root(value) == name and all(one.is_binding for one in self.made.get(name, []))

    def _of_comprehension(self, node: Comprehension, element: ast.expr, where: Where) -> list[_Put]:
        """What its elements are made of: an item of the last generator; its source is an item before it."""
        if self.concern is None:
            inner = self._puts(element, where)
        else:
            with self.concern[0].inside_of(node):
                inner = self._puts(element, where)
        for one in reversed(node.generators):
            names = {each.id for each in walk(one.target) if isinstance(each, ast.Name)}
            for number, put in enumerate(inner):
                if put.name not in names or any(_meet(put, other) for other in inner[:number]):
                    raise _NotTree
            if not inner:
                return []
            if self.concern is None:
                held = self._puts(one.iter, where)
            else:
                with self.concern[0].inside_of(node):
                    held = self._puts(one.iter, where)
            inner = [put._replace(path=(*put.path, None)) for put in held]
        return inner

    # ------------------------------------------------------------ what variables are made of

    def _note(
        self,
        name: str,
        value: ast.expr | core.Call | None,
        where: Where,
        *,
        is_binding: bool = True,
        evaluated: Where | None = None,
    ) -> None:
        made = _Made(value, where, is_binding, where if evaluated is None else evaluated)
        self.made.setdefault(name, []).append(made)

    def _block(self, block: core.Block, where: Where) -> None:  # noqa: PLR0912 - a case for each
        for one in block:
            for part in core.parts_of(one):
                self._note_named(part, where)
            match one:
                case core.Pure(takes_back=str() as name, of=core.Call() as call):
                    self._note_given(name, call, where)
                case core.Pure(stmt=stmt):
                    self._statement(stmt, where)
                case core.Call(into=str() as into):
                    self._note(into, one, where)
                case core.Give(value=value):
                    for into in self.filled[-1:]:
                        self._note(into, value, where, is_binding=False)
                case core.Loop(target=target, source=source, body=body, into=into):
                    inner = (*where, (id(one), -1))
                    self.kept[id(one)] = self.carried(one)
                    self._note(target, _any_item(source), inner, evaluated=where)
                    listed = _counts_through(source)
                    if listed is not None:
                        self.counted[target] = listed, where
                    if into is not None:
                        self._note(into, None, where)
                        self.filled.append(into)
                    self._block(body, inner)
                    del self.filled[len(self.filled) - (into is not None) :]
                case core.While(body=body):
                    self.kept[id(one)] = self.carried(one)
                    self._block(body, (*where, (id(one), -1)))
                case core.Choice(then=then, otherwise=otherwise):
                    self._block(then, (*where, (id(one), 0)))
                    self._block(otherwise, (*where, (id(one), 1)))
                case core.Return(value=ast.expr() as value):
                    changes = self.function.changes
                    is_pair = bool(changes) and isinstance(value, ast.Tuple)
                    self.returned.append((value.elts[0] if is_pair else value, where))  # type: ignore[attr-defined]
                case core.Continue():
                    self.skips = True
                case core.Attempt():
                    for number, each in enumerate(core.blocks_of(one)):
                        self._block(each, (*where, (id(each), number)))
                case _:
                    for each in core.blocks_of(one):
                        self._block(each, where)

    def _note_named(self, part: ast.AST, where: Where) -> None:
        """Note what `:=` gives variables, which it may do on some ways through a tree alone."""
        for one in own_nodes(part):
            if isinstance(one, ast.NamedExpr):
                self._note(one.target.id, one.value, (*where, (id(one), 0)), evaluated=where)

    def _note_given(self, name: str, call: core.Call, where: Where) -> None:
        """Note what an async function may have put into a variable that is taken back from its call."""
        for each in call.arguments:
            if not is_named(each.value, name):
                self._note(name, each.value, where, is_binding=False)

    def _statement(self, node: ast.stmt, where: Where) -> None:  # noqa: PLR0912 - a case for each
        match node:
            case ast.Assign(targets=targets, value=value):
                for target in targets:
                    self._target(target, value, where)
            case ast.AnnAssign(target=target, value=ast.expr() as value):
                self._target(target, value, where)
            case ast.AugAssign(target=target, value=value):
                name = _root(target)
                if name is not None:
                    self._note(name, value, where, is_binding=False)
            case ast.Expr(
                value=ast.Call(func=ast.Attribute(attr=method, value=ast.IfExp() as either), args=args)
            ) if method in PUTS:
                for branch, holder in enumerate((either.body, either.orelse)):
                    func = ast.Attribute(holder, method, ast.Load())
                    stored = ast.Expr(ast.Call(func, args, []))
                    self._statement(stored, (*where, (id(either), branch)))
            case ast.Expr(value=ast.Call(func=ast.Attribute(attr=method, value=holder), args=args)) if (
                method in PUTS and (name := _root(holder)) is not None
            ):
                for one in (*_stored(method, args), *_given_inside(holder)):
                    self._note(name, one, where, is_binding=False)
            case ast.Expr(value=ast.Call(func=func, args=args, keywords=words)):
                given = [*args, *(word.value for word in words)]
                for number, one in enumerate([func, *given]):
                    others = [each for at, each in enumerate(given, 1) if at != number]
                    name = _root(one)
                    if name is None:
                        continue
                    for each in others:
                        self._note(name, each, where, is_binding=False)
            case ast.For(target=target, iter=source, body=body, orelse=orelse):
                inner = (*where, (id(node), -1))
                self.kept[id(node)] = _exposed(body)
                self._target(target, _any_item(source), inner, where)
                for one in (*body, *orelse):
                    self._statement(one, inner)
            case ast.While(body=body):
                self.kept[id(node)] = _exposed(body)
                for one in body:
                    self._statement(one, (*where, (id(node), -1)))
            case ast.If(body=body, orelse=orelse):
                for branch, part in enumerate((body, orelse)):
                    for one in part:
                        self._statement(one, (*where, (id(node), branch)))
            case ast.Try(body=body, handlers=handlers, orelse=orelse, finalbody=final):
                for part in (body, *(one.body for one in handlers), orelse, final):
                    for one in part:
                        self._statement(one, (*where, (id(part), 0)))
            case ast.Continue():
                self.skips = True
            case ast.Delete() | ast.Pass() | ast.Break() | ast.AnnAssign() | ast.Assert() | ast.Raise():
                pass
            case _:
                for one in walk(node):
                    if isinstance(one, ast.Name):
                        self._note(one.id, ast.Yield(), where)

    def _target(
        self, target: ast.expr, value: ast.expr, where: Where, evaluated: Where | None = None
    ) -> None:
        match target:
            case ast.Name(id=name):
                self._note(name, value, where, evaluated=evaluated)
            case ast.Tuple(elts=parts) | ast.List(elts=parts):
                for number, one in enumerate(parts):
                    inner = one.value if isinstance(one, ast.Starred) else one
                    key = ast.Constant(None if isinstance(one, ast.Starred) else number)
                    if isinstance(value, (ast.Tuple, ast.List)) and len(value.elts) == len(parts):
                        self._target(inner, value.elts[number], where, evaluated)
                    else:
                        self._target(inner, ast.Subscript(value, key, ast.Load()), where, evaluated)
            case _:
                name = _root(target)
                if name is not None:
                    self._note(name, value, where, is_binding=False)


def _exposed(body: list[ast.stmt]) -> set[str]:
    """The variables that statements may read before they set them."""
    flow = PureFlow()
    flow.run(body)
    return flow.exposed


def _any_item(source: ast.expr) -> ast.expr:
    """What stands for any item of a source."""
    return ast.Subscript(source, ast.Constant(None), ast.Load())


def _counts_through(source: ast.expr) -> str | None:
    """The list of which a loop over `range(len(…))` has the numbers."""
    match source:
        case ast.Call(
            func=ast.Name(id="range"), args=[ast.Call(func=ast.Name(id="len"), args=[ast.Name(id=name)])]
        ):
            return name
        case _:
            return None


def _first_root(node: ast.expr) -> str | None:
    """The variable of `x`, or of `x if … else list(x)`."""
    return _root(node.body if isinstance(node, ast.IfExp) else node)


def _root(node: ast.expr) -> str | None:
    """The variable that an expression is a part of."""
    while isinstance(node, (ast.Subscript, ast.Attribute, ast.Call)):
        node = node.func if isinstance(node, ast.Call) else node.value
    return node.id if isinstance(node, ast.Name) else None


def _given_inside(node: ast.expr) -> Iterator[ast.expr]:
    """The arguments of calls on the way to a variable, as in x.setdefault(k, []).append(v)."""
    while isinstance(node, (ast.Subscript, ast.Attribute, ast.Call)):
        if isinstance(node, ast.Call):
            method = node.func.attr if isinstance(node.func, ast.Attribute) else ""
            yield from _stored(method, node.args)
        node = node.func if isinstance(node, ast.Call) else node.value


def _stored(method: str, args: list[ast.expr]) -> list[ast.expr]:
    """The arguments of a method that it may put into its object: no keys and indices."""
    return args[1:] if method in {"setdefault", "insert", "get", "pop"} else args


def _meet(one: _Put, other: _Put) -> bool:
    """Whether two places may hold one object."""
    if one.name != other.name:
        return False
    for (first, branch), (second, taken) in zip(one.where, other.where, strict=False):
        if first != second:
            break
        if branch != taken:
            return False
    return all(a is None or b is None or a == b for a, b in zip(one.path, other.path, strict=False))
