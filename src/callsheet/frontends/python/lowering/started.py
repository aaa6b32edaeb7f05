"""Tasks that are kept in variables and containers: they run where they are started, to their end.

That is one of CPython's possible runs: nothing says how long a task takes. Its result is the value of the
task; an error that it ended in is kept as one, and raised where the task is awaited. Where calls are started
and awaited in one place, `tasks` lets them run side by side, and nothing here is needed.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from functools import cached_property
from typing import Final, cast

from callsheet.frontends.python import core
from callsheet.frontends.python.error_values import is_marked
from callsheet.frontends.python.lowering.groups import Groups
from callsheet.frontends.python.rewrites.task_words import cancelled_in_vain, cancelled_late
from callsheet.frontends.python.source import Refused, dotted, names_bound, names_read, walk
from callsheet.frontends.python.syntax import assigned, call_of, name_of, none, parsed, statement_of

_CONSUMERS: Final = frozenset(
    {"sorted", "list", "tuple", "set", "dict", "sum", "max", "min", "join", "extend"}
)
_ASKED: Final = frozenset({"result", "done", "cancelled", "cancel"})
"""What a task that has run is asked."""
_OF_TASKS: Final = frozenset({"asyncio.wait_for", "asyncio.shield"})


class Started(Groups):
    """The part of a translator that starts tasks and takes their results."""

    def with_started(self, node: ast.stmt) -> ast.stmt:
        """A statement in which starting a task is an await of its own."""
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call) and self.starts_task(node.value):
            group = node.value.func
            in_group = isinstance(group, ast.Attribute) and dotted(group.value) in self.groups
            if not in_group:
                raise Refused(
                    "PYT007",
                    node,
                    "the task that is started here is never awaited: it may end before anything happens",
                    "await it: task = asyncio.create_task(f(x)), and later await task",
                )
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call) and self.starts_task(node.value):
            names = names_bound(node)
            if not names & self.read_somewhere:
                raise Refused(
                    "PYT007",
                    node,
                    "the task that is started here is never awaited: it may end before anything happens",
                    f"await it later: await {min(names, default='task')}",
                )
        return cast("ast.stmt", _Starts(self).visit(node))

    @cached_property
    def read_somewhere(self) -> frozenset[str]:
        """The names that the function reads, before any of its statements is translated."""
        return frozenset(names_read(*self.function.body))

    def _is_start(self, node: ast.expr) -> bool:
        return isinstance(node, ast.Call) and self.starts_task(node)

    @cached_property
    def task_names(self) -> frozenset[str]:
        """The variables that are given a task where it is started."""
        given = [node for one in self.function.body for node in walk(one) if isinstance(node, ast.Assign)]
        started = [one for one in given if starts(one.value) or self._is_start(one.value)]
        return frozenset(name for one in started for name in names_bound(one))

    def start(self, call: ast.Call, node: ast.AST, out: core.Block) -> ast.expr:
        """Run a task where it is started; its value, in which an error of it is kept."""
        group = call.func
        in_group = isinstance(group, ast.Attribute) and dotted(group.value) in self.groups
        inner: ast.expr = call
        while isinstance(inner, ast.Call) and self.starts_task(inner) and inner.args:
            inner = inner.args[0]
        name = self.new_name(self.stem(inner))
        member = self.member(inner, out, name)
        for one in core.all_of([member]):
            if isinstance(one, core.Call):
                one.is_started = True
        self.awaits += 1
        self.alone.append(node)
        if isinstance(member, core.Wait):
            out.append(member)
            return name_of(name, node)
        out.append(self.safe(member, name, node))
        if in_group and isinstance(group, ast.Attribute):
            errors = self.groups[dotted(group.value) or ""]
            kept = statement_of(parsed(f"{errors}.append({name})", node))
            out.append(core.Choice(is_marked(name_of(name, node)), [core.Pure(kept)], [], node))
        return name_of(name, node)

    def take(self, task: ast.expr, node: ast.AST, out: core.Block, into: str | None) -> ast.expr:
        """The result of a task that has run, or its error again."""
        if isinstance(task, ast.Call) and not _is_taken(task):
            raise Refused("PYT020", node, "this is no task", "await a call, or a task in a variable")
        held = self.spilled(task, out)
        if not isinstance(held, ast.Name):
            return held
        self.raised_again(held, node, out)
        return self.result(ast.copy_location(held, node), out, into)

    def take_all(
        self, tasks: Sequence[ast.expr], node: ast.AST, out: core.Block, into: str | None, *, keeps: bool
    ) -> ast.expr:
        """The results of tasks that have run, or the first error among them."""
        listed = ast.List(list(tasks), ast.Load())
        made: ast.expr = ast.fix_missing_locations(ast.copy_location(listed, node))
        if len(tasks) == 1 and isinstance(tasks[0], ast.Starred):
            made = ast.copy_location(call_of("list", tasks[0].value), node)
        name = into or self.new_name("results")
        self.bound.add(name)
        out.append(assigned(name, self.value(made, out), node))
        if not keeps:
            one = self.new_name("one")
            test = ast.fix_missing_locations(ast.copy_location(is_marked(name_of(one, node)), node))
            body: core.Block = [core.Choice(test, [core.Fail(None, None, node, one)], [], node)]
            out.append(core.Loop(one, name_of(name, node), body, node))
        return none(node) if into is None else name_of(name, node)

    def of_tasks(self, node: ast.Await, out: core.Block, into: str | None) -> ast.expr | None:
        """What an await of tasks gives; None if it awaits a call."""
        waited = node.value
        if not isinstance(waited, ast.Call) or _is_taken(waited):
            return self.take(waited, node, out, into)
        resolved = self.program.resolved(waited.func) or ""
        if resolved == "asyncio.wait_for" and waited.args and self._is_shielded(waited.args[0]):
            raise self.late_timeout(waited)
        if resolved in _OF_TASKS and waited.args and not isinstance(waited.args[0], ast.Call):
            if resolved == "asyncio.wait_for":
                raise self.late_timeout(waited)
            return self.take(waited.args[0], node, out, into)
        if resolved == "asyncio.wait" and waited.args:
            if any(word.arg == "timeout" for word in waited.keywords):
                raise self.late_timeout(waited)
            until = next((word.value for word in waited.keywords if word.arg == "return_when"), None)
            when = "ALL_COMPLETED" if until is None else (self.program.resolved(until) or "")
            if not when.endswith("ALL_COMPLETED"):
                raise self._waits_for_first(waited, when)
            done = call_of("list", self.value(waited.args[0], out))
            pair = ast.Tuple([done, ast.List([], ast.Load())], ast.Load())
            return self.result(ast.fix_missing_locations(ast.copy_location(pair, node)), out, into)
        if resolved == "asyncio.gather" and waited.args and all(map(self._is_task, waited.args)):
            keeps = any(
                word.arg == "return_exceptions" and getattr(word.value, "value", None) is True
                for word in waited.keywords
            )
            return self.take_all(waited.args, node, out, into, keeps=keeps)
        return None

    def _is_shielded(self, node: ast.expr) -> bool:
        """Whether a task goes on though what waits for it is stopped."""
        match node:
            case ast.Call(func=func, args=[task]):
                return self.program.resolved(func) == "asyncio.shield" and not self._is_start(task)
            case _:
                return False

    def _waits_for_first(self, waited: ast.Call, when: str) -> Refused:
        """Why the first of tasks that have run to their end is not known."""
        nodes = (one for part in self.function.body for one in walk(part))
        if not any(isinstance(one, ast.Attribute) and one.attr == "cancel" for one in nodes):
            return Refused(
                "PYT106",
                waited,
                "the first of these tasks is waited for, and the others go on behind it",
                "cancel the others right behind it: for task in pending: task.cancel(); or go through"
                " asyncio.as_completed(…), which gives what ends first before the others",
            )
        if when.endswith("FIRST_EXCEPTION"):
            return Refused(
                "PYT026",
                waited,
                "the first of these tasks that fails stops the others, but tasks run to their end where they"
                " are started",
                "write async with asyncio.TaskGroup() as group, and group.create_task(…) for each: the first"
                " failure stops the others",
            )
        return Refused(
            "PYT026",
            waited,
            "the first of these tasks stops the others, but not all at once, or it is not known which",
            "start the tasks in the block of the wait: tasks = [asyncio.create_task(f(x)) for x in xs];"
            " right behind it write for task in pending: task.cancel(), then ask done.pop().result()",
        )

    def _is_task(self, node: ast.expr) -> bool:
        """Whether an argument of gather is a task, or several, and no call."""
        if isinstance(node, ast.Starred):
            many = node.value
            if isinstance(many, (ast.ListComp, ast.GeneratorExp)):
                return not isinstance(many.elt, (ast.Call, ast.Await))
            if isinstance(many, ast.Name) and (many.id in self.held or many.id in self.listed):
                return False
            if isinstance(many, ast.Call):
                return isinstance(many.func, ast.Attribute) and many.func.attr in {"values", "copy"}
            return isinstance(many, (ast.Name, ast.Subscript, ast.Attribute))
        return isinstance(node, (ast.Name, ast.Subscript)) and not (
            isinstance(node, ast.Name) and node.id in self.held
        )


def _is_taken(node: ast.Call) -> bool:
    """Whether a call takes one of several tasks: `done.pop()`, `next(iter(done))`."""
    if isinstance(node.func, ast.Attribute):
        return node.func.attr in {"pop", "popleft"}
    return isinstance(node.func, ast.Name) and node.func.id == "next"


def _no_key(task: ast.expr) -> Refused:
    return Refused(
        "PYT026",
        task,
        "a task cannot be a key: a plan keeps its result, and two results may be equal",
        "keep the tasks under what they are for: {name: asyncio.create_task(…)}",
    )


class _Starts(ast.NodeTransformer):
    """Puts an await around each call that starts a task."""

    def __init__(self, of: Started) -> None:
        self.of = of
        self.consumed: set[ast.AST] = set()
        """Generators of which all items are taken."""
        self.behind = 0
        """How many handlers and `finally` blocks stand around."""

    def visit_ExceptHandler(self, node: ast.ExceptHandler) -> ast.AST:
        """What follows a failure."""
        self.behind += 1
        made = self.generic_visit(node)
        self.behind -= 1
        return made

    def visit_Try(self, node: ast.Try) -> ast.AST:
        """A `try`, whose end may follow a failure."""
        final, node.finalbody = node.finalbody, []
        made = self.generic_visit(node)
        self.behind += 1
        node.finalbody = [cast("ast.stmt", self.visit(one)) for one in final]
        self.behind -= 1
        return made

    def visit_Call(self, node: ast.Call) -> ast.AST:
        """A call."""
        function = node.func.attr if isinstance(node.func, ast.Attribute) else dotted(node.func)
        if function in _CONSUMERS:
            self.consumed.update(one for one in node.args if not any(map(self._is_start, ast.walk(one))))
        match node:
            case ast.Call(func=ast.Attribute(attr="add"), args=[task]) if self._is_task(task):
                raise Refused(
                    "PYT026",
                    node,
                    "a set of tasks would be one of their results, of which two may be equal",
                    "keep them in a list: tasks = [], and tasks.append(…)",
                )
            case _:
                pass
        match node:
            case ast.Call(func=ast.Attribute(value=task, attr=attr), args=[], keywords=[]):
                if attr in _ASKED and not self.of.has_method(attr):
                    return ast.copy_location(self._asked(cast("ast.expr", self.visit(task)), attr), node)
            case _:
                pass
        if self.of.starts_task(node) and node.args:
            made = ast.copy_location(ast.Await(node), node)
            vars(made)["is_task"] = True
            return made
        return self.generic_visit(node)

    def _asked(self, task: ast.expr, what: str) -> ast.expr:
        """What a task that has run tells: its result, that it is done, and cannot be cancelled any more."""
        if what == "result":
            return ast.Await(task)
        if what == "cancel":
            is_own = isinstance(task, ast.Name) and task.id in self.of.task_names
            if is_own or not self.behind:
                raise cancelled_late(task)
            self.of.program.warnings.append(cancelled_in_vain(task))
        return ast.Constant(what == "done")

    def visit_Await(self, node: ast.Await) -> ast.AST:
        """An await, of a task that is started in it or of another one."""
        if isinstance(node.value, ast.Call):
            if self.of.starts_task(node.value):
                return node
            resolved = self.of.program.resolved(node.value.func) or ""
            if resolved == "asyncio.wait":
                node.value.args = [cast("ast.expr", self.visit(one)) for one in node.value.args]
                return node
            if resolved.startswith("asyncio."):
                for number, one in enumerate(node.value.args):
                    if isinstance(one, ast.Starred):
                        node.value.args[number] = cast("ast.expr", self.generic_visit(one))
                return node
        return self.generic_visit(node)

    def visit_GeneratorExp(self, node: ast.GeneratorExp) -> ast.AST:
        """A generator; one that asks tasks for results is made a list, whose items are all computed."""
        made = cast("ast.GeneratorExp", self.generic_visit(node))
        if node in self.consumed and any(isinstance(one, ast.Await) for one in ast.walk(made)):
            return ast.copy_location(ast.ListComp(made.elt, made.generators), made)
        return made

    def visit_SetComp(self, node: ast.SetComp) -> ast.AST:
        """A set, which for tasks is a list: no two tasks are equal, though their results may be."""
        if not self._is_task(node.elt):
            return self.generic_visit(node)
        return self.generic_visit(ast.copy_location(ast.ListComp(node.elt, node.generators), node))

    def visit_Set(self, node: ast.Set) -> ast.AST:
        """A set that is written out, as one that is computed."""
        if not any(map(self._is_task, node.elts)):
            return self.generic_visit(node)
        return self.generic_visit(ast.copy_location(ast.List(node.elts, ast.Load()), node))

    def visit_DictComp(self, node: ast.DictComp) -> ast.AST:
        """A dict, whose keys may not be tasks."""
        if self._is_task(node.key):
            raise _no_key(node.key)
        return self.generic_visit(node)

    def visit_Dict(self, node: ast.Dict) -> ast.AST:
        """A dict that is written out, as one that is computed."""
        for one in node.keys:
            if one is not None and self._is_task(one):
                raise _no_key(one)
        return self.generic_visit(node)

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        """An item that is set, under a key which may not be a task."""
        if isinstance(node.ctx, ast.Store) and self._is_task(node.slice):
            raise _no_key(node.slice)
        return self.generic_visit(node)

    def _is_start(self, node: ast.AST) -> bool:
        return isinstance(node, ast.Call) and self.of.starts_task(node)

    def _is_task(self, node: ast.expr) -> bool:
        if isinstance(node, ast.Name):
            return node.id in self.of.task_names
        return starts(node) or self._is_start(node)

    def _apart(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> ast.AST:
        return node

    visit_FunctionDef = visit_AsyncFunctionDef = _apart


def starts(node: ast.AST) -> bool:
    """Whether an await is one of a task that is started."""
    return isinstance(node, ast.Await) and bool(vars(node).get("is_task"))


def only_starts(node: ast.AST) -> bool:
    """Whether all awaits in a tree start tasks, so that they may run side by side."""
    found = [one for one in ast.walk(node) if isinstance(one, ast.Await)]
    return bool(found) and all(map(starts, found))
