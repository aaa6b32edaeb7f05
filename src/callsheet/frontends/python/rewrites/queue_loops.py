"""The loop in which an async function takes from a queue, as one over a list, or as its part for one item.

In: the function, and its name for the queue. A queue that is filled before anything is taken from it is a
list: a single consumer takes from its front until it is empty; of several, each item is done by one of them,
whichever it is, so that the items may be done side by side, as many at a time as there are consumers.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, cast

from callsheet.frontends.python.rewrites.inlining import Fresh, blocks_in
from callsheet.frontends.python.source import dotted, ends_loop, last_name, names_read, own_nodes, walk
from callsheet.frontends.python.syntax import parsed, placed

_ENDS: Final = frozenset({"QueueEmpty", "TimeoutError", "QueueShutDown"})


@dataclass(slots=True)
class QueueLoop:
    """A loop that takes one item in each round: what stands before, in and behind it."""

    before: list[ast.stmt]
    item: ast.expr
    stop: ast.If | None
    """Where it ends for an item that says so."""
    body: list[ast.stmt]
    after: list[ast.stmt]
    cancelled: list[ast.stmt] | None = None
    """What is done where it is cancelled while it waits for an item; None where it ends by itself then."""

    @property
    def remarks(self) -> list[ast.stmt]:
        """What it prints where it begins and ends."""
        stop = [] if self.stop is None else self.stop.body
        return [one for one in (*self.before, *stop, *(self.cancelled or ()), *self.after) if is_print(one)]


def method_of(node: ast.AST, queue: str) -> str | None:
    """The method of a queue that an expression calls, awaited or not."""
    if isinstance(node, ast.Await):
        node = node.value
    match node:
        case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr=attr)) if name == queue:
            return attr
        case ast.Call(func=func, args=[ast.Call() as inner, *_]) if dotted(func) == "asyncio.wait_for":
            return method_of(inner, queue)
        case _:
            return None


def takes_from(function: ast.AST, queue: str) -> bool:
    """Whether a function takes from a queue."""
    return any(method_of(one, queue) in {"get", "get_nowait"} for one in own_nodes(function))


def loop_of(function: ast.AsyncFunctionDef, queue: str) -> QueueLoop | None:
    """The loop of a consumer; None where it takes from the queue in other ways."""
    return loop_in(function.body, queue)


def loop_in(body: Sequence[ast.stmt], queue: str) -> QueueLoop | None:
    """The loop of a block that takes from a queue."""
    for number, one in enumerate(body):
        if not any(method_of(each, queue) in {"get", "get_nowait"} for each in own_nodes(one)):
            continue
        loop, cancelled = one, list[ast.stmt]([placed(ast.Return(None), one)])
        if isinstance(one, ast.Try) and len(one.body) == 1 and not one.orelse and _passes_cancel(one):
            loop = one.body[0]
            cancelled = [_ended(each) for handler in one.handlers for each in handler.body]
        if not isinstance(loop, ast.While) or loop.orelse:
            return None
        found = _taken(loop, queue)
        if found is None:
            return None
        item, rest = found
        is_endless = not isinstance(loop.test, ast.UnaryOp) and _waits_always(loop, queue)
        stop: ast.If | None = None
        if rest and isinstance(rest[0], ast.If) and not rest[0].orelse and _leaves_loop(rest[0].body, queue):
            stop, rest = rest[0], rest[1:]
        if isinstance(loop.test, ast.Compare):  # while (item := await queue.get()) is not None
            stop = _stop_of(loop.test, loop)
        rest = without_done(rest, queue)
        rests = list(body[number + 1 :])
        if any(queue in names_read(each) for each in (*rests, *body[:number])):
            return None
        return QueueLoop(list(body[:number]), item, stop, rest, rests, cancelled if is_endless else None)
    return None


def _waits_always(loop: ast.While, queue: str) -> bool:
    """Whether nothing but an item ends the wait for one."""
    first = loop.test if isinstance(loop.test, ast.Compare) else loop.body[0]
    awaits = [one.value for one in walk(first) if isinstance(one, ast.Await)]
    return not isinstance(first, ast.Try) and any(
        isinstance(one, ast.Call) and isinstance(one.func, ast.Attribute) and one.func.attr == "get"
        for one in awaits
    )


def _ended(one: ast.stmt) -> ast.stmt:
    """What a consumer that is cancelled does, where it is one that only returns."""
    return placed(ast.Return(None), one) if isinstance(one, ast.Raise) else one


def _caught(one: ast.Try) -> set[str]:
    """The errors that are caught, by the last part of their names; one without a name stands for all."""
    return {
        last_name(kind) if kind is not None else ""
        for each in one.handlers
        for kind in (each.type.elts if isinstance(each.type, ast.Tuple) else [each.type])
    }


def _passes_cancel(one: ast.Try) -> bool:
    """Whether a try only passes over the cancellation of the consumer."""
    plain = all(
        isinstance(each, (ast.Pass, ast.Return, ast.Break, ast.Raise)) or is_print(each)
        for handler in one.handlers
        for each in handler.body
    )
    return _caught(one) == {"CancelledError"} and plain and not one.finalbody


def is_print(one: ast.stmt) -> bool:
    """Whether a statement is a remark."""
    return isinstance(one, ast.Expr) and isinstance(one.value, ast.Call) and dotted(one.value.func) == "print"


def _taken(loop: ast.While, queue: str) -> tuple[ast.expr, list[ast.stmt]] | None:
    """The target of the item that each round takes, and the rest of the round."""
    match loop.test:
        case ast.Constant(value=value) if value:
            may_end = True
        case ast.UnaryOp(op=ast.Not(), operand=test) if method_of(test, queue) == "empty":
            may_end = False
        case ast.Compare(left=test, ops=[ast.Gt()], comparators=[ast.Constant(value=0)]) if (
            method_of(test, queue) == "qsize"
        ):
            may_end = False
        case ast.Compare(left=ast.NamedExpr(target=target, value=value), ops=[ast.IsNot() | ast.NotEq()]) if (
            method_of(value, queue) == "get"
        ):
            return target, loop.body
        case _:
            return None
    if not loop.body:
        return None
    first, *rest = loop.body
    if isinstance(first, ast.Try) and len(first.body) == 1 and not first.finalbody and not first.orelse:
        kinds = _caught(first)
        ends = all(_leaves_loop(each.body, queue) for each in first.handlers)
        if not ends or not kinds or not kinds <= _ENDS:
            return None
        first = first.body[0]
    elif may_end and not isinstance(first, (ast.Assign, ast.AnnAssign)):
        return None
    match first:
        case (
            ast.Assign(targets=[target], value=value)
            | ast.AnnAssign(target=target, value=ast.expr() as value)
        ):
            is_item = isinstance(target, (ast.Name, ast.Tuple))
            return (target, rest) if is_item and method_of(value, queue) in {"get", "get_nowait"} else None
        case _:
            return None


def _leaves_loop(body: Sequence[ast.stmt], queue: str) -> bool:
    """Whether a block only ends the loop of a consumer."""
    *before, last = body
    is_end = isinstance(last, ast.Break) or (isinstance(last, ast.Return) and last.value is None)
    marks = (isinstance(one, ast.Expr) and method_of(one.value, queue) == "task_done" for one in before)
    prints = (is_print(one) for one in before)
    return is_end and all(mark or told for mark, told in zip(marks, prints, strict=True))


def _stop_of(test: ast.Compare, place: ast.AST) -> ast.If:
    left = cast("ast.NamedExpr", test.left).target
    how: ast.cmpop = ast.Is() if isinstance(test.ops[0], ast.IsNot) else ast.Eq()
    again = ast.Compare(ast.Name(left.id, ast.Load()), [how], test.comparators)
    return placed(ast.If(again, [ast.Break()], []), place)


class _WithoutDone(ast.NodeTransformer):
    """Leaves out where a consumer says that an item is done."""

    def __init__(self, queue: str) -> None:
        self.queue = queue

    def visit_Expr(self, node: ast.Expr) -> Any:
        """A statement of one expression."""
        return None if method_of(node.value, self.queue) == "task_done" else node

    def visit_Try(self, node: ast.Try) -> Any:
        """A block with handlers, or with a last part that only said so."""
        self.generic_visit(node)
        return node if node.finalbody or node.handlers else [*node.body, *node.orelse]

    def generic_visit(self, node: ast.AST) -> Any:
        """A node, whose block is not left empty."""
        super().generic_visit(node)
        if getattr(node, "body", None) == []:
            vars(node)["body"] = [placed(ast.Pass(), node)]
        return node


def without_done(body: Sequence[ast.stmt], queue: str) -> list[ast.stmt]:
    """A block without what it tells the queue of items that are done."""
    made: list[ast.stmt] = []
    for one in body:
        found: Any = _WithoutDone(queue).visit(one)
        if found is not None:
            made += cast("list[ast.stmt]", found) if isinstance(found, list) else [found]
    return made


def over_list(loop: QueueLoop, queue: str, how: str, *, is_task: bool = False) -> list[ast.stmt]:
    """The body of the single consumer of a queue that is a list: it takes from it until it is empty.

    `is_task` says that it is cancelled where it would wait for ever.
    """
    place = loop.item
    taken = parsed(f"{queue}.pop({'' if how == 'LifoQueue' else '0'})", place)
    body: list[ast.stmt] = [placed(ast.Assign([loop.item], taken), place)]
    if loop.stop is not None:
        inner = [one for one in loop.stop.body if isinstance(one, (ast.Break, ast.Return)) or is_print(one)]
        body.append(placed(ast.If(loop.stop.test, inner, []), loop.stop))
    end = loop.cancelled if loop.cancelled is not None and is_task else None
    is_told = end is not None and (bool(loop.after) or any(map(is_print, end)))
    ends = [one for one in end or () if not isinstance(one, (ast.Pass, ast.Break))] if is_told else []
    again = ast.While(ast.Name(queue, ast.Load()), [*body, *loop.body], ends)
    return [*loop.before, placed(again, place), *loop.after]


class _OneItem(ast.NodeTransformer):
    """Writes the round of a loop as the body of a function: to go on is to return."""

    def __init__(self, dropped: set[str]) -> None:
        self.dropped = dropped

    def visit_Continue(self, node: ast.Continue) -> ast.AST:
        """The end of a round."""
        return ast.copy_location(ast.Return(None), node)

    def visit_Name(self, node: ast.Name) -> ast.AST:
        """A name, of which those of workers stand in remarks alone."""
        return ast.copy_location(ast.Constant("worker"), node) if node.id in self.dropped else node

    def _inner_loop(self, node: ast.For | ast.AsyncFor | ast.While) -> ast.AST:
        held, behind = _OneItem(self.dropped), node.orelse
        held.visit_Continue = lambda node: node  # type: ignore[method-assign]
        node.orelse = []
        held.generic_visit(node)
        node.orelse = [cast("ast.stmt", self.visit(one)) for one in behind]
        return node

    visit_For = visit_AsyncFor = visit_While = _inner_loop


def of_one_item(
    function: ast.AsyncFunctionDef, loop: QueueLoop, dropped: set[str], fresh: Fresh
) -> ast.AsyncFunctionDef | None:
    """The function that does with one item what a consumer does; None if consumers keep something apart.

    `dropped` are the parameters that only say which consumer it is.
    """
    if not all(_tells_nothing(one) for one in (*loop.before, *loop.after)):
        return None
    if ends_loop(loop.body) or _reads_apart(loop, dropped):
        return None
    of = function.args
    item = loop.item
    body: list[ast.stmt] = []
    if isinstance(item, ast.Name):
        name = item.id
    else:
        name = fresh("item")
        body.append(placed(ast.Assign([item], ast.Name(name, ast.Load())), item))
    if loop.stop is not None:
        body.append(placed(ast.If(loop.stop.test, [ast.Return(None)], []), loop.stop))
    body[:0] = [one for one in loop.before if isinstance(one, (ast.Nonlocal, ast.Global))]
    made = ast.arguments([], [], None, [], [], None, [])
    made.args = [one for one in (*of.posonlyargs, *of.args, *of.kwonlyargs) if one.arg not in dropped]
    made.args.append(placed(ast.arg(name), item))
    writer = _OneItem(dropped)
    body += [cast("ast.stmt", writer.visit(one)) for one in loop.body]
    again = ast.AsyncFunctionDef(fresh(function.name), made, body or [ast.Pass()], [], None)
    vars(again)["type_params"] = []
    return placed(again, function)


def _tells_nothing(one: ast.stmt) -> bool:
    is_text = isinstance(one, ast.Expr) and isinstance(one.value, ast.Constant)
    is_end = isinstance(one, (ast.Return, ast.Nonlocal, ast.Global)) and getattr(one, "value", None) is None
    return is_text or is_end or is_print(one)


def prints_in(body: Sequence[ast.stmt]) -> list[ast.stmt]:
    """The remarks in a block."""
    return [part for one in body for part in walk(one) if isinstance(part, ast.stmt) and is_print(part)]


def _reads_apart(loop: QueueLoop, dropped: set[str]) -> bool:
    """Whether a round reads which consumer it is, other than for a remark."""
    told = {id(each) for part in prints_in(loop.body) for each in walk(part)}
    return any(
        isinstance(each, ast.Name) and each.id in dropped and id(each) not in told
        for one in loop.body
        for each in walk(one)
    )


def may_end_worker(loop: QueueLoop) -> bool:
    """Whether a failure would end a consumer: not all that may fail stands where errors are caught."""
    return any(_fails(one, caught=False) for one in loop.body)


def _fails(one: ast.stmt, *, caught: bool) -> bool:
    """Whether a statement may fail; `caught` says that errors of tools are caught around it."""
    if isinstance(one, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        return False
    if isinstance(one, ast.Try):
        kinds = _caught(one)
        rest = any(_fails(each, caught=caught) for each in rest_of(one))
        if kinds & {"", "Exception", "BaseException"}:
            return rest
        caught = caught or "ToolError" in kinds
        return rest or any(_fails(each, caught=caught) for each in one.body)
    blocks = list(blocks_in(one))
    inner = {id(each) for block in blocks for stmt in block for each in walk(stmt)}
    own = [each for each in own_nodes(one) if id(each) not in inner]
    if any(_may_raise(each) or (isinstance(each, ast.Await) and not caught) for each in own):
        return True
    return any(_fails(each, caught=caught) for block in blocks for each in block)


def _may_raise(node: ast.AST) -> bool:
    """Whether pure code fails by what it is written for: it raises, asserts, divides, or reads a number."""
    match node:
        case ast.Raise() | ast.Assert():
            return True
        case ast.BinOp(op=ast.Div() | ast.FloorDiv() | ast.Mod(), left=left, right=right):
            is_known = isinstance(right, ast.Constant) and bool(right.value)
            return not is_known and not (isinstance(left, ast.Constant) and isinstance(left.value, str))
        case ast.Call(func=ast.Name(id="int" | "float")):
            return True
        case _:
            return False


def rest_of(one: ast.Try) -> list[ast.stmt]:
    """What follows the body of a try."""
    return [*(each for handler in one.handlers for each in handler.body), *one.orelse, *one.finalbody]
