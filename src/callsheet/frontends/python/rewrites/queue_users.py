"""Which functions use a queue, under which name, and what they put into it as what they append to a list.

In: the function that makes the queue. Raises `UnknownQueue` for uses that are not understood.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, cast

from callsheet.frontends.python.rewrites.inlining import Fresh
from callsheet.frontends.python.rewrites.known_numbers import KnownNumbers
from callsheet.frontends.python.rewrites.queue_loops import method_of
from callsheet.frontends.python.source import Nodes, Refused, among, dotted, names_read, own_nodes, walk
from callsheet.frontends.python.syntax import parsed_lines, placed

QUEUES: Final = frozenset({"Queue", "LifoQueue", "PriorityQueue"})
_OF_LISTS: Final = frozenset({"append", "pop", "sort", "clear", "reverse"})


class UnknownQueue(Exception):
    """What a function does with its queue cannot be said with a list."""


def is_queue(func: ast.expr) -> bool:
    """Whether what is called makes a queue."""
    base = func.value if isinstance(func, ast.Subscript) else func
    owner, _, kind = (dotted(base) or "").rpartition(".")
    return kind in QUEUES and owner in {"", "asyncio"}


def _compares_apart(node: ast.AST) -> bool:
    """Whether objects of a class may be equal in order, and differ."""
    match node:
        case ast.keyword(arg="compare", value=ast.Constant(value=False)):
            return True
        case ast.FunctionDef(name="__lt__"):
            return True
        case _:
            return False


def queue_made(node: ast.AST) -> tuple[str, str]:
    """The variable that is set to a queue, and of which kind it is."""
    match node:
        case (
            ast.Assign(targets=[ast.Name(id=name)], value=ast.Call(func=func))
            | ast.AnnAssign(target=ast.Name(id=name), value=ast.Call(func=func))
        ):
            base = func.value if isinstance(func, ast.Subscript) else func
            return (name, (dotted(base) or "").rpartition(".")[2]) if is_queue(func) else ("", "")
        case _:
            return "", ""


@dataclass(slots=True)
class Pool:
    """Consumers that are started together: their calls, how many there are, and the names of their tasks."""

    calls: list[ast.Call]
    count: int
    varying: set[str]
    names: set[str] = field(default_factory=set[str])
    is_single: bool = False


class QueueUsers:
    """One queue of one function, and the functions that use it."""

    def __init__(
        self,
        module: ast.Module,
        nodes: Nodes,
        function: ast.AsyncFunctionDef,
        name: str,
        kind: str,
        fresh: Fresh,
    ) -> None:
        self.module, self.nodes, self.function = module, nodes, function
        self.name, self.kind, self.fresh = name, kind, fresh
        self.numbers = KnownNumbers(module, nodes)
        self.queues = {queue_made(one)[0] for one in own_nodes(function)} - {""}
        """The queues that the function makes, of which some are lists by now."""
        self.functions = {one.name: one for one in nodes if isinstance(one, ast.AsyncFunctionDef)}
        self.users: dict[str, tuple[ast.AsyncFunctionDef, str]] = {}
        self.pending: list[Pool] = []
        self.known: dict[str, Pool] = {}
        self.joined = self.has_run = False
        self.loops = self.made_at = 0
        """In how many loops a statement stands, and the one that makes the queue."""
        self.consumers: set[str] = set()
        self.marks: set[str] = set()
        """The items that end the consumers which have run, as texts of their trees."""
        self.made: list[tuple[ast.AsyncFunctionDef, ast.stmt]] = []
        self.limits: list[ast.stmt] = []
        self.bodies: dict[str, list[ast.stmt]] = {}
        self.warned: list[Refused] = []
        self.is_mixed = False

    def asks(self, body: Sequence[ast.stmt], queue: str) -> bool:
        """Whether a block asks a queue what a list does not tell."""
        return any(
            (method_of(one, queue) or "append") not in _OF_LISTS
            for part in body
            if not (isinstance(part, ast.AsyncFunctionDef) and part.name in self.users)
            for one in walk(part)
        )

    def mark(self, value: ast.expr, function: ast.AsyncFunctionDef) -> str:
        """The tree of an item, which is that of a constant where a name has one."""
        made = self.numbers.set_to(value.id, function) if isinstance(value, ast.Name) else None
        return ast.dump(made if isinstance(made, ast.Constant) else value)

    def find_users(self) -> None:
        """The functions that use the queue, each with its name for it."""
        stores = [
            one
            for one in among(own_nodes(self.function), ast.Name)
            if one.id == self.name and isinstance(one.ctx, ast.Store)
        ]
        if len(stores) != 1:
            raise UnknownQueue
        functions = self.functions
        for one in own_nodes(self.function):
            if isinstance(one, ast.AsyncFunctionDef) and self.name in names_read(one):
                self.users[one.name] = one, self.name
            elif isinstance(one, (ast.FunctionDef, ast.Lambda)) and self.name in names_read(one):
                raise UnknownQueue
        for call in among(walk(self.function), ast.Call):
            given = [*call.args, *(word.value for word in call.keywords)]
            if not any(isinstance(one, ast.Name) and one.id == self.name for one in given):
                continue
            called = call.func.id if isinstance(call.func, ast.Name) else ""
            if called not in functions:
                raise UnknownQueue
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
                raise UnknownQueue
            self.users[called] = user, found[0]
        inside = {id(each) for each in walk(self.function)}
        for name, (one, queue) in self.users.items():
            own = {id(each) for each in own_nodes(one)}
            uses = [each for each in among(walk(one), ast.Name) if each.id == queue]
            methods = {
                id(each.func.value)
                for each in among(walk(one), ast.Call)
                if isinstance(each.func, ast.Attribute)
            }
            if any(id(each) not in own or id(each) not in methods for each in uses):
                raise UnknownQueue
            elsewhere = [
                each
                for each in self.nodes
                if isinstance(each, ast.Call)
                and isinstance(each.func, ast.Name)
                and each.func.id == name
                and id(each) not in inside
            ]
            if elsewhere:
                raise UnknownQueue

    def check_made(self) -> None:
        """Tell of a queue that may be full, and of jobs that are equal and not the same."""
        (made,) = [one for one in own_nodes(self.function) if queue_made(one)[0] == self.name]
        call = cast("ast.Call", cast("ast.Assign", made).value)
        bounds = [*call.args, *(word.value for word in call.keywords)]
        is_bound = any(not (isinstance(one, ast.Constant) and one.value == 0) for one in bounds)
        named = [(self.function, self.name), *self.users.values()]
        if is_bound and any(
            method_of(each, name) == "put_nowait" for user, name in named for each in walk(user)
        ):
            self.warn(
                made,
                f"{self.name} has room for all; in Python, put_nowait may raise QueueFull",
                f"leave its maxsize out, or write await {self.name}.put(…)",
            )
        if self.kind == "PriorityQueue" and any(_compares_apart(one) for one in self.nodes):
            self.warn(
                made,
                "jobs that are equal and not the same are taken in the order in which they were put",
                "put (priority, number, job), with a number that counts them",
            )

    def block_of(self, function: ast.AsyncFunctionDef, queue: str) -> list[ast.stmt]:
        """The body of a function that only puts something into the queue."""
        body = [Puts(queue).visit(one) for one in copy.deepcopy(function.body)]
        if self.asks(body, queue):
            raise UnknownQueue
        return body

    def sorted_first(self, place: ast.AST) -> list[ast.stmt]:
        """What brings the items into the order in which they are taken."""
        return parsed_lines([f"{self.name}.sort()"], place) if self.kind == "PriorityQueue" else []

    def mixes(self, place: ast.AST) -> None:
        """Note that all is put into the queue before anything is taken."""
        if self.is_mixed:
            return
        self.is_mixed = True
        self.warn(
            place,
            "all that is put into the queue is put there before anything is taken from it",
            "write for item in items: …, if each item is to be done before the next one is made",
        )

    def warn(self, place: ast.AST, reason: str, repair: str) -> None:
        """Note what workers do in Python, and not in a plan."""
        self.warned.append(Refused("PYT107", place, reason, repair))


class Puts(ast.NodeTransformer):
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
