"""Numbers that a program computes before any call: how many run at a time.

In: an expression, the function around it, and the nodes of the file. What a variable, a constant of the file
or a parameter holds is known where it is set once, and where all calls give the same.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass

from callsheet.frontends.python.analysis.container_words import given_by_default
from callsheet.frontends.python.rewrites.inlining import placed
from callsheet.frontends.python.source import dotted, own_nodes, parameters_of

_LIMITS = frozenset({"asyncio.Semaphore", "asyncio.BoundedSemaphore"})


@dataclass(frozen=True, slots=True)
class KnownNumbers:
    """The numbers of a file; `nodes` are all its nodes."""

    module: ast.Module
    nodes: Sequence[ast.AST]

    def count(self, value: ast.expr, function: ast.AsyncFunctionDef, depth: int = 0) -> int | None:
        """The whole number that an expression is in a function, None if it is not known.

        `min` of a known number and another one is at most that number.
        """
        if depth > 4:
            return None
        match value:
            case ast.Constant(value=int(number)):
                return number
            case ast.Name(id=name):
                return self._of_name(name, function, depth)
            case ast.Call(func=ast.Name(id="min"), args=[first, second], keywords=[]):
                numbers = [self.count(one, function, depth + 1) for one in (first, second)]
                known = [one for one in numbers if one is not None]
                return min(known, default=None)
            case ast.Call(func=ast.Name(id="len"), args=[ast.Name(id=name)]):
                made = self.set_to(name, function)
                return len(made.elts) if isinstance(made, (ast.List, ast.Tuple)) else None
            case _:
                return None

    def set_to(self, name: str, function: ast.AsyncFunctionDef) -> ast.expr | None:
        """What a variable, or a constant of the file, is set to, if that is done once."""
        around = self._around(function)
        for scope in (function, *([] if around is None else [around]), self.module):
            inside = [*own_nodes(scope)]
            stores = [
                one
                for one in inside
                if isinstance(one, ast.Name) and one.id == name and not isinstance(one.ctx, ast.Load)
            ]
            values = [
                one.value
                for one in inside
                if isinstance(one, (ast.Assign, ast.AnnAssign))
                and any(
                    each in stores
                    for each in ([one.target] if isinstance(one, ast.AnnAssign) else one.targets)
                )
            ]
            if stores:
                return values[0] if len(stores) == 1 and len(values) == 1 else None
        return None

    def _of_name(self, name: str, function: ast.AsyncFunctionDef, depth: int) -> int | None:
        parameters = [one.arg for one in parameters_of(function.args)]
        if name not in parameters:
            made = self.set_to(name, function)
            if made is not None:
                return self.count(made, function, depth + 1)
            around = self._around(function)
            return None if around is None else self.count(ast.Name(name, ast.Load()), around, depth + 1)
        if any(
            isinstance(one, ast.Name) and one.id == name and not isinstance(one.ctx, ast.Load)
            for one in own_nodes(function)
        ):
            return None
        calls = [
            one
            for one in self.nodes
            if isinstance(one, ast.Call) and isinstance(one.func, ast.Name) and one.func.id == function.name
        ]
        uses = sum(isinstance(one, ast.Name) and one.id == function.name for one in self.nodes)
        if not calls or uses > len(calls):
            return None
        default, found = dict(given_by_default(function)).get(name), set[int | None]()
        plain = [one.arg for one in (*function.args.posonlyargs, *function.args.args)]
        for call in calls:
            if any(
                isinstance(one, ast.Starred)
                for one in call.args[: plain.index(name) + 1 if name in plain else 0]
            ):
                return None
            if any(word.arg is None for word in call.keywords):
                return None
            named = {word.arg: word.value for word in call.keywords}
            at = plain.index(name) if name in plain else len(call.args)
            given = call.args[at] if at < len(call.args) else named.get(name, default)
            caller = self._caller(call)
            number = given.value if isinstance(given, ast.Constant) else None
            if given is not None and caller is not None:
                number = self.count(given, caller, depth + 1)
            found.add(number if isinstance(number, int) else None)
        return found.pop() if len(found) == 1 else None

    def _around(self, function: ast.AsyncFunctionDef) -> ast.AsyncFunctionDef | None:
        """The async function in which another one is defined."""
        for one in self.nodes:
            if isinstance(one, ast.AsyncFunctionDef) and any(each is function for each in own_nodes(one)):
                return one
        return None

    def _caller(self, call: ast.Call) -> ast.AsyncFunctionDef | None:
        for one in self.nodes:
            if isinstance(one, ast.AsyncFunctionDef) and any(each is call for each in own_nodes(one)):
                return one
        return None


def limits_as_numbers(module: ast.Module, nodes: Sequence[ast.AST]) -> bool:
    """Write how many a semaphore lets through as a number, where it is known; whether there was any.

    >>> module = ast.parse('''async def work(xs, most):
    ...     limit = asyncio.Semaphore(most)
    ... async def main():
    ...     await work([1], 3)''')
    >>> limits_as_numbers(module, list(ast.walk(module)))
    True
    >>> print(ast.unparse(module.body[0].body[0]))
    limit = asyncio.Semaphore(3)
    """
    known, found = KnownNumbers(module, nodes), False
    for function in nodes:
        if not isinstance(function, ast.AsyncFunctionDef):
            continue
        for one in own_nodes(function):
            if isinstance(one, ast.Call) and dotted(one.func) in _LIMITS:
                given = [*one.args, *(word.value for word in one.keywords)]
                if len(given) == 1 and not isinstance(given[0], ast.Constant):
                    number = known.count(given[0], function)
                    if number is not None and number > 0:
                        one.args, one.keywords = [placed(ast.Constant(number), given[0])], []
                        found = True
    return found
