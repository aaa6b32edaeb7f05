"""Tasks that a TaskGroup is given in loops and under conditions: what they are given is collected first.

In: the tree of a file, which is changed in place. A group's tasks begin when its block first waits, so that
`for x in xs: y = f(x); group.create_task(call(y))` is a loop that collects each `y`, and one that starts the
calls, which `groups` lets run side by side. Where the block itself waits, it stays as it is.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Sequence
from typing import cast

from callsheet.frontends.python.rewrites.inlining import Fresh, Replacing, blocks_of, rewrite_blocks
from callsheet.frontends.python.rewrites.task_words import STARTS
from callsheet.frontends.python.source import Nodes, last_name, own_nodes, waits, walk
from callsheet.frontends.python.syntax import load, placed, store

_STATES = frozenset({"cancelled", "exception", "done", "cancel", "add_done_callback"})


def collect_tasks(nodes: Nodes) -> bool:
    """Let the groups of a file collect what their tasks are called with; whether any does.

    >>> module = ast.parse('''async def main():
    ...     async with TaskGroup() as group:
    ...         for x in xs:
    ...             y = x + 1
    ...             group.create_task(post(y))''')
    >>> collect_tasks(Nodes(module))
    True
    >>> print(ast.unparse(module))
    async def main():
        async with TaskGroup() as group:
            given_at_1 = []
            for x in xs:
                y = x + 1
                given_at_1.append((y,))
            done_at_1 = [group.create_task(post(one_at_1[0])) for one_at_1 in given_at_1]
    """
    groups = [one for one in nodes.of(ast.AsyncWith) if _group_of(one) is not None]
    if not groups or any(one.attr in _STATES for one in nodes.of(ast.Attribute)):
        return False
    fresh = Fresh(nodes)
    parents = blocks_of(nodes)
    changed = False
    for one in groups:
        after = _collected(one, fresh)
        if after is None:
            continue
        changed = True
        for block in parents:
            for number, each in enumerate(block):
                if each is one:
                    block[number + 1 : number + 1] = after
                    break
    return changed


def sources_before_tasks(module: ast.Module, nodes: Nodes) -> bool:
    """Wait for what tasks of a comprehension are made of before it; whether there was anything to wait for.

    >>> module = ast.parse('tasks = {x: asyncio.create_task(get(x)) for x in await names()}')
    >>> sources_before_tasks(module, Nodes(module))
    True
    >>> print(ast.unparse(module))
    given_at_1 = await names()
    tasks = {x: asyncio.create_task(get(x)) for x in given_at_1}
    """
    fresh = Fresh(nodes)

    def made_of(one: ast.stmt) -> list[ast.stmt] | None:
        first = one.body[0] if isinstance(one, ast.AsyncWith) and _group_of(one) is not None else one
        match first:
            case ast.Assign(value=ast.ListComp() | ast.DictComp() as many) if any(map(_starts, walk(many))):
                source = many.generators[0].iter
            case _:
                return None
        if not waits(source):
            return None
        name = fresh("given")
        many.generators[0].iter = placed(load(name), source)
        return [placed(ast.Assign([store(name)], source), source), one]

    return rewrite_blocks([module.body, *blocks_of(nodes)], made_of)


def _starts(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and last_name(node.func) in STARTS


def _group_of(node: ast.AsyncWith) -> str | None:
    """The name of the group that a statement opens."""
    match node.items:
        case [ast.withitem(context_expr=ast.Call(func=func), optional_vars=ast.Name(id=name))]:
            return name if last_name(func) == "TaskGroup" else None
        case _:
            return None


def _started(node: ast.AST, group: str) -> ast.Call | None:
    """The call that an expression starts as a task of a group."""
    match node:
        case ast.Call(
            func=ast.Attribute(value=ast.Name(id=name), attr="create_task"), args=[ast.Call() as call, *_]
        ):
            return call if name == group and isinstance(call.func, ast.Name) else None
        case _:
            return None


def _collected(node: ast.AsyncWith, fresh: Fresh) -> list[ast.stmt] | None:
    """Collect in the block of a group; what is to be done with the results. None where nothing is."""
    group = cast("str", _group_of(node))
    made: list[ast.stmt] = []
    after: list[ast.stmt] = []
    found = has_begun = False
    for stmt in node.body:
        one = stmt
        if isinstance(one, ast.For) and waits(one.iter) and not has_begun:
            held = fresh("items")
            made.append(placed(ast.Assign([store(held)], one.iter), one.iter))
            one = copy.copy(one)  # the group may stay as it is
            one.iter = ast.copy_location(load(held), one.iter)
        starts_any = any(_started(each, group) is not None for each in own_nodes(one))
        if waits(one) and (has_begun or starts_any):
            return None
        has_begun = has_begun or starts_any
        if isinstance(one, (ast.For, ast.If, ast.While)) and not _is_plain(one, group):
            starts = [
                each
                for each in own_nodes(one)
                if isinstance(each, ast.stmt) and _own_start(each, group) is not None
            ]
            total = sum(_started(each, group) is not None for each in own_nodes(one))
            if not starts or total != len(starts):
                if total:
                    return None
                made.append(one)
                continue
            found = True
            begins, ends, places = _gathered(starts, group, fresh, one)
            made += begins
            made += Replacing(places).block([one])
            done, rest = ends
            made += done
            after += rest
        elif isinstance(one, ast.Assign) and isinstance(one.value, ast.DictComp):
            call = _started(one.value.value, group)
            if call is None:
                made.append(one)
                continue
            found = True
            comp = one.value
            given, each, done_name = fresh("given"), fresh("one"), fresh("done")
            parts = [*call.args, *(word.value for word in call.keywords), comp.key]
            rows = ast.ListComp(ast.Tuple(parts, ast.Load()), comp.generators)
            made.append(placed(ast.Assign([store(given)], rows), one))
            made.append(_start_all(call, given, each, done_name, group, one))
            result = fresh("result")
            key = _part(each, len(parts) - 1)
            pair = ast.Tuple([store(each), store(result)], ast.Store())
            both = ast.Call(load("zip"), [load(given), load(done_name)], [])
            value = ast.DictComp(key, load(result), [ast.comprehension(pair, both, [], 0)])
            after.append(placed(ast.Assign(one.targets, value), one))
        else:
            made.append(one)
    if not found:
        return None
    node.body = made
    return after


def _is_plain(one: ast.stmt, group: str) -> bool:
    """Whether a statement is the loop that starts one task for each item, which is understood as it is."""
    match one:
        case ast.For(body=[ast.Expr(value=value)], orelse=[]):
            return _started(value, group) is not None
        case _:
            return False


def _own_start(one: ast.stmt, group: str) -> ast.Call | None:
    """The call that a statement starts: by itself, or to keep the task in a list or dict."""
    match one:
        case ast.Expr(value=ast.Call(func=ast.Attribute(attr="append", value=ast.Name()), args=[value])):
            if isinstance(value, ast.Tuple):
                found = [call for each in value.elts if (call := _started(each, group)) is not None]
                return found[0] if len(found) == 1 else None
            return _started(value, group)
        case ast.Expr(value=value):
            return _started(value, group)
        case ast.Assign(targets=[ast.Subscript(value=ast.Name())], value=value):
            return _started(value, group)
        case _:
            return None


def _gathered(
    starts: Sequence[ast.stmt], group: str, fresh: Fresh, place: ast.stmt
) -> tuple[list[ast.stmt], tuple[list[ast.stmt], list[ast.stmt]], dict[int, list[ast.stmt]]]:
    begins: list[ast.stmt] = []
    done: list[ast.stmt] = []
    after: list[ast.stmt] = []
    places: dict[int, list[ast.stmt]] = {}
    for one in starts:
        call = cast("ast.Call", _own_start(one, group))
        given, each, done_name = fresh("given"), fresh("one"), fresh("done")
        parts = [*call.args, *(word.value for word in call.keywords)]
        begins.append(placed(ast.Assign([store(given)], ast.List([], ast.Load())), place))
        kept, rest = _kept(one, group, len(parts), given, each, done_name, fresh)
        row = ast.Tuple([*parts, *kept], ast.Load())
        append = ast.Call(ast.Attribute(load(given), "append", ast.Load()), [row], [])
        places[id(one)] = [placed(ast.Expr(append), one)]
        done.append(_start_all(call, given, each, done_name, group, one))
        after += rest
    return begins, (done, after), places


def _part(each: str, number: int) -> ast.expr:
    return ast.Subscript(load(each), ast.Constant(number), ast.Load())


def _start_all(call: ast.Call, given: str, each: str, done: str, group: str, place: ast.AST) -> ast.stmt:
    """`done = [group.create_task(call(one[0], …)) for one in given]`."""
    args: list[ast.expr] = [_part(each, number) for number in range(len(call.args))]
    words = [
        ast.keyword(word.arg, _part(each, len(args) + number)) for number, word in enumerate(call.keywords)
    ]
    again = ast.Call(call.func, args, words)
    start = ast.Call(ast.Attribute(load(group), "create_task", ast.Load()), [again], [])
    clause = ast.comprehension(store(each), load(given), [], 0)
    return placed(ast.Assign([store(done)], ast.ListComp(start, [clause])), place)


def _kept(
    one: ast.stmt, group: str, count: int, given: str, each: str, done: str, fresh: Fresh
) -> tuple[list[ast.expr], list[ast.stmt]]:
    """What is kept beside the arguments, and the loop that puts the results where the tasks would be."""
    result = fresh("result")
    value: ast.expr = load(result)
    kept: list[ast.expr] = []
    again: ast.stmt
    match one:
        case ast.Expr(value=ast.Call(func=ast.Attribute(attr="append") as func, args=[held])):
            if isinstance(held, ast.Tuple):
                parts: list[ast.expr] = []
                for part in held.elts:
                    if _started(part, group) is not None:
                        parts.append(value)
                    else:
                        parts.append(_part(each, count + len(kept)))
                        kept.append(part)
                value = ast.Tuple(parts, ast.Load())
            again = ast.Expr(ast.Call(func, [value], []))
        case ast.Assign(targets=[ast.Subscript(value=holder, slice=key)]):
            kept.append(key)
            again = ast.Assign([ast.Subscript(holder, _part(each, count), ast.Store())], value)
        case _:
            return [], []
    pair = ast.Tuple([store(each), store(result)], ast.Store())
    names: list[ast.expr] = [load(given), load(done)]
    loop = ast.For(pair, ast.Call(load("zip"), names, []), [again], [])
    return kept, [placed(loop, one)]
