"""Async functions that call themselves: a copy for each count or depth.

In: a call of such a function. Out: the copy for the constants among its arguments, in which what follows
from them is computed; without constants the copy for its depth, and in the deepest a failure that nothing
catches.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, cast

from callsheet.frontends.python import core
from callsheet.frontends.python.exceptions import DENIED
from callsheet.frontends.python.source import (
    Refused,
    dotted,
    given_by_default,
    leaves,
    names_bound,
    parameters_of,
    walk,
)

_MOST_COPIES: Final = 40
_MOST_DEPTH: Final = 40
_MOST_STEPS: Final = 3_000
"""How deep an async function may call itself, and to how many steps its copies may come."""

_OPERATORS: Final[Mapping[type[ast.AST], Callable[[Any, Any], Any]]] = {
    ast.Add: lambda left, right: left + right,
    ast.Sub: lambda left, right: left - right,
    ast.Eq: lambda left, right: left == right,
    ast.NotEq: lambda left, right: left != right,
    ast.Lt: lambda left, right: left < right,
    ast.LtE: lambda left, right: left <= right,
    ast.Gt: lambda left, right: left > right,
    ast.GtE: lambda left, right: left >= right,
}


class Copies:
    """The copies of the functions of one program."""

    def __init__(self) -> None:
        self.made: dict[tuple[int, tuple[tuple[str, object], ...]], ast.AsyncFunctionDef] = {}
        self.origins: dict[int, ast.AsyncFunctionDef] = {}

    def origin(self, node: ast.AsyncFunctionDef) -> ast.AsyncFunctionDef:
        """The function that a copy was made from; the function itself for any other."""
        return self.origins.get(id(node), node)

    def fit(self, call: core.Call) -> None:
        """Let a call of a function that calls itself be one of the copy for its constants, if it has any."""
        node = call.helper
        if node is None or not calls_itself(node):
            return
        given = {one.name: one.value for one in call.arguments}
        constants: dict[str, object] = {}
        bound = names_bound(*node.body)
        defaults = dict(given_by_default(node.args))
        for one in parameters_of(node.args):
            value = given.get(one.arg, defaults.get(one.arg))
            if isinstance(value, ast.Constant) and isinstance(value.value, int) and one.arg not in bound:
                constants[one.arg] = value.value
        if not constants or len(self.made) >= _MOST_COPIES:
            return
        key = id(node), tuple(sorted(constants.items()))
        if key not in self.made:
            self.made[key] = _copied(node, constants)
            self.origins[id(self.made[key])] = node
        call.helper = self.made[key]
        call.arguments = [one for one in call.arguments if one.name not in constants]

    def deepen(self, call: core.Call, around: Sequence[ast.AsyncFunctionDef]) -> bool:
        """Let a call of a function that it stands in be one of the copy for its depth; whether it is one.

        `around` are the functions that it stands in. Raises Refused (PYT014) where nothing ends the calls.
        """
        node = call.helper
        if node is None:
            return False
        origin = self.origin(node)
        places = [number for number, one in enumerate(around) if self.origin(one) is origin]
        depth = len(places)
        if not depth:
            return False
        circle = around[places[-1] :]
        most = depth_of(circle)
        if depth == 1 and node is origin and all(map(_surely_calls, circle, [*circle[1:], node])):
            raise Refused(
                "PYT014",
                origin,
                f"{origin.name} calls itself, and nothing in it ends that",
                "return before the call where there is nothing more to do",
            )
        key = id(origin), (("depth", depth),)
        if key not in self.made:
            made = copy.deepcopy(node)
            if depth >= most:
                made.body = [_too_deep(node, most)]
            self.made[key] = made
            self.origins[id(made)] = origin
        call.helper = self.made[key]
        return True


def depth_of(circle: Sequence[ast.AsyncFunctionDef]) -> int:
    """How deep functions may call each other in a circle: their copies come to a known number of steps."""
    names = {one.name for one in circle}
    called = [
        one.func.id
        for function in circle
        for part in function.body
        for one in walk(part)
        if isinstance(one, ast.Call) and isinstance(one.func, ast.Name)
    ]
    waits = sum(isinstance(one, ast.Await) for function in circle for one in walk(function))
    again = max(1, sum(name in names for name in called) - len(circle) + 1)
    depth, steps, width = 0, 0, waits + 1
    while depth < _MOST_DEPTH // len(circle) and steps + width <= _MOST_STEPS:
        steps, width, depth = steps + width, width * again, depth + 1
    return max(depth, 1)


def _surely_calls(function: ast.AsyncFunctionDef, called: ast.AsyncFunctionDef) -> bool:
    """Whether a function calls another one whatever is true."""
    for one in function.body:
        if isinstance(one, (ast.Expr, ast.Assign, ast.AnnAssign, ast.Return)):
            value = one.value.value if isinstance(one.value, ast.Await) else one.value
            if isinstance(value, ast.Call) and dotted(value.func) == called.name:
                return True
        if isinstance(one, (ast.Raise, ast.Assert)) or leaves(one):
            return False
    return False


def _too_deep(node: ast.AsyncFunctionDef, most: int) -> ast.stmt:
    text = f"{node.name} calls itself more than {most} deep, which is as deep as a plan goes"
    failure = ast.Call(ast.Name(DENIED, ast.Load()), [ast.Constant(text)], [])
    return ast.fix_missing_locations(ast.copy_location(ast.Raise(failure, None), node))


def calls_itself(node: ast.AsyncFunctionDef) -> bool:
    """Whether an async function names itself in its body."""
    return any(isinstance(one, ast.Name) and one.id == node.name for part in node.body for one in walk(part))


def _copied(node: ast.AsyncFunctionDef, constants: Mapping[str, object]) -> ast.AsyncFunctionDef:
    made = copy.deepcopy(node)
    made.body = _Fold(constants).block(made.body)
    of = made.args
    defaults = dict(given_by_default(of))
    of.args = [one for one in (*of.posonlyargs, *of.args) if one.arg not in constants]
    of.kwonlyargs = [one for one in of.kwonlyargs if one.arg not in constants]
    of.posonlyargs, of.defaults = [], [defaults[one.arg] for one in of.args if one.arg in defaults]
    of.kw_defaults = [defaults.get(one.arg) for one in of.kwonlyargs]
    return made


class _Fold(ast.NodeTransformer):
    """Puts constants in the place of names, and computes what follows from them."""

    def __init__(self, constants: Mapping[str, object]) -> None:
        self.constants = constants

    def block(self, body: list[ast.stmt]) -> list[ast.stmt]:
        """The statements that are left of a block."""
        made: list[ast.stmt] = []
        for one in body:
            found: Any = self.visit(one)
            if isinstance(found, list):
                made += cast("list[ast.stmt]", found)
            elif found is not None:
                made.append(found)
        return made or [ast.copy_location(ast.Pass(), body[0])]

    def visit_Name(self, node: ast.Name) -> ast.AST:
        if isinstance(node.ctx, ast.Load) and node.id in self.constants:
            return ast.copy_location(ast.Constant(cast("int", self.constants[node.id])), node)
        return node

    def _computed(self, node: ast.expr, op: ast.AST, left: ast.expr, right: ast.expr) -> ast.AST:
        function = _OPERATORS.get(type(op))
        if function is None or not isinstance(left, ast.Constant) or not isinstance(right, ast.Constant):
            return node
        if not isinstance(left.value, int) or not isinstance(right.value, int):
            return node
        return ast.copy_location(ast.Constant(function(left.value, right.value)), node)

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        self.generic_visit(node)
        return self._computed(node, node.op, node.left, node.right)

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        self.generic_visit(node)
        if len(node.ops) > 1:
            return node
        return self._computed(node, node.ops[0], node.left, node.comparators[0])

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.AST:
        self.generic_visit(node)
        if isinstance(node.op, ast.Not) and isinstance(node.operand, ast.Constant):
            return ast.copy_location(ast.Constant(not node.operand.value), node)
        return node

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.AST:
        self.generic_visit(node)
        ends = isinstance(node.op, ast.Or)
        for number, one in enumerate(node.values):
            if not isinstance(one, ast.Constant):
                node.values = node.values[number:]
                return node if len(node.values) > 1 else node.values[0]
            if bool(one.value) is ends:
                return one
        return node.values[-1]

    def visit_If(self, node: ast.If) -> Any:
        node.test = cast("ast.expr", self.visit(node.test))
        if isinstance(node.test, ast.Constant):
            chosen = node.body if node.test.value else node.orelse
            return self.block(chosen) if chosen else ast.copy_location(ast.Pass(), node)
        node.body = self.block(node.body)
        node.orelse = self.block(node.orelse) if node.orelse else []
        return node

    def visit_IfExp(self, node: ast.IfExp) -> ast.AST:
        node.test = cast("ast.expr", self.visit(node.test))
        if isinstance(node.test, ast.Constant):
            return cast("ast.AST", self.visit(node.body if node.test.value else node.orelse))
        return self.generic_visit(node)

    def visit_Match(self, node: ast.Match) -> ast.AST:
        self.generic_visit(node)
        cases: list[ast.match_case] = []
        for one in node.cases:
            if isinstance(one.guard, ast.Constant):
                if not one.guard.value:
                    continue
                one.guard = None
            cases.append(one)
        node.cases = cases
        return node if cases else ast.copy_location(ast.Pass(), node)
