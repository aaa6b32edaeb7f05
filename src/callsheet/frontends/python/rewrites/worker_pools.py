"""Queues of async functions as lists: workers that share one do its items side by side, as many at a time.

In: the tree of a file, which is changed in place. What is put into a queue is put there before anything is
taken from it: that is one of CPython's possible runs, as nothing says how long a call takes. A single
consumer takes from the list; several are calls for each item, behind a semaphore that lets as many through as
there are consumers. Workers that keep something of their own, or put into the queue from which they take,
stay as they are.
"""

from __future__ import annotations

import ast
import copy
from collections import deque
from collections.abc import Sequence
from typing import NoReturn, cast

from callsheet.frontends.python.rewrites.inlining import Fresh, blocks_in, blocks_of
from callsheet.frontends.python.rewrites.queue_loops import loop_in, method_of, over_list, takes_from
from callsheet.frontends.python.rewrites.queue_users import Pool, Puts, UnknownQueue, is_queue, queue_made
from callsheet.frontends.python.rewrites.worker_items import WorkerItems
from callsheet.frontends.python.source import Nodes, Refused, dotted, names_read, own_nodes, waits, walk
from callsheet.frontends.python.syntax import placed


def queues_as_lists(module: ast.Module, nodes: Nodes, warned: list[Refused]) -> bool:
    """Write the queues of a file as lists, and their workers as calls for each item; whether there were any.

    What workers do in another way is added to `warned`.

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
    >>> queues_as_lists(module, Nodes(module), [])
    True
    >>> print(ast.unparse(module.body[-1]))
    async def main(xs):
        queue = []
        for x in xs:
            queue.append(x)
        await asyncio.gather(*[work_at_1(item_at_1) for item_at_1 in queue])
    """
    fresh, found, left_alone = Fresh(nodes), False, set[str]()
    if not any(is_queue(one.func) for one in nodes.of(ast.Call)):
        return False
    functions = deque(nodes.of(ast.AsyncFunctionDef))
    while functions:
        function = functions[0]
        made = (queue_made(one) for one in own_nodes(function))
        name, kind = next(((name, kind) for name, kind in made if name and name not in left_alone), ("", ""))
        if not name:
            functions.popleft()
            left_alone.clear()
            continue
        queue = _Queue(module, nodes, function, name, kind, fresh)
        try:
            queue.rewrite()
        except UnknownQueue:
            left_alone.add(name)
        else:
            found = True
            warned += queue.warned
            nodes = Nodes(module)
            functions.extend(one for _, one in queue.made if isinstance(one, ast.AsyncFunctionDef))
    return found


