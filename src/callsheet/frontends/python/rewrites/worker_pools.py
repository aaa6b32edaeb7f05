"""Queues of async functions as lists: workers that share one do its items side by side, as many at a time.

In: the tree of a file, which is changed in place. What is put into a queue is put there before anything is taken
from it: that is one of CPython's possible runs, as nothing says how long a call takes. A single consumer takes from
the list; several are calls for each item, behind a semaphore that lets as many through as there are consumers.
Workers that keep something of their own, or put into the queue from which they take, stay as they are.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, cast

from callsheet.frontends.python.rewrites.inlining import Fresh, blocks_in, placed
from callsheet.frontends.python.rewrites.known_numbers import KnownNumbers
from callsheet.frontends.python.rewrites.queue_loops import (
    QueueLoop,
    loop_in,
    loop_of,
    may_end_worker,
    method_of,
    of_one_item,
    over_list,
    takes_from,
)
from callsheet.frontends.python.source import (
    Refused,
    dotted,
    names_bound,
    names_read,
    own_nodes,
    parameters_of,
    waits,
    walk,
)
from callsheet.frontends.python.syntax import is_plain, parsed_lines

WARNED: Final = "warned"
"""Where the tree of a file keeps the warnings of its rewrites."""
_QUEUES: Final = frozenset({"Queue", "LifoQueue", "PriorityQueue"})
_STARTS: Final = frozenset({"create_task", "ensure_future"})


class _Unknown(Exception):
    """What a function does with its queue cannot be said with a list."""


def queues_as_lists(module: ast.Module, nodes: Sequence[ast.AST]) -> bool:
    """Write the queues of a file as lists, and their workers as calls for each item; whether there were any.

    >>> module = ast.parse('''import asyncio
    ... async def work(queue):
    ...     while True:
    ...         x = await queue.get()
    ...         await f(x)
    ...         queue.task_done()
    ... async def main(xs):
    ...     queue = asyncio.Queue()
    ...     for x in xs:
    ...         queue.put_nowait(x)
    ...     workers = [asyncio.create_task(work(queue)) for _ in range(3)]
    ...     await queue.join()
    ...     for worker in workers:
    ...         worker.cancel()''')
    >>> queues_as_lists(module, list(ast.walk(module)))
    True
    >>> print(ast.unparse(module.body[-1]))
    async def main(xs):
        queue = []
        for x in xs:
            queue.append(x)
        await asyncio.gather(*[work_at_1(item_at_1) for item_at_1 in queue])
    """
    fresh, found, left_alone = Fresh(nodes), False, set[tuple[int, str]]()
    if not any(isinstance(one, ast.Call) and _is_queue(one.func) for one in nodes):
        return False
    for one in nodes:
        if isinstance(one, ast.AsyncFunctionDef):
            _split_assignments(one)
    while True:
        nodes = list(walk(module))
        places = [
            (function, *made)
            for function in nodes
            if isinstance(function, ast.AsyncFunctionDef)
            for one in own_nodes(function)
            if (made := _made(one))[0] and (id(function), made[0]) not in left_alone
        ]
        if not places:
            return found
        function, name, kind = places[0]
        try:
            _Queue(module, nodes, function, name, kind, fresh).rewrite()
            found = True
        except _Unknown:
            left_alone.add((id(function), name))


def _is_queue(func: ast.expr) -> bool:
    base = func.value if isinstance(func, ast.Subscript) else func
    owner, _, kind = (dotted(base) or "").rpartition(".")
    return kind in _QUEUES and owner in {"", "asyncio"}


def _split_assignments(function: ast.AsyncFunctionDef) -> None:
    """Write `a, b = Queue(), Queue()` as two assignments."""
    made: list[ast.stmt] = []
    for one in function.body:
        match one:
            case ast.Assign(targets=[ast.Tuple(elts=names)], value=ast.Tuple(elts=values)) if len(
                names
            ) == len(values):
                pairs = [
                    placed(ast.Assign([name], value), one) for name, value in zip(names, values, strict=True)
                ]
                made += pairs if all(_made(each)[0] for each in pairs) else [one]
            case _:
                made.append(one)
    function.body = made


def _made(node: ast.AST) -> tuple[str, str]:
    """The variable that is set to a queue, and of which kind it is."""
    match node:
        case (
            ast.Assign(targets=[ast.Name(id=name)], value=ast.Call(func=func))
            | ast.AnnAssign(target=ast.Name(id=name), value=ast.Call(func=func))
        ):
            base = func.value if isinstance(func, ast.Subscript) else func
            return (name, (dotted(base) or "").rpartition(".")[2]) if _is_queue(func) else ("", "")
        case _:
            return "", ""


@dataclass(slots=True)
class _Pool:
    """Consumers that are started together: their calls, how many there are, and the names of their tasks."""

    calls: list[ast.Call]
    count: int
    varying: set[str]
    names: set[str] = field(default_factory=set[str])
    is_single: bool = False


class _Queue:
    """One queue of one function."""

    def __init__(
        self,
        module: ast.Module,
        nodes: Sequence[ast.AST],
        function: ast.AsyncFunctionDef,
        name: str,
        kind: str,
        fresh: Fresh,
    ) -> None:
        self.module, self.nodes, self.function = module, nodes, function
        self.name, self.kind, self.fresh = name, kind, fresh
        self.numbers = KnownNumbers(module, nodes)
        self.users: dict[str, tuple[ast.AsyncFunctionDef, str]] = {}
        self.pending: list[_Pool] = []
        self.known: dict[str, _Pool] = {}
        self.joined = False
        self.made: list[tuple[ast.AsyncFunctionDef, ast.stmt]] = []
        self.limits: list[ast.stmt] = []
        self.bodies: dict[str, list[ast.stmt]] = {}
        self.warned: list[Refused] = []
        self.is_mixed = False

    def rewrite(self) -> None:
        """Write it as a list. Raises _Unknown, and has changed nothing then."""
        self._find_users()
        self.consumers = {name for name, (one, queue) in self.users.items() if takes_from(one, queue)}
        body = self.block(copy.deepcopy(self.function.body))
        if self.pending:
            raise _Unknown
        for name, (one, queue) in self.users.items():
            if name not in self.consumers:
                self.bodies[name] = self.block_of(one, queue)
                if waits(ast.Module(self.bodies[name], [])):
                    self._mixes(one)
        left = names_read(*(one for one in body if not isinstance(one, ast.AsyncFunctionDef)))
        if left & {*self.known} or self._asks(body, self.name):
            raise _Unknown
        self._apply(body)

    def _asks(self, body: Sequence[ast.stmt], queue: str) -> bool:
        return any(
            (method_of(one, queue) or "append") not in {"append", "pop", "sort", "clear", "reverse"}
            for part in body
            if not (isinstance(part, ast.AsyncFunctionDef) and part.name in self.users)
            for one in walk(part)
        )

    def _apply(self, body: list[ast.stmt]) -> None:
        self.function.body = body
        local = {
            one.name: one
            for one in own_nodes(ast.Module(list(body), []))
            if isinstance(one, ast.AsyncFunctionDef)
        }
        for name, made in self.bodies.items():
            (local.get(name) or self.users[name][0]).body = made
        owners = [
            self.module.body,
            *(each for one in walk(self.function) if isinstance(one, ast.stmt) for each in blocks_in(one)),
        ]
        for worker, made in self.made:
            for block in owners:
                for number, one in enumerate(block):
                    if isinstance(one, ast.AsyncFunctionDef) and one.name == worker.name:
                        block[number] = made
        at = next(
            (
                n
                for n, one in enumerate(self.module.body)
                if isinstance(one, (ast.AsyncFunctionDef, ast.ClassDef))
            ),
            0,
        )
        self.module.body[at:at] = self.limits
        vars(self.module).setdefault(WARNED, []).extend(self.warned)

    def _find_users(self) -> None:
        """The functions that use the queue, each with its name for it."""
        stores = [
            one
            for one in own_nodes(self.function)
            if isinstance(one, ast.Name) and one.id == self.name and isinstance(one.ctx, ast.Store)
        ]
        if len(stores) != 1:
            raise _Unknown
        functions = {one.name: one for one in self.nodes if isinstance(one, ast.AsyncFunctionDef)}
        for one in own_nodes(self.function):
            if isinstance(one, ast.AsyncFunctionDef) and self.name in names_read(one):
                self.users[one.name] = one, self.name
            elif isinstance(one, (ast.FunctionDef, ast.Lambda)) and self.name in names_read(one):
                raise _Unknown
        for call in walk(self.function):
            if not isinstance(call, ast.Call):
                continue
            given = [*call.args, *(word.value for word in call.keywords)]
            if not any(isinstance(one, ast.Name) and one.id == self.name for one in given):
                continue
            called = call.func.id if isinstance(call.func, ast.Name) else ""
            if called not in functions:
                raise _Unknown
            user = functions[called]
            names = [one.arg for one in (*user.args.posonlyargs, *user.args.args)]
            found = [
                names[n]
                for n, one in enumerate(call.args)
                if isinstance(one, ast.Name) and one.id == self.name and n < len(names)
            ]
            found += [
                word.arg or ""
                for word in call.keywords
                if isinstance(word.value, ast.Name) and word.value.id == self.name
            ]
            if len(found) != 1 or self.users.get(called, (user, found[0])) != (user, found[0]):
                raise _Unknown
            self.users[called] = user, found[0]
        for name, (one, queue) in self.users.items():
            own = {id(each) for each in own_nodes(one)}
            uses = [each for each in walk(one) if isinstance(each, ast.Name) and each.id == queue]
            methods = {
                id(cast("ast.Attribute", each.func).value)
                for each in walk(one)
                if isinstance(each, ast.Call) and isinstance(each.func, ast.Attribute)
            }
            if any(id(each) not in own or id(each) not in methods for each in uses):
                raise _Unknown
            elsewhere = [
                each
                for each in self.nodes
                if isinstance(each, ast.Call)
                and isinstance(each.func, ast.Name)
                and each.func.id == name
                and not any(each is inner for inner in walk(self.function))
            ]
            if elsewhere:
                raise _Unknown

    def block_of(self, function: ast.AsyncFunctionDef, queue: str) -> list[ast.stmt]:
        """The body of a function that only puts something into the queue."""
        body = [_Puts(queue).visit(one) for one in copy.deepcopy(function.body)]
        if self._asks(body, queue):
            raise _Unknown
        return body

    # ------------------------------------------------------------ statements

    def block(self, body: Sequence[ast.stmt]) -> list[ast.stmt]:
        """The statements of a block."""
        made: list[ast.stmt] = []
        for one in body:
            made += self._statement(one)
        return made or ([placed(ast.Pass(), body[0])] if body else [])

    def _statement(self, one: ast.stmt) -> list[ast.stmt]:  # noqa: PLR0911 - cases
        if isinstance(one, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            return [one]
        if _made(one)[0] == self.name:
            return [placed(ast.Assign([ast.Name(self.name, ast.Store())], ast.List([], ast.Load())), one)]
        if self._is_over(one):
            return []
        started = self._starts(one)
        if started is not None:
            self.pending.append(started)
            self.known |= dict.fromkeys(started.names, started)
            return []
        ran = self._runs(one)
        if ran is not None:
            return ran
        if isinstance(one, (ast.With, ast.AsyncWith)) and self._is_group(one):
            return self._group(cast("ast.AsyncWith", one))
        loop = loop_in([one], self.name) if isinstance(one, (ast.While, ast.Try)) else None
        if loop is not None and not self.consumers:
            return [*self._sorted(one), *over_list(loop, self.name, self.kind)]
        if isinstance(one, ast.For) and isinstance(one.iter, ast.Name) and one.iter.id in self.known:
            count = ast.Constant(self.known[one.iter.id].count)
            one.iter = placed(ast.Call(ast.Name("range", ast.Load()), [count], []), one.iter)
        for each in blocks_in(one):
            each[:] = self.block(each)
        if isinstance(one, ast.Try) and not one.handlers and _is_empty(one.finalbody):
            return one.body
        return [_Puts(self.name).visit(one)]

    def _sorted(self, place: ast.AST) -> list[ast.stmt]:
        return parsed_lines([f"{self.name}.sort()"], place) if self.kind == "PriorityQueue" else []

    def _is_over(self, one: ast.stmt) -> bool:
        """Whether a statement only ends consumers that have nothing to do any more."""
        match one:
            case ast.For(target=ast.Name(id=name), body=body) if all(_cancels(each) == name for each in body):
                one.iter = self._without_known(one.iter)
                return isinstance(one.iter, ast.List) and not one.iter.elts
            case ast.Expr(
                value=ast.ListComp(elt=elt, generators=[ast.comprehension(iter=ast.Name(id=many))])
            ):
                return many in self.known and _cancels(ast.Expr(elt)) is not None
            case ast.Expr() if _cancels(one) in self.known:
                return True
            case ast.Try(body=[ast.Expr(value=ast.Await(value=ast.Name(id=name)))], handlers=[handler]):
                kind = dotted(handler.type) if handler.type is not None else ""
                is_passed = all(isinstance(each, ast.Pass) for each in handler.body)
                ran = name in self.known and self.known[name] not in self.pending
                return ran and is_passed and (kind or "").endswith("CancelledError")
            case _:
                return False

    def _without_known(self, many: ast.expr) -> ast.expr:
        """Tasks without those of consumers: an empty list if there are no others."""
        if isinstance(many, ast.Name) and many.id in self.known:
            return placed(ast.List([], ast.Load()), many)
        if isinstance(many, ast.BinOp) and isinstance(many.op, ast.Add):
            left, right = self._without_known(many.left), self._without_known(many.right)
            if isinstance(left, ast.List) and not left.elts:
                return right
            if isinstance(right, ast.List) and not right.elts:
                return left
            return ast.copy_location(ast.BinOp(left, many.op, right), many)
        if isinstance(many, (ast.List, ast.Tuple)):
            parts = [one.value if isinstance(one, ast.Starred) else one for one in many.elts]
            left_over = [
                each
                for each, part in zip(many.elts, parts, strict=True)
                if not (isinstance(part, ast.Name) and part.id in self.known)
            ]
            return ast.copy_location(ast.List(left_over, ast.Load()), many)
        return many

    def _call(self, node: ast.expr) -> ast.Call | None:
        """The call of a consumer in an expression that makes, or starts, it."""
        while (
            isinstance(node, ast.Call)
            and node.args
            and (dotted(node.func) or "").rpartition(".")[2] in _STARTS
        ):
            node = node.args[0]
        is_call = isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
        return node if is_call and node.func.id in self.consumers else None

    def _many(self, node: ast.expr) -> _Pool | None:
        """The consumers that an expression makes."""
        match node:
            case ast.ListComp(elt=elt, generators=[part]) | ast.GeneratorExp(elt=elt, generators=[part]):
                call = self._call(elt)
                if call is None:
                    return None
                return _Pool([call], self._count(part.iter), names_bound(part.target))
            case ast.List(elts=elts) | ast.Tuple(elts=elts):
                calls = [self._call(each) for each in elts]
                known = [each for each in calls if each is not None]
                return _Pool(known, len(known), set()) if known and len(known) == len(calls) else None
            case _:
                call = self._call(node)
                return None if call is None else _Pool([call], 1, set(), is_single=True)

    def _count(self, source: ast.expr) -> int:
        match source:
            case ast.Call(func=ast.Name(id="range"), args=[count]):
                found = self.numbers.count(count, self.function)
            case ast.Call(func=ast.Name(id="range"), args=[ast.Constant(value=int(first)), last]):
                most = self.numbers.count(last, self.function)
                found = None if most is None else most - first
            case ast.List(elts=elts) | ast.Tuple(elts=elts):
                found = len(elts)
            case ast.Constant(value=str(text)):
                found = len(text)
            case ast.Name():
                found = self.numbers.count(ast.Call(ast.Name("len", ast.Load()), [source], []), self.function)
            case _:
                found = None
        if not found or found < 1:
            raise Refused(
                "PYT020",
                source,
                "how many workers take from the queue is not known before the run",
                "write the number: range(5)",
            )
        return found

    def _starts(self, one: ast.stmt) -> _Pool | None:
        """The consumers that a statement starts, to await them later."""
        match one:
            case (
                ast.Assign(targets=[ast.Name(id=name)], value=value)
                | ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value)
            ):
                found = self._many(value)
                if found is not None:
                    found.names.add(name)
                return found
            case ast.For(target=target, iter=source, body=body, orelse=[]):
                calls = [
                    call
                    for each in own_nodes(ast.Module(list(body), []))
                    if isinstance(each, ast.expr) and (call := self._call(each)) is not None
                ]
                if not calls:
                    return None
                names = {
                    each.func.value.id
                    for each in own_nodes(ast.Module(list(body), []))
                    if isinstance(each, ast.Call)
                    and isinstance(each.func, ast.Attribute)
                    and each.func.attr in {"append", "add"}
                    and isinstance(each.func.value, ast.Name)
                }
                is_plain_loop = len({id(each) for each in calls}) == 1 and all(
                    isinstance(each, (ast.Assign, ast.Expr)) for each in body
                )
                if not is_plain_loop:
                    raise _Unknown
                return _Pool([calls[0]], self._count(source), names_bound(target), names)
            case _:
                return None

    def _runs(self, one: ast.stmt) -> list[ast.stmt] | None:
        """What stands for a statement that waits for consumers; None if it does not."""
        targets: list[ast.expr] = []
        match one:
            case ast.Expr(value=ast.Await() as waited):
                pass
            case ast.Assign(targets=[target], value=ast.Await() as waited):
                targets = [target]
            case ast.Return(value=ast.Await() as waited):
                pass
            case ast.For(
                target=ast.Name(id=name),
                iter=ast.Name(id=many),
                body=[ast.Expr(value=ast.Await(value=ast.Name(id=each)))],
            ):
                return self._run_all(one) if name == each and many in self.known else None
            case _:
                return None
        if method_of(waited, self.name) == "join":
            self.joined = True
            return self._run_all(one)
        call = waited.value
        if isinstance(call, ast.Name) and call.id in self.known:
            return self._run_one(self.known[call.id], one, waited)
        if not isinstance(call, ast.Call):
            return None
        if self._call(call) is not None and isinstance(call.func, ast.Name):
            self._single(_Pool([call], 1, set(), is_single=True))
            return [*self._sorted(one), one]
        name = dotted(call.func)
        if name in {"asyncio.gather", "gather"}:
            return self._gathered(call, one, targets)
        if (
            name == "asyncio.wait"
            and call.args
            and isinstance(call.args[0], ast.Name)
            and call.args[0].id in self.known
        ):
            return self._run_all(one) if not targets else self._no()
        return None

    def _no(self) -> None:
        raise _Unknown

    def _run_all(self, place: ast.stmt) -> list[ast.stmt]:
        made: list[ast.stmt] = []
        pools, self.pending = self.pending, []
        if len(pools) > 1:
            calls = [call for each in pools for call in each.calls]
            one = _Pool(
                calls, sum(each.count for each in pools), {name for each in pools for name in each.varying}
            )
            pools = [one]
        for each in pools:
            made += self._run(each, place)
        return made

    def _run_one(self, pool: _Pool, one: ast.stmt, waited: ast.Await) -> list[ast.stmt]:
        if pool not in self.pending:
            return [] if isinstance(one, ast.Expr) else cast("list[ast.stmt]", self._no())
        if len(self.pending) > 1:
            return self._run_all(one) if isinstance(one, ast.Expr) else cast("list[ast.stmt]", self._no())
        self.pending.remove(pool)
        self._single(pool)
        waited.value = pool.calls[0]
        return [*self._sorted(one), one]

    def _gathered(self, call: ast.Call, one: ast.stmt, targets: list[ast.expr]) -> list[ast.stmt] | None:
        """`gather` of consumers, of their tasks, or of producers and consumers."""
        pools: list[_Pool] = []
        others: list[ast.expr] = []
        for each in call.args:
            many = each.value if isinstance(each, ast.Starred) else each
            if isinstance(many, ast.Name) and many.id in self.known:
                pools += [self.known[many.id]] if self.known[many.id] in self.pending else []
                found = True
                continue
            pool = self._many(many)
            if pool is None:
                others.append(each)
            else:
                pools.append(pool)
        touched = len(others) < len(call.args)
        if not touched:
            return None
        is_tuple = bool(targets) and isinstance(targets[0], ast.Tuple)
        is_plain_call = (
            len(pools) == 1
            and pools[0].is_single
            and not any(isinstance(each, ast.Starred) for each in call.args)
        )
        before: list[ast.stmt] = []
        if targets or isinstance(one, ast.Return):
            if len(call.args) == 1 and len(pools) == 1 and pools[0].count == 1 and not others:
                self.pending = [each for each in self.pending if each is not pools[0]]
                self._single(pools[0])
                call.args = [pools[0].calls[0]]
                return [*self._sorted(one), one]
            if (
                not (is_tuple and is_plain_call and len(cast("ast.Tuple", targets[0]).elts) == len(call.args))
                or call.keywords
            ):
                raise self._keeps_own(cast("ast.Name", pools[0].calls[0].func).id) if pools else _Unknown
            self.pending = [each for each in self.pending if each is not pools[0]]
            late: list[ast.stmt] = []
            for target, each in zip(cast("ast.Tuple", targets[0]).elts, call.args, strict=True):
                taken = self._many(each)
                what = each if taken is None else taken.calls[0]
                if isinstance(each, ast.Name):
                    what = pools[0].calls[0]
                    taken = pools[0]
                made = placed(ast.Assign([target], ast.Await(what)), one)
                (before if taken is None else late).append(made)
            self._single(pools[0])
            self._mixes(one)
            return [*before, *self._sorted(one), *late]
        if others:
            rest = copy.copy(call)
            rest.args = others
            value: ast.expr = rest
            if len(others) == 1 and not isinstance(others[0], ast.Starred) and not call.keywords:
                value = others[0]
            before.append(placed(ast.Expr(ast.Await(value)), one))
            self._mixes(one)
        self.pending += [each for each in pools if each not in self.pending]
        keeps = any(word.arg == "return_exceptions" for word in call.keywords)
        return (
            [*before, *(self._run_all(one) if pools else [])]
            if not keeps or not pools
            else [*before, *self._run_all_safe(one)]
        )

    def _run_all_safe(self, one: ast.stmt) -> list[ast.stmt]:
        self.keeps = True
        made = self._run_all(one)
        self.keeps = False
        return made

    keeps = False

    def _mixes(self, place: ast.AST) -> None:
        if self.is_mixed:
            return
        self.is_mixed = True
        self._warn(
            place,
            "all that is put into the queue is put there before anything is taken from it",
            "write for item in items: …, if each item is to be done before the next one is made",
        )

    def _warn(self, place: ast.AST, reason: str, repair: str) -> None:
        self.warned.append(Refused("PYT107", place, reason, repair))

    def _is_group(self, one: ast.With | ast.AsyncWith) -> bool:
        match one.items:
            case [ast.withitem(context_expr=ast.Call(func=func), optional_vars=ast.Name())]:
                is_group = (dotted(func) or "").endswith("TaskGroup")
                return is_group and any(
                    isinstance(each, ast.expr) and self._call(each) is not None for each in own_nodes(one)
                )
            case _:
                return False

    def _group(self, node: ast.AsyncWith) -> list[ast.stmt]:
        """A group of tasks: what others there are first, then the consumers."""
        pools: list[_Pool] = []
        others: list[ast.stmt] = []
        for one in node.body:
            found = self._starts(one)
            if found is None and isinstance(one, ast.Expr):
                found = self._many(one.value)
            if found is not None:
                pools.append(found)
                self.known |= dict.fromkeys(found.names, found)
            else:
                others.append(one)
        made: list[ast.stmt] = []
        name = cast("ast.Name", node.items[0].optional_vars).id
        if others:
            made_others = self.block(others)
            if name in names_read(*made_others):
                again = copy.copy(node)
                again.items = copy.deepcopy(node.items)
                again.body = made_others
                made.append(again)
                self._mixes(node)
            else:
                made += made_others
        self.pending += pools
        count = len(made)
        made += self._run_all(node)
        for number, one in enumerate(made[count:], count):
            if isinstance(one, ast.Expr) and isinstance(one.value, ast.Await):
                inside: list[ast.stmt] = []
                call = cast("ast.Call", one.value.value)
                start = ast.Attribute(ast.Name(name, ast.Load()), "create_task", ast.Load())
                if dotted(call.func) == "asyncio.gather":
                    many = cast("ast.ListComp", cast("ast.Starred", call.args[0]).value)
                    part = many.generators[0]
                    inside = [
                        ast.For(part.target, part.iter, [ast.Expr(ast.Call(start, [many.elt], []))], [])
                    ]
                else:
                    inside = [ast.Expr(ast.Call(start, [call], []))]
                made[number] = placed(ast.AsyncWith(copy.deepcopy(node.items), inside), node)
        return made

    # ------------------------------------------------------------ consumers

    def _single(self, pool: _Pool) -> None:
        """Let the only consumer take from the list."""
        if pool.count != 1:
            raise _Unknown
        name = cast("ast.Name", pool.calls[0].func).id
        function, queue = self.users[name]
        loop = self._loop(name)
        if name in self.bodies or (self.kind == "PriorityQueue" and _puts_into(loop, queue)):
            raise _Unknown
        body = over_list(loop, queue, self.kind)
        body = [_Puts(queue).visit(one) for one in body]
        if self._asks(body, queue):
            raise _Unknown
        self.bodies[name] = body

    def _keeps_own(self, name: str) -> Refused:
        return Refused(
            "PYT020",
            self.users[name][0],
            f"each worker {name} keeps something of its own, or says which one it is: who takes an item is not"
            " known before the run",
            "write what is done with one item as an async function, and await"
            " asyncio.gather(*[work(item) for item in items]); asyncio.Semaphore(5) in it limits how many run",
        )

    def _loop(self, name: str) -> QueueLoop:
        function, queue = self.users[name]
        again = copy.deepcopy(function)
        loop = loop_of(again, queue)
        if loop is None:
            raise _Unknown
        return loop

    def _run(self, pool: _Pool, place: ast.stmt) -> list[ast.stmt]:
        """Let consumers do the items."""
        if pool.count == 1:
            self._single(pool)
            return [*self._sorted(place), placed(ast.Expr(ast.Await(pool.calls[0])), place)]
        names = {cast("ast.Name", each.func).id for each in pool.calls}
        if len(names) != 1 or names & {one.name for one, _ in self.made}:
            raise _Unknown
        (name,) = names
        function, queue = self.users[name]
        loop = self._loop(name)
        in_waves = _puts_into(loop, queue)
        if in_waves and self.kind != "Queue":
            raise _Unknown
        given = [_bound(function, each) for each in pool.calls]
        apart = {
            key
            for key in given[0]
            if key != queue
            and (
                len({ast.dump(each.get(key, ast.Constant(None))) for each in given}) > 1
                or names_read(given[0][key]) & pool.varying
            )
        }
        made = of_one_item(function, loop, {*apart}, self.fresh)
        if made is None:
            raise self._keeps_own(name)
        if in_waves:
            made.body = [_Puts(queue).visit(one) for one in made.body]
        else:
            made.args.args = [one for one in made.args.args if one.arg != queue]
        if (
            (queue in names_read(*made.body) and not in_waves)
            or self._asks(made.body, queue)
            or any(not is_plain(value) for key, value in given[0].items() if key not in apart)
        ):
            raise _Unknown
        limit = self.fresh("limit")
        self.limits += parsed_lines([f"{limit} = asyncio.Semaphore({pool.count})"], place)
        entered = ast.AsyncWith([ast.withitem(ast.Name(limit, ast.Load()), None)], made.body)
        made.body = [placed(entered, function)]
        self.made.append((function, made))
        if may_end_worker(loop):
            self._warn(
                function,
                f"in Python a failure ends one of the {pool.count} workers; a plan goes on with all of them",
                "catch ToolError around the calls of the worker",
            )
        item = self.fresh("item")
        inner = [
            ast.keyword(key, value)
            for key, value in given[0].items()
            if key not in apart and (key != queue or in_waves)
        ]
        names_of = [one.arg for one in parameters_of(function.args)]
        args: list[ast.expr] = []
        for one in names_of:
            word = next((each for each in inner if each.arg == one), None)
            if word is not None:
                args.append(word.value)
        one_call = ast.Call(ast.Name(made.name, ast.Load()), [*args, ast.Name(item, ast.Load())], [])
        source = self.fresh("wave") if in_waves else self.name
        clause = ast.comprehension(ast.Name(item, ast.Store()), ast.Name(source, ast.Load()), [], 0)
        many = ast.ListComp(one_call, [clause])
        gather = ast.Attribute(ast.Name("asyncio", ast.Load()), "gather", ast.Load())
        is_lost = self.keeps or (self.joined and may_end_worker(loop) and _is_done_anyway(function, queue))
        words = [ast.keyword("return_exceptions", ast.Constant(True))] if is_lost else []
        awaited = ast.Await(ast.Call(gather, [ast.Starred(many, ast.Load())], words))
        if in_waves:
            self._warn(
                function,
                f"what {name} puts into the queue is begun when all that was in it before is done",
                "go in waves yourself, if that is meant: while todo: todo = [new for news in await"
                " asyncio.gather(*[work(one) for one in todo]) for new in news]",
            )
            lines = [
                f"while {self.name}:",
                f"    {source} = list({self.name})",
                f"    {self.name}.clear()",
                "    pass",
            ]
            (waves,) = parsed_lines(lines, place)
            cast("ast.While", waves).body[-1] = placed(ast.Expr(awaited), place)
            return [waves]
        reverse = parsed_lines([f"{self.name}.reverse()"], place) if self.kind == "LifoQueue" else []
        return [*self._sorted(place), *reverse, placed(ast.Expr(awaited), place)]


def _bound(function: ast.AsyncFunctionDef, call: ast.Call) -> dict[str, ast.expr]:
    """What a call gives each parameter."""
    of = function.args
    plain = [one.arg for one in (*of.posonlyargs, *of.args)]
    if any(isinstance(one, ast.Starred) for one in call.args) or any(
        word.arg is None for word in call.keywords
    ):
        raise _Unknown
    given = dict(zip(plain, call.args, strict=False)) | {word.arg or "": word.value for word in call.keywords}
    defaults = dict(zip(plain[len(plain) - len(of.defaults) :], of.defaults, strict=True))
    defaults |= {one.arg: value for one, value in zip(of.kwonlyargs, of.kw_defaults, strict=True) if value}
    made = {one.arg: given.get(one.arg, defaults.get(one.arg)) for one in parameters_of(of)}
    if any(value is None for value in made.values()):
        raise _Unknown
    return cast("dict[str, ast.expr]", made)


def _is_done_anyway(function: ast.AsyncFunctionDef, queue: str) -> bool:
    """Whether a worker says that an item is done also if it fails."""
    return any(
        isinstance(one, ast.Try)
        and any(method_of(each, queue) == "task_done" for part in one.finalbody for each in own_nodes(part))
        for one in own_nodes(function)
    )


def _puts_into(loop: QueueLoop, queue: str) -> bool:
    return any(method_of(each, queue) in {"put", "put_nowait"} for one in loop.body for each in walk(one))


def _is_empty(body: Sequence[ast.stmt]) -> bool:
    return all(isinstance(one, ast.Pass) for one in body)


def _cancels(one: ast.stmt) -> str | None:
    match one:
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr="cancel"), args=[])):
            return name
        case _:
            return None


class _Puts(ast.NodeTransformer):
    """Writes what is put into a queue as what is appended to a list, and asks a list whether it is empty."""

    def __init__(self, queue: str) -> None:
        self.queue = queue

    def visit_Expr(self, node: ast.Expr) -> ast.AST:
        """A statement of one expression."""
        value = node.value.value if isinstance(node.value, ast.Await) else node.value
        if method_of(value, self.queue) in {"put", "put_nowait"} and isinstance(value, ast.Call):
            append = ast.Attribute(ast.Name(self.queue, ast.Load()), "append", ast.Load())
            given = [*value.args, *(word.value for word in value.keywords)]
            return placed(ast.Expr(ast.Call(append, given[:1], [])), node)
        return self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> ast.AST:
        """A call."""
        if method_of(node, self.queue) == "qsize":
            return placed(ast.Call(ast.Name("len", ast.Load()), [ast.Name(self.queue, ast.Load())], []), node)
        if method_of(node, self.queue) == "empty":
            return placed(ast.UnaryOp(ast.Not(), ast.Name(self.queue, ast.Load())), node)
        return self.generic_visit(node)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> ast.AST:
        """An async function of its own."""
        return node
