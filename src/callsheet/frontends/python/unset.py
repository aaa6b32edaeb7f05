"""Variables that may have no value where they are read: a test before it, which fails as CPython does.

In: a function, and the reads that its paths leave unset. Out: the function with a second variable for each,
which says whether it is set. Where that cannot be told, the function is `Refused`.
"""

from __future__ import annotations

import ast
from collections.abc import Callable

from callsheet.frontends.python import core
from callsheet.frontends.python.source import Refused, names_bound, walk
from callsheet.frontends.python.variables import Variables


def with_tests(function: core.Function, variables: Variables, fresh: Callable[[str], str]) -> None:
    """Test before each such read whether the variable is set. Raises Refused (PYT016)."""
    flags: dict[str, str] = {}
    for name, readers in variables.unset.items():
        for one in readers:
            if isinstance(one, core.While) or _may_set(one, name, variables):
                raise _refused(name, one)
        flags[name] = fresh(f"is_{name}_set")
    readers = {name: {id(one) for one in found} for name, found in variables.unset.items()}
    function.body = _block(function.body, flags, readers, variables)
    start: core.Block = []
    for name, flag in flags.items():
        place = function.node.body[0]
        start += [_assigned(name, None, place), _assigned(flag, False, place)]
    function.body[:0] = start


def _may_set(one: core.Core, name: str, variables: Variables) -> bool:
    """Whether a statement sets a variable on some of its paths alone, or before it may read it."""
    return (
        isinstance(one, core.Pure)
        and name in names_bound(one.stmt)
        and not isinstance(one.stmt, ast.AugAssign)
    )


def _refused(name: str, one: core.Core) -> Refused:
    node: ast.AST = one.stmt if isinstance(one, core.Pure) else one.node
    for part in core.parts_of(one):
        for each in walk(part):
            if isinstance(each, ast.Name) and each.id == name and isinstance(each.ctx, ast.Load):
                node = each
    return Refused(
        "PYT016",
        node,
        f"{name} may have no value here: some path does not set it",
        f"set it before, as in {name} = None, and say what is done then",
    )


def _assigned(name: str, value: object, place: ast.AST) -> core.Pure:
    made = ast.Assign([ast.Name(name, ast.Store())], ast.Constant(value))  # type: ignore[arg-type]
    return core.Pure(ast.fix_missing_locations(ast.copy_location(made, place)))


def _block(
    block: core.Block, flags: dict[str, str], readers: dict[str, set[int]], variables: Variables
) -> core.Block:
    made: core.Block = []
    for one in block:
        place: ast.AST = one.stmt if isinstance(one, core.Pure) else one.node
        for name, flag in flags.items():
            if id(one) in readers[name]:
                test = ast.UnaryOp(ast.Not(), ast.Name(flag, ast.Load()))
                text = ast.Constant(
                    f"cannot access local variable {name!r} where it is not associated with a value"
                )
                for each in (test, text):
                    ast.fix_missing_locations(ast.copy_location(each, place))
                made.append(core.Choice(test, [core.Fail(text, "UnboundLocalError", place)], [], place))
        made.append(one)
        _inside(one, flags, readers, variables)
        effect = variables.effect(one)
        for name, flag in flags.items():
            if name not in variables.bound_by(one):
                continue
            if name not in effect.sets:
                raise _refused(name, variables.unset[name][0])
            made.append(_assigned(flag, True, place))
    return made


def _inside(
    one: core.Core, flags: dict[str, str], readers: dict[str, set[int]], variables: Variables
) -> None:
    def change(block: core.Block) -> core.Block:
        return _block(block, flags, readers, variables)

    match one:
        case core.Choice():
            one.then, one.otherwise = change(one.then), change(one.otherwise)
        case core.Loop():
            one.body = change(one.body)
            if one.target in flags:
                one.body.insert(0, _assigned(flags[one.target], True, one.node))
        case core.While():
            one.body = change(one.body)
        case core.Attempt():
            one.body = change(one.body)
            for each in one.handlers:
                each.body = change(each.body)
            one.final = None if one.final is None else change(one.final)
        case core.Together():
            if any(name in variables.bound_by(each) for each in one.members for name in flags):
                raise _refused(next(iter(flags)), one.members[0])
        case _:
            pass