class _Queue(WorkerItems):
    """One queue of one function."""

    def rewrite(self) -> None:
        """Write it as a list. Raises UnknownQueue, and has changed nothing then."""
        self.find_users()
        self.check_made()
        self.consumers = {name for name, (one, queue) in self.users.items() if takes_from(one, queue)}
        body = self.block(copy.deepcopy(self.function.body))
        if self.pending:
            raise UnknownQueue
        for name, (one, queue) in self.users.items():
            if name not in self.consumers:
                self.bodies[name] = self.block_of(one, queue)
                if waits(ast.Module(self.bodies[name], [])):
                    self.mixes(one)
        left = names_read(*(one for one in body if not isinstance(one, ast.AsyncFunctionDef)))
        if left & {*self.known} or self.asks(body, self.name):
            raise UnknownQueue
        self._apply(body)

    def _apply(self, body: list[ast.stmt]) -> None:
        self.function.body = body
        local = {
            one.name: one
            for one in own_nodes(ast.Module(list(body), []))
            if isinstance(one, ast.AsyncFunctionDef)
        }
        for name, made in self.bodies.items():
            (local.get(name) or self.users[name][0]).body = made
        owners = [self.module.body, *blocks_of(walk(self.function))]
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
        if self.limits and not self._imports_asyncio():
            self.module.body[at:at] = [placed(ast.Import([ast.alias("asyncio")]), self.limits[0])]

    def _imports_asyncio(self) -> bool:
        return any(
            isinstance(one, ast.Import) and any((each.asname or each.name) == "asyncio" for each in one.names)
            for one in self.module.body
        )

    # ------------------------------------------------------------ statements

    def block(self, body: Sequence[ast.stmt]) -> list[ast.stmt]:
        """The statements of a block."""
        made: list[ast.stmt] = []
        for one in body:
            made += self._statement(one)
        return made or ([placed(ast.Pass(), body[0])] if body else [])

    def _statement(self, one: ast.stmt) -> list[ast.stmt]:
        if isinstance(one, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            return [one]
        if queue_made(one)[0] == self.name:
            self.made_at = self.loops
            return [placed(ast.Assign([ast.Name(self.name, ast.Store())], ast.List([], ast.Load())), one)]
        if self.is_over(one):
            return []
        started = self.starts(one)
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
            return [*self.sorted_first(one), *over_list(loop, self.name, self.kind)]
        if isinstance(one, ast.For) and isinstance(one.iter, ast.Name) and one.iter.id in self.known:
            count = ast.Constant(self.known[one.iter.id].count)
            one.iter = placed(ast.Call(ast.Name("range", ast.Load()), [count], []), one.iter)
        if self.has_run and self.loops == self.made_at and self._fills(one):
            raise UnknownQueue  # the workers have ended by then
        if self.pending and any(
            isinstance(each, ast.Await) and method_of(each, self.name) != "put" for each in own_nodes(one)
        ):
            self.warn(
                one,
                "the workers begin where they are waited for: this is done before anything is taken",
                f"wait for the workers first: await {self.name}.join()",
            )
        self.loops += isinstance(one, (ast.For, ast.While))
        for each in blocks_in(one):
            each[:] = self.block(each)
        self.loops -= isinstance(one, (ast.For, ast.While))
        if isinstance(one, ast.Try) and not one.handlers and _is_empty(one.finalbody):
            return one.body
        return [Puts(self.name).visit(one)]

    def _fills(self, one: ast.stmt) -> bool:
        """Whether a statement puts items into the queue, or calls what does."""
        users = [
            self.users[each.func.id]
            for each in walk(one)
            if isinstance(each, ast.Call) and isinstance(each.func, ast.Name) and each.func.id in self.users
        ]
        return self._puts_items(one, self.function, self.name) or any(
            self._puts_items(user, user, name) for user, name in users if user.name not in self.consumers
        )

    def _puts_items(self, one: ast.AST, function: ast.AsyncFunctionDef, queue: str) -> bool:
        """Whether a statement puts something into a queue that may be an item, and is not the sign to end."""
        return any(
            method_of(each, queue) in {"put", "put_nowait"}
            and any(
                self.mark(given, function) not in self.marks
                for given in (*each.args, *(word.value for word in each.keywords))
            )
            for each in walk(one)
            if isinstance(each, ast.Call)
        )

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
            if self.consumers and not self.pending:
                raise UnknownQueue
            self.joined = True
            return self._run_all(one)
        call = waited.value
        if isinstance(call, ast.Name) and call.id in self.known:
            return self._run_one(self.known[call.id], one, waited)
        if not isinstance(call, ast.Call):
            return None
        if self.call_of(call) is not None and isinstance(call.func, ast.Name):
            self.single(Pool([call], 1, set(), is_single=True))
            return [*self.sorted_first(one), one]
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

    def _no(self) -> NoReturn:
        raise UnknownQueue

    def _run_all(self, place: ast.stmt) -> list[ast.stmt]:
        made: list[ast.stmt] = []
        self.has_run = True
        pools, self.pending = self.pending, []
        if len(pools) > 1:
            calls = [call for each in pools for call in each.calls]
            one = Pool(
                calls, sum(each.count for each in pools), {name for each in pools for name in each.varying}
            )
            pools = [one]
        for each in pools:
            made += self.run(each, place)
        return made

    def _run_one(self, pool: Pool, one: ast.stmt, waited: ast.Await) -> list[ast.stmt]:
        if pool not in self.pending:
            return [] if isinstance(one, ast.Expr) else self._no()
        if len(self.pending) > 1:
            return self._run_all(one) if isinstance(one, ast.Expr) else self._no()
        self.pending.remove(pool)
        self.single(pool)
        waited.value = pool.calls[0]
        return [*self.sorted_first(one), one]

    def _gathered(self, call: ast.Call, one: ast.stmt, targets: list[ast.expr]) -> list[ast.stmt] | None:
        """`gather` of consumers, of their tasks, or of producers and consumers."""
        pools: list[Pool] = []
        others: list[ast.expr] = []
        for each in call.args:
            many = each.value if isinstance(each, ast.Starred) else each
            if isinstance(many, ast.Name) and many.id in self.known:
                pools += [self.known[many.id]] if self.known[many.id] in self.pending else []
                continue
            pool = self.many_of(many)
            if pool is None:
                others.append(each)
            else:
                pools.append(pool)
        touched = len(others) < len(call.args)
        if not touched:
            return None
        apart = [each for each in others if self.takes_later(each, pools)]
        if apart and (targets or isinstance(one, ast.Return) or call.keywords):
            raise UnknownQueue
        others = [each for each in others if each not in apart]
        behind = [placed(ast.Expr(ast.Await(self._all_of(call, apart))), one)] if apart else []
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
                self.single(pools[0])
                call.args = [pools[0].calls[0]]
                return [*self.sorted_first(one), one]
            if (
                not (is_tuple and is_plain_call and len(cast("ast.Tuple", targets[0]).elts) == len(call.args))
                or call.keywords
            ):
                raise self.keeps_own(cast("ast.Name", pools[0].calls[0].func).id) if pools else UnknownQueue
            self.pending = [each for each in self.pending if each is not pools[0]]
            late: list[ast.stmt] = []
            for target, each in zip(cast("ast.Tuple", targets[0]).elts, call.args, strict=True):
                taken = self.many_of(each)
                what = each if taken is None else taken.calls[0]
                if isinstance(each, ast.Name):
                    what = pools[0].calls[0]
                    taken = pools[0]
                made = placed(ast.Assign([target], ast.Await(what)), one)
                (before if taken is None else late).append(made)
            self.single(pools[0])
            self.mixes(one)
            return [*before, *self.sorted_first(one), *late]
        if others:
            before.append(placed(ast.Expr(ast.Await(self._all_of(call, others))), one))
        if others or apart:
            self.mixes(one)
        self.pending += [each for each in pools if each not in self.pending]
        keeps = any(word.arg == "return_exceptions" for word in call.keywords)
        return (
            [*before, *(self._run_all(one) if pools else []), *behind]
            if not keeps or not pools
            else [*before, *self._run_all_safe(one)]
        )

    def _all_of(self, call: ast.Call, several: list[ast.expr]) -> ast.expr:
        """What awaits some of the arguments of a `gather`."""
        if len(several) == 1 and not isinstance(several[0], ast.Starred) and not call.keywords:
            return several[0]
        rest = copy.copy(call)
        rest.args = several
        return rest

    def _run_all_safe(self, one: ast.stmt) -> list[ast.stmt]:
        self.keeps = True
        made = self._run_all(one)
        self.keeps = False
        return made

    def _is_group(self, one: ast.With | ast.AsyncWith) -> bool:
        match one.items:
            case [ast.withitem(context_expr=ast.Call(func=func), optional_vars=ast.Name())]:
                is_group = (dotted(func) or "").endswith("TaskGroup")
                return is_group and any(
                    isinstance(each, ast.expr) and self.call_of(each) is not None for each in own_nodes(one)
                )
            case _:
                return False

    def _group(self, node: ast.AsyncWith) -> list[ast.stmt]:
        """A group of tasks: what others there are first, then the consumers."""
        pools: list[Pool] = []
        others: list[ast.stmt] = []
        for one in node.body:
            found = self.starts(one)
            if found is None and isinstance(one, ast.Expr):
                found = self.many_of(one.value)
            if found is not None:
                pools.append(found)
                self.known |= dict.fromkeys(found.names, found)
            else:
                others.append(one)
        made: list[ast.stmt] = []
        name = cast("ast.Name", node.items[0].optional_vars).id
        late = [one for one in others if self.takes_later(one, pools)]
        others = [one for one in others if one not in late]
        if late:
            self.mixes(node)
        if others:
            made_others = self.block(others)
            if name in names_read(*made_others):
                again = copy.copy(node)
                again.items = copy.deepcopy(node.items)
                again.body = made_others
                made.append(again)
                self.mixes(node)
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
        if late:
            made.append(placed(ast.AsyncWith(copy.deepcopy(node.items), late), node))
        return made


def _is_empty(body: Sequence[ast.stmt]) -> bool:
    return all(isinstance(one, ast.Pass) for one in body)
