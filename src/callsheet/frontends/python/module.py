"""The part of a module that a function with `@plan` needs, so that all else in it may be any Python.

In: the tree of the module, the function, and what the module's names stand for in the running program. Out:
a tree with that function, the helpers, classes and constants that it reads, and nothing else; or `Refused`
for a name that its text alone does not explain. Imports inside of async functions go to the top of any file.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, cast

from callsheet.frontends.python.imports import PURE_MODULES
from callsheet.frontends.python.source import (
    Nodes,
    Refused,
    decorator_name,
    last_name,
    names_bound,
    names_read,
    own_nodes,
    walk,
)

_MARK: Final = "plan"
"""The decorator of functions that are plans."""
_NO_VALUE: Final = object()
_IMPORTS: Final = (ast.Import, ast.ImportFrom)
_DEFINITIONS: Final = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)


@dataclass(frozen=True, slots=True)
class Within:
    """A function of a module: its name, the line of its definition or of its first decorator.

    `values` are what the names of the module stand for, and `tools` those names that are tools or stubs of
    tools.
    """

    function: str
    line: int
    values: Mapping[str, object]
    tools: frozenset[str] = frozenset()


def plans_of(module: ast.Module, function: str | None = None) -> tuple[Within, ...]:
    """The async functions of the top level with `@plan`; with `function` the one so called, marked or not."""
    tools = tools_declared(module)
    return tuple(
        Within(one.name, _first_line(one), {}, tools)
        for one in _top_level(module)
        if isinstance(one, ast.AsyncFunctionDef)
        and (_is_marked(one) if function is None else one.name == function)
    )


def tools_declared(module: ast.Module) -> frozenset[str]:
    """The names of the functions of a module with `@tool`."""
    return frozenset(name for one in _top_level(module) if _declares_tool(one) for name in names_bound(one))


def functions_marked(text: str) -> tuple[str, ...]:
    """The names of a module's functions with `@plan`; none of one that cannot be parsed."""
    try:
        return tuple(dict.fromkeys(one.function for one in plans_of(ast.parse(text))))
    except (SyntaxError, ValueError, RecursionError):
        return ()


def needed_part(module: ast.Module, within: Within) -> ast.Module:
    """The function and what it needs of its module, in the module's order. Raises Refused."""
    main = _function_at(module, within)
    top = [one for one in _top_level(module) if one is not main]
    makers: dict[str, list[ast.stmt]] = {}
    for one in top:
        if _declares_tool(one):
            continue
        for name in names_bound(one):
            makers.setdefault(name, []).append(one)
    needed: dict[int, ast.stmt] = {}
    seen: set[str] = {main.name}
    todo = _names_of(main)
    while todo:
        name, reader = todo.pop()
        if name in seen or name in within.tools:
            continue
        seen.add(name)
        for one in makers.get(name, ()):
            part = _made_by(one, name, reader, within)
            if part is not None and id(one) not in needed:
                needed[id(one)] = part
                todo += _names_of(part)
    _check_constants(module, top, needed, within)
    body = [_as_main(main) if one is main else needed.get(id(one)) for one in _top_level(module)]
    if not any(one is main for one in _top_level(module)):
        body.append(_as_main(main))
    return ast.Module([one for one in body if one is not None], [])


def hoist_imports(module: ast.Module, nodes: Nodes) -> bool:
    """Put imports that stand in async functions at the top, if their names mean one thing; whether any was.

    One whose name has another meaning somewhere, or is read before it, stays where it is. `nodes` are all
    those of the module.
    """
    imports = nodes.of(*_IMPORTS)
    _with_usual_modules(imports)
    if all(one in module.body for one in imports):
        return False
    meanings, bound = _meanings(imports), set[str]()
    first: dict[str, int] = {}
    for one in nodes:
        if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Load):
            first[one.id] = min(one.lineno, first.get(one.id, one.lineno))
        else:
            held = vars(one).get("id") or vars(one).get("arg") or vars(one).get("name")
            bound |= {held} if isinstance(held, str) and not isinstance(one, ast.alias) else set()
    hoisted: list[ast.stmt] = []
    for body in _bodies(nodes):
        for number, one in enumerate(body):
            names = [_bound_by(each) for each in one.names] if isinstance(one, _IMPORTS) else []
            if names and all(
                len(meanings[name]) == 1 and name not in bound and first.get(name, one.lineno) >= one.lineno
                for name in names
            ):
                hoisted.append(one)
                body[number] = ast.copy_location(ast.Pass(), one)
    module.body[:0] = hoisted
    return bool(hoisted)


