"""Workers of a queue as calls for each item of a list, or as the one function that takes from it."""

from __future__ import annotations

import ast
import copy
from collections import Counter
from typing import cast

from callsheet.frontends.python.rewrites.queue_loops import (
    QueueLoop,
    loop_of,
    may_end_worker,
    method_of,
    of_one_item,
    over_list,
    prints_in,
)
from callsheet.frontends.python.rewrites.queue_users import Pool, Puts, UnknownQueue
from callsheet.frontends.python.rewrites.worker_starts import WorkerStarts
from callsheet.frontends.python.source import (
    Refused,
    given_by_default,
    names_read,
    own_nodes,
    parameters_of,
    waits,
    walk,
)
from callsheet.frontends.python.syntax import is_plain, parsed_lines, placed


class WorkerItems(WorkerStarts):
    """The part that lets workers do the items."""

    keeps = False
    """Whether what awaits the workers keeps their errors."""
    source = ""
    """The list of the items that are done."""

    def single(self, pool: Pool) -> None:
        """Let the only consumer take from the list."""
        if pool.count != 1:
            raise UnknownQueue
        self.has_run = True
        self._check_given(pool)
        name = cast("ast.Name", pool.calls[0].func).id
        queue, loop = self.users[name][1], self._loop(name)
        if name in self.bodies or (self.kind == "PriorityQueue" and _puts_into(loop, queue)):
            raise UnknownQueue
        self._note_marks(loop, _bound(self.users[name][0], pool.calls[0]))
        body = over_list(loop, queue, self.kind, is_task=True)
        body = [Puts(queue).visit(one) for one in body]
        if self.asks(body, queue):
            raise UnknownQueue
        self.bodies[name] = body

    def keeps_own(self, name: str) -> Refused:
        """Why several workers cannot be calls for each item."""
        return Refused(
            "PYT020",
            self.users[name][0],
            f"each worker {name} keeps something of its own, or says which one it is: who takes an item is"
            " not known before the run",
            "write what is done with one item as an async function, and await"
            " asyncio.gather(*[work(item) for item in items]); a Semaphore in it limits how many run",
        )

    def _loop(self, name: str) -> QueueLoop:
        function, queue = self.users[name]
        again = copy.deepcopy(function)
        loop = loop_of(again, queue)
        if loop is None:
            raise UnknownQueue
        return loop

    def run(self, pool: Pool, place: ast.stmt) -> list[ast.stmt]:
        """Let consumers do the items."""
        if pool.count == 1:
            self.single(pool)
            return [*self.sorted_first(place), placed(ast.Expr(ast.Await(pool.calls[0])), place)]
        names = {cast("ast.Name", each.func).id for each in pool.calls}
        if len(names) != 1 or names & {one.name for one, _ in self.made}:
            raise UnknownQueue
        (name,) = names
        function, queue = self.users[name]
        loop = self._loop(name)
        in_waves = _puts_into(loop, queue)
        if in_waves and self.kind != "Queue":
            raise UnknownQueue
        self._check_given(pool)
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
        told = self._untold(function, loop, apart)
        made = of_one_item(function, loop, {*apart}, self.fresh)
        if made is None or (loop.stop is not None and in_waves):
            raise self.keeps_own(name)
        self._check_ends(function, queue, loop)
        self._note_marks(loop, given[0])
        if in_waves:
            made.body = [Puts(queue).visit(one) for one in made.body]
        else:
            made.args.args = [one for one in made.args.args if one.arg != queue]
        if (
            (queue in names_read(*made.body) and not in_waves)
            or self.asks(made.body, queue)
            or any(not is_plain(value) for key, value in given[0].items() if key not in apart)
        ):
            raise UnknownQueue
        limit = self.fresh("limit")
        self.limits += parsed_lines([f"{limit} = asyncio.Semaphore({pool.count})"], place)
        entered = ast.AsyncWith([ast.withitem(ast.Name(limit, ast.Load()), None)], made.body)
        made.body = [placed(entered, function)]
        self.made.append((function, made))
        if may_end_worker(loop):
            self.warn(
                function,
                f"in Python a failure ends one of the {pool.count} workers; a plan goes on with all of them",
                "catch ToolError around the calls of the worker, and what else may fail in it",
            )
        self.warned += told
        names = [one.arg for one in made.args.args[:-1]]
        call = ast.Call(ast.Name(made.name, ast.Load()), [given[0][one] for one in names], [])
        is_lost = self.keeps or (self.joined and may_end_worker(loop) and _is_done_anyway(function, queue))
        stop = None if loop.stop is None else self._stop(loop, given[0], apart)
        each = self._each_item(call, place, name, in_waves=in_waves, is_lost=is_lost)
        if stop is not None:
            lines = self._without_rest(stop, loop.item, pool.count, place)
            each[len(each) - 1 : len(each) - 1] = lines
        return each

    def _note_marks(self, loop: QueueLoop, given: dict[str, ast.expr]) -> None:
        """Note which items end a consumer that is given these arguments."""
        test = None if loop.stop is None else loop.stop.test
        for one in test.values if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.Or) else [test]:
            match one:
                case ast.UnaryOp(op=ast.Not(), operand=ast.Name()):
                    self.marks |= {ast.dump(ast.Constant(each)) for each in (None, False, 0, "")}
                case ast.Compare(left=ast.Name(), ops=[ast.Is() | ast.Eq()], comparators=[value]):
                    value = given.get(value.id, value) if isinstance(value, ast.Name) else value
                    self.marks.add(self.mark(value, self.function))
                case _:
                    pass

    def _check_given(self, pool: Pool) -> None:
        """Raise UnknownQueue for arguments that may have other values where the workers run."""
        stored = Counter(
            one.id
            for one in own_nodes(self.function)
            if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store)
        )
        parameters = {one.arg for one in parameters_of(self.function.args)}
        read = {name for each in pool.calls for name in names_read(*each.args, *each.keywords)}
        if any(stored[name] + (name in parameters) > 1 for name in read - pool.varying):
            raise UnknownQueue

    def _check_ends(self, function: ast.AsyncFunctionDef, queue: str, loop: QueueLoop) -> None:
        """Refuse workers whose end Python would wait for without one."""
        says_done = any(method_of(one, queue) == "task_done" for one in walk(function))
        if self.joined and not says_done:
            raise Refused(
                "PYT020",
                function,
                f"join never ends: {function.name} does not say that an item is done",
                f"write {queue}.task_done() where an item is done",
            )
        if not self.joined and loop.cancelled is not None and loop.stop is None:
            raise Refused(
                "PYT020",
                function,
                f"{function.name} never ends, and is awaited: it waits for an item for ever",
                f"await {queue}.join() and cancel the workers, or end for an item as None",
            )

    def _untold(self, function: ast.AsyncFunctionDef, loop: QueueLoop, apart: set[str]) -> list[Refused]:
        """The warnings of what workers print that calls for each item cannot."""
        found: list[Refused] = []
        if loop.remarks:
            reason = f"what each {function.name} prints where it begins or ends is left out"
            found.append(Refused("PYT107", loop.remarks[0], reason, "print it around the workers"))
        told = [one for one in prints_in(loop.body) if names_read(one) & apart]
        if told:
            names = ", ".join(sorted(apart & names_read(*told)))
            reason = f"who takes an item is not known in a plan: this prints worker for {names}"
            found.append(Refused("PYT107", told[0], reason, "print what the item is"))
        return found

    def _stop(self, loop: QueueLoop, given: dict[str, ast.expr], apart: set[str]) -> ast.expr:
        """What is asked of an item that ends the worker which takes it, where the workers are awaited."""
        test = copy.deepcopy(cast("ast.If", loop.stop).test)
        own = {one.id for one in walk(loop.item) if isinstance(one, ast.Name)}
        read = names_read(test) - own
        if waits(test) or read & apart or any(not is_plain(given[name]) for name in read & {*given}):
            raise UnknownQueue
        for one in walk(test):
            if isinstance(one, ast.Name) and one.id in given and one.id not in own:
                value = given[one.id]
                if not isinstance(value, ast.Name):
                    raise UnknownQueue
                one.id = value.id
        return test

    def _without_rest(self, stop: ast.expr, item: ast.expr, count: int, place: ast.stmt) -> list[ast.stmt]:
        """The statements that leave out what is behind the item that ends the last of the workers."""
        ends, number = self.fresh("ends"), self.fresh("number")
        source = self.source
        made = parsed_lines(
            [
                f"{ends} = [{number} for {number}, _item in enumerate({source}) if _stop]",
                f"if len({ends}) >= {count}:",
                f"    {source} = {source}[:{ends}[{count - 1}]]",
            ],
            place,
        )
        many = cast("ast.ListComp", cast("ast.Assign", made[0]).value)
        own = {one.id: self.fresh(one.id) for one in walk(item) if isinstance(one, ast.Name)}
        target, test = copy.deepcopy(item), copy.deepcopy(stop)
        for one in (*walk(target), *walk(test)):
            if isinstance(one, ast.Name) and one.id in own:
                one.id = own[one.id]
        cast("ast.Tuple", many.generators[0].target).elts[1] = target
        many.generators[0].ifs = [test]
        return made

    def _each_item(
        self, call: ast.Call, place: ast.stmt, worker: str, *, in_waves: bool, is_lost: bool
    ) -> list[ast.stmt]:
        """The statements that make a call for each item, which is its last argument."""
        item, source = self.fresh("item"), self.name
        call.args.append(ast.Name(item, ast.Load()))
        is_asked = any(method_of(one, self.name) in {"qsize", "empty"} for one in walk(self.function))
        is_again = in_waves or is_asked or self.loops != self.made_at
        source = self.source = self.fresh("items") if is_again else self.name
        clause = ast.comprehension(ast.Name(item, ast.Store()), ast.Name(source, ast.Load()), [], 0)
        many = ast.Starred(ast.ListComp(call, [clause]), ast.Load())
        gather = ast.Attribute(ast.Name("asyncio", ast.Load()), "gather", ast.Load())
        words = [ast.keyword("return_exceptions", ast.Constant(True))] if is_lost else []
        awaited: ast.stmt = placed(ast.Expr(ast.Await(ast.Call(gather, [many], words))), place)
        reverse = parsed_lines([f"{self.name}.reverse()"], place) if self.kind == "LifoQueue" else []
        taken = (
            parsed_lines([f"{source} = list({self.name})", f"{self.name}.clear()"], place) if is_again else []
        )
        body = [*self.sorted_first(place), *reverse, *taken, awaited]
        if not in_waves:
            return body
        self.warn(
            place,
            f"what {worker} puts into the queue is begun when all that was in it before is done",
            "go in waves yourself, if that is meant: while todo: todo = [new for news in await"
            " asyncio.gather(*[work(one) for one in todo]) for new in news]",
        )
        return [placed(ast.While(ast.Name(self.name, ast.Load()), body, []), place)]


def _bound(function: ast.AsyncFunctionDef, call: ast.Call) -> dict[str, ast.expr]:
    """What a call gives each parameter."""
    of = function.args
    plain = [one.arg for one in (*of.posonlyargs, *of.args)]
    if any(isinstance(one, ast.Starred) for one in call.args) or any(
        word.arg is None for word in call.keywords
    ):
        raise UnknownQueue
    given = dict(zip(plain, call.args, strict=False)) | {word.arg or "": word.value for word in call.keywords}
    defaults = dict(given_by_default(of))
    made = {one.arg: given.get(one.arg, defaults.get(one.arg)) for one in parameters_of(of)}
    if any(value is None for value in made.values()):
        raise UnknownQueue
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
