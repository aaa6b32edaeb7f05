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

from callsheet.frontends.python.analysis.container_words import LAZY, iterators_set, makes_iterator
from callsheet.frontends.python.rewrites.inlining import Fresh, full_names, name_called
from callsheet.frontends.python.source import (
    Nodes,
    Refused,
    breaks,
    given_by_default,
    own_nodes,
    parameters_of,
    waits,
    walk,
)
from callsheet.frontends.python.syntax import load, parsed_lines, placed

_EACH_ALONE: Final = frozenset(
    {"map", "filter", "itertools.filterfalse", "itertools.starmap", "itertools.takewhile"}
)
"""Functions of a function and iterators, which take their items in each step as in the first one."""


def iterators_as_steps(module: ast.Module, nodes: Nodes) -> bool:
    """Write loops that await over an iterator of which others take items as loops of its steps.

    Raises Refused (PYT015) where a loop would take items ahead that others have to get.

    >>> module = ast.parse('''async def main(xs):
    ...     it = iter(xs)
    ...     for n, one in enumerate(it):
    ...         await post(n, one)
    ...         break
    ...     return list(it)''')
    >>> iterators_as_steps(module, Nodes(module))
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
    full_name = full_names(module)
    fresh, is_changed = Fresh(nodes), False
    functions = nodes.of(ast.AsyncFunctionDef)
    names = {one.name for one in functions}
    sets = (iterators_set(one, full_name) for one in nodes.of(ast.Assign, ast.AnnAssign))
    if not any(sets) and not any(_gives_iterator(one, names, full_name) for one in nodes.of(ast.Call)):
        return False
    held = _held_in(functions, full_name)
    for function in functions:
        if held[function.name]:
            steps = _steps_in(function, held[function.name], full_name, fresh)
            if steps:
                _Stepping(steps, fresh).visit(function)
                is_changed = True
    return is_changed


def _gives_iterator(one: ast.Call, functions: set[str], full_name: Callable[[ast.expr], str]) -> bool:
    """Whether one of these functions is given an iterator."""
    return name_called(one) in functions and any(
        makes_iterator(value, full_name(value))
        for value in (*one.args, *(word.value for word in one.keywords))
    )


def _held_in(
    functions: Sequence[ast.AsyncFunctionDef], full_name: Callable[[ast.expr], str]
) -> Mapping[str, set[str]]:
    """The variables of each function that hold iterators: those set to one, and parameters given one."""
    held: dict[str, set[str]] = {}
    for one in functions:
        found = held.setdefault(one.name, set())
        found |= {name for each in own_nodes(one) for name in iterators_set(each, full_name)}
    parameters = {one.name: [each.arg for each in parameters_of(one.args)] for one in functions}
    defaults = {(one.name, name): value for one in functions for name, value in given_by_default(one.args)}
    others: dict[tuple[str, str], ast.expr] = {}
    changed = True
    while changed:
        changed, others = False, dict(defaults)
        for one in functions:
            for each in own_nodes(one):
                called = name_called(each) if isinstance(each, ast.Call) else ""
                if not isinstance(each, ast.Call) or called not in held:
                    continue
                places = zip(parameters[called], each.args, strict=False)
                words = ((str(word.arg), word.value) for word in each.keywords)
                for name, value in (*places, *words):
                    is_held = isinstance(value, ast.Name) and value.id in held[one.name]
                    if not is_held and not makes_iterator(value, full_name(value)):
                        others[called, name] = value
                        continue
                    if name not in held[called]:
                        held[called].add(name)
                        changed = True
                    own = _taken_of(value, full_name)
                    is_part = not is_held and not held[one.name].isdisjoint(own)
                    if is_part and name in _gone_through(functions, called, full_name):
                        raise Refused(
                            "PYT015",
                            value,
                            f"all that {called} may take of this is taken before the call",
                            f"give {called} the iterator itself, or a list: list(…)",
                        )
    for called, name in others:
        if name in held[called] and name in _gone_through(functions, called, full_name):
            raise Refused(
                "PYT015",
                others[called, name],
                f"{called} is given an iterator as {name} in one call, and this in another",
                f"give it lists: list(…) around each iterator that {called} is given",
            )
    return held


def _gone_through(
    functions: Sequence[ast.AsyncFunctionDef], called: str, full_name: Callable[[ast.expr], str]
) -> set[str]:
    """The variables of the functions of a name that loops which await go through."""
    return {
        name
        for function in functions
        if function.name == called
        for one in own_nodes(function)
        if isinstance(one, ast.For) and any(map(waits, one.body))
        for name in _taken_of(one.iter, full_name)
    }


class _Step(NamedTuple):
    """What a loop goes through in each step: what is set before the loop, and after an item was taken."""

    source: ast.expr
    before: Sequence[str] = ()
    after: Sequence[str] = ()
    is_asked: bool = False
    """Whether `next` takes the items: those of a parameter, whose iterator its caller sees."""


def _steps_in(
    function: ast.AsyncFunctionDef, held: set[str], full_name: Callable[[ast.expr], str], fresh: Fresh
) -> Mapping[int, _Step]:
    """The steps of the loops of a function that have to be taken one by one, by the loops' ids."""
    inner = list(own_nodes(function))
    given = held & {one.arg for one in parameters_of(function.args)}
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
        others = any(read[name] > number or name in given for name, number in own.items())
        if not own or not (others or (is_left and id(one) in again)):
            continue
        is_given = not own.keys().isdisjoint(given)
        step = None if is_given else _step(one.iter, held, full_name, fresh)
        if is_given and isinstance(one.iter, ast.Name):
            made[id(one)] = _Step(one.iter, is_asked=True)
        elif step is not None:
            made[id(one)] = step
        elif is_left or is_given or not own.keys().isdisjoint(_reads(walk(ast.Module(one.body, [])))):
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
    made.args, made.keywords = [of, load(count)], []
    return _Step(made, [f"{count} = {ast.unparse(number)}"], [after.format(count)])


def _zipped(source: ast.Call, names: Sequence[str | None]) -> _Step:
    """A step of what takes items of several sources: those that are none get iterators under these names."""
    made, pairs = copy.copy(source), list(zip(source.args, names, strict=True))
    made.args = [one if name is None else load(name) for one, name in pairs]
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
        if step.is_asked:
            item = self.fresh("next")
            asked = f"    {item} = next({ast.unparse(step.source)})\n"
            lines = [f"{taken} = True", f"try:\n{asked}except StopIteration:\n    {taken} = False"]
            body = [*parsed_lines(lines, node), _ended(taken, node), ast.Assign([node.target], load(item))]
            return [placed(ast.While(ast.Constant(True), [*body, *node.body], []), node)]
        turn = [*parsed_lines([f"{taken} = True", *step.after], node), ast.Break()]
        loop = ast.For(node.target, step.source, turn, [])
        body = [*parsed_lines([f"{taken} = False"], node), loop, _ended(taken, node), *node.body]
        made = [*parsed_lines(step.before, node), ast.While(ast.Constant(True), body, [])]
        return [placed(one, node) for one in made]


def _ended(taken: str, node: ast.For) -> ast.stmt:
    """What ends a loop whose variable says that there was no item."""
    return ast.If(ast.UnaryOp(ast.Not(), load(taken)), [*node.orelse, ast.Break()], [])