_USUAL: Final = {"posixpath": "os.path"}
"""Modules that are another one under a name of their own."""


def _with_usual_modules(imports: Iterable[ast.Import | ast.ImportFrom]) -> None:
    """Import modules by their usual names."""
    for one in imports:
        if isinstance(one, ast.ImportFrom):
            if not one.level:
                one.module = _USUAL.get(one.module or "", one.module)
            continue
        for each in one.names:
            if each.name in _USUAL:
                each.name, each.asname = _USUAL[each.name], each.asname or each.name


def _meanings(imports: Iterable[ast.Import | ast.ImportFrom]) -> dict[str, set[str]]:
    """What each imported name stands for."""
    found: dict[str, set[str]] = {}
    for one in imports:
        module = one.module if isinstance(one, ast.ImportFrom) else ""
        for each in one.names:
            found.setdefault(_bound_by(each), set()).add(f"{module} {each.name}")
    return found


def _bodies(nodes: Nodes) -> Iterator[list[ast.stmt]]:
    """The bodies of async functions and of the blocks in them."""
    for function in nodes.of(ast.AsyncFunctionDef):
        for holder in own_nodes(function):
            if holder is function or not isinstance(holder, _DEFINITIONS):
                for field in ("body", "orelse", "finalbody"):
                    body = getattr(holder, field, None)
                    if isinstance(body, list):
                        yield cast("list[ast.stmt]", body)


def _bound_by(one: ast.alias) -> str:
    return one.asname or one.name.partition(".")[0]


def _function_at(module: ast.Module, within: Within) -> ast.AsyncFunctionDef:
    for one in ast.walk(module):
        if (
            isinstance(one, ast.AsyncFunctionDef)
            and one.name == within.function
            and _first_line(one) == within.line
        ):
            return one
    raise Refused(
        "PYT027",
        None,
        f"{within.function} is not in line {within.line} of its file any more: it was edited after it was"
        " imported",
        "import the module again, or start the program again",
    )


def _first_line(one: ast.AsyncFunctionDef) -> int:
    return min(each.lineno for each in (one, *one.decorator_list))


def _declares_tool(one: ast.stmt) -> bool:
    """Whether a function has `@tool`: the plan calls it, and does not contain it."""
    return isinstance(one, (ast.FunctionDef, ast.AsyncFunctionDef)) and any(
        decorator_name(mark) == "tool" for mark in one.decorator_list
    )


def _top_level(module: ast.Module) -> Iterator[ast.stmt]:
    """The statements of the top level; what is imported for type checkers alone counts, since it is known."""
    for one in module.body:
        if isinstance(one, ast.If) and last_name(one.test) == "TYPE_CHECKING":
            yield from one.body
        else:
            yield one


def _names_of(node: ast.stmt) -> list[tuple[str, ast.AST]]:
    """The names that a definition reads from its module, not in annotations, each with its place."""
    bare = _without_annotations(node)
    names = names_read(bare)
    places: dict[str, ast.AST] = {}
    for one in walk(bare):
        if isinstance(one, ast.Name) and one.id in names:
            places.setdefault(one.id, one)
    return [(name, places.get(name, node)) for name in sorted(names, reverse=True)]


def _without_annotations(node: ast.stmt) -> ast.stmt:
    if not isinstance(node, ast.AsyncFunctionDef):
        return node
    made = _without_mark(node)
    body: list[ast.stmt] = []
    for one in made.body:
        if isinstance(one, ast.AnnAssign) and isinstance(one.target, ast.Name):
            body += [] if one.value is None else [ast.copy_location(ast.Assign([one.target], one.value), one)]
        else:
            body.append(one)
    made.body = body
    return made


def _is_marked(node: ast.AsyncFunctionDef) -> bool:
    return any(decorator_name(mark) == _MARK for mark in node.decorator_list)


def _as_main(node: ast.AsyncFunctionDef) -> ast.AsyncFunctionDef:
    made = _without_mark(node)
    made.decorator_list.append(ast.copy_location(ast.Name(_MARK, ast.Load()), node))
    return made


def _without_mark(node: ast.AsyncFunctionDef) -> ast.AsyncFunctionDef:
    """The function without `@plan`."""
    marks = [one for one in node.decorator_list if decorator_name(one) != _MARK]
    made = ast.AsyncFunctionDef(node.name, node.args, node.body, marks, node.returns, node.type_comment)
    return ast.copy_location(made, node)


