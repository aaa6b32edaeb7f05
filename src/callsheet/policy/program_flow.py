"""Which inputs of a COMPUTE lead to which of its outputs, and which of them its failures test.

In: Python source. Out: its definitions and uses by name, without regard to order: what depends on a name
depends on everything that any statement puts into it, and on all that decides whether the statement runs.
A source that cannot be read depends on everything.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import lru_cache

_CONVERSIONS = frozenset(
    {"int", "float", "complex", "chr", "ord", "bytes", "range", "next", "dict", "min", "max"}
)
_CONVERTING = frozenset(
    {
        "index",
        "remove",
        "pop",
        "popitem",
        "strptime",
        "fromisoformat",
        "loads",
        "group",
        "encode",
        "decode",
        "rindex",
    }
)
_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)


@dataclass(slots=True)
class ProgramFlow:
    """The names that each name is made of, and the names that tests of content read.

    Without `is_read` the source is no Python, and everything depends on everything.
    """

    sources: dict[str, set[str]] = field(default_factory=dict[str, set[str]])
    read_by_tests: set[str] = field(default_factory=set[str])
    tests_content: bool = False
    is_read: bool = True

    def inputs_of(self, name: str, given: Iterable[str]) -> frozenset[str]:
        """Those of the given names that a name depends on."""
        return frozenset(given) & self._all_before({name}) if self.is_read else frozenset(given)

    @property
    def tested(self) -> _Tested:
        """The names that decide whether the program fails by a test of content."""
        return _Tested(self._all_before(self.read_by_tests), everything=not self.is_read)

    def _all_before(self, names: Iterable[str]) -> frozenset[str]:
        seen = set(names)
        waiting = list(seen)
        while waiting:
            for one in self.sources.get(waiting.pop(), ()):
                if one not in seen:
                    seen.add(one)
                    waiting.append(one)
        return frozenset(seen)


@dataclass(frozen=True, slots=True)
class _Tested:
    names: frozenset[str]
    everything: bool

    def __contains__(self, name: object) -> bool:
        return self.everything or name in self.names


@lru_cache(maxsize=256)
def program_flow(source: str) -> ProgramFlow:
    """The flow of a program.

    >>> flow = program_flow("b = a + 1\\nif c:\\n    d = 2")
    >>> sorted(flow.inputs_of("b", "ac")), sorted(flow.inputs_of("d", "ac")), flow.tests_content
    (['a'], ['c'], False)
    """
    try:
        parsed = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError):
        return ProgramFlow(tests_content=True, is_read=False)
    reader = _Reader()
    try:
        reader.block(parsed.body, frozenset())
    except RecursionError:
        return ProgramFlow(tests_content=True, is_read=False)
    return reader.finished()


class _Reader:
    def __init__(self) -> None:
        self.flow = ProgramFlow()
        self._changed: set[str] = set()

    def finished(self) -> ProgramFlow:
        """The flow; what is changed in place may be known under the names that it was made of, too."""
        for name in self._changed:
            for source in set(self.flow.sources.get(name, ())):
                self._lead({name}, {source})
        return self.flow

    def block(self, statements: Iterable[ast.stmt], control: frozenset[str]) -> None:
        """Add what statements do that `control` decides about."""
        for statement in statements:
            self._statement(statement, control)

    def _lead(self, sources: Iterable[str], targets: Iterable[str]) -> None:
        sources = set(sources)
        for target in targets:
            self.flow.sources.setdefault(target, set()).update(sources)

    def _statement(self, statement: ast.stmt, control: frozenset[str]) -> None:
        self._tests(statement, control)
        reads = _read(statement) | control
        match statement:
            case ast.If(test=test, body=body, orelse=orelse) | ast.While(test=test, body=body, orelse=orelse):
                inner = control | _read(test)
                self._made_in(test, control)
                self.block([*body, *orelse], inner)
                if isinstance(statement, ast.While):
                    self.block(body, inner)
            case ast.For(target=target, iter=source, body=body, orelse=orelse):
                inner = control | _read(source)
                self._lead(inner, _roots(target))
                self.block([*body, *orelse], inner | _conditions(body))
            case ast.Try(body=body, handlers=handlers, orelse=orelse, finalbody=final):
                inner = control | _read(statement)
                self.block([*body, *orelse, *final], inner)
                for handler in handlers:
                    if handler.name is not None:
                        self._lead(inner, {handler.name})
                    self.block(handler.body, inner)
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                stored = {
                    one.id
                    for one in ast.walk(statement)
                    if isinstance(one, ast.Name | ast.arg) and isinstance(one, ast.Name)
                }
                every = stored | {one.arg for one in ast.walk(statement) if isinstance(one, ast.arg)}
                self._lead(every | control, {name, *every})
            case ast.With() | ast.AsyncFor() | ast.AsyncWith() | ast.Match():
                every = {one.id for one in ast.walk(statement) if isinstance(one, ast.Name)}
                self._lead(every | control, every)
            case _:
                targets = {
                    one.id
                    for one in ast.walk(statement)
                    if isinstance(one, ast.Name) and not isinstance(one.ctx, ast.Load)
                }
                for one in ast.walk(statement):
                    if isinstance(one, ast.Attribute | ast.Subscript) and not isinstance(one.ctx, ast.Load):
                        targets |= _roots(one)
                        self._changed |= _roots(one)
                self._lead(reads, targets)
                self._made_in(statement, control)

    def _made_in(self, node: ast.AST, control: frozenset[str]) -> None:
        """A method may change what it is called on, a function what it is given."""
        for call in ast.walk(node):
            if not isinstance(call, ast.Call):
                continue
            given = set(control)
            for one in (*call.args, *(keyword.value for keyword in call.keywords)):
                given |= _read(one)
            roots = _roots(call.func) if isinstance(call.func, ast.Attribute) else set[str]()
            self._lead(given, roots)
            self._changed |= roots

    def _tests(self, statement: ast.stmt, control: frozenset[str]) -> None:
        """Note what decides whether a statement fails by its content."""
        for node in _own_nodes(statement):
            if _is_test(node):
                self.flow.tests_content = True
                self.flow.read_by_tests |= _read(node) | control | _read(statement)


def _own_nodes(statement: ast.stmt) -> Iterable[ast.AST]:
    """The nodes of a statement but those of the statements inside it; of a function all of them."""
    if isinstance(statement, _SCOPES):
        yield from ast.walk(statement)
        return
    waiting: list[ast.AST] = [statement]
    while waiting:
        node = waiting.pop()
        yield node
        waiting += [one for one in ast.iter_child_nodes(node) if not isinstance(one, ast.stmt)]


def _is_test(node: ast.AST) -> bool:
    match node:
        case ast.Raise() | ast.Assert() | ast.While():
            return True
        case (
            ast.BinOp(op=ast.Div() | ast.FloorDiv() | ast.Mod() | ast.Pow(), right=right)
            | ast.AugAssign(op=ast.Div() | ast.FloorDiv() | ast.Mod() | ast.Pow(), value=right)
        ):
            return not (isinstance(right, ast.Constant) and bool(right.value))
        case ast.Subscript(slice=ast.Constant() | ast.Slice() | ast.UnaryOp(operand=ast.Constant())):
            return False
        case ast.Subscript():
            return True
        case ast.Call(func=ast.Name(id=name)):
            return name in _CONVERSIONS
        case ast.Call(func=ast.Attribute(attr=name)):
            return name in _CONVERTING
        case _:
            return False


def _read(node: ast.AST) -> frozenset[str]:
    """The names that a node reads; those of comprehensions are among them, which does no harm."""
    return frozenset(
        one.id for one in ast.walk(node) if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Load)
    )


def _conditions(block: Iterable[ast.stmt]) -> frozenset[str]:
    """The names that conditions in the body of a loop read, which decide about its next items."""
    found: set[str] = set()
    for statement in block:
        for node in ast.walk(statement):
            if isinstance(node, ast.If | ast.While):
                found |= _read(node.test)
    return frozenset(found)


def _roots(node: ast.AST) -> set[str]:
    """The variables that a target or a receiver is part of."""
    while isinstance(node, ast.Attribute | ast.Subscript | ast.Starred | ast.Call):
        node = node.func if isinstance(node, ast.Call) else node.value
    if isinstance(node, ast.Tuple | ast.List):
        return {name for one in node.elts for name in _roots(one)}
    return {node.id} if isinstance(node, ast.Name) else set()
