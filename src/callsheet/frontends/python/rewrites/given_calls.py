"""Calls that are made, not awaited, and given to an async function, which starts or awaits them.

In: the tree of a file, which is changed in place. A function such as `race(*calls)` becomes one for each
place that calls it: it is given the arguments of the calls, and makes them itself where it used what it was
given. What it does else with them leaves the place as it is.
"""

from __future__ import annotations

import ast
import builtins
import copy
from collections import Counter
from collections.abc import Sequence
from typing import Final, cast

from callsheet.frontends.python.rewrites.inlining import Fresh, name_called
from callsheet.frontends.python.rewrites.task_words import task_of
from callsheet.frontends.python.source import Nodes, among, dotted, own_nodes, waits, walk
from callsheet.frontends.python.syntax import placed

_LISTS: Final = frozenset({"list", "tuple", "set"})


class _Unknown(Exception):
    """A function does something with the calls that it cannot do with their arguments."""


def given_calls_as_own(module: ast.Module, nodes: Nodes) -> bool:
    """Let functions that are given calls make them; whether there were any.

    >>> module = ast.parse('''async def race(*calls):
    ...     tasks = [asyncio.create_task(one) for one in calls]
    ...     return tasks
    ... async def main():
    ...     return await race(f(1), g(x=2))''')
    >>> given_calls_as_own(module, Nodes(module))
    True
    >>> print(ast.unparse(module.body[1:]))
    async def race_at_1(given_at_1, given_at_2):
        tasks = [asyncio.create_task(f(given_at_1)), asyncio.create_task(g(x=given_at_2))]
        return tasks
    <BLANKLINE>
    async def main():
        return await race_at_1(given_at_1=1, given_at_2=2)
    """
    functions = {one.name: one for one in nodes.of(ast.AsyncFunctionDef)}
    if not any(name_called(one) in functions for one in nodes.of(ast.Call)):
        return False
    names = Counter(one.name for one in nodes.of(ast.AsyncFunctionDef, ast.FunctionDef, ast.ClassDef))
    pure = {one.name for one in nodes.of(ast.FunctionDef, ast.ClassDef)}
    fresh, found = Fresh(nodes), False
    for owner in nodes.of(ast.AsyncFunctionDef):
        for call in list(own_nodes(owner)):
            if not (isinstance(call, ast.Call) and isinstance(call.func, ast.Name)):
                continue
            helper = functions.get(call.func.id)
            if helper is None or helper is owner or names[helper.name] > 1:
                continue
            try:
                made = _Given(helper, call, fresh, pure, {*functions}).own()
            except _Unknown:
                continue
            if made is not None:
                found = True
                local = {one.name for one in among(own_nodes(owner), ast.AsyncFunctionDef)}
                block = owner.body if helper.name in local or made[1] & local else module.body
                if block is owner.body:
                    at = 1 + max(n for n, one in enumerate(block) if isinstance(one, ast.AsyncFunctionDef))
                else:
                    at = next(n for n, one in enumerate(block) if one is helper) + 1 if helper in block else 0
                block.insert(at, made[0])
    return found


