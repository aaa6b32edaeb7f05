"""Writes the body of a generator where it is used: one that awaits between its items, or around a block.

In: the function, a call of it, and the statements for what it yields. Out: statements, in which the
function's own names are fresh ones. What cannot be written so gives None, and the place stays as it is.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, cast

from callsheet.frontends.python.source import (
    Nodes,
    among,
    dotted,
    given_by_default,
    made_name,
    names_bound,
    names_read,
    own_nodes,
    parameters_of,
    walk,
)
from callsheet.frontends.python.syntax import Renaming, assignment, none, placed

Generator = ast.AsyncFunctionDef | ast.FunctionDef
_Fresh = Callable[[str], str]
_LOOPS: Final = (ast.For, ast.AsyncFor, ast.While)


def is_generator(node: ast.AST) -> bool:
    """Whether a function yields."""
    return isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and any(
        isinstance(one, (ast.Yield, ast.YieldFrom)) for one in own_nodes(node)
    )


def yields_of(body: Sequence[ast.stmt]) -> list[ast.Expr] | None:
    """The statements of a body that yield; None if it yields in other ways."""
    found = [one for one in among(own_nodes(*body), ast.Expr) if isinstance(one.value, ast.Yield)]
    all_of = sum(isinstance(one, (ast.Yield, ast.YieldFrom)) for one in own_nodes(*body))
    return found if len(found) == all_of else None


class Fresh:
    """Names that a file does not have."""

    def __init__(self, nodes: Nodes) -> None:
        self.taken = set(nodes.words)

    def __call__(self, stem: str) -> str:
        """A name that nothing has: the stem with a number."""
        number = 1
        while (name := made_name(stem, number)) in self.taken:
            number += 1
        self.taken.add(name)
        return name


def opened(
    function: Generator,
    call: ast.Call,
    around: Sequence[ast.stmt],
    site: set[str],
    fresh: _Fresh,
    *,
    is_inner: bool = False,
) -> tuple[list[ast.stmt], list[ast.stmt]] | None:
    """The assignments of a call's arguments, and the body of the function with names of its own.

    `around` are the statements for what it yields, `site` the variables of the function where it is written,
    which an inner function sees.
    """
    given = _bound(function, call, site)
    if given is None:
        return None
    body = copy.deepcopy(function.body)
    if body and isinstance(body[0], ast.Expr) and isinstance(body[0].value, ast.Constant):
        del body[0]
    outer = {name for one in among(own_nodes(*body), ast.Nonlocal, ast.Global) for name in one.names}
    parameters = [one.arg for one in parameters_of(function.args)]
    stored = names_bound(*body) - outer
    own = stored | set(parameters)
    inner = {one.arg for part in body for one in among(walk(part), ast.arg)}
    if inner & own or (not is_inner and (names_read(*body) - own) & (site - outer)):
        return None
    names = {name: fresh(name) for name in sorted(own)}
    before: list[ast.stmt] = []
    changed = names_bound(*around) | stored
    for name, value in given.items():
        if isinstance(value, ast.Name) and name not in stored and value.id not in changed:
            names[name] = value.id
            continue
        made = ast.Assign([ast.Name(names[name], ast.Store())], value)
        before.append(placed(made, call))
    renaming = RenamingOwn(names)
    return before, [cast("ast.stmt", renaming.visit(one)) for one in body]


def _bound(function: Generator, call: ast.Call, site: set[str]) -> dict[str, ast.expr] | None:
    """The values of a function's parameters at a call, in the order in which Python evaluates them."""
    of = function.args
    if any(isinstance(one, ast.Starred) for one in call.args):
        return None
    plain = [one.arg for one in (*of.posonlyargs, *of.args)]
    rest = call.args[len(plain) :]
    if rest and of.vararg is None:
        return None
    given = dict(zip(plain, call.args, strict=False))
    if of.vararg is not None:
        given[of.vararg.arg] = placed(ast.Tuple(list(rest), ast.Load()), call)
    known = {*plain, *(one.arg for one in of.kwonlyargs)} - {one.arg for one in of.posonlyargs}
    words: list[ast.keyword] = []
    for word in call.keywords:
        if word.arg is None or word.arg in given:
            return None
        if word.arg in known:
            if words:
                return None  # what goes before it would be evaluated after it
            given[word.arg] = word.value
        else:
            words.append(word)
    if words and of.kwarg is None:
        return None
    if of.kwarg is not None:
        keys: list[ast.expr | None] = [placed(ast.Constant(word.arg), word) for word in words]
        given[of.kwarg.arg] = placed(ast.Dict(keys, [word.value for word in words]), call)
    defaults = dict(given_by_default(of))
    for one in parameters_of(of):
        if one.arg not in given:
            value = defaults.get(one.arg)
            if value is None or not is_fixed(value, site):
                return None
            given[one.arg] = copy.deepcopy(value)
    return given


