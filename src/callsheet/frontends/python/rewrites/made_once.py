"""What Python evaluates once, when it defines a function or class, and pieces of a plan would evaluate anew.

In: the tree of a file. Out: nothing, or the refusal of the first place where a program could tell: a clock
that is read there, a decorator that changes something or keeps a state, a cache of what changes something.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Final

from callsheet.frontends.pure_code.laziness import changed_objects, changed_outside
from callsheet.frontends.python.rewrites.factories import changes_state
from callsheet.frontends.python.rewrites.inlining import is_generator, name_called
from callsheet.frontends.python.source import (
    Nodes,
    Refused,
    decorator_name,
    dotted,
    given_by_default,
    own_nodes,
    parameters_of,
    walk,
)

_Function = ast.FunctionDef | ast.AsyncFunctionDef
_CLOCKS: Final = frozenset(
    {"now", "today", "datetime.now", "datetime.today", "datetime.utcnow", "date.today", "time.time"}
)
_CACHES: Final = frozenset({"lru_cache", "cache"})


def check_made_once(module: ast.Module, nodes: Nodes) -> None:
    """Raises Refused (PYT015, PYT026) for what a program could tell was evaluated more than once.

    >>> check = lambda text: check_made_once(made := ast.parse(text), Nodes(made))
    >>> check('''def stamp(at=None): return at or datetime.now()''')
    >>> check('''def stamp(at=datetime.now()): return at''')  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    callsheet.frontends.python.source.Refused: ...
    """
    functions = {one.name: one for one in module.body if isinstance(one, ast.FunctionDef)}
    for one in module.body:
        for part in _evaluated_once(one):
            for each in own_nodes(part):
                if isinstance(each, ast.Call) and _is_clock(each):
                    raise Refused(
                        "PYT015",
                        each,
                        "Python reads the clock here once, before main runs; a plan would at each use",
                        "read it at the start of main, and give functions what was read",
                    )
        for mark in one.decorator_list if isinstance(one, (ast.FunctionDef, ast.ClassDef)) else ():
            _check_mark(mark, functions)
            if isinstance(one, ast.FunctionDef) and decorator_name(mark) in _CACHES:
                _check_cached(one, mark, nodes)
        for each in walk(one) if isinstance(one, ast.FunctionDef) else ():
            if isinstance(each, ast.FunctionDef) and each is not one:
                _check_defaults(each)
    for shape in nodes.of(ast.ClassDef):
        for one in shape.body:
            if isinstance(one, ast.FunctionDef) and one.name == "__iter__" and is_generator(one):
                _check_items(one, shape)


def _evaluated_once(one: ast.stmt) -> Iterator[ast.expr]:
    """The expressions of a statement of the file that are evaluated when the file is loaded."""
    match one:
        case ast.Assign(value=value) | ast.AnnAssign(value=ast.expr() as value):
            if not isinstance(value, ast.Lambda):
                yield value
        case ast.FunctionDef() | ast.AsyncFunctionDef():
            yield from filter(None, [*one.args.defaults, *one.args.kw_defaults])
        case ast.ClassDef():
            for each in one.body:
                yield from _evaluated_once(each)
        case _:
            pass


def _is_clock(call: ast.Call) -> bool:
    name = dotted(call.func) or ""
    return any(name == one or name.endswith(f".{one}") for one in _CLOCKS)


def _check_mark(mark: ast.expr, functions: dict[str, ast.FunctionDef]) -> None:
    """Raises Refused for a decorator of the file that changes what is around it, or keeps a state."""
    made = functions.get(decorator_name(mark))
    if made is None:
        return
    inner = [one for one in walk(made) if isinstance(one, (ast.FunctionDef, ast.Lambda))]
    parameters = {each.arg for one in inner for each in parameters_of(one.args)}
    if changes_state(made) or any(changed_outside(one) - parameters for one in inner):
        raise Refused(
            "PYT015",
            mark,
            f"{made.name} changes something, and what it makes would be made anew in each piece of code",
            "write what it does into the function itself, or into main",
        )


def _check_cached(one: ast.FunctionDef, mark: ast.expr, nodes: Nodes) -> None:
    """Raises Refused for a function with a cache, where a program could tell that it runs again."""
    results = {one.name} | {
        each.targets[0].id
        for each in nodes.of(ast.Assign)
        if name_called(each.value) == one.name and isinstance(each.targets[0], ast.Name)
    }
    reads_clock = any(isinstance(each, ast.Call) and _is_clock(each) for each in walk(one))
    if reads_clock or changed_outside(one) or results & changed_objects(nodes):
        raise Refused(
            "PYT015",
            mark,
            f"a plan has no cache: {one.name} would run again, which the program could tell",
            f"take @{decorator_name(mark)} off, and keep what it gave in a dict of main",
        )


def _check_defaults(one: ast.FunctionDef) -> None:
    """Raises Refused for a default of an inner function that this changes."""
    changed = changed_objects(list(walk(one)))
    for name, default in given_by_default(one.args):
        if name in changed and not isinstance(default, ast.Constant):
            raise Refused(
                "PYT015",
                default,
                f"the default of {name} is one object for all calls of {one.name}, which changes it",
                f"make the object before {one.name}, as a variable that it changes",
            )


def _check_items(one: ast.FunctionDef, shape: ast.ClassDef) -> None:
    """Raises Refused for a generator behind `for x in object` that changes something."""
    if changed_outside(one) or (one.args.args and one.args.args[0].arg in changed_objects(list(walk(one)))):
        raise Refused(
            "PYT026",
            one,
            f"all items of a {shape.name} are made before a loop over it begins, and making them changes"
            " something",
            "let __iter__ change nothing, or write the loop with an index",
        )
