"""Variables that may have no value where they are read: a test before it, which fails as CPython does.

In: a function, and the reads that its paths leave unset. Out: the function with a second variable for each,
which says whether it is set. Where that cannot be told, the function is `Refused`.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Final

from callsheet.frontends.python import core
from callsheet.frontends.python.analysis.variables import Variables
from callsheet.frontends.python.source import Refused, among, children, names_bound, names_read, walk
from callsheet.frontends.python.syntax import assigned, constant, parsed_lines


def with_tests(function: core.Function, variables: Variables, fresh: Callable[[str], str]) -> None:
    """Test before each such read whether the variable is set. Raises Refused (PYT016)."""
    flags: dict[str, str] = {}
    for name, readers in sorted(variables.unset.items()):
        for one in readers:
            if isinstance(one, core.While) or name in variables.unbound or _may_set(one, name, variables):
                raise _refused(name, one)
            parts = [part for part in core.parts_of(one) if name in names_read(part)]
            if not all(_reads_surely(part, name) for part in parts):
                raise _refused(name, one)
        flags[name] = fresh(f"is_{name}_set")
    readers = {name: {id(one) for one in found} for name, found in variables.unset.items()}
    function.body = _block(function.body, flags, readers, variables)
    start: core.Block = []
    place = function.node.body[0]
    for name in [*flags, *sorted(variables.at_start - flags.keys())]:
        nothing = _assigned(name, None, place)
        nothing.is_placeholder = True
        start.append(nothing)
        if name in flags:
            start.append(_assigned(flags[name], False, place))
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
    return assigned(name, constant(value, place), place)


def _block(
    block: core.Block, flags: dict[str, str], readers: dict[str, set[int]], variables: Variables
) -> core.Block:
    made: core.Block = []
    for one in block:
        place: ast.AST = one.stmt if isinstance(one, core.Pure) else one.node
        for name, flag in flags.items():
            if id(one) in readers[name] and (not _is_block(one) or _reads_head(one, name)):
                test = ast.UnaryOp(ast.Not(), ast.Name(flag, ast.Load()))
                text = ast.Constant(
                    f"cannot access local variable {name!r} where it is not associated with a value"
                )
                for each in (test, text):
                    ast.fix_missing_locations(ast.copy_location(each, place))
                made.append(core.Choice(test, [core.Fail(text, "UnboundLocalError", place)], [], place))
            elif id(one) in readers[name] and isinstance(one, core.Pure):
                (one.stmt,) = _checked([one.stmt], name, flag)
        made.append(one)
        _inside(one, flags, readers, variables)
        effect = variables.effect(one)
        for name, flag in flags.items():
            if name not in variables.bound_by(one):
                continue
            if name in effect.sets:
                made.append(_assigned(flag, True, place))
            elif isinstance(one, core.Pure) and not _unbinds(one.stmt, name):
                one.stmt, *rest = _flagged([one.stmt], name, flag)
                made += map(core.Pure, rest)
            else:
                raise _refused(name, variables.unset[name][0])
    return made


_BLOCKS: Final = (ast.For, ast.While, ast.If, ast.Try, ast.With, ast.Match)


def _is_block(one: core.Core) -> bool:
    return isinstance(one, core.Pure) and isinstance(one.stmt, _BLOCKS)


def _heads(stmt: ast.stmt) -> list[ast.AST]:
    """What a statement with blocks evaluates first; a simple statement as a whole."""
    if not isinstance(stmt, _BLOCKS):
        return [stmt]
    return [one for one in children(stmt) if isinstance(one, (ast.expr, ast.withitem))]


def _reads_head(one: core.Core, name: str) -> bool:
    return isinstance(one, core.Pure) and name in names_read(*_heads(one.stmt))


def _is_walrus(node: ast.AST, name: str) -> bool:
    return isinstance(node, ast.NamedExpr) and node.target.id == name


def _reads_surely(root: ast.AST, name: str) -> bool:
    """Whether a variable is read whenever what reads it is evaluated, and not on some of its ways alone."""
    return _evaluates(
        root, lambda one: isinstance(one, ast.Name) and isinstance(one.ctx, ast.Load) and one.id == name
    )


def _evaluates(root: ast.AST, wanted: Callable[[ast.AST], bool]) -> bool:
    """Whether a part that is wanted is evaluated on all ways through a tree."""
    if wanted(root):
        return True
    late: list[ast.AST]
    match root:
        case ast.IfExp(body=first, orelse=second):
            late = [first, second]
        case ast.BoolOp(values=[_, *others]) | ast.Compare(comparators=[_, *others]):
            late = [*others]
        case ast.ListComp() | ast.SetComp() | ast.DictComp() | ast.GeneratorExp():
            return _evaluates(root.generators[0].iter, wanted)
        case ast.Lambda() | ast.FunctionDef() | ast.match_case(guard=ast.expr()):
            return False
        case ast.Assert(test=test):
            return _evaluates(test, wanted)
        case _:
            late = []
    return any(_evaluates(one, wanted) for one in children(root) if one not in late)


def _checked(block: list[ast.stmt], name: str, flag: str) -> list[ast.stmt]:
    """Statements that fail before one of them reads a variable that has no value."""
    made: list[ast.stmt] = []
    for one in block:
        if name in names_read(*_heads(one)):
            text = f"cannot access local variable {name!r} where it is not associated with a value"
            made += parsed_lines([f"if not {flag}:", f"    raise UnboundLocalError({text!r})"], one)
        made.append(one)
        if isinstance(one, _BLOCKS):
            for part in (one, *getattr(one, "handlers", ()), *getattr(one, "cases", ())):
                for field in ("body", "orelse", "finalbody"):
                    if getattr(part, field, None):
                        setattr(part, field, _checked(getattr(part, field), name, flag))
    return made


def _unbinds(root: ast.stmt, name: str) -> bool:
    """Whether a statement may take a variable its value, or gives it one in what it may not evaluate."""
    for stmt in among(walk(root), ast.stmt):
        for head in _heads(stmt):
            is_sure = not isinstance(stmt, _BLOCKS) and _evaluates(head, lambda one: _is_walrus(one, name))
            if not is_sure and any(_is_walrus(one, name) for one in walk(head)):
                return True
    return any(
        (isinstance(one, ast.ExceptHandler) and one.name == name)
        or (isinstance(one, ast.Name) and one.id == name and isinstance(one.ctx, ast.Del))
        for one in walk(root)
    )


def _flagged(block: list[ast.stmt], name: str, flag: str) -> list[ast.stmt]:
    """Statements that note in `flag`, wherever they set a variable, that it has a value."""
    made: list[ast.stmt] = []
    for one in block:
        made.append(one)
        if not isinstance(one, _BLOCKS):
            if name in names_bound(one):
                made.append(_assigned(flag, True, one).stmt)
            continue
        heads = [each for each in ast.iter_child_nodes(one) if isinstance(each, (ast.expr, ast.withitem))]
        inner: list[ast.stmt] = []
        if any(name in names_bound(each) for each in heads):
            inner = [_assigned(flag, True, one).stmt]
        for part in (one, *getattr(one, "handlers", ()), *getattr(one, "cases", ())):
            if isinstance(part, ast.match_case) and name in names_bound(part):
                part.body.insert(0, _assigned(flag, True, one).stmt)
            for field in ("body", "orelse", "finalbody"):
                if getattr(part, field, None):
                    setattr(part, field, _flagged(getattr(part, field), name, flag))
        if inner and isinstance(one, (ast.For, ast.With, ast.If, ast.While)):
            one.body[:0] = inner
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