class _Given:
    """One call of a function that is given calls."""

    def __init__(
        self, helper: ast.AsyncFunctionDef, call: ast.Call, fresh: Fresh, pure: set[str], known: set[str]
    ) -> None:
        self.helper, self.call, self.fresh, self.pure, self.known = helper, call, fresh, pure, known
        self.words: list[ast.keyword] = []
        self.callees: set[str] = set()

    def own(self) -> tuple[ast.AsyncFunctionDef, set[str]] | None:
        """The function that makes the calls itself, and what it calls; None if it is given none.

        Raises _Unknown. The call is changed to one of that function.
        """
        of = self.helper.args
        plain = [one.arg for one in (*of.posonlyargs, *of.args)]
        args, words = list(self.call.args), list(self.call.keywords)
        calls: dict[str, list[ast.expr] | ast.ListComp] = {}
        if of.kwarg is not None:
            return None
        rest = args[len(plain) :]
        if of.vararg is not None and rest:
            if any(isinstance(one, ast.Starred) for one in args[: len(plain)]):
                return None
            many = self._many(rest)
            if many is None:
                return None
            calls[of.vararg.arg] = many
            args = args[: len(plain)]
        elif any(isinstance(one, ast.Starred) for one in args):
            return None
        pairs = [(plain[n], one) for n, one in enumerate(args) if n < len(plain)]
        pairs += [(word.arg or "", word.value) for word in words]
        for name, value in pairs:
            found = self._listed(value) if not self._is_call(value) else None
            if found is not None:
                calls[name] = found
            elif self._is_call(value) and self._starts(name):
                calls[name] = [value]
        if not calls:
            return None
        body = copy.deepcopy(self.helper.body)
        for name, many in calls.items():
            is_one = (
                name in plain
                and isinstance(many, list)
                and any(value is many[0] for _, value in pairs if many)
            )
            body = self._with(body, name, many, is_one=is_one)
        made = copy.copy(self.helper)
        made.name = self.fresh(self.helper.name)
        made.args = copy.deepcopy(of)
        made.args.vararg = None if of.vararg is not None and of.vararg.arg in calls else made.args.vararg
        self._take_out(made.args, {*calls})
        made.args.args += [
            placed(ast.arg(word.arg or ""), self.call) for word in self.words if not made.args.defaults
        ]
        if made.args.defaults:
            made.args.kwonlyargs += [placed(ast.arg(word.arg or ""), self.call) for word in self.words]
            made.args.kw_defaults += [None for _ in self.words]
        made.body = body
        self.call.func = ast.copy_location(ast.Name(made.name, ast.Load()), self.call.func)
        kept = [ast.keyword(name, value) for name, value in pairs if name not in calls]
        self.call.args = []
        self.call.keywords = [placed(one, self.call) for one in (*kept, *self.words)]
        return made, self.callees

    def _take_out(self, of: ast.arguments, names: set[str]) -> None:
        plain = [*of.posonlyargs, *of.args]
        without = len(plain) - len(of.defaults)
        of.defaults = [value for n, value in enumerate(of.defaults, without) if plain[n].arg not in names]
        of.kw_defaults = [
            value for one, value in zip(of.kwonlyargs, of.kw_defaults, strict=True) if one.arg not in names
        ]
        of.posonlyargs = [one for one in of.posonlyargs if one.arg not in names]
        of.args = [one for one in of.args if one.arg not in names]
        of.kwonlyargs = [one for one in of.kwonlyargs if one.arg not in names]

    def _is_call(self, node: ast.expr) -> bool:
        """Whether an expression is a call of a tool or an async function."""
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Name)) or waits(node):
            return False
        name = node.func.id
        plain = not any(isinstance(one, ast.Starred) for one in node.args) and all(
            one.arg for one in node.keywords
        )
        return plain and name not in self.pure and (name in self.known or not hasattr(builtins, name))

    def _many(self, given: Sequence[ast.expr]) -> list[ast.expr] | ast.ListComp | None:
        if len(given) == 1 and isinstance(given[0], ast.Starred):
            return self._listed(given[0].value)
        return list(given) if all(map(self._is_call, given)) else None

    def _listed(self, value: ast.expr) -> list[ast.expr] | ast.ListComp | None:
        """The calls in a list or comprehension."""
        match value:
            case ast.List(elts=elts) | ast.Tuple(elts=elts) if elts and all(map(self._is_call, elts)):
                return list(elts)
            case (
                ast.ListComp(elt=elt, generators=generators)
                | ast.GeneratorExp(elt=elt, generators=generators)
            ):
                if not self._is_call(elt):
                    return None
                return ast.copy_location(ast.ListComp(elt, generators), value)
            case _:
                return None

    def _starts(self, name: str) -> bool:
        """Whether the function starts the task of a call that it is given."""
        given = (task_of(one) for one in own_nodes(self.helper))
        return any(isinstance(one, ast.Name) and one.id == name for one in given)

    # ------------------------------------------------------------ what stands in the function

    def told_call(self, call: ast.expr, row: str | None, values: list[ast.expr]) -> ast.Call:
        """A call with parameters, or parts of a row, as its arguments."""
        made = cast("ast.Call", copy.copy(call))
        self.callees.add(cast("ast.Name", made.func).id)

        def told(value: ast.expr) -> ast.expr:
            if isinstance(value, ast.Constant):
                return copy.deepcopy(value) if row is not None else self.word_for(value)
            if row is None:
                return self.word_for(value)
            values.append(value)
            part = ast.Subscript(ast.Name(row, ast.Load()), ast.Constant(len(values) - 1), ast.Load())
            return placed(part, value)

        made.func = copy.deepcopy(made.func)
        made.args = [told(one) for one in made.args]
        made.keywords = [placed(ast.keyword(one.arg, told(one.value)), one) for one in made.keywords]
        return made

    def word_for(self, value: ast.expr) -> ast.expr:
        name = self.fresh("given")
        self.words.append(ast.keyword(name, value))
        return placed(ast.Name(name, ast.Load()), value)

    def _with(
        self, body: list[ast.stmt], name: str, many: list[ast.expr] | ast.ListComp, *, is_one: bool
    ) -> list[ast.stmt]:
        inside = [one for part in body for one in walk(part)]
        own = {id(one) for one in own_nodes(ast.Module(list(body), []))}
        uses = [one for one in inside if isinstance(one, ast.Name) and one.id == name]
        counted = [
            one.args[0]
            for one in inside
            if isinstance(one, ast.Call)
            and dotted(one.func) == "len"
            and len(one.args) == 1
            and one.args[0] in uses
        ]
        once = [one for one in uses if one not in counted]
        if len(once) != 1 or any(id(one) not in own or not isinstance(one.ctx, ast.Load) for one in once):
            raise _Unknown
        writer = _Writer(once[0], self, many, is_one=is_one)
        made: list[ast.stmt] = []
        for one in body:
            found = writer.visit(one)
            made += found if isinstance(found, list) else [found]
        if not writer.is_done or (counted and not isinstance(many, list)):
            raise _Unknown
        return made


