"""Async functions that change what belongs to their caller: they return it, and the call takes it back.

In: a function of `core` statements. Out: the same function, whose result is a tuple of its own result and of
what it has changed; and callers that assign each part. That is what Python does as long as such calls stand
one after another.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Container, Mapping

from callsheet.frontends.python import core
from callsheet.frontends.python.sharing import Sharing, chain, find, sharing_of
from callsheet.frontends.python.source import Refused
from callsheet.frontends.python.variables import bound_names


def changes_of(
    function: core.Function, definitions: Mapping[str, ast.stmt], resolved: Callable[[ast.AST], str | None]
) -> tuple[str, ...]:
    """The parameters whose values a function changes, and the captured variables that it changes or sets."""
    bound = bound_names(function.body)
    names = bound | set(function.parameters) | set(function.captured)
    sharing = Sharing(names, definitions, resolved)
    sharing_of(function, sharing, lambda _: True)
    changed = [node for one in _pure(function.body) for node in sharing.changed(one.stmt)]
    found = [name for name in function.captured if name in bound]
    for name in (*function.parameters, *function.captured):
        if name not in found and any(find(node) in chain(sharing.node(name)) for node in changed):
            if name in bound and name in function.parameters:
                continue  # another value under the name of a parameter: its check is that of sharing
            found.append(name)
    for name in found:
        default = function.defaults.get(name)
        if default is not None and not isinstance(default, ast.Constant):
            raise Refused(
                "PYT015",
                default,
                f"the default of {name} is one object for all calls of {function.name}, which changes it",
                f"write {name}=None, and make a new one if it is None",
            )
    return tuple(found)


def _pure(block: core.Block) -> list[core.Pure]:
    return [one for one in core.all_of(block) if isinstance(one, core.Pure)]


def give_back(function: core.Function, changes: tuple[str, ...]) -> None:
    """Let a function return what it changes behind its result."""
    function.changes = changes
    place = function.node.body[-1]
    for one in core.all_of(function.body):
        if isinstance(one, core.Return):
            one.value = _pair(one.value or ast.copy_location(ast.Constant(None), one.node), changes)
    function.is_late = _is_late(function.body, frozenset(changes), ends=True)
    last = ast.copy_location(ast.Constant(None), place)
    if not (function.body and isinstance(function.body[-1], (core.Return, core.Fail))):
        function.body.append(core.Return(_pair(last, changes), place))


def _pair(value: ast.expr, changes: tuple[str, ...]) -> ast.expr:
    parts = [value, *(ast.Name(name, ast.Load()) for name in changes)]
    return ast.fix_missing_locations(ast.copy_location(ast.Tuple(parts, ast.Load()), value))


def _touches(one: core.Core, changes: frozenset[str]) -> bool:
    if core.bound_by(one) & changes:
        return True
    return any(
        isinstance(each, ast.Name) and each.id in changes
        for part in core.parts_of(one)
        for each in ast.walk(part)
    ) and isinstance(one, core.Pure)


def _cannot_fail(one: core.Core) -> bool:
    """Whether a statement surely ends: a return, or a plain value put into a container under a plain name."""
    match one:
        case core.Return() | core.Continue() | core.Break():
            return True
        case core.Pure(stmt=ast.Assign(value=value)):
            return isinstance(value, (ast.Name, ast.Constant))
        case core.Pure(stmt=ast.Expr(value=ast.Call(func=ast.Attribute(attr="append" | "add"), args=[only]))):
            return isinstance(only, (ast.Name, ast.Constant))
        case _:
            return False


def _is_late(block: core.Block, changes: frozenset[str], *, ends: bool) -> bool:
    """Whether nothing that could fail follows what touches the changed variables."""
    for number, one in enumerate(block):
        rest = [each for each in block[number + 1 :] if not _cannot_fail(each)]
        is_last = ends and not rest
        inner = list(core.blocks_of(one))
        touched = _touches(one, changes) or (isinstance(one, core.Call) and bool(set(one.changes) & changes))
        if touched and not is_last:
            return False
        in_loop = isinstance(one, (core.Loop, core.While))
        if any(not _is_late(each, changes, ends=is_last and not in_loop) for each in inner):
            return False
    return True


def take_back(
    block: core.Block,
    functions: Mapping[int, core.Function],
    fresh: Callable[[str], str],
    made_names: Container[str],
    *,
    caught: bool = False,
) -> core.Block:
    """A block whose calls of such functions are followed by assignments. Raises Refused (PYT015)."""
    made: core.Block = []
    for one in block:
        made.append(one)
        found = functions.get(id(one.helper)) if isinstance(one, core.Call) else None
        if isinstance(one, core.Call) and found is not None and found.changes and not one.changes:
            if caught and not found.is_late:
                raise _refused(one, found, "may fail after it was changed, and the error is caught here")
            made += _taken(one, found, fresh, made_names)
        _inner(one, functions, fresh, made_names, caught=caught)
    return made


def _inner(
    one: core.Core,
    functions: Mapping[int, core.Function],
    fresh: Callable[[str], str],
    made_names: Container[str],
    *,
    caught: bool,
) -> None:
    match one:
        case core.Choice():
            one.then = take_back(one.then, functions, fresh, made_names, caught=caught)
            one.otherwise = take_back(one.otherwise, functions, fresh, made_names, caught=caught)
        case core.Loop() if one.together:
            _none_of(one.body, functions)
        case core.Loop() | core.While():
            one.body = take_back(one.body, functions, fresh, made_names, caught=caught)
        case core.Attempt():
            one.body = take_back(one.body, functions, fresh, made_names, caught=True)
            for each in one.handlers:
                each.body = take_back(each.body, functions, fresh, made_names, caught=caught)
            if one.final is not None:
                one.final = take_back(one.final, functions, fresh, made_names, caught=caught)
        case core.Together():
            _none_of(one.members, functions)
        case _:
            pass


def _none_of(block: core.Block, functions: Mapping[int, core.Function]) -> None:
    for one in core.all_of(block):
        found = functions.get(id(one.helper)) if isinstance(one, core.Call) else None
        if isinstance(one, core.Call) and found is not None and found.changes:
            raise _refused(one, found, "is changed by calls that run side by side")


def _refused(one: core.Call, found: core.Function, why: str) -> Refused:
    name = found.changes[0]
    return Refused(
        "PYT015",
        one.node,
        f"{name} in {found.name} {why}",
        f"let {found.name} return what it adds, and put the results together where it is called",
    )


def _taken(
    one: core.Call, found: core.Function, fresh: Callable[[str], str], made_names: Container[str]
) -> core.Block:
    held, into = fresh(one.callee), one.into
    one.into = held
    targets: list[str] = []
    for name in found.changes:
        given = next((each.value for each in one.arguments if each.name == name), None)
        is_new = isinstance(
            given, (ast.List, ast.Dict, ast.Set, ast.ListComp, ast.DictComp, ast.SetComp, ast.Constant)
        )
        if not is_new and not (isinstance(given, ast.Name) and given.id not in made_names):
            raise _refused(one, found, "is part of something else here, which would have to change too")
        targets.append(given.id if isinstance(given, ast.Name) else "")
    one.changes = tuple(name or held for name in targets)
    made: core.Block = []
    for number, name in enumerate([into, *targets]):
        if name:
            part = ast.Subscript(ast.Name(held, ast.Load()), ast.Constant(number), ast.Load())
            stmt = ast.Assign([ast.Name(name, ast.Store())], part)
            stmt = ast.fix_missing_locations(ast.copy_location(stmt, one.node))
            made.append(core.Pure(stmt, takes_back=name if number else None))
    return made
