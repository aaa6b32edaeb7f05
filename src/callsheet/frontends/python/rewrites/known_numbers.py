"""Numbers that a program computes before any call: how many run at a time.

In: an expression, the function around it, and the nodes of the file. What a variable, a constant of the file
or a parameter holds is known where it is set once, and where all calls give the same.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cached_property

from callsheet.frontends.python.rewrites.parameters import makes_semaphore
from callsheet.frontends.python.source import Nodes, given_by_default, own_nodes, parameters_of
from callsheet.frontends.python.syntax import placed


class KnownNumbers:
    """The numbers of a file; `nodes` are all its nodes. Each scope is gone through once."""

    def __init__(self, module: ast.Module, nodes: Nodes) -> None:
        self.module, self.nodes = module, nodes
        self.sets: dict[int, tuple[Counter[str], Mapping[str, ast.expr]]] = {}

    @cached_property
    def owners(self) -> Mapping[int, ast.AsyncFunctionDef]:
        """The async function in which a node stands, by the identity of the node."""
        functions = (one for one in self.nodes if isinstance(one, ast.AsyncFunctionDef))
        return {id(each): one for one in functions for each in own_nodes(one) if each is not one}

    @cached_property
    def calls(self) -> Mapping[str, Sequence[ast.Call]]:
        """The calls of each name."""
        made: dict[str, list[ast.Call]] = {}
        for one in self.nodes:
            if isinstance(one, ast.Call) and isinstance(one.func, ast.Name):
                made.setdefault(one.func.id, []).append(one)
        return made

    @cached_property
    def uses(self) -> Counter[str]:
        """How often each name is used."""
        return Counter(one.id for one in self.nodes if isinstance(one, ast.Name))

    def _sets_of(
        self, scope: ast.Module | ast.AsyncFunctionDef
    ) -> tuple[Counter[str], Mapping[str, ast.expr]]:
        """How often each variable of a scope is set, and to what by an assignment."""
        if id(scope) not in self.sets:
            inside = [*own_nodes(scope)]
            stores = Counter(
                one.id for one in inside if isinstance(one, ast.Name) and not isinstance(one.ctx, ast.Load)
            )
            values: dict[str, ast.expr] = {}
            for one in inside:
                if isinstance(one, (ast.Assign, ast.AnnAssign)) and one.value is not None:
                    targets = [one.target] if isinstance(one, ast.AnnAssign) else one.targets
                    values |= {each.id: one.value for each in targets if isinstance(each, ast.Name)}
            self.sets[id(scope)] = stores, values
        return self.sets[id(scope)]

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
        around = self.owners.get(id(function))
        for scope in (function, *([] if around is None else [around]), self.module):
            stores, values = self._sets_of(scope)
            if stores[name]:
                return values.get(name) if stores[name] == 1 else None
        return None

    def _of_name(self, name: str, function: ast.AsyncFunctionDef, depth: int) -> int | None:
        parameters = [one.arg for one in parameters_of(function.args)]
        if name not in parameters:
            made = self.set_to(name, function)
            if made is not None:
                return self.count(made, function, depth + 1)
            around = self.owners.get(id(function))
            return None if around is None else self.count(ast.Name(name, ast.Load()), around, depth + 1)
        if self._sets_of(function)[0][name]:
            return None
        calls = self.calls.get(function.name, ())
        if not calls or self.uses[function.name] > len(calls):
            return None
        default, found = dict(given_by_default(function.args)).get(name), set[int | None]()
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
            caller = self.owners.get(id(call))
            number = given.value if isinstance(given, ast.Constant) else None
            if given is not None and caller is not None:
                number = self.count(given, caller, depth + 1)
            found.add(number if isinstance(number, int) else None)
        return found.pop() if len(found) == 1 else None


def limits_as_numbers(module: ast.Module, nodes: Nodes) -> bool:
    """Write how many a semaphore lets through as a number, where it is known; whether there was any.

    >>> module = ast.parse('''async def work(xs, most):
    ...     limit = asyncio.Semaphore(most)
    ... async def main():
    ...     await work([1], 3)''')
    >>> limits_as_numbers(module, Nodes(module))
    True
    >>> print(ast.unparse(module.body[0].body[0]))
    limit = asyncio.Semaphore(3)
    """
    known, found = KnownNumbers(module, nodes), False
    for function in nodes.of(ast.AsyncFunctionDef):
        for one in own_nodes(function):
            if isinstance(one, ast.Call) and makes_semaphore(one):
                given = [*one.args, *(word.value for word in one.keywords)]
                if len(given) == 1 and not isinstance(given[0], ast.Constant):
                    number = known.count(given[0], function)
                    if number is not None and number > 0:
                        one.args, one.keywords = [placed(ast.Constant(number), given[0])], []
                        found = True
    return found
