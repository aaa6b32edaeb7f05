"""Loops over what awaits between its items, as loops of the function itself: `async for` over a generator.

In: the tree of a file, which is changed in place. The generator's body stands where the loop was, and the
loop's body where it yields; a class with `__anext__` is asked until it raises StopAsyncIteration. A generator
that calls itself, or yields inside `try` or `with`, stays, and is refused by who reads it.
"""

from __future__ import annotations

import ast
import copy
from collections import Counter
from collections.abc import Callable, Mapping, Sequence, Set
from itertools import chain
from typing import Any, Final, cast

from callsheet.frontends.pure_code.laziness import calls_gone_through, could_tell, ran_ahead
from callsheet.frontends.python.rewrites.factories import set_by
from callsheet.frontends.python.rewrites.inlining import (
    Fresh,
    Generator,
    Replacing,
    blocks_in,
    blocks_of,
    full_names,
    is_generator,
    loops_around,
    name_called,
    once,
    opened,
    yields_of,
)
from callsheet.frontends.python.rewrites.lazy_sources import (
    Laziness,
    as_generator,
    item_by_item,
    put_where_used,
)
from callsheet.frontends.python.source import (
    Nodes,
    Refused,
    among,
    breaks,
    children,
    ends_loop,
    jumps_out,
    names_bound,
    own_nodes,
    parameters_of,
    waits,
    walk,
)
from callsheet.frontends.python.syntax import PuttingNodes, load, parsed_lines, placed, store

_MOST_DEPTH: Final = 12
ASKED_FOR_ITEMS: Final = frozenset({"__aiter__", "__anext__", "__next__"})
"""The methods of objects that a loop asks for their items."""
_Loop = ast.For | ast.AsyncFor


def flows_as_loops(module: ast.Module, nodes: Nodes) -> bool:
    """Write the loops of a file over generators that await as plain loops; whether there were any.

    >>> module = ast.parse('''async def pages(n):
    ...     while n:
    ...         yield await page(n)
    ...         n -= 1
    ... async def main():
    ...     async for one in pages(2):
    ...         await post(one)''')
    >>> flows_as_loops(module, Nodes(module))
    True
    >>> print(ast.unparse(module))
    async def main():
        n_at_1 = 2
        while n_at_1:
            one = await page(n_at_1)
            await post(one)
            n_at_1 -= 1
    """
    every = nodes.of(ast.FunctionDef, ast.AsyncFunctionDef)
    generators = {one.name: one for one in every if is_generator(one)}
    classes = {
        one.name: each.name
        for one in nodes.of(ast.ClassDef)
        for each in one.body
        if isinstance(each, ast.AsyncFunctionDef)
        and (each.name == "__anext__" or (each.name == "__aiter__" and is_generator(each)))
    }
    steppers = {
        one.name
        for one in nodes.of(ast.ClassDef)
        if any(isinstance(each, ast.FunctionDef) and each.name == "__next__" for each in one.body)
    }
    full_name = full_names(module)
    if not (generators or classes or steppers) and not any(
        _is_lazy(one, full_name) for one in nodes.of(ast.Assign, ast.For)
    ):
        return False
    functions: dict[str, list[Generator]] = {}
    for one in every:
        functions.setdefault(one.name, []).append(one)
    fields = {
        target.attr
        for one in nodes.of(ast.Assign)
        for target, value in set_by(one)
        if isinstance(target, ast.Attribute) and name_called(value) in steppers
    }
    lazy = Laziness(full_name, {*generators} & {*functions})
    flows = _Flows(generators, classes, steppers, fields, functions, lazy, Fresh(nodes))
    for one in walk(module):
        if isinstance(one, ast.AsyncFunctionDef) and one.name not in generators:
            flows.function(one)
    if flows.is_changed:
        _without_unused(module, generators)
    return flows.is_changed


def _is_lazy(one: ast.AST, full_name: Callable[[ast.expr], str]) -> bool:
    """Whether a statement keeps or goes through what computes its items when they are taken."""
    match one:
        case ast.Assign(value=source) | ast.For(iter=source):
            return Laziness(full_name, ()).computes(source) or name_called(source) in {"map", "filter"}
        case _:
            return False


