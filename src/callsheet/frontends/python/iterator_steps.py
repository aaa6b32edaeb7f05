"""Loops that await over what takes items of an iterator of which others take items, as loops of its steps.

In: the tree of a file, which is changed in place. Between calls a plan keeps the items that an iterator has
left, so that a loop must not take more of them than it has had turns.
"""

from __future__ import annotations

import ast
import copy
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from callsheet.frontends.python.container_words import LAZY, iterators_set
from callsheet.frontends.python.flows import breaks
from callsheet.frontends.python.inlining import Fresh, name_called, placed
from callsheet.frontends.python.source import Refused, own_nodes, waits, walk

_EACH_ALONE: Final = frozenset(
    {"map", "filter", "itertools.filterfalse", "itertools.starmap", "itertools.takewhile"}
)
"""Functions of a function and iterators, which take their items in each step as in the first one."""


def iterators_as_steps(module: ast.Module, nodes: Sequence[ast.AST]) -> bool:
    """Write loops that await over an iterator of which others take items as loops of its steps.

    Raises Refused (PYT015) where a loop would take items ahead that others have to get.

    >>> module = ast.parse('''async def main(xs):
    ...     it = iter(xs)
    ...     for n, one in enumerate(it):
    ...         await post(n, one)
    ...         break
    ...     return list(it)''')
    >>> iterators_as_steps(module, list(ast.walk(module)))
    True
    >>> print(ast.unparse(module.body[0].body[1:3]))
    count_at_1 = 0
    while True:
        taken_at_1 = False
        for n, one in enumerate(it, count_at_1):
            taken_at_1 = True
            count_at_1 += 1
            break
        if not taken_at_1:
            break
        await post(n, one)
        break
    """
    modules = {
        each.asname or each.name: f"{one.module}.{each.name}"
        for one in module.body
        if isinstance(one, ast.ImportFrom)
        for each in one.names
    }

    def full_name(value: ast.expr) -> str:
        return modules.get(name_called(value), name_called(value))

    fresh, is_changed = Fresh(nodes), False
    for function in nodes:
        if isinstance(function, ast.AsyncFunctionDef):
            steps = _steps_in(function, full_name, fresh)
            if steps:
                _Stepping(steps, fresh).visit(function)
                is_changed = True
    return is_changed


class _Step(NamedTuple):
    """What a loop goes through in each step: what is set before the loop, and after an item was taken."""

    source: ast.expr
    before: Sequence[str] = ()
    after: Sequence[str] = ()


def _steps_in(
    function: ast.AsyncFunctionDef, full_name: Callable[[ast.expr], str], fresh: Fresh
) -> Mapping[int, _Step]:
    """The steps of the loops of a function that have to be taken one by one, by the loops' ids."""
    inner = list(own_nodes(function))
    held = {name for one in inner for name in iterators_set(one, full_name)}
    if not held:
        return {}
    read = Counter(_reads(inner))
    again = {
        id(one) for each in inner if isinstance(each, (ast.For, ast.While)) for one in own_nodes(*each.body)
    }
    made: dict[int, _Step] = {}
    for one in inner:
        if not isinstance(one, ast.For) or not any(map(waits, one.body)) or breaks(one.orelse):
            continue
        own = Counter(name for name in _taken_of(one.iter, full_name) if name in held)
        is_left = breaks(one.body)
        others = any(read[name] > number for name, number in own.items())
        if not own or not (others or (is_left and id(one) in again)):
            continue
        step = _step(one.iter, held, full_name, fresh)
        if step is not None:
            made[id(one)] = step
        elif is_left or not own.keys().isdisjoint(_reads(walk(ast.Module(one.body, [])))):
            (name, *_) = own
            raise Refused(
                "PYT015",
                one,
                f"all that this loop takes of {name} is taken before its first turn",
                f"go through {name} alone: for item in {name}",
            )
    return made


def _reads(nodes: Iterable[ast.AST]) -> list[str]:
    return [one.id for one in nodes if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Load)]