def _made_by(one: ast.stmt, name: str, reader: ast.AST, within: Within) -> ast.stmt | None:
    """What of a statement of the top level explains a name; None for names that a plan has anyway.

    Raises Refused for one whose value only running the module would tell.
    """
    match one:
        case ast.AsyncFunctionDef():
            return _without_mark(one)
        case ast.FunctionDef() | ast.ClassDef():
            return one
        case ast.Import() | ast.ImportFrom():
            return _import_of(one, name, reader, within)
        case ast.Assign() | ast.AnnAssign():
            return one
        case _:
            raise Refused(
                "PYT027",
                one,
                f"the plan reads {name}, which is set here, and a module is not executed for a plan",
                f"give it as an argument of {within.function}, or write {name} = … once, at the top level",
            )


def _import_of(
    one: ast.Import | ast.ImportFrom, name: str, reader: ast.AST, within: Within
) -> ast.stmt | None:
    alias = next(each for each in one.names if (each.asname or each.name.split(".")[0]) == name)
    if isinstance(one, ast.Import):
        return ast.copy_location(ast.Import([alias]), one)
    module = one.module or ""
    if not one.level and (module in PURE_MODULES or module.split(".")[0] == "callsheet"):
        return ast.copy_location(ast.ImportFrom(module, [alias], 0), one)
    if name not in within.values:  # imported for type checkers alone: a stub, or a tool that there is not
        return None
    whole = "." * one.level + module
    raise Refused(
        "PYT005",
        reader,
        f"{name} comes from {whole}, which is no module of tools: only this file is read, and nothing is"
        " executed",
        f"move {name} into this file if it computes; if it reaches the world, make it a tool:"
        " Runtime(tools=[…])",
    )


def _check_constants(
    module: ast.Module, top: list[ast.stmt], needed: Mapping[int, ast.stmt], within: Within
) -> None:
    """Raises Refused (PYT027) for a constant that the running program has changed, or may have."""
    constants: dict[str, ast.Assign | ast.AnnAssign] = {}
    for one in needed.values():
        if isinstance(one, (ast.Assign, ast.AnnAssign)):
            constants |= dict.fromkeys(names_bound(one), one)
    for name, one in constants.items():
        _check_same(name, one, within)
    if not constants:
        return
    for one in top:
        if id(one) not in needed:
            changed = next((root for root in _changed_by(one) if root in constants), None)
            if changed is not None:
                raise Refused(
                    "PYT027",
                    one,
                    f"{changed}, which the plan reads, may be changed here: the module's statements are not"
                    " executed for a plan",
                    f"write its whole value where it is set, or give it as an argument of {within.function}",
                )
    for node in ast.walk(module):
        if isinstance(node, ast.Global):
            changed = next((name for name in node.names if name in constants), None)
            if changed is not None:
                raise Refused(
                    "PYT027",
                    node,
                    f"{changed}, which the plan reads, is set by a function",
                    f"give it as an argument of {within.function}",
                )


def _check_same(name: str, one: ast.Assign | ast.AnnAssign, within: Within) -> None:
    """Raises Refused for a literal that is another value in the running program than in the text."""
    targets = one.targets if isinstance(one, ast.Assign) else [one.target]
    if one.value is None or not all(isinstance(target, ast.Name) for target in targets):
        return
    try:
        written: object = ast.literal_eval(one.value)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return
    held = within.values.get(name, _NO_VALUE)
    if held is not _NO_VALUE and (type(held) is not type(written) or repr(held) != repr(written)):
        raise Refused(
            "PYT027",
            one,
            f"{name} has another value in the running program ({_short(held)}) than in this text, from"
            " which a plan is read",
            f"give it as an argument of {within.function}",
        )


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}…"


def _changed_by(one: ast.stmt) -> Iterator[str]:
    """The names whose values a statement of the top level may change in place."""
    if isinstance(one, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Import, ast.ImportFrom)):
        return
    for node in own_nodes(one):
        match node:
            case ast.Attribute(value=value) | ast.Subscript(value=value) if not isinstance(
                node.ctx, ast.Load
            ):
                root = _root(value)
            case ast.Call(func=ast.Attribute(value=value)):
                root = _root(value)
            case _:
                continue
        if root is not None:
            yield root


def _root(node: ast.expr) -> str | None:
    while isinstance(node, (ast.Attribute, ast.Subscript)):
        node = node.value
    return node.id if isinstance(node, ast.Name) else None
