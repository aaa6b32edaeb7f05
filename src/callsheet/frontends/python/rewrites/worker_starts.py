"""How the workers of a queue are started: how many, under which names, and where they are cancelled."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import cast

from callsheet.frontends.python.rewrites.queue_loops import takes_from
from callsheet.frontends.python.rewrites.queue_users import Pool, QueueUsers, UnknownQueue
from callsheet.frontends.python.rewrites.task_words import task_cancelled, task_of
from callsheet.frontends.python.source import Refused, dotted, names_bound, names_read, own_nodes, walk
from callsheet.frontends.python.syntax import placed


class WorkerStarts(QueueUsers):
    """The part that knows which workers were started."""

    def is_over(self, one: ast.stmt) -> bool:
        """Whether a statement only ends consumers that have nothing to do any more."""
        match one:
            case ast.For(target=ast.Name(id=name), body=body) if all(
                task_cancelled(each) == name for each in body
            ):
                one.iter = self._without_known(one.iter)
                return isinstance(one.iter, ast.List) and not one.iter.elts
            case ast.Expr(
                value=ast.ListComp(elt=elt, generators=[ast.comprehension(iter=ast.Name(id=many))])
            ):
                return many in self.known and task_cancelled(ast.Expr(elt)) is not None
            case ast.Expr() if task_cancelled(one) in self.known:
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

    def call_of(self, node: ast.expr) -> ast.Call | None:
        """The call of a consumer in an expression that makes, or starts, it."""
        call = node
        while (given := task_of(call)) is not None:
            call = given
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Name):
            return call if call.func.id in self.consumers else None
        return None

    def many_of(self, node: ast.expr) -> Pool | None:
        """The consumers that an expression makes."""
        match node:
            case ast.ListComp(elt=elt, generators=[part]) | ast.GeneratorExp(elt=elt, generators=[part]):
                call = self.call_of(elt)
                if call is None:
                    return None
                return Pool([call], self._count(part.iter), names_bound(part.target))
            case ast.List(elts=elts) | ast.Tuple(elts=elts):
                calls = [self.call_of(each) for each in elts]
                known = [each for each in calls if each is not None]
                return Pool(known, len(known), set()) if known and len(known) == len(calls) else None
            case _:
                call = self.call_of(node)
                return None if call is None else Pool([call], 1, set(), is_single=True)

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

    def takes_later(self, other: ast.AST, pools: Sequence[Pool]) -> bool:
        """Whether something that is awaited beside consumers takes from a queue that these fill."""
        filled = {
            name
            for each in pools
            for call in each.calls
            for name in names_read(call) | names_read(self.users[cast("ast.Name", call.func).id][0])
            if name in self.queues and name != self.name
        }
        inside: list[ast.AST] = [other]
        read = {one.id for one in walk(other) if isinstance(one, ast.Name)}
        for one in own_nodes(self.function):
            if isinstance(one, (ast.Assign, ast.For)) and names_bound(one) & read:
                inside.append(one)
            elif isinstance(one, ast.Call) and isinstance(one.func, ast.Attribute):
                holder, is_kept = one.func.value, one.func.attr in {"append", "add"}
                inside += [one] if is_kept and isinstance(holder, ast.Name) and holder.id in read else []
        calls = [one for each in inside for one in walk(each) if isinstance(one, ast.Call)]
        return any(
            takes_from(found, name)
            for call in calls
            if isinstance(call.func, ast.Name) and (found := self.functions.get(call.func.id)) is not None
            for queue in filled
            for name in _named(found, call, queue)
        )

    def starts(self, one: ast.stmt) -> Pool | None:
        """The consumers that a statement starts, to await them later."""
        match one:
            case (
                ast.Assign(targets=[ast.Name(id=name)], value=value)
                | ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value)
            ):
                found = self.many_of(value)
                if found is not None:
                    found.names.add(name)
                return found
            case ast.For(target=target, iter=source, body=body, orelse=[]):
                calls = [
                    call
                    for each in own_nodes(ast.Module(list(body), []))
                    if isinstance(each, ast.expr) and (call := self.call_of(each)) is not None
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
                    raise UnknownQueue
                return Pool([calls[0]], self._count(source), names_bound(target), names)
            case _:
                return None


def _named(function: ast.AsyncFunctionDef, call: ast.Call, queue: str) -> set[str]:
    """The names that a function has for a queue: those of its parameters, or that around it."""
    plain = [one.arg for one in (*function.args.posonlyargs, *function.args.args)]
    pairs = [*zip(plain, call.args, strict=False), *((word.arg or "", word.value) for word in call.keywords)]
    given = {name for name, value in pairs if isinstance(value, ast.Name) and value.id == queue}
    return given or ({queue} if queue not in plain else set[str]())
