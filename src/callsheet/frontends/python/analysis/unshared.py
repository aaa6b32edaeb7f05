"""Containers that their variable alone has: made where it was set last, and put nowhere since.

In: a function of `core` statements. Out: for each pure statement, by its id, the variables whose container no
other name sees yet. A change of such a container itself needs no second variable to see it, as in a loop that
builds a record between calls and appends it to a list at the end.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from callsheet.frontends.python import core
from callsheet.frontends.python.analysis.container_words import MUTATORS
from callsheet.frontends.python.source import children, dotted, names_bound, names_read, walk

_MAKERS: Final = frozenset(
    {"dict", "list", "set", "sorted", "deque", "defaultdict", "Counter", "OrderedDict", "dict.fromkeys"}
)
_READERS: Final = frozenset(
    {
        *("len", "str", "repr", "sorted", "sum", "min", "max", "any", "all", "bool", "print", "isinstance"),
        *("list", "dict", "set", "tuple", "frozenset", "range", "json.dumps", "join"),
    }
)
"""Functions that keep no container that they are given first, and return none."""
_ITERATORS: Final = frozenset({"enumerate", "zip", "reversed", "iter"})
"""Functions whose result looks at the containers that they are given, until it is used up."""

Names = frozenset[str]


def unshared(function: core.Function, definitions: Mapping[str, ast.stmt]) -> dict[int, Names]:
    """The variables with a container of their own before each pure statement."""
    if not (_MAKERS | _READERS).isdisjoint(definitions):
        return {}  # a function of the program has the name of one of these
    captured = {name for one in definitions.values() for name in names_read(one)}
    flow = _Flow(captured)
    flow.block(function.body, frozenset())
    return flow.found


def changes_own(stmt: ast.stmt, names: Names) -> str | None:
    """The variable, among these, whose container itself a statement changes, and nothing else."""
    match stmt:
        case ast.Assign(targets=[ast.Subscript(value=ast.Name(id=name))]):
            pass
        case ast.AnnAssign(target=ast.Subscript(value=ast.Name(id=name))):
            pass
        case ast.AugAssign(target=ast.Subscript(value=ast.Name(id=name)), value=value) if not _may_hold(
            value
        ):
            pass
        case ast.Delete(targets=[ast.Subscript(value=ast.Name(id=name))]):
            pass
        case ast.Expr(value=ast.Call(func=ast.Attribute(attr=method, value=ast.Name(id=name)))) if (
            method in MUTATORS
        ):
            pass
        case _:
            return None
    inner = sum(
        1
        for one in walk(stmt)
        if (isinstance(one, ast.Call) and isinstance(one.func, ast.Attribute) and one.func.attr in MUTATORS)
        or isinstance(one, (ast.NamedExpr, ast.Lambda))
        or (
            isinstance(one, ast.Call)
            and isinstance(one.func, ast.Name)
            and one.func.id not in _READERS | _ITERATORS
        )
    )
    own = 1 if isinstance(stmt, ast.Expr) else 0
    is_alone = name in names and inner == own and name not in _given_away(stmt)
    return name if is_alone else None


def values_in(stmt: ast.stmt) -> list[ast.expr]:
    """The keys and values of a change of a container: what it evaluates besides the container itself."""
    match stmt:
        case ast.Expr(value=ast.Call(args=args, keywords=words)):
            return [*args, *(word.value for word in words)]
        case ast.Delete(targets=targets) | ast.Assign(targets=targets):
            pass
        case ast.AugAssign(target=target) | ast.AnnAssign(target=target):
            targets = [target]
        case _:
            return []
    keys = [one.slice for one in targets if isinstance(one, ast.Subscript)]
    value = getattr(stmt, "value", None)
    return keys if value is None else [*keys, value]


def _may_hold(value: ast.expr) -> bool:
    """Whether `x[k] += value` may change a list that is in x."""
    return not isinstance(value, (ast.Constant, ast.JoinedStr, ast.Compare))


class _Flow:
    """Goes through the statements in the order of the text."""

    def __init__(self, captured: Iterable[str]) -> None:
        self.captured = frozenset(captured)
        self.found: dict[int, Names] = {}

    def block(self, block: core.Block, state: Names) -> Names:
        """The variables with a container of their own after a block."""
        for one in block:
            state = self.one(one, state)
        return state

    def one(self, one: core.Core, state: Names) -> Names:
        """The same after one statement."""
        match one:
            case core.Pure(stmt=stmt):
                self.found[id(stmt)] = state
                return self._pure(stmt, state)
            case core.Call(helper=None, into=into):
                return state - {into or ""}
            case core.Choice(test=test, then=then, otherwise=otherwise):
                state -= _given_away(test, is_test=True)
                return self.block(then, state) & self.block(otherwise, state)
            case core.Loop(target=target, source=source, body=body):
                before = state - self._lost(body) - core.bound_by(one) - {target}
                if not isinstance(source, ast.Name):
                    before -= _given_away(source)
                self.block(body, before)
                return before
            case core.While(test=test, body=body):
                before = state - self._lost(body) - _given_away(test, is_test=True)
                self.block(body, before)
                return before
            case core.Attempt(body=body, handlers=handlers, final=final):
                before = state - self._lost(body)
                ends = [self.block(body, state)]
                ends += [self.block(each.body, before - {each.binds}) for each in handlers]
                after = ends[0]
                for end in ends[1:]:
                    after &= end
                if final is not None:
                    after = self.block(final, before & after)
                return after
            case core.Return() | core.Break() | core.Continue():
                return state
            case _:
                lost = self._lost([one])
                for each in core.blocks_of(one):
                    self.block(each, frozenset())
                return state - lost

    def _pure(self, stmt: ast.stmt, state: Names) -> Names:
        state -= _given_away(stmt)
        match stmt:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                is_own = _is_made(value) and name not in self.captured
                return state | {name} if is_own else state - {name}
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
                is_own = _is_made(value) and name not in self.captured
                return state | {name} if is_own else state - {name}
            case ast.AugAssign(target=ast.Name()):
                return state
            case _:
                return state - names_bound(stmt)

    def _lost(self, block: core.Block) -> Names:
        """What statements give away or set anew, anywhere in them."""
        lost: set[str] = set()
        for one in core.all_of(block):
            lost |= core.bound_by(one)
            is_tool = isinstance(one, core.Call) and one.helper is None
            if isinstance(one, core.Call) and one.into:
                lost.add(one.into)
            for part in () if is_tool else core.parts_of(one):
                lost |= _given_away(part, is_test=isinstance(one, (core.Choice, core.While)))
        return frozenset(lost)


def _is_made(value: ast.expr) -> bool:
    """Whether an expression makes a container that is new."""
    match value:
        case ast.Dict() | ast.List() | ast.Set() | ast.ListComp() | ast.DictComp() | ast.SetComp():
            return True
        case ast.Call(func=func):
            return (dotted(func) or "") in _MAKERS
        case _:
            return False


def _given_away(root: ast.AST, *, is_test: bool = False) -> Names:
    """The names in a tree that it may store elsewhere, bind or return: those that it does more than read."""
    if is_test and isinstance(root, ast.Name):
        return frozenset()
    return frozenset(_leaks(root))


def _leaks(node: ast.AST) -> Iterator[str]:  # noqa: PLR0911, PLR0912 - a case for each kind of node
    match node:
        case ast.Name(id=name, ctx=ast.Load()):
            yield name
            return
        case ast.Name():
            return
        case ast.Subscript(value=ast.Name(), slice=index):
            yield from _leaks(index)
            return
        case ast.Attribute(value=ast.Name()):
            return
        case ast.Call(func=func, args=args, keywords=words):
            name = (dotted(func) or "").removeprefix("builtins.")
            is_reader = name in _READERS or (isinstance(func, ast.Attribute) and func.attr == "join")
            is_reader = is_reader and (len(args) == 1 or name not in {"min", "max", "sum"})
            yield from _leaks(func) if not isinstance(func, ast.Name) else ()
            for one in args:
                inner = one.value if isinstance(one, ast.Starred) else one
                is_consumed = isinstance(inner, ast.GeneratorExp) and isinstance(func, ast.Attribute)
                if inner is not one or is_reader or is_consumed:
                    yield from _leaks_of_read(inner)
                else:
                    yield from _leaks(inner)
            for word in words:  # as in dict(items=xs)
                yield from _leaks_of_read(word.value) if word.arg is None else _leaks(word.value)
            return
        case ast.GeneratorExp():  # it looks at what it reads until it is used up
            yield from names_read(node)
            return
        case ast.Compare(left=left, comparators=others):
            for one in (left, *others):
                if not isinstance(one, ast.Name):
                    yield from _leaks(one)
            return
        case ast.FormattedValue(value=ast.Name()) | ast.Starred(value=ast.Name()):
            return
        case ast.UnaryOp(op=ast.Not(), operand=ast.Name()):
            return
        case ast.Dict(keys=keys, values=values):
            for key, value in zip(keys, values, strict=True):
                if key is None and isinstance(value, ast.Name):
                    continue
                yield from _leaks(value)
                if key is not None:
                    yield from _leaks(key)
            return
        case ast.comprehension(iter=source, ifs=ifs):
            yield from _leaks_of_read(source)
            for one in ifs:
                yield from _leaks(one)
            return
        case ast.For(iter=source, body=body, orelse=orelse):
            yield from _leaks_of_read(source)
            for one in (*body, *orelse):
                yield from _leaks(one)
            return
        case _:
            for one in children(node):
                yield from _leaks(one)


def _leaks_of_read(node: ast.expr) -> Iterator[str]:
    """The same where the value is read to its end and then forgotten."""
    match node:
        case ast.Name():
            return
        case ast.Call(func=ast.Name(id=name), args=args, keywords=[]) if name in _ITERATORS:
            for one in args:
                yield from _leaks_of_read(one.value if isinstance(one, ast.Starred) else one)
        case ast.GeneratorExp():
            for one in children(node):
                yield from _leaks(one)
        case _:
            yield from _leaks(node)