def _without_unused(module: ast.Module, generators: Mapping[str, Generator]) -> None:
    """Take out the async generators that nothing names any more."""
    changed = True
    while changed:
        changed = False
        for parent in list(walk(module)):
            if not isinstance(parent, (ast.Module, ast.FunctionDef, ast.AsyncFunctionDef)):
                continue
            if not any(
                isinstance(one, ast.AsyncFunctionDef) and one.name in generators for one in parent.body
            ):
                continue
            named = [{each.id for each in among(walk(one), ast.Name)} for one in parent.body]
            uses = Counter(chain.from_iterable(named))
            kept = [
                one
                for one, own in zip(parent.body, named, strict=True)
                if not isinstance(one, ast.AsyncFunctionDef)
                or one.name not in generators
                or uses[one.name] > (one.name in own)
            ]
            changed = changed or len(kept) < len(parent.body)
            parent.body = kept


class _Flows:
    """Writes the loops of a file anew."""

    def __init__(
        self,
        generators: Mapping[str, Generator],
        classes: Mapping[str, str],
        steppers: Set[str],
        stepped_fields: Set[str],
        functions: Mapping[str, list[Generator]],
        lazy: Laziness,
        fresh: Fresh,
    ) -> None:
        self.lazy = lazy
        self.generators, self.classes, self.functions, self.fresh = generators, classes, functions, fresh
        self.steppers, self.stepped_fields = steppers, stepped_fields
        """The classes whose objects are asked for their next item."""
        self.stepped: set[str] = set()
        """The variables of the function itself that hold such objects."""
        self.inner: set[str] = set()
        """The generators of the function itself, which see its variables."""
        self.is_changed = False
        self.site: set[str] = set()
        self.depth = 0

    def function(self, node: ast.AsyncFunctionDef) -> None:
        """The loops of one function."""
        self.site = names_bound(*node.body) | {one.arg for one in parameters_of(node.args)}
        self.site -= set(self.generators)
        self.inner = {one.name for one in among(own_nodes(*node.body), ast.FunctionDef)}
        self.stepped = {
            target.id
            for one in among(own_nodes(*node.body), ast.Assign)
            for target, value in set_by(one)
            if isinstance(target, ast.Name) and name_called(value) in self.steppers
        }
        self._substitute(node)
        if put_where_used(node, self.lazy, self.fresh):
            self.is_changed = True
        node.body = self.block(node.body)

    def _substitute(self, node: ast.AsyncFunctionDef) -> None:
        """Put the call of a generator that is kept in a variable where the variable is gone through."""
        for block in [node.body, *blocks_of(own_nodes(*node.body))]:
            for number, one in enumerate(block[:-1]):
                match one, block[number + 1]:
                    case (
                        ast.Assign(targets=[ast.Name(id=name)], value=ast.Call() as call),
                        ast.AsyncFor(iter=ast.Name(id=used)) as loop,
                    ) if name == used and self._is_flow(call):
                        uses = [each for each in among(walk(node), ast.Name) if each.id == name]
                        if len(uses) == 2:
                            loop.iter = call
                            block[number] = placed(ast.Pass(), one)
                    case _:
                        pass

    def _is_flow(self, node: ast.expr) -> bool:
        return name_called(node) in self.generators or name_called(node) in self.classes

    def block(self, body: list[ast.stmt]) -> list[ast.stmt]:
        """The statements of a block."""
        made: list[ast.stmt] = []
        for one in body:
            hoisted = self._hoisted(one)
            for each in hoisted:
                if isinstance(each, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                    made.append(each)
                    continue
                inner = self._loop(each)
                if inner is not None:
                    self.is_changed = True
                    made += inner
                    continue
                for block in blocks_in(each):
                    block[:] = self.block(block)
                made.append(each)
        return made

    def _hoisted(self, one: ast.stmt) -> list[ast.stmt]:
        """A statement, before it the loops for its comprehensions over what awaits."""
        head = _evaluated_first(one)
        found = [] if head is None else [each for each in own_nodes(head) if self._is_comprehension(each)]
        if head is None or not found:
            return [one]
        inner = {each for part in found for each in own_nodes(*children(part))}
        others = [each for each in among(own_nodes(head), ast.Await) if each not in inner]
        if any(not _comes_before(part, other) for part in found for other in others) or any(
            each in inner or _is_conditional(one, each) for each in found
        ):
            return [one]
        before: list[ast.stmt] = []
        for each in sorted(found, key=_place):
            made = cast("ast.ListComp | ast.SetComp | ast.DictComp", each)
            into = self.fresh("items")
            name = ast.copy_location(load(into), made)
            PuttingNodes({id(made): name}).visit(one)
            before += self._collecting(made, into)
        return [*before, one]

    def _is_comprehension(self, node: ast.AST) -> bool:
        return isinstance(node, (ast.ListComp, ast.SetComp, ast.DictComp)) and any(
            part.is_async and self._is_flow(part.iter) for part in node.generators
        )

    def _collecting(self, node: ast.ListComp | ast.SetComp | ast.DictComp, into: str) -> list[ast.stmt]:
        """The loops that make what a comprehension makes."""
        names = {
            name: self.fresh(name) for part in node.generators for name in sorted(names_bound(part.target))
        }
        for each in walk(node):
            if isinstance(each, ast.Name) and each.id in names:
                each.id = names[each.id]
        target = load(into)
        if isinstance(node, ast.DictComp):
            empty: ast.expr = ast.Dict([], [])
            add: ast.stmt = ast.Assign([ast.Subscript(target, node.key, ast.Store())], node.value)
        else:
            is_list = isinstance(node, ast.ListComp)
            empty = ast.List([], ast.Load()) if is_list else ast.Call(load("set"), [], [])
            method = ast.Attribute(target, "append" if is_list else "add", ast.Load())
            add = ast.Expr(ast.Call(method, [node.elt], []))
        for part in reversed(node.generators):
            for test in reversed(part.ifs):
                add = ast.If(test, [add], [])
            kind = ast.AsyncFor if part.is_async else ast.For
            add = kind(part.target, part.iter, [add], [])
        start = ast.Assign([store(into)], empty)
        return [placed(start, node), placed(add, node)]

    def _loop(self, one: ast.stmt) -> list[ast.stmt] | None:
        if not isinstance(one, (ast.For, ast.AsyncFor)) or self.depth > _MOST_DEPTH:
            return None
        name = name_called(one.iter)
        if isinstance(one, ast.AsyncFor) and self.classes:
            kinds = set(self.classes.values())
            is_object = isinstance(one.iter, (ast.Name, ast.Attribute)) and len(kinds) == 1
            if name in self.classes or is_object:
                kind = self.classes.get(name) or min(kinds)
                return self._asked(one) if kind == "__anext__" else self._opened(one)
        if isinstance(one, ast.For) and any(waits(each) for each in one.body):
            if isinstance(one.iter, ast.Attribute) and one.iter.attr in self.stepped_fields:
                raise Refused(
                    "PYT026",
                    one.iter,
                    f"{ast.unparse(one.iter)} is an iterator, which this loop would run to its end",
                    "write while True, and take each item with next() in try … except StopIteration: break",
                )
            if name in self.steppers or (isinstance(one.iter, ast.Name) and one.iter.id in self.stepped):
                return self._asked(one)
            lazy = None if name in self.functions else self._one_by_one(one)
            if lazy is not None:
                return self.block(lazy)
        limit: ast.expr | None = None
        call = one.iter
        if isinstance(one, ast.For) and name.rpartition(".")[2] == "islice":
            match call:
                case ast.Call(args=[ast.Call() as inner, limit]):
                    call, name = inner, name_called(inner)
                case _:
                    return None
        function = self.generators.get(name)
        if function is None:
            self._check_order(one)
        if function is None or isinstance(one, ast.AsyncFor) != isinstance(function, ast.AsyncFunctionDef):
            return None
        if isinstance(function, ast.FunctionDef) and not self._is_lazy(one, cast("ast.Call", call), function):
            return None
        made = self._written(one, cast("ast.Call", call), function, limit)
        if made is None:
            self._check_order(one)
            return None
        self.depth += 1
        made = self.block(made)
        self.depth -= 1
        return made

    def _one_by_one(self, one: ast.For) -> list[ast.stmt] | None:
        """A loop that awaits over what computes its items when they are taken, as one that computes them."""
        plain = item_by_item(one, self.fresh)
        if plain is not None:
            return [plain]
        found = as_generator(one, self.lazy, self.fresh)
        if found is None:
            return None
        before, function, call = found
        self.inner.add(function.name)
        made = self._written(one, call, function, None)
        return None if made is None else [*before, *made]

    def _check_order(self, one: _Loop) -> None:
        """Raises Refused (PYT026) for a loop that awaits, over a generator that would run ahead of it."""
        if not isinstance(one, ast.For) or not any(waits(each) for each in one.body):
            return
        for name, call in calls_gone_through(one.iter):
            function = self.generators.get(name)
            if isinstance(function, ast.FunctionDef) and could_tell(function, call, one.body, self.functions):
                raise Refused("PYT026", call, *ran_ahead(name))

    def _is_lazy(self, one: _Loop, call: ast.Call, function: ast.FunctionDef) -> bool:
        """Whether a plain generator must not be run to its end before a loop over it."""
        if any(waits(each) for each in one.body):
            return True  # it may fail after some items, whose calls were made by then
        if ends_loop(one.body):
            return True
        return could_tell(function, call, one.body, self.functions)

    def _opened(self, one: ast.AsyncFor) -> list[ast.stmt]:
        """A loop over an object as one over the generator that it gives."""
        held, start = self._held(one)
        method = ast.Attribute(load(held), "__aiter__", ast.Load())
        one.iter = ast.copy_location(ast.Call(method, [], []), one.iter)
        for block in blocks_in(one):
            block[:] = self.block(block)
        return [*start, placed(one, one)]

    def _held(self, one: _Loop) -> tuple[str, list[ast.stmt]]:
        """The variable of the object that a loop goes through, and what sets it where it is none yet."""
        if isinstance(one.iter, ast.Name) and one.iter.id not in names_bound(*one.body, one.target):
            return one.iter.id, []
        held = self.fresh("source")
        return held, [placed(ast.Assign([store(held)], one.iter), one)]

    def _asked(self, one: _Loop) -> list[ast.stmt]:
        """A loop over an object that is asked for its next item until it has none."""
        (held, start), item = self._held(one), self.fresh("next")
        asked, ended = f"await {held}.__anext__()", "StopAsyncIteration"
        if isinstance(one, ast.For):
            asked, ended = f"next({held})", "StopIteration"
        text = f"while True:\n    try:\n        {item} = {asked}\n    except {ended}:\n        break\n"
        (loop,) = parsed_lines([text], one)
        taken = ast.Assign([one.target], load(item))
        body = cast("ast.While", loop).body
        if one.orelse:
            broken = self.fresh("left")
            over = placed(ast.Assign([store(broken)], ast.Constant(True)), one)
            cast("ast.Try", body[0]).handlers[0].body.insert(0, over)
            before = placed(ast.Assign([store(broken)], ast.Constant(False)), one)
            after = placed(ast.If(load(broken), one.orelse, []), one)
            body += [placed(taken, one), *self.block(one.body)]
            return [*start, before, loop, *self.block([after])]
        body += [placed(taken, one), *self.block(one.body)]
        return [*start, loop]

    def _written(
        self, one: _Loop, call: ast.Call, function: Generator, limit: ast.expr | None
    ) -> list[ast.stmt] | None:
        """The body of a generator with the loop's body where it yields."""
        is_inner = function.name in self.inner
        found = opened(function, call, [*one.body, one], self.site, self.fresh, is_inner=is_inner)
        yields = None if found is None else yields_of(found[1])
        if found is None or not yields or _yields_guarded(found[1]):
            return None
        before, body = found
        is_broken = breaks(one.body) or limit is not None
        returns = list(among(own_nodes(*body), ast.Return))
        over, left = self.fresh("over"), self.fresh("left")
        count = self.fresh("count")
        is_left = is_broken or bool(returns)
        places = {
            id(each): self._turn(one, each, over, left, count if limit is not None else None)
            for each in yields
        }
        if len(yields) > 1:
            places = {key: copy.deepcopy(value) for key, value in places.items()}
        if is_left:
            wanted = {id(each) for each in returns} | (
                {id(each) for each in yields} if is_broken else set[int]()
            )
            inside: set[int] = set()
            loops_around(body, wanted, inside)
            body = _Ending(over, inside, self.fresh).block(body)
        body = Replacing(places).block(body)
        if is_left:
            before.append(_set(over, False, one))
            if one.orelse:
                before.append(_set(left, False, one))
            body = [once(body, self.fresh, one)]
        if limit is not None:
            before.append(placed(ast.Assign([store(count)], limit), one))
            test = ast.Compare(load(count), [ast.Gt()], [ast.Constant(0)])
            body = [placed(ast.If(test, body, []), one)]
        if one.orelse and is_broken:
            body.append(placed(ast.If(ast.UnaryOp(ast.Not(), load(left)), one.orelse, []), one))
        else:
            body += one.orelse
        return [*before, *body]

    def _turn(self, one: _Loop, yielded: ast.Expr, over: str, left: str, count: str | None) -> list[ast.stmt]:
        """What one item does: the body of the loop, in a loop of one turn where something leaves it."""
        value = cast("ast.Yield", yielded.value).value or ast.copy_location(ast.Constant(None), yielded)
        taken = placed(ast.Assign([copy.deepcopy(one.target)], value), one.target)
        body = copy.deepcopy(one.body)
        has_break, has_continue = breaks(body), _continues(body)
        if has_break:
            notes = [_set(over, True, one)] + ([_set(left, True, one)] if one.orelse else [])
            body = _Noting(notes).block(body)
        turn = [once(body, self.fresh, one)] if has_break or has_continue else body
        if count is not None:
            less = ast.AugAssign(store(count), ast.Sub(), ast.Constant(1))
            test = ast.Compare(load(count), [ast.LtE()], [ast.Constant(0)])
            turn += [placed(less, one), placed(ast.If(test, [_set(over, True, one)], []), one)]
        if has_break or count is not None:
            turn.append(placed(ast.If(load(over), [ast.Break()], []), one))
        return [taken, *turn]


def _set(name: str, value: bool, place: ast.AST) -> ast.stmt:
    return placed(ast.Assign([store(name)], ast.Constant(value)), place)


def _evaluated_first(one: ast.stmt) -> ast.AST | None:
    """What a statement evaluates once, before all else; None if a loop before it would be something else."""
    match one:
        case ast.While() | ast.With() | ast.AsyncWith() | ast.AsyncFor() | ast.Try() | ast.TryStar():
            return None
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
            return None
        case ast.If():
            return one.test
        case ast.For():
            return one.iter
        case ast.Match():
            return one.subject
        case ast.Assign():
            return one.value
        case _:
            return one


def _comes_before(part: ast.AST, other: ast.Await) -> bool:
    """Whether a part of a statement is evaluated before something in it is awaited."""
    return any(each is part for each in walk(other)) or _place(part) < _place(other)


def _place(node: ast.AST) -> tuple[int, int]:
    return getattr(node, "lineno", 0), getattr(node, "col_offset", 0)


def _is_conditional(root: ast.AST, wanted: ast.AST) -> bool:
    """Whether a part of a statement is evaluated on a condition, or more than once."""
    if root is wanted:
        return False
    for one in children(root):
        if any(each is wanted for each in walk(one)):
            is_part = isinstance(
                root,
                (
                    ast.IfExp,
                    ast.BoolOp,
                    ast.Lambda,
                    ast.ListComp,
                    ast.SetComp,
                    ast.DictComp,
                    ast.GeneratorExp,
                ),
            )
            return is_part or _is_conditional(one, wanted)
    return False


def _yields_guarded(body: Sequence[ast.stmt]) -> bool:
    """Whether a body yields where something would see an error of the loop's body, or its end."""
    return any(
        isinstance(one, (ast.Try, ast.With, ast.AsyncWith)) and any(among(own_nodes(one), ast.Yield))
        for one in own_nodes(*body)
    )


def _continues(body: Sequence[ast.stmt]) -> bool:
    return any(isinstance(one, ast.Continue) for one in jumps_out(body))


class _Noting(Replacing):
    """Notes before each break of a loop's body that the loop is left."""

    def __init__(self, notes: Sequence[ast.stmt]) -> None:
        super().__init__({})
        self.notes = notes

    def visit_Break(self, node: ast.Break) -> Any:
        """A break."""
        return [*copy.deepcopy(list(self.notes)), node]

    def _loop(self, node: ast.For | ast.AsyncFor | ast.While) -> ast.AST:
        node.orelse = self.block(node.orelse)
        return node

    visit_For = visit_AsyncFor = visit_While = _loop


class _Ending(Replacing):
    """Writes the returns of a generator as breaks, and lets the loops around what ends it end, too."""

    def __init__(self, over: str, inside: set[int], fresh: Fresh) -> None:
        super().__init__({})
        self.over, self.inside, self.fresh = over, inside, fresh

    def visit_Return(self, node: ast.Return) -> Any:
        """A return."""
        return [_set(self.over, True, node), placed(ast.Break(), node)]

    def _loop(self, node: ast.For | ast.AsyncFor | ast.While) -> Any:
        is_inside = id(node) in self.inside
        self.generic_visit(node)
        if not is_inside:
            return node
        return [node, placed(ast.If(load(self.over), [ast.Break()], []), node)]

    visit_For = visit_AsyncFor = visit_While = _loop
