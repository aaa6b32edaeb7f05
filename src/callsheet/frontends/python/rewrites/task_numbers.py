"""Tasks that a program asks for more than their results, as the numbers of calls that run side by side.

In: the tree of a file, which is changed in place. Where a function starts tasks and waits with
`asyncio.wait`, `as_completed` or `gather`, and asks which are late, what failed, or what a task is called,
each task becomes the number of its call, and each wait runs the calls that were started before it. All that
Python says of tasks is then said of numbers: they are equal to themselves alone, and may be keys or elements
of a set. Where something else is awaited while tasks run, or it is not known what a task is, the function
stays as it is.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Sequence
from typing import Final, cast

from callsheet.frontends.python.rewrites.first_done import IS_TAKEN
from callsheet.frontends.python.rewrites.inlining import Fresh, blocks_in
from callsheet.frontends.python.rewrites.task_calls import TaskCalls
from callsheet.frontends.python.rewrites.task_order import check_order, check_questions
from callsheet.frontends.python.rewrites.task_words import (
    QUESTIONS,
    UnknownTasks,
    cancelled_in_vain,
    cancelled_late,
    completed,
    flushes,
    is_cancelling,
    is_discarding,
    only_cancels,
    started,
    takes,
)
from callsheet.frontends.python.source import (
    Nodes,
    Refused,
    among,
    dotted,
    names_bound,
    own_nodes,
    waits,
    walk,
)
from callsheet.frontends.python.syntax import parsed, parsed_lines, placed

_ASKED: Final = frozenset({"get_name", "exception", "cancelled", "add_done_callback"})
_CONSUMERS: Final = frozenset({"sum", "max", "min", "sorted", "list", "tuple", "set", "dict", "any", "all"})


def tasks_as_numbers(module: ast.Module, nodes: Nodes, warned: list[Refused]) -> bool:
    """Write the tasks of functions that ask them more than their results as numbers; whether there were any.

    Where a failure would leave tasks that the file cancels then, that they go on is added to `warned`. Raises
    Refused for a task that is cancelled while nothing says how far it has come.

    >>> module = ast.parse('''import asyncio
    ... async def main(xs):
    ...     tasks = [asyncio.create_task(f(x)) for x in xs]
    ...     done, pending = await asyncio.wait(tasks, timeout=5)
    ...     for task in pending:
    ...         task.cancel()
    ...     return [task.result() for task in done]''')
    >>> tasks_as_numbers(module, Nodes(module), [])
    True
    >>> print(ast.unparse(module.body[1].body[-1]))
    return [await values_at_1[task] for task in done]
    """
    if not any(_is_asyncio(name) for one in nodes.of(ast.Import) for name in one.names):
        return False
    fresh, found = Fresh(nodes), False
    for one in nodes:
        if isinstance(one, ast.AsyncFunctionDef) and _asks(one):
            tasks = _Tasks(one, copy.deepcopy(one.body), fresh)
            try:
                one.body = tasks.rewritten()
            except UnknownTasks:
                continue
            found = True
            warned += tasks.cancelled()
    return found


def _is_asyncio(name: ast.alias) -> bool:
    return name.name == "asyncio" and name.asname in {None, "asyncio"}


def _asks(function: ast.AsyncFunctionDef) -> bool:
    """Whether a function asks tasks for more than their results, or keeps them where results could not be."""
    inside = list(own_nodes(function))
    if not any(started(one) is not None for one in inside):
        return False
    names = {one.attr for one in inside if isinstance(one, ast.Attribute)}
    if names & _ASKED:
        return True
    for one in inside:
        match one:
            case ast.Await(value=ast.Call(func=func, args=[many, *_])):
                name, is_task = dotted(func), isinstance(many, ast.Name)
                if name == "asyncio.wait" or (name == "asyncio.wait_for" and is_task):
                    return True
            case ast.Call(func=func, args=[many, *_]) if dotted(func) == "asyncio.as_completed":
                if not isinstance(many, (ast.ListComp, ast.GeneratorExp)):
                    return True
            case ast.DictComp(key=key) if started(key) is not None:
                return True
            case ast.Call(func=ast.Attribute(attr="add"), args=[key]) if started(key) is not None:
                return True
            case ast.Subscript(slice=key, ctx=ast.Store()) if started(key) is not None:
                return True
            case _:
                pass
    return False


class _Tasks(TaskCalls):
    """The tasks of one function."""

    def __init__(self, function: ast.AsyncFunctionDef, body: list[ast.stmt], fresh: Fresh) -> None:
        super().__init__(function, body, fresh)
        self.dropped: list[ast.stmt] = []
        """The statements that cancel tasks, in a plan behind their ends."""
        attempts = among(own_nodes(*body), ast.Try)
        parts = (part for one in attempts for part in (*one.handlers, *one.finalbody))
        self.behind = {id(each) for part in parts for each in walk(part)}
        """What follows a failure, or may."""

    def rewritten(self) -> list[ast.stmt]:
        """The body of the function. Raises UnknownTasks."""
        check_questions(self.body)
        check_order(self.body, live=False, is_single=self.is_single)
        made = self.block(self.body)
        if any(started(one) is not None for part in made for one in own_nodes(part)):
            raise UnknownTasks
        lists = [self.started, self.values]
        lists += [self.late] if self.is_limited else []
        lists += [self.order] if self.is_ordered else []
        begin = parsed_lines([f"{name} = []" for name in lists], self.body[0])
        return [*self.helpers(), *begin, *made]

    def cancelled(self) -> list[Refused]:
        """The warnings for what cancels tasks that have run to their ends. Raises Refused (PYT026)."""
        if self.is_limited or self.is_ordered:
            return []
        found: list[Refused] = []
        for one in self.dropped:
            if id(one) not in self.behind:
                raise cancelled_late(one)
            found.append(cancelled_in_vain(one))
        return found

    # ------------------------------------------------------------ what stands there instead

    def block(self, block: Sequence[ast.stmt], after: Sequence[ast.stmt] = ()) -> list[ast.stmt]:
        """The statements of a block, behind which others follow."""
        made: list[ast.stmt] = []
        for number, one in enumerate(block):
            before: list[ast.stmt] = []
            again = self._statement(one, [*block[number + 1 :], *after], before)
            made += before
            if again is not None:
                made.append(again)
        return made or [placed(ast.Pass(), block[0])] if block else []

    def _statement(self, one: ast.stmt, rest: Sequence[ast.stmt], before: list[ast.stmt]) -> ast.stmt | None:
        if isinstance(one, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            return _Questions(self, before).visit(one) if self.is_named else one
        if only_cancels(one) or is_discarding(one):
            self.dropped += [one] if only_cancels(one) else []
            return None
        awaited = self._awaits_cancelled(one)
        if awaited is not None:
            late = parsed(f"if_late not in {self.late}", one)
            cast("ast.Compare", late).left = copy.deepcopy(awaited.value)
            taken = placed(ast.Expr(self.taken(awaited.value, awaited)), one)
            return placed(ast.If(late, [taken], []), one)
        if isinstance(one, ast.For):
            many = completed(one.iter)
            if many is not None:
                self.is_ordered = True
                self.run(one, before)
                text = f"[_t for _t in {self.order} if _t in _many]"
                one.iter = self.with_tasks(text, self._all(many, before), one.iter)
        match one:
            case ast.Expr(value=ast.Await() as waited) if flushes(waited, is_single=self.is_single):
                if self._run_for(waited, one, rest, before):
                    return None
            case _:
                pass
        made = one
        if isinstance(one, (ast.If, ast.While, ast.For, ast.Try, ast.With, ast.AsyncWith, ast.Match)):
            blocks = list(blocks_in(one))
            held = [list(each) for each in blocks]
            final = list(getattr(one, "finalbody", []))
            for each in blocks:
                each[:] = []
            made = cast("ast.stmt", _Questions(self, before, rest).visit(one))
            is_loop = isinstance(one, (ast.While, ast.For))
            starts = any(
                started(each) is not None for body in held for each in own_nodes(ast.Module(list(body), []))
            )
            is_live, ends = self.is_live or (is_loop and starts), list[bool]()
            self.loops += is_loop
            for each, body in zip(blocks, held, strict=True):
                self.is_live = is_live
                is_final = each is getattr(one, "finalbody", None)
                each[:] = self.block(body, rest if is_final else [*final, *rest])
                ends.append(self.is_live)
            self.loops -= is_loop
            self.is_live = is_live or any(ends) if is_loop or not all(blocks) else any(ends)
            return made
        return cast("ast.stmt", _Questions(self, before, rest).visit(one))

    def _awaits_cancelled(self, one: ast.stmt) -> ast.Await | None:
        """The await of a cancelled task whose CancelledError is passed over."""
        match one:
            case ast.Try(
                body=[ast.Expr(value=ast.Await(value=ast.Name()) as awaited)],
                handlers=[ast.ExceptHandler(type=ast.expr() as kind, body=[ast.Pass()])],
                orelse=[],
                finalbody=[],
            ) if (dotted(kind) or "").endswith("CancelledError"):
                return awaited if self.is_limited else None
            case _:
                return None

    def _all(self, many: ast.expr, before: list[ast.stmt]) -> ast.expr:
        """The numbers of tasks that a wait is given."""
        if isinstance(many, (ast.List, ast.Set, ast.Tuple)):
            many = ast.copy_location(ast.List(many.elts, ast.Load()), many)
        return cast("ast.expr", _Questions(self, before).visit(many))

    # ------------------------------------------------------------ waits

    def _run_for(
        self, waited: ast.Await, one: ast.stmt, rest: Sequence[ast.stmt], before: list[ast.stmt]
    ) -> bool:
        """Run what an await waits for whose result is not used; whether nothing else is to do."""
        call = waited.value
        if not isinstance(call, ast.Call):
            return False
        if dotted(call.func) == "asyncio.wait":
            self.waited(call, one, rest, before)
            return True
        self.run(one, before)
        return any(word.arg == "return_exceptions" for word in call.keywords)

    def waited(
        self, call: ast.Call, place: ast.AST, rest: Sequence[ast.stmt], before: list[ast.stmt]
    ) -> ast.expr:
        """What `asyncio.wait(…)` gives: the numbers of those that are done, and of those that are not."""
        given = {word.arg: word.value for word in call.keywords}
        many = call.args[0] if call.args else given.get("fs")
        if many is None or len(call.args) > 1:
            raise UnknownTasks
        until, limit = given.get("return_when"), given.get("timeout")
        when = "ALL_COMPLETED" if until is None else (dotted(until) or "")
        if isinstance(limit, ast.Constant) and limit.value is None:
            limit = None
        if when.endswith("ALL_COMPLETED"):
            if limit is not None and not self._stops(rest):
                raise UnknownTasks
            self.run(place, before, limit)
            numbers = self._all(many, before)
            if limit is None and not self.is_limited:
                return self.with_tasks("([_t for _t in _many], [])", numbers, place)
            text = (
                f"([_t for _t in _many if _t not in {self.late}], [_t for _t in _many if _t in {self.late}])"
            )
            return self.with_tasks(text, numbers, place)
        if when.endswith("FIRST_COMPLETED") and limit is None and self.loops and not self.cancels:
            self.is_ordered = True
            self.run(place, before)
            numbers = self._all(many, before)
            held = self.fresh("waited")
            listed = ast.Call(ast.Name("list", ast.Load()), [numbers], [])
            before.append(placed(ast.Assign([ast.Name(held, ast.Store())], listed), place))
            ended = f"[_t for _t in {self.order} if _t in {held}]"
            text = f"({ended}[:1], {ended}[1:])"
            return self.with_tasks(text, numbers, place)
        raise UnknownTasks

    def _stops(self, rest: Sequence[ast.stmt]) -> bool:
        """Whether tasks that are late are cancelled before anything else is awaited, or the function ends."""
        for one in rest:
            if only_cancels(one) or any(is_cancelling(each) for each in walk(one)):
                return True
            if waits(one):
                return False
        return self.function.name == "main" and self.body[-1:] == list(rest[-1:])


class _Questions(ast.NodeTransformer):
    """Writes what a statement says of tasks as what is said of numbers; what goes before it is added."""

    def __init__(self, of: _Tasks, before: list[ast.stmt], rest: Sequence[ast.stmt] = ()) -> None:
        self.of, self.before, self.rest = of, before, rest

    def _started(self, many: ast.expr, generators: list[ast.comprehension], place: ast.AST) -> ast.Tuple:
        call = cast("ast.Call", many)
        inner = {name for one in generators for name in names_bound(one.target)}
        names = {word.arg: word.value for word in call.keywords}
        return placed(self.of.start(cast("ast.Call", started(call)), names.get("name"), inner), place)

    def _add(self, new: str, place: ast.AST) -> None:
        of = self.of
        of.is_live = True
        self.before += parsed_lines([f"{of.started} = [*{of.started}, *{new}]"], place)

    def _comprehension(self, node: ast.expr, site: ast.expr, other: ast.expr | None) -> ast.expr:
        """The numbers of the tasks that a comprehension starts, with what goes with each."""
        of, generators = self.of, cast("ast.ListComp", node).generators
        row = self._started(site, generators, node)
        new, first = of.fresh("new"), f"len({of.started})"
        if other is not None:
            row.elts.append(other)
        rows = ast.ListComp(row, generators)
        self.before.append(placed(ast.Assign([ast.Name(new, ast.Store())], rows), node))
        number, one = of.fresh("number"), of.fresh("row")
        base = of.fresh("first")
        self.before += parsed_lines([f"{base} = {first}"], node)
        self._add(new, node)
        last = len(row.elts) - 1
        match node:
            case ast.DictComp(key=key):
                pair = f"{number}: {one}[{last}]" if site is key else f"{one}[{last}]: {number}"
                text = f"{{{pair} for {number}, {one} in enumerate({new}, {base})}}"
            case _:
                text = f"list(range({base}, {base} + len({new})))"
        return parsed(text, node)

    def _of_comprehension(self, node: ast.ListComp | ast.SetComp | ast.GeneratorExp) -> ast.AST:
        if started(node.elt) is not None:
            return self._comprehension(node, node.elt, None)
        return self.generic_visit(node)

    visit_ListComp = visit_SetComp = visit_GeneratorExp = _of_comprehension

    def visit_DictComp(self, node: ast.DictComp) -> ast.AST:
        """A dict that is computed, whose keys or values may be tasks."""
        if started(node.key) is not None:
            return self._comprehension(node, node.key, node.value)
        if started(node.value) is not None:
            return self._comprehension(node, node.value, node.key)
        return self.generic_visit(node)

    def visit_Await(self, node: ast.Await) -> ast.AST:
        """An await, of tasks or of something else."""
        of = self.of
        if IS_TAKEN in vars(node) or not flushes(node, is_single=of.is_single):
            return self.generic_visit(node)
        waited = node.value
        if not isinstance(waited, ast.Call):
            of.run(node, self.before)
            return of.taken(cast("ast.expr", self.visit(waited)), node)
        name = dotted(waited.func)
        if name == "asyncio.wait":
            return of.waited(waited, node, self.rest, self.before)
        if name in {"asyncio.gather", "gather"}:
            of.run(node, self.before)
            keeps = any(word.arg == "return_exceptions" for word in waited.keywords)
            tasks = ast.copy_location(ast.List(waited.args, ast.Load()), node)
            many: ast.expr = tasks
            if len(waited.args) == 1 and isinstance(waited.args[0], ast.Starred):
                many = waited.args[0].value
            made = cast(
                "ast.ListComp",
                of.with_tasks(f"[{of.values}[_t] for _t in _many]", cast("ast.expr", self.visit(many)), node),
            )
            if not keeps:
                made.elt = of.taken(cast("ast.Subscript", made.elt).slice, node)
            return made
        if name == "asyncio.wait_for":
            limit = waited.args[1] if len(waited.args) > 1 else waited.keywords[0].value
            of.is_alone = True
            of.run(node, self.before, limit)
            return of.taken(cast("ast.expr", self.visit(waited.args[0])), node)
        of.run(node, self.before)
        return of.taken(cast("ast.expr", self.visit(waited)), node)

    def visit_Call(self, node: ast.Call) -> ast.AST:
        """A call: what starts a task, or asks one."""
        of = self.of
        if started(node) is not None:
            row = self._started(node, [], node)
            of.is_live = True
            held = of.fresh("task")
            self.before += parsed_lines([f"{held} = len({of.started})"], node)
            new = ast.List([ast.Starred(ast.Name(of.started, ast.Load()), ast.Load()), row], ast.Load())
            self.before.append(placed(ast.Assign([ast.Name(of.started, ast.Store())], new), node))
            return placed(ast.Name(held, ast.Load()), node)
        match node:
            case ast.Call(func=ast.Attribute(value=task, attr=attr), args=[], keywords=[]) if (
                attr in QUESTIONS
            ):
                return self._answer(cast("ast.expr", self.visit(task)), attr, node)
            case ast.Call(func=ast.Attribute(attr="cancel"), args=[]):
                raise UnknownTasks
            case ast.Call(args=[ast.GeneratorExp() as many]):
                made = cast("ast.Call", self.generic_visit(node))
                again = made.args[0]
                is_consumed = isinstance(node.func, ast.Attribute) or dotted(node.func) in _CONSUMERS
                if isinstance(again, ast.GeneratorExp) and is_consumed and takes(again):
                    made.args[0] = ast.copy_location(ast.ListComp(again.elt, again.generators), many)
                return made
            case _:
                return self.generic_visit(node)

    def _answer(self, task: ast.expr, what: str, node: ast.Call) -> ast.expr:
        of = self.of
        if what == "result":
            return of.taken(task, node)
        if what == "get_name":
            text = f"{of.started}[_many][{int(of.many)}]"
        elif what == "exception":
            text = f"{of.values}[_many].exception()"
        else:
            is_late = what == "cancelled"
            if not of.is_limited:
                return placed(ast.Constant(not is_late), node)
            text = f"_many {'in' if is_late else 'not in'} {of.late}"
        return of.with_tasks(text, task, node)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> ast.AST:
        """An async function of its own."""
        return node
