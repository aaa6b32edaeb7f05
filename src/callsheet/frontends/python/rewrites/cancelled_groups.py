"""`gather` of tasks that are cancelled where it fails: a group, whose first failure stops the others.

In: the tree of a file, which is changed in place. The tasks become those of an `asyncio.TaskGroup`, whose
first error is raised again, and what cancels them goes. Where something else asks for the tasks, or some way
behind a failure lets one go on, they stay: who reads them says what a plan does instead.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Final

from callsheet.frontends.python.rewrites.first_done import Group, group_of, starts_at_once
from callsheet.frontends.python.rewrites.inlining import Fresh, blocks_of
from callsheet.frontends.python.rewrites.task_words import is_task, only_cancels
from callsheet.frontends.python.source import Nodes, Refused, among, dotted, last_name, own_nodes, waits, walk
from callsheet.frontends.python.syntax import PuttingNodes, load, name_of, parsed_lines, placed

_LEAVING: Final = (ast.Return, ast.Raise, ast.Break, ast.Continue)
_ALL: Final = frozenset({"Exception", "BaseException"})
_OF_TOOLS: Final = _ALL | {"ToolError"}
"""The errors that a handler of what tools raise names."""


def cancelled_groups_as_groups(nodes: Nodes, warned: list[Refused]) -> bool:
    """Write such gathers as groups of tasks; whether there were any.

    Where an error that no handler there takes would let the tasks go on, and the file has other handlers,
    that is added to `warned`.

    >>> module = ast.parse('''async def main(xs):
    ...     tasks = [asyncio.create_task(f(x)) for x in xs]
    ...     try:
    ...         return await asyncio.gather(*tasks)
    ...     finally:
    ...         for task in tasks:
    ...             task.cancel()''')
    >>> cancelled_groups_as_groups(Nodes(module), [])
    True
    >>> print(ast.unparse(module))
    async def main(xs):
        try:
            try:
                async with asyncio.TaskGroup() as group_at_1:
                    tasks_at_1 = [group_at_1.create_task(f(x)) for x in xs]
                results_at_1 = [task_at_1.result() for task_at_1 in tasks_at_1]
            except ExceptionGroup as failed_at_1:
                raise failed_at_1.exceptions[0]
            return results_at_1
        finally:
            pass
    """
    fresh, found = Fresh(nodes), False
    handlers = sum(1 for _ in nodes.of(ast.ExceptHandler))
    for function in nodes.of(ast.AsyncFunctionDef):
        for block in blocks_of(own_nodes(function)):
            number = 0
            while number < len(block):
                one = block[number]
                gathered = _gathered(one, block[:number]) if isinstance(one, ast.Try) else None
                if gathered is not None and _is_all_there_is(gathered, function):
                    block[: number + 1] = gathered.rewritten(block[: number + 1], fresh)
                    found = True
                    if gathered.misses_errors and len(gathered.attempt.handlers) < handlers:
                        warned.append(_stops_at_others(gathered.attempt.handlers[0]))
                number += 1
    return found


@dataclass(frozen=True, slots=True)
class _Gathered:
    """A `try` whose body awaits tasks together, and the statements that start, cancel and await them."""

    attempt: ast.Try
    waited: ast.Await
    place: int
    group: Group
    begun: tuple[ast.stmt, ...]
    cancels: tuple[ast.stmt, ...]
    misses_errors: bool
    """Whether some errors leave the `try` past what cancels the tasks."""

    def rewritten(self, block: Sequence[ast.stmt], fresh: Fresh) -> list[ast.stmt]:
        """The block up to the `try`, with a group in the place of its tasks."""
        gone = {id(one) for one in (*self.begun, *self.cancels)}
        names = {word: fresh(word) for word in ("group", "tasks", "task", "results", "failed")}
        made = self._group(names)
        attempt, at = self.attempt, self.attempt.body[self.place]
        PuttingNodes({id(self.waited): name_of(names["results"], self.waited)}).visit(at)
        attempt.body[self.place : self.place + 1] = [made, at]
        for each in (attempt.body, attempt.finalbody, *(one.body for one in attempt.handlers)):
            kept = [one for one in each if id(one) not in gone]
            each[:] = kept or ([placed(ast.Pass(), each[0])] if each else [])
        return [one for one in block if id(one) not in gone]

    def _group(self, names: dict[str, str]) -> ast.stmt:
        group, tasks, task, results, failed = names.values()
        calls = self.group.calls
        single = isinstance(calls, ast.List)
        given = list(calls.elts) if isinstance(calls, ast.List) else list[ast.expr]()
        starts = [f"{tasks}{number} = {group}.create_task(_call)" for number in range(len(given))]
        taken = ", ".join(f"{tasks}{number}.result()" for number in range(len(given)))
        lines = [
            "try:",
            f"    async with asyncio.TaskGroup() as {group}:",
            *(f"        {one}" for one in (starts if single else [f"{tasks} = _all"])),
            f"    {results} = [{taken}]"
            if single
            else f"    {results} = [{task}.result() for {task} in {tasks}]",
            f"except ExceptionGroup as {failed}:",
            f"    raise {failed}.exceptions[0]",
        ]
        (made,) = parsed_lines(lines, self.waited)
        places = [one for one in walk(made) if isinstance(one, ast.Name) and one.id in {"_call", "_all"}]
        if isinstance(calls, ast.ListComp):
            start = ast.Call(ast.Attribute(load(group), "create_task", ast.Load()), [calls.elt], [])
            given = [placed(ast.ListComp(ast.copy_location(start, calls.elt), calls.generators), calls)]
        for one, call in zip(places, given, strict=True):
            PuttingNodes({id(one): ast.copy_location(call, one)}).visit(made)
        return made


def _gathered(attempt: ast.Try, before: Sequence[ast.stmt]) -> _Gathered | None:
    found = [
        (place, one)
        for place, part in enumerate(attempt.body)
        for one in own_nodes(part)
        if isinstance(one, ast.Await) and _is_gather(one)
    ]
    if len(found) != 1:
        return None
    ((place, waited),) = found
    if not isinstance(attempt.body[place], (ast.Assign, ast.AnnAssign, ast.Expr, ast.Return)):
        return None
    ahead = [*before, *attempt.body[:place]]
    given = waited.value.args if isinstance(waited.value, ast.Call) else []
    many = given[0].value if isinstance(given[0], ast.Starred) else ast.List(given, ast.Load())
    group = group_of(many, ahead)
    if group is None or group.keys or not starts_at_once(group, ahead):
        return None
    begun = tuple(ahead[number] for number in group.made)
    names = {*group.names, *group.whole}
    in_the_end = list(_cancelling(attempt.finalbody, names))
    handled = [list(_cancelling(one.body, names)) for one in attempt.handlers]
    always = _stops_all(in_the_end, group)
    is_handled = any(_takes(one, _OF_TOOLS) for one in attempt.handlers)
    if not always and not (is_handled and all(_stops_all(one, group) for one in handled)):
        return None
    misses = not always and not any(_takes(one, _ALL) for one in attempt.handlers)
    return _Gathered(attempt, waited, place, group, begun, (*chain(*handled), *in_the_end), misses)


def _is_gather(node: ast.Await) -> bool:
    match node.value:
        case ast.Call(func=func, args=[ast.Starred(value=ast.Name())] | [_, *_] as args, keywords=[]):
            is_whole = len(args) == 1 or all(isinstance(one, ast.Name) for one in args)
            return dotted(func) in {"asyncio.gather", "gather"} and is_whole and all(map(is_task, args))
        case _:
            return False


def _cancelling(block: Sequence[ast.stmt], names: set[str]) -> Iterator[ast.stmt]:
    """The statements of a block that cancel the tasks, before it waits, and wait for them then."""
    has_cancelled = False
    for one in block:
        is_theirs = not {each.id for each in among(walk(one), ast.Name)}.isdisjoint(names)
        if only_cancels(one) and is_theirs:
            has_cancelled = True
            yield one
        elif has_cancelled and is_theirs and _awaits_all(one):
            yield one
        elif not has_cancelled and (waits(one) or any(isinstance(each, _LEAVING) for each in own_nodes(one))):
            return


def _takes(handler: ast.ExceptHandler, errors: frozenset[str]) -> bool:
    """Whether a handler names one of these errors, or none at all."""
    taken = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    return any(one is None or last_name(one) in errors for one in taken)


def _stops_at_others(handler: ast.ExceptHandler) -> Refused:
    return Refused(
        "PYT106",
        handler,
        "the tasks go on in Python behind an error that is not handled here, and in a plan it stops them",
        "cancel the tasks in a finally",
    )


def _stops_all(cancels: Sequence[ast.stmt], group: Group) -> bool:
    """Whether statements cancel all tasks of a group that are under way, whatever the program finds."""
    found = set(chain.from_iterable(map(_cancelled, cancels)))
    count = len(group.calls.elts) if isinstance(group.calls, ast.List) else 0
    return not found.isdisjoint(group.whole) or 0 < count == len(found & group.names.keys())


def _cancelled(one: ast.stmt) -> set[str]:
    """The names of the tasks, or of the lists of tasks, that a statement cancels unless they are done."""
    match one:
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr="cancel"))):
            return {name}
        case ast.Expr(
            value=ast.ListComp(elt=ast.expr() as elt, generators=[ast.comprehension(ifs=ifs) as part])
        ):
            inner = _cancelled(ast.Expr(elt)) if all(map(_is_under_way, ifs)) else set[str]()
            return _each(part.target, part.iter, inner)
        case ast.For(target=target, iter=source, body=body):
            return _each(target, source, set(chain.from_iterable(map(_cancelled, body))))
        case ast.If(test=test, body=body) if _is_under_way(test):
            return set(chain.from_iterable(map(_cancelled, body)))
        case _:
            return set()


def _each(target: ast.expr, source: ast.expr, cancelled: set[str]) -> set[str]:
    """The names of what a loop goes through, if it cancels each."""
    if not isinstance(target, ast.Name) or target.id not in cancelled:
        return set()
    parts = source.elts if isinstance(source, (ast.Tuple, ast.List, ast.Set)) else [source]
    return {one.id for one in parts if isinstance(one, ast.Name)}


def _is_under_way(test: ast.expr) -> bool:
    match test:
        case ast.UnaryOp(op=ast.Not(), operand=ast.Call(func=ast.Attribute(attr="done"))):
            return True
        case _:
            return False


def _awaits_all(one: ast.stmt) -> bool:
    match one:
        case ast.Expr(value=ast.Await(value=ast.Call(func=func, keywords=[ast.keyword(arg=arg)]))):
            return dotted(func) == "asyncio.gather" and arg == "return_exceptions"
        case _:
            return False


def _is_all_there_is(found: _Gathered, function: ast.AsyncFunctionDef) -> bool:
    """Whether nothing else in the function names the tasks."""
    names = {*found.group.names, *found.group.whole}
    known = {id(one) for part in (*found.begun, *found.cancels, found.waited) for one in walk(part)}
    return all(id(one) in known or one.id not in names for one in among(walk(function), ast.Name))