def _taken_of(source: ast.expr, full_name: Callable[[ast.expr], str]) -> list[str]:
    """The variables of which items are taken when they are taken of an expression."""
    match source:
        case ast.Name(id=name):
            return [name]
        case ast.GeneratorExp(generators=[ast.comprehension(iter=first), *_]):
            return _taken_of(first, full_name)
        case ast.Call(args=given) if (name := full_name(source)) in LAZY or name.startswith("itertools."):
            return [each for one in given for each in _taken_of(one, full_name)]
        case _:
            return []


def _step(
    source: ast.expr, held: set[str], full_name: Callable[[ast.expr], str], fresh: Fresh
) -> _Step | None:
    """What takes one item of an iterator as the source of a loop does; None where that is not known."""

    def is_held(*of: ast.expr) -> bool:
        return bool(of) and all(isinstance(one, ast.Name) and one.id in held for one in of)

    name = full_name(source)
    match source:
        case ast.Name() | ast.GeneratorExp(generators=[ast.comprehension(iter=ast.Name())]):
            return _Step(source)
        case ast.Call(args=of, keywords=[]) if name == "zip":
            return _zipped(source, [None if is_held(one) else fresh("source") for one in of])
        case ast.Call(args=[ast.Name() | ast.Lambda() | ast.Constant(), *of], keywords=[]) if (
            name in _EACH_ALONE and is_held(*of)
        ):
            return _Step(source)
        case (
            ast.Call(args=[of, start], keywords=[])
            | ast.Call(args=[of], keywords=[ast.keyword(arg="start", value=start)])
        ) if name == "enumerate" and is_held(of):
            return _counted(source, of, start, "{0} += 1", fresh)
        case ast.Call(args=[of], keywords=[]) if name == "enumerate" and is_held(of):
            return _counted(source, of, ast.Constant(0), "{0} += 1", fresh)
        case ast.Call(args=[of, stop], keywords=[]) if name == "itertools.islice" and is_held(of):
            return _counted(source, of, stop, "{0} = {0} and {0} - 1", fresh)
        case _:
            return None


def _counted(source: ast.Call, of: ast.expr, number: ast.expr, after: str, fresh: Fresh) -> _Step:
    """A step of what counts the items: with a variable for the number."""
    count, made = fresh("count"), copy.copy(source)
    made.args, made.keywords = [of, ast.Name(count, ast.Load())], []
    return _Step(made, [f"{count} = {ast.unparse(number)}"], [after.format(count)])


def _zipped(source: ast.Call, names: Sequence[str | None]) -> _Step:
    """A step of what takes items of several sources: those that are none get iterators under these names."""
    made, pairs = copy.copy(source), list(zip(source.args, names, strict=True))
    made.args = [one if name is None else ast.Name(name, ast.Load()) for one, name in pairs]
    return _Step(made, [f"{name} = iter({ast.unparse(one)})" for one, name in pairs if name is not None])


class _Stepping(ast.NodeTransformer):
    """Writes loops as ones that take one item of their iterator in each turn."""

    def __init__(self, steps: Mapping[int, _Step], fresh: Fresh) -> None:
        self.steps, self.fresh = steps, fresh

    def visit_For(self, node: ast.For) -> ast.stmt | list[ast.stmt]:
        """A loop."""
        self.generic_visit(node)
        step = self.steps.get(id(node))
        if step is None:
            return node
        taken = self.fresh("taken")
        turn = [*_parsed([f"{taken} = True", *step.after]), ast.Break()]
        over = ast.If(ast.UnaryOp(ast.Not(), ast.Name(taken, ast.Load())), [*node.orelse, ast.Break()], [])
        loop = ast.For(node.target, step.source, turn, [])
        body = [*_parsed([f"{taken} = False"]), loop, over, *node.body]
        made = [*_parsed(step.before), ast.While(ast.Constant(True), body, [])]
        return [placed(one, node) for one in made]


def _parsed(lines: Iterable[str]) -> list[ast.stmt]:
    """Statements, each without its place."""
    made = ast.parse("\n".join(lines)).body
    for one in made:
        for each in ast.walk(one):
            for name in ("lineno", "col_offset", "end_lineno", "end_col_offset"):
                if hasattr(each, name):
                    delattr(each, name)
    return made