class _Writer(ast.NodeTransformer):
    """Puts calls in the place of what a function was given."""

    def __init__(
        self, use: ast.Name, of: _Given, many: list[ast.expr] | ast.ListComp, *, is_one: bool
    ) -> None:
        self.use, self.of, self.many, self.is_one = use, of, many, is_one
        self.is_done = False

    def calls(self, around: ast.expr, name: str) -> ast.expr:
        """The list of what an expression makes of each call, which it has under a name."""
        self.is_done = True
        if isinstance(self.many, list):
            parts = [_put(around, name, self.of.told_call(one, None, [])) for one in self.many]
            return placed(ast.List(parts, ast.Load()), self.use)
        row, values = self.of.fresh("row"), list[ast.expr]()
        call = self.of.told_call(self.many.elt, row, values)
        rows = ast.ListComp(ast.Tuple(values, ast.Load()), self.many.generators)
        source = self.of.word_for(placed(rows, self.many))
        clause = ast.comprehension(ast.Name(row, ast.Store()), source, [], 0)
        return placed(ast.ListComp(_put(around, name, call), [clause]), self.use)

    def visit_Name(self, node: ast.Name) -> ast.AST:
        """A name."""
        if node is not self.use:
            return node
        if self.is_one:
            self.is_done = True
            return self.of.told_call(cast("list[ast.expr]", self.many)[0], None, [])
        return self.calls(ast.Name("_", ast.Load()), "_")

    def _comprehension(self, node: ast.ListComp | ast.GeneratorExp | ast.SetComp) -> ast.AST:
        match node.generators:
            case [ast.comprehension(target=ast.Name(id=name), iter=source, ifs=[])] if source is self.use:
                uses = [one for one in among(walk(node.elt), ast.Name) if one.id == name]
                if len(uses) != 1:
                    raise _Unknown
                return self.calls(node.elt, name)
            case _:
                return self.generic_visit(node)

    visit_ListComp = visit_GeneratorExp = visit_SetComp = _comprehension

    def visit_Call(self, node: ast.Call) -> ast.AST:
        """A call, which may make a list of the calls, or count them."""
        match node:
            case ast.Call(func=ast.Name(id=maker), args=[source], keywords=[]) if source is self.use:
                if maker in _LISTS and not self.is_one:
                    return self.visit_Name(self.use)
            case ast.Call(func=ast.Name(id="len"), args=[ast.Name(id=name)]) if name == self.use.id:
                if isinstance(self.many, list):
                    return ast.copy_location(ast.Constant(len(self.many)), node)
            case _:
                pass
        return self.generic_visit(node)

    def visit_For(self, node: ast.For) -> ast.AST | list[ast.stmt]:
        """A loop over the calls, of which each is used once."""
        if node.iter is not self.use or not isinstance(node.target, ast.Name) or node.orelse:
            return self.generic_visit(node)
        uses = [one for part in node.body for one in among(walk(part), ast.Name) if one.id == node.target.id]
        if len(uses) != 1:
            raise _Unknown
        self.is_done = True
        if isinstance(self.many, list):
            if any(
                isinstance(one, (ast.Break, ast.Continue)) for part in node.body for one in own_nodes(part)
            ):
                raise _Unknown
            calls = [self.of.told_call(one, None, []) for one in self.many]
            return [
                cast("ast.stmt", _put(part, node.target.id, call)) for call in calls for part in node.body
            ]
        row, values = self.of.fresh("row"), list[ast.expr]()
        call = self.of.told_call(self.many.elt, row, values)
        rows = ast.ListComp(ast.Tuple(values, ast.Load()), self.many.generators)
        source = self.of.word_for(placed(rows, self.many))
        body = [cast("ast.stmt", _put(part, node.target.id, call)) for part in node.body]
        return placed(ast.For(ast.Name(row, ast.Store()), source, body, []), node)


class _Put(ast.NodeTransformer):
    def __init__(self, name: str, value: ast.expr) -> None:
        self.name, self.value = name, value

    def visit_Name(self, node: ast.Name) -> ast.AST:
        """A name."""
        return self.value if node.id == self.name else node


def _put(around: ast.AST, name: str, value: ast.expr) -> ast.expr:
    """A copy of a tree with an expression in the place of a name."""
    return cast("ast.expr", _Put(name, value).visit(copy.deepcopy(around)))
