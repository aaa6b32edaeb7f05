"""What programs say of tasks: how they start, are waited for, asked and cancelled.

In: nodes of a tree, which stay as they are.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Final

from callsheet.frontends.python.source import Refused, among, dotted, last_name, own_nodes, waits, walk

STARTS: Final = frozenset({"create_task", "ensure_future"})
RUNNERS: Final = STARTS | {"gather", "as_completed", "wait", "wait_for", "shield"}
"""The functions that run others, and after whose failure a program may go on."""
_AROUND: Final = frozenset({"asyncio.wait_for", "asyncio.shield"})
QUESTIONS: Final = frozenset({"result", "exception", "done", "cancelled", "get_name"})
"""What a task is asked, by methods without arguments."""


class UnknownTasks(Exception):
    """What a function does with its tasks cannot be said with numbers."""


def task_of(node: ast.AST | None) -> ast.expr | None:
    """What an expression makes a task of, by whatever loop or group; None if it makes none.

    >>> ast.unparse(task_of(ast.parse("group.create_task(f(x), name='a')", mode="eval").body))
    'f(x)'
    """
    match node:
        case ast.Call(func=func, args=[given, *_]) if last_name(func) in STARTS:
            return given
        case _:
            return None


def started(node: ast.AST) -> ast.Call | None:
    """The call of which an expression makes a task that belongs to no group."""
    call = task_of(node)
    if not (isinstance(node, ast.Call) and isinstance(call, ast.Call)):
        return None
    return call if (dotted(node.func) or "").rpartition(".")[0] in {"asyncio", "loop"} else None


def takes(node: ast.AST) -> bool:
    """Whether a tree takes the result of a task."""
    return any(isinstance(one, ast.Await) for one in walk(node))


def part_of(call: ast.Call, path: Sequence[int | str]) -> ast.expr:
    """An argument of a call, or of a call in it, by its places and names."""
    first, *rest = path
    named = {word.arg: word.value for word in call.keywords}
    part = call.args[first] if isinstance(first, int) else named[first]
    return part_of(part, rest) if rest and isinstance(part, ast.Call) else part


def is_around(call: ast.Call) -> bool:
    """Whether a call stands around one that it waits for."""
    return dotted(call.func) in _AROUND and bool(call.args)


def is_task(node: ast.expr) -> bool:
    """Whether an argument of gather is a task, or several, and no call."""
    if isinstance(node, ast.Starred):
        many = node.value
        if isinstance(many, ast.Call):
            return isinstance(many.func, ast.Attribute) and many.func.attr in {"values", "keys", "copy"}
        return isinstance(many, (ast.Name, ast.Subscript, ast.Attribute))
    return isinstance(node, (ast.Name, ast.Subscript))


def question_of(node: ast.AST) -> str | None:
    """What an expression asks a task."""
    match node:
        case ast.Call(func=ast.Attribute(attr=attr), args=[], keywords=[]) if attr in QUESTIONS:
            return attr
        case _:
            return None


def is_cancelling(node: ast.AST) -> bool:
    """Whether an expression cancels a task."""
    match node:
        case ast.Call(func=ast.Attribute(attr="cancel"), args=[]):
            return True
        case _:
            return False


def task_cancelled(one: ast.stmt) -> str | None:
    """The name of the task that a statement cancels, if it does nothing else."""
    match one:
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr="cancel"), args=[])):
            return name
        case _:
            return None


def only_cancels(one: ast.stmt) -> bool:
    """Whether a statement only cancels tasks, which by then are done or stopped."""
    match one:
        case ast.Expr(value=value) if is_cancelling(value):
            return True
        case ast.Expr(value=ast.ListComp(elt=value)) if is_cancelling(value):
            return True
        case ast.For(iter=source, body=body, orelse=[]) if not waits(source):
            return all(map(only_cancels, body))
        case ast.If(test=test, body=body, orelse=[]) if not waits(test):
            return all(map(only_cancels, body))
        case _:
            return False


def cancelled_late(node: ast.AST) -> Refused:
    """The refusal (PYT026) of what cancels a task that may be under way, and in a plan has ended."""
    of = next((one.id for one in among(walk(node), ast.Name)), "a task")
    return Refused(
        "PYT026",
        node,
        f"{of} is cancelled, and a plan runs a task to its end where it is started",
        "put asyncio.timeout(…) around the calls, or wait for the first of several tasks with"
        " asyncio.wait(…, return_when=asyncio.FIRST_COMPLETED) and cancel the others",
    )


def cancelled_in_vain(node: ast.AST) -> Refused:
    """The warning (PYT106) for what cancels tasks behind a failure of one: in a plan all have ended."""
    return Refused(
        "PYT106",
        node,
        "the tasks have ended here, also those that go on behind a failure in Python: this stops none",
        "start the tasks in front of the try, and let it await asyncio.gather(*tasks) once: then the first"
        " failure stops the others",
    )


def is_discarding(one: ast.stmt) -> bool:
    """Whether a statement lets a task leave a set when it is done, which holds it only to keep it alive."""
    match one:
        case ast.Expr(
            value=ast.Call(
                func=ast.Attribute(attr="add_done_callback"), args=[ast.Attribute(attr="discard" | "remove")]
            )
        ):
            return True
        case _:
            return False


def waits_for(body: Sequence[ast.stmt], many: ast.expr) -> bool:
    """Whether a block waits for tasks of which a test asks whether there are any."""
    return isinstance(many, ast.Name) and any(
        dotted(each.func) == "asyncio.wait" and ast.dump(each.args[0]) == ast.dump(many)
        for one in body
        for each in own_nodes(one)
        if isinstance(each, ast.Call) and each.args
    )


def flushes(node: ast.AST, *, is_single: bool) -> bool:
    """Whether an await waits for tasks; `is_single` says that there is one alone."""
    if not isinstance(node, ast.Await):
        return False
    waited = node.value
    if not isinstance(waited, ast.Call):
        return True
    name = dotted(waited.func)
    if name == "asyncio.wait":
        return True
    if name in {"asyncio.gather", "gather"}:
        return bool(waited.args) and all(is_task(one) for one in waited.args)
    if name == "asyncio.wait_for":  # nothing else runs beside it
        return (
            isinstance(waited.args[0], ast.Name)
            and len(waited.args) + len(waited.keywords) == 2
            and is_single
        )
    return isinstance(waited.func, ast.Attribute) and waited.func.attr in {"pop", "popleft"}


def completed(node: ast.expr) -> ast.expr | None:
    """The tasks that `as_completed` goes through."""
    match node:
        case ast.Call(func=func, args=[many], keywords=[]) if dotted(func) == "asyncio.as_completed":
            return many
        case _:
            return None
