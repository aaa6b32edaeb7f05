"""`asyncio.wait(…, return_when=FIRST_COMPLETED)` behind which the others are cancelled: the first of a group.

In: the tree of a file, which is changed in place. The tasks become the calls of one await, which gives the
number of the one that was done first, and its result or error. What asks the tasks then asks these two.
A wait whose other tasks go on stays: who reads it lets it wait for all of them, and warns of that.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from callsheet.frontends.python.rewrites.inlining import Fresh, blocks_in, rewrite_blocks
from callsheet.frontends.python.rewrites.task_words import only_cancels, task_cancelled, task_of
from callsheet.frontends.python.source import (
    Nodes,
    among,
    dotted,
    is_named,
    leaves,
    names_bound,
    names_read,
    own_nodes,
    waits,
    walk,
)
from callsheet.frontends.python.syntax import placed

IS_FIRST = "is_first"
"""Marks the await of the first of several calls, which gives a list of one pair: its number, what it gave."""
IS_TAKEN = "is_taken"
"""Marks an await that gives what a task gave, or raises its error."""


def firsts_as_one(nodes: Nodes) -> bool:
    """Write waits for the first of several tasks as awaits of one; whether there were any.

    >>> module = ast.parse('''async def main():
    ...     one = asyncio.create_task(f(1))
    ...     other = asyncio.create_task(g(2))
    ...     done, pending = await asyncio.wait([one, other], return_when=asyncio.FIRST_COMPLETED)
    ...     for task in pending:
    ...         task.cancel()
    ...     return one in done, done.pop().result()''')
    >>> firsts_as_one(Nodes(module))
    True
    >>> print(ast.unparse(module))
    async def main():
        first_at_1 = await asyncio.wait([f(1), g(2)])
        first_at_1 = first_at_1[0]
        return (first_at_1[0] == 0, await first_at_1[1])
    """
    fresh, found = Fresh(nodes), False
    catches = nodes.has(ast.Try, ast.TryStar)
    for one in nodes.of(ast.AsyncFunctionDef):
        blocks = [one.body]
        while blocks:
            block = blocks.pop()
            rewrite_blocks([block], _cancelled_at_once)
            while (made := _rewritten(block, one, fresh, catches=catches)) is not None:
                block[:], found = made, True
            blocks += [inner for each in block if not _is_scope(each) for inner in blocks_in(each)]
    return found


def _cancelled_at_once(one: ast.stmt) -> list[ast.stmt] | None:
    """A wait for the first task with what cancels the others right behind it, where `finally` does so."""
    match one:
        case ast.Try(body=[first, *rest], handlers=[], orelse=[], finalbody=[cancels, *behind]) if (
            _wait_in(first) is not None
            and only_cancels(cancels)
            and not any(map(waits, rest))
            and not any(names_read(each) - names_read(cancels, first) - {"asyncio"} for each in behind)
        ):
            return [first, cancels, *behind, *rest]
        case _:
            return None


def _is_scope(node: ast.stmt) -> bool:
    return isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef))


@dataclass(slots=True)
class Group:
    """The calls of the tasks, as a list or a comprehension; by name which task, or which list of all, it is.

    `keys` are the names of dicts that have a value for each task.
    """

    calls: ast.expr
    names: dict[str, int] = field(default_factory=dict[str, int])
    whole: set[str] = field(default_factory=set[str])
    keys: set[str] = field(default_factory=set[str])
    made: dict[int, ast.stmt | None] = field(default_factory=dict[int, ast.stmt | None])
    """By the place of a statement in the block what stands there now, None for nothing."""


def _wait_in(node: ast.stmt) -> tuple[str, str, ast.expr] | None:
    """What a wait for the first task is given, with the names of those that are done and pending."""
    match node:
        case ast.Assign(
            targets=[ast.Tuple(elts=[ast.Name(id=done), ast.Name(id=pending)])],
            value=ast.Await(
                value=ast.Call(func=func, args=[many], keywords=[ast.keyword(arg="return_when", value=when)])
            ),
        ) if dotted(func) in {"asyncio.wait", "wait"}:
            said = when.value if isinstance(when, ast.Constant) else (dotted(when) or "").rpartition(".")[2]
            return (done, pending, many) if said == "FIRST_COMPLETED" else None
        case _:
            return None


def _rewritten(
    block: list[ast.stmt], function: ast.AsyncFunctionDef, fresh: Fresh, *, catches: bool
) -> list[ast.stmt] | None:
    for number, one in reversed([*enumerate(block)]):  # the names of one wait may be those of a later one
        found = _wait_in(one)
        if found is None:
            continue
        done, pending, many = found
        group = group_of(many, block[:number])
        if group is None or not _stand_alone(group, block, number, function, {done, pending}):
            continue
        first = fresh("first")
        rest = _Rest(group, done, pending, first)
        after = rest.block(copy.deepcopy(block[number + 1 :]))
        if rest.leaves_names(after) or not rest.stops_others(block[number + 1 :], catches=catches):
            continue
        call = ast.Call(ast.parse("asyncio.wait", mode="eval").body, [group.calls], [])
        vars(call)[IS_FIRST] = True
        target = ast.Name(first, ast.Store())
        taken = ast.Subscript(ast.Name(first, ast.Load()), ast.Constant(0), ast.Load())
        before = [
            each
            for place, old in enumerate(block[:number])
            if (each := group.made.get(place, old)) is not None
        ]
        awaited = placed(ast.Assign([target], ast.Await(call)), one)
        return [*before, awaited, placed(ast.Assign([copy.copy(target)], taken), one), *after]
    return None


def group_of(many: ast.expr, before: Sequence[ast.stmt]) -> Group | None:
    """The tasks that a wait is given, each started in the same block."""
    given: dict[str, tuple[int, ast.expr]] = {}
    for place, one in enumerate(before):
        if isinstance(one, ast.Assign) and len(one.targets) == 1 and isinstance(one.targets[0], ast.Name):
            given[one.targets[0].id] = place, one.value
    group = Group(ast.List([], ast.Load()))
    if isinstance(many, ast.Call) and isinstance(many.func, ast.Attribute) and many.func.attr == "keys":
        many = many.func.value
    if isinstance(many, ast.Name):
        name = many.id
        if name not in given:
            return None
        place, many = given[name]
        group.whole.add(name)
        group.made[place] = None
        values = _values(many)
        if values is not None:
            group.whole.remove(name)
            group.keys.add(name)
            group.made[place] = placed(ast.Assign([ast.Name(name, ast.Store())], values), many)
    return group if _take(group, many, given) else None


def _values(many: ast.expr) -> ast.expr | None:
    """The values of a dict whose keys are tasks, as a list."""
    if isinstance(many, ast.DictComp) and task_of(many.key) is not None:
        return ast.ListComp(copy.deepcopy(many.value), copy.deepcopy(many.generators))
    if isinstance(many, ast.Dict):
        return ast.List(copy.deepcopy(many.values), ast.Load())
    return None


def _take(group: Group, many: ast.expr, given: Mapping[str, tuple[int, ast.expr]]) -> bool:
    """Find the calls of the tasks; whether all are known."""
    match many:
        case ast.ListComp(elt=elt) | ast.SetComp(elt=elt) | ast.DictComp(key=elt):
            call = task_of(elt)
            if call is None:
                return False
            group.calls = ast.ListComp(call, many.generators)
            return True
        case ast.List(elts=elements) | ast.Set(elts=elements) | ast.Tuple(elts=elements):
            pass
        case ast.Dict(keys=keys):
            elements = [one for one in keys if one is not None]
        case _:
            return False
    calls: list[ast.expr] = []
    for number, one in enumerate(elements):
        value: ast.expr = one
        if isinstance(one, ast.Name):
            if one.id not in given or one.id in group.names:
                return False
            place, value = given[one.id]
            group.names[one.id] = number
            group.made[place] = None
        call = task_of(value)
        if call is None:
            return False
        calls.append(call)
    group.calls = ast.List(calls, ast.Load())
    return bool(calls)


def _stand_alone(
    group: Group, block: Sequence[ast.stmt], number: int, function: ast.AsyncFunctionDef, others: set[str]
) -> bool:
    """Whether the tasks are set once, nothing waits behind the first of them, and nothing asks for them else.

    `number` is the place of the wait, `others` are the names that it sets.
    """
    names, before = {*group.names, *group.whole, *group.keys}, block[:number]
    if not starts_at_once(group, before):
        return False
    every = list(among(walk(function), ast.Name))
    stored = [one.id for one in every if isinstance(one.ctx, ast.Store)]
    behind = [one for each in block[number + 1 :] for one in among(walk(each), ast.Name)]
    if any(stored.count(name) > 1 for name in names) or any(
        one.id in others and isinstance(one.ctx, ast.Store) for one in behind
    ):
        return False
    here = {id(one) for one in behind}
    here |= {id(one) for place in (*group.made, number) for one in walk(block[place])}
    here |= {id(one) for each in before for one in among(walk(each), ast.Name) if one.id in others}
    return all(id(one) in here or one.id not in names | others for one in every)


def starts_at_once(group: Group, before: Sequence[ast.stmt]) -> bool:
    """Whether the tasks of a group might as well start behind all these statements, which begin them."""
    begun, read = min(group.made, default=len(before)), names_read(group.calls)
    between = [one for place, one in enumerate(before) if place >= begun and place not in group.made]
    return not _starts_late(group) and not any(_may_tell(one, read) for one in between)


def _starts_late(group: Group) -> bool:
    """Whether something is awaited behind the start of a task, or twice, to tell what the tasks are given."""
    if not isinstance(group.calls, ast.ListComp):
        return waits(group.calls) or any(one is not None and waits(one) for one in group.made.values())
    first = group.calls.generators[0].iter
    once = {id(one) for one in walk(first)} if not group.keys else set[int]()
    return any(isinstance(one, ast.Await) and id(one) not in once for one in walk(group.calls))


def _may_tell(one: ast.stmt, read: set[str]) -> bool:
    """Whether a statement behind the start of a task may change what tasks are given, or lets them begin."""
    match one:
        case ast.Expr(value=ast.Call(func=ast.Name(id="print"))):
            return waits(one)
        case _:
            changes = any(isinstance(each, ast.Call) or _is_part_set(each) for each in walk(one))
            return changes or waits(one) or not names_bound(one).isdisjoint(read)


def _is_part_set(node: ast.AST) -> bool:
    return isinstance(node, (ast.Attribute, ast.Subscript)) and not isinstance(node.ctx, ast.Load)


class _Rest(ast.NodeTransformer):
    """Writes what follows the wait: questions to the tasks are asked of the first."""

    def __init__(self, group: Group, done: str, pending: str, first: str) -> None:
        self.group, self.done, self.pending, self.first = group, done, pending, first
        count = len(group.calls.elts) if isinstance(group.calls, ast.List) else 1
        self.every = frozenset(range(count))
        """The numbers of the tasks; one for all that a comprehension starts."""
        self.by_number: set[int] = set()
        """Where a dict that has a value for each task is asked for that of a number."""
        self.is_cancelled = False
        self.handles: set[str] = set()
        """The names of the one task that is done."""
        self.known: list[int] = []
        """Which task is known to be done where a branch stands."""

    def block(self, body: Sequence[ast.stmt]) -> list[ast.stmt]:
        """The statements of a block."""
        made: list[ast.stmt] = []
        for one in body:
            if self._cancelled(one):
                self.is_cancelled = True
            elif not self._awaits_others(one):
                made.append(self.visit(one))
        return made or [ast.copy_location(ast.Pass(), body[0])] if body else []

    def leaves_names(self, after: Sequence[ast.stmt]) -> bool:
        """Whether something still asks for the tasks themselves."""
        names = {self.done, self.pending, *self.group.names, *self.group.whole, *self.group.keys}
        asked = (one for each in after for one in among(walk(each), ast.Name))
        return any(one.id in names and id(one) not in self.by_number for one in asked)

    def stops_others(self, body: Sequence[ast.stmt], *, catches: bool) -> bool:
        """Whether what follows the wait cancels the others before it waits, leaves or fails."""
        gone = self._gone(body, frozenset(), catches=catches)
        return gone is not None and gone >= self.every

    def _gone(
        self, body: Sequence[ast.stmt], gone: frozenset[int], *, catches: bool
    ) -> frozenset[int] | None:
        """Which tasks are done or cancelled behind a block; None if others may go on in it."""
        for one in body:
            if gone >= self.every:
                return gone
            cancelled = self._cancelled(one)
            if cancelled:
                gone |= cancelled
            elif isinstance(one, ast.If) and not (waits(one.test) or (catches and _asks_result(one.test))):
                known, other = self._known(one.test)
                first = self._gone(one.body, gone | known, catches=catches)
                second = self._gone(one.orelse, gone | other, catches=catches)
                if first is None or second is None:
                    return None
                gone = first & second
            elif waits(one) or leaves(one) or _raises(one) or (catches and _asks_result(one)):
                return None
        return gone

    def _known(self, test: ast.expr) -> tuple[frozenset[int], frozenset[int]]:
        """The task that is surely done where a test is true, and where it is false."""
        number = self._is_done(test)
        if number is None:
            return frozenset(), frozenset()
        return frozenset({number}), frozenset({1 - number} if len(self.every) == 2 else ())

    def _cancelled(self, one: ast.stmt) -> frozenset[int]:
        """The tasks that a statement cancels, if it does nothing else."""
        match one:
            case ast.For(target=ast.Name(id=task), iter=ast.Name(id=many), body=[inner], orelse=[]):
                if isinstance(inner, ast.If) and not inner.orelse and self._is_going(inner.test, task):
                    inner = inner.body[0] if len(inner.body) == 1 else inner
                return self.every if self._is_many(many) and task_cancelled(inner) == task else frozenset()
            case ast.Expr(
                value=ast.ListComp(
                    elt=elt,
                    generators=[
                        ast.comprehension(target=ast.Name(id=task), iter=ast.Name(id=many), ifs=tests)
                    ],
                )
            ) if self._is_many(many) and all(self._is_going(test, task) for test in tests):
                return self.every if task_cancelled(ast.Expr(elt)) == task else frozenset()
            case ast.If(test=test, body=[inner], orelse=[]):
                name = task_cancelled(inner)
                is_asked = name is not None and self._is_going(test, name)
                return self._number(name) if is_asked else frozenset()
            case _:
                return self._number(task_cancelled(one))

    def _number(self, name: str | None) -> frozenset[int]:
        return frozenset({self.group.names[name]}) if name in self.group.names else frozenset()

    def _is_going(self, test: ast.expr, task: str) -> bool:
        """Whether a test asks whether a task is not done yet."""
        match test:
            case ast.UnaryOp(
                op=ast.Not(),
                operand=ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr="done"), args=[]),
            ):
                return name == task
            case ast.Compare(
                left=ast.Name(id=name), ops=[ast.In() | ast.NotIn() as how], comparators=[ast.Name(id=many)]
            ):
                return name == task and many == (self.pending if isinstance(how, ast.In) else self.done)
            case _:
                return False

    def _is_many(self, name: str) -> bool:
        return name == self.pending or name in self.group.whole or name in self.group.keys

    def _awaits_others(self, one: ast.stmt) -> bool:
        """Whether a statement waits until the cancelled tasks have ended, as a plan always does."""
        match one:
            case ast.Expr(value=ast.Await(value=ast.Call(func=func, args=[given], keywords=words))):
                many = given.value if isinstance(given, ast.Starred) else given
                is_pending = isinstance(many, ast.Name) and self._is_many(many.id)
                keeps = any(each.arg == "return_exceptions" and _is_true(each.value) for each in words)
                name = (dotted(func) or "").rpartition(".")[2]
                return self.is_cancelled and is_pending and (name == "wait" or (name == "gather" and keeps))
            case _:
                return False

    # ------------------------------------------------------------ what tasks are asked

    def _part(self, number: int, node: ast.expr) -> ast.expr:
        made = ast.Subscript(ast.Name(self.first, ast.Load()), ast.Constant(number), ast.Load())
        return ast.fix_missing_locations(ast.copy_location(made, node))

    def _is_done(self, node: ast.expr, *, is_not: bool = False) -> int | None:
        """The number of the task of which an expression asks whether it was the first."""
        match node:
            case ast.Compare(left=ast.Name(id=name), ops=[ast.In()], comparators=[ast.Name(id=many)]):
                return self.group.names.get(name) if many == self.done and not is_not else None
            case ast.Compare(left=ast.Name(id=name), ops=[ast.NotIn()], comparators=[ast.Name(id=many)]):
                return self.group.names.get(name) if many == self.done and is_not else None
            case ast.Compare(
                left=ast.Name(id=name), ops=[ast.Is() | ast.Eq()], comparators=[ast.Name(id=other)]
            ):
                names = (name, other) if name in self.handles else (other, name)
                return self.group.names.get(names[1]) if names[0] in self.handles and not is_not else None
            case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr="done"), args=[]):
                return None if is_not else self.group.names.get(name)
            case _:
                return None

    def _takes(self, node: ast.expr) -> bool:
        """Whether an expression is the task that is done."""
        match node:
            case ast.Name(id=name):
                return name in self.handles or self.group.names.get(name) in self.known
            case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr="pop"), args=[]):
                return name == self.done
            case ast.Call(func=ast.Name(id="next"), args=[ast.Call(func=ast.Name(id="iter"), args=[many])]):
                return is_named(many, self.done)
            case ast.Subscript(
                value=ast.Call(func=ast.Name(id="list" | "tuple"), args=[ast.Name(id=name)])
                | ast.List(elts=[ast.Starred(value=ast.Name(id=name))]),
                slice=ast.Constant(value=0),
            ):
                return name == self.done
            case _:
                return False

    def _result(self, task: ast.expr, node: ast.expr) -> ast.expr:
        is_handle = isinstance(task, ast.Name) and task.id in self.handles
        made = ast.copy_location(ast.Await(task if is_handle else self._part(1, node)), node)
        vars(made)[IS_TAKEN] = True
        return made

    def visit_Call(self, node: ast.Call) -> ast.AST:
        """A call: `.result()` of the task that is done, or whether one is."""
        match node:
            case ast.Call(func=ast.Attribute(value=task, attr="result"), args=[]) if self._takes(task):
                return self._result(task, node)
            case _:
                pass
        number = self._is_done(node)
        if number is not None:
            return self._asks(number, ast.Eq(), node)
        return self._part(1, node) if self._takes(node) else self.generic_visit(node)

    def _asks(self, number: int, how: ast.cmpop, node: ast.expr) -> ast.expr:
        made = ast.Compare(self._part(0, node), [how], [ast.Constant(number)])
        return ast.fix_missing_locations(ast.copy_location(made, node))

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        """A comparison: whether a task is the one that is done."""
        number = self._is_done(node)
        if number is not None:
            return self._asks(number, ast.Eq(), node)
        number = self._is_done(node, is_not=True)
        return self.generic_visit(node) if number is None else self._asks(number, ast.NotEq(), node)

    def visit_Await(self, node: ast.Await) -> ast.AST:
        """An await, of the task that is done or of something else."""
        return self._result(node.value, node) if self._takes(node.value) else self.generic_visit(node)

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        """An item, of what has a value for each task or of something else."""
        if self._takes(node):
            return self._part(1, node)
        if isinstance(node.value, ast.Name) and node.value.id in self.group.keys and self._takes(node.slice):
            self.by_number.add(id(node.value))
            return ast.copy_location(ast.Subscript(node.value, self._part(0, node), node.ctx), node)
        return self.generic_visit(node)

    def visit_Assign(self, node: ast.Assign) -> ast.AST:
        """An assignment, which may give the task that is done a name."""
        if len(node.targets) == 1 and isinstance(node.targets[0], ast.Name) and self._takes(node.value):
            self.handles.add(node.targets[0].id)
            node.value = self._part(1, node.value)
            return node
        return self.generic_visit(node)

    def visit_If(self, node: ast.If) -> ast.AST:
        """A branch, in which it is known which task is done."""
        number = self._is_done(node.test)
        is_two = isinstance(self.group.calls, ast.List) and len(self.group.calls.elts) == 2
        test = self.visit(node.test)
        self.known.append(-1 if number is None else number)
        body = self.block(node.body)
        self.known[-1] = 1 - number if number is not None and is_two else -1
        orelse = self.block(node.orelse)
        self.known.pop()
        return ast.copy_location(ast.If(test, body, orelse), node)

    def visit_IfExp(self, node: ast.IfExp) -> ast.AST:
        """A choice, in whose parts it is known which task is done."""
        number = self._is_done(node.test)
        test = self.visit(node.test)
        self.known.append(-1 if number is None else number)
        body = self.visit(node.body)
        self.known[-1] = -1
        orelse = self.visit(node.orelse)
        self.known.pop()
        return ast.copy_location(ast.IfExp(test, body, orelse), node)

    def visit_For(self, node: ast.For) -> ast.AST:
        """A loop, over the task that is done or over something else."""
        if is_named(node.iter, self.done) and isinstance(node.target, ast.Name):
            self.handles.add(node.target.id)
            node.iter = ast.copy_location(ast.List([self._part(1, node.iter)], ast.Load()), node.iter)
        else:
            node.iter = self.visit(node.iter)
        node.body, node.orelse = self.block(node.body), self.block(node.orelse)
        return node

    def visit_While(self, node: ast.While) -> ast.AST:
        """A loop."""
        node.test, node.body = self.visit(node.test), self.block(node.body)
        node.orelse = self.block(node.orelse)
        return node

    def visit_ListComp(self, node: ast.ListComp) -> ast.AST:
        """A list, of what the task that is done gives or of something else."""
        part = node.generators[0]
        is_done = is_named(part.iter, self.done)
        if is_done and isinstance(part.target, ast.Name) and len(node.generators) == 1 and not part.ifs:
            self.handles.add(part.target.id)
            made = ast.List([self._once(node.elt, part.target.id)], ast.Load())
            self.handles.discard(part.target.id)
            return ast.copy_location(made, node)
        return self.generic_visit(node)

    def _once(self, element: ast.expr, name: str) -> ast.expr:
        """An element of a comprehension over the task that is done."""
        made = self.visit(element)
        for one in own_nodes(made):
            if isinstance(one, ast.Await) and is_named(one.value, name):
                one.value = self._part(1, one.value)
        return made

    def _apart(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> ast.AST:
        return node

    visit_FunctionDef = visit_AsyncFunctionDef = _apart


def _is_true(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is True


def _raises(one: ast.stmt) -> bool:
    return any(among(own_nodes(one), ast.Raise))


def _asks_result(node: ast.AST) -> bool:
    return any(isinstance(one, ast.Attribute) and one.attr == "result" for one in own_nodes(node))