def is_fixed(value: ast.expr, variables: Container[str]) -> bool:
    """Whether an expression gives the same wherever it stands: constants, by their names if no variables."""
    match value:
        case ast.Tuple(elts=parts):
            return all(is_fixed(one, variables) for one in parts)
        case ast.BinOp(left=left, right=right):
            return is_fixed(left, variables) and is_fixed(right, variables)
        case ast.UnaryOp(operand=operand):
            return is_fixed(operand, variables)
        case ast.Name(id=name):
            return name not in variables
        case ast.Attribute(value=inner):
            return is_fixed(inner, variables)
        case _:
            return isinstance(value, ast.Constant)


class RenamingOwn(Renaming):
    """Gives the variables of a function other names, also where a handler or a definition binds them."""

    def visit_ExceptHandler(self, node: ast.ExceptHandler) -> ast.AST:
        """A handler."""
        node.name = self.names.get(node.name, node.name) if node.name else None
        return self.generic_visit(node)

    def _definition(self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> ast.AST:
        node.name = self.names.get(node.name, node.name)
        return self.generic_visit(node)

    visit_FunctionDef = visit_AsyncFunctionDef = visit_ClassDef = _definition

    def visit_Nonlocal(self, node: ast.Nonlocal) -> ast.AST:
        """What is a variable of the function around it already, where the body is written."""
        return ast.copy_location(ast.Pass(), node)


class Replacing(ast.NodeTransformer):
    """Puts statements in the place of those of a body, without what is inside functions in it."""

    def __init__(self, places: Mapping[int, Sequence[ast.stmt]]) -> None:
        self.places = places

    def block(self, body: Sequence[ast.stmt]) -> list[ast.stmt]:
        """The statements of a block."""
        made: list[ast.stmt] = []
        for one in body:
            found: Any = self.visit(one)
            made += cast("list[ast.stmt]", found) if isinstance(found, list) else [found]
        return made

    def _simple(self, node: ast.Expr | ast.Assign) -> Any:
        return list(self.places[id(node)]) if id(node) in self.places else node

    visit_Expr = visit_Assign = _simple

    def _apart(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> ast.AST:
        return node

    visit_FunctionDef = visit_AsyncFunctionDef = _apart


class Leaving:
    """Writes what leaves a block as a note of the way, and a break of the loop around the block.

    The block has to stand in a loop of one turn; `after` gives the statements that then leave as noted.
    """

    def __init__(self, kinds: frozenset[str], fresh: _Fresh) -> None:
        self.kinds, self.way, self.value = kinds, fresh("way"), fresh("value")
        self.used: set[str] = set()

    def block(self, body: Sequence[ast.stmt], *, in_loop: bool = False) -> list[ast.stmt]:
        """The statements of a block."""
        made: list[ast.stmt] = []
        for one in body:
            made += self._statement(one, in_loop=in_loop)
        return made

    def _statement(self, one: ast.stmt, *, in_loop: bool) -> Iterator[ast.stmt] | list[ast.stmt]:
        match one:
            case ast.Return(value=value) if "return" in self.kinds:
                self.used.add("return")
                held = value or none(one)
                return [
                    assignment(self.value, held, one),
                    self._noted("return", one),
                    placed(ast.Break(), one),
                ]
            case ast.Break() | ast.Continue() if not in_loop:
                kind = "break" if isinstance(one, ast.Break) else "continue"
                if kind not in self.kinds:
                    return [one]
                self.used.add(kind)
                return [self._noted(kind, one), placed(ast.Break(), one)]
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                return [one]
            case ast.For() | ast.AsyncFor() | ast.While():
                before = set(self.used)
                self.used = set()
                one.body = self.block(one.body, in_loop=True)
                is_left = bool(self.used)
                self.used |= before
                one.orelse = self.block(one.orelse, in_loop=in_loop)
                if not is_left:
                    return [one]
                return [one, placed(ast.If(ast.Name(self.way, ast.Load()), [ast.Break()], []), one)]
            case ast.Match():
                for case in one.cases:
                    case.body = self.block(case.body, in_loop=in_loop)
                return [one]
            case _:
                for field in ("body", "orelse", "finalbody"):
                    held = getattr(one, field, None)
                    if isinstance(held, list):
                        setattr(one, field, self.block(cast("list[ast.stmt]", held), in_loop=in_loop))
                for handler in getattr(one, "handlers", ()):
                    handler.body = self.block(handler.body, in_loop=in_loop)
                return [one]

    def _noted(self, kind: str, place: ast.AST) -> ast.stmt:
        return assignment(self.way, ast.Constant(kind), place)

    def start(self, place: ast.AST) -> list[ast.stmt]:
        """What stands before the block."""
        made: list[ast.stmt] = [assignment(self.way, ast.Constant(""), place)]
        if "return" in self.used:
            made.append(assignment(self.value, ast.Constant(None), place))
        return made

    def after(self, place: ast.AST) -> list[ast.stmt]:
        """What leaves as noted."""
        leaves: dict[str, ast.stmt] = {
            "return": ast.Return(ast.Name(self.value, ast.Load())),
            "break": ast.Break(),
            "continue": ast.Continue(),
        }
        made: list[ast.stmt] = []
        for kind in sorted(self.used):
            test = ast.Compare(ast.Name(self.way, ast.Load()), [ast.Eq()], [ast.Constant(kind)])
            made.append(placed(ast.If(test, [leaves[kind]], []), place))
        return made


def once(body: list[ast.stmt], fresh: _Fresh, place: ast.AST) -> ast.stmt:
    """A loop of one turn around a body, so that a break leaves it."""
    turn = ast.Name(fresh("once"), ast.Store())
    return placed(ast.For(turn, ast.Tuple([ast.Constant(None)], ast.Load()), body, []), place)


def leaves_block(body: Sequence[ast.stmt]) -> bool:
    """Whether a block may return, or break or continue a loop around it."""
    probe = Leaving(frozenset({"return", "break", "continue"}), lambda stem: stem)
    probe.block(copy.deepcopy(list(body)))
    return bool(probe.used)


def loops_around(body: Sequence[ast.stmt], wanted: set[int], found: set[int]) -> bool:
    """Note the loops of a body that have one of the wanted statements inside; whether it has one itself."""
    has = False
    for one in body:
        if id(one) in wanted:
            has = True
            continue
        if isinstance(one, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            continue
        for block in blocks_in(one):
            if loops_around(block, wanted, found):
                has = True
                if isinstance(one, _LOOPS) and block is one.body:
                    found.add(id(one))
    return has


def blocks_in(one: ast.stmt) -> Iterator[list[ast.stmt]]:
    """The blocks of a statement."""
    for field in ("body", "orelse", "finalbody"):
        held = getattr(one, field, None)
        if isinstance(held, list):
            yield cast("list[ast.stmt]", held)
    for handler in getattr(one, "handlers", ()):
        yield handler.body
    for case in getattr(one, "cases", ()):
        yield case.body


def blocks_of(nodes: Iterable[ast.AST]) -> list[list[ast.stmt]]:
    """The blocks of the statements among some nodes."""
    return [block for one in among(nodes, ast.stmt) for block in blocks_in(one)]


def rewrite_blocks(
    blocks: Iterable[list[ast.stmt]], made_of: Callable[[ast.stmt], Sequence[ast.stmt] | None]
) -> bool:
    """Put what is made of each statement in its place, the last of a block first; whether any was made.

    None leaves a statement as it is.
    """
    found = False
    for block in blocks:
        for number in reversed(range(len(block))):
            made = made_of(block[number])
            if made is not None:
                block[number : number + 1] = made
                found = True
    return found


def name_called(node: ast.expr) -> str:
    """The name of the function that a call calls, if it is a plain one."""
    return (dotted(node.func) or "") if isinstance(node, ast.Call) else ""


def full_names(module: ast.Module) -> Callable[[ast.expr], str]:
    """What gives the full name of what a call calls, as `itertools.islice`; the plain one else."""
    names = {
        each.asname or each.name: f"{one.module}.{each.name}"
        for one in module.body
        if isinstance(one, ast.ImportFrom)
        for each in one.names
    }

    def full_name(value: ast.expr) -> str:
        first, dot, rest = name_called(value).partition(".")
        return f"{names.get(first, first)}{dot}{rest}"

    return full_name
