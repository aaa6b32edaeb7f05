"""Python's exceptions as kinds of failure: which a `raise` gives, and which an `except` catches."""

from __future__ import annotations

import ast
import builtins
import copy
from collections.abc import Iterable, Mapping
from typing import Final

from callsheet.frontends.python.source import Nodes, dotted, last_name
from callsheet.ir.failing import Failing

TOOL_ERROR: Final = "ToolError"
BUDGET_SPENT: Final = "BudgetSpent"
DENIED: Final = "Denied"
CANCELLED: Final = "CancelledError"

_KINDS: Final[Mapping[str, str]] = {
    "TypeError": Failing.TYPE.value,
    "ValueError": Failing.VALUE.value,
    "KeyError": Failing.KEY.value,
    "IndexError": Failing.INDEX.value,
    "AttributeError": Failing.ATTRIBUTE.value,
    "ZeroDivisionError": Failing.ZERO.value,
    "OverflowError": Failing.OVERFLOW.value,
    TOOL_ERROR: Failing.TOOL.value,
    BUDGET_SPENT: Failing.BUDGET.value,
    DENIED: Failing.DENIED.value,
    CANCELLED: Failing.CANCELLED.value,
}
"""The exceptions that a failure of callsheet's own stands for."""

_ALSO: Final[Mapping[str, tuple[str, ...]]] = {
    TOOL_ERROR: (Failing.TIMEOUT.value, Failing.SCHEMA.value),
    "TimeoutError": (Failing.TIMEOUT.value,),
    "AssertionError": (Failing.REQUIRE.value,),
}
"""What else an `except` catches: a call that took too long is a time-out, and a failure of its tool."""

_NAMES: Final = {kind: name for name, kind in _KINDS.items()}

_FAILURES: Final = {
    Failing.TIMEOUT.value: "TimeoutError",
    Failing.REQUIRE.value: "AssertionError",
    Failing.SCHEMA.value: TOOL_ERROR,
}

FAILURE_KINDS: Final = (*_NAMES, *_FAILURES)
"""The kinds of failure that have another name as an exception."""

_BUILT_IN: Final[Mapping[str, type[BaseException]]] = {
    name: value
    for name, value in vars(builtins).items()
    if isinstance(value, type) and issubclass(value, BaseException)
}

_ELSEWHERE: Final[Mapping[str, str]] = {
    "JSONDecodeError": "ValueError",
    "InvalidOperation": "ArithmeticError",
    "CycleError": "ValueError",
    "StatisticsError": "ValueError",
    "Error": "Exception",
    BUDGET_SPENT: TOOL_ERROR,
}
"""Exceptions of modules, and callsheet's, with what they are a kind of."""


_OF_ALL: Final = frozenset({"Exception", "BaseException"})
"""The classes whose handlers are for all errors but a denial and a cancellation."""
_BY_NAME: Final = frozenset({DENIED, CANCELLED})
"""The exceptions that are no Exception, and that only their names catch."""
_NAMES_OF_ONE: Final = (ast.Name, ast.Attribute)
_NAMED: Final = (TOOL_ERROR, DENIED, CANCELLED)


class Exceptions:
    """The exceptions of a program: the built-in ones and its own classes, with their bases."""

    def __init__(self, own: Mapping[str, str]) -> None:
        """`own` are the program's exception classes, each with the name of its base."""
        self.own = dict(own)

    def is_exception(self, name: str) -> bool:
        """Whether a name is that of an exception."""
        return name in self.own or name in _BUILT_IN or name in _NAMED or name in _ELSEWHERE

    def bases(self, name: str) -> tuple[str, ...]:
        """An exception and what it is a kind of, nearest first."""
        found = [name]
        while found[-1] in self.own or found[-1] in _ELSEWHERE:
            base = self.own.get(found[-1]) or _ELSEWHERE[found[-1]]
            if base in found:
                return tuple(found)
            found.append(base)
        last = found[-1]
        if last in _BUILT_IN:
            found += [one.__name__ for one in _BUILT_IN[last].__mro__[1:-1]]
        elif last == TOOL_ERROR:
            found += ["Exception", "BaseException"]
        elif last in _BY_NAME:
            found.append("BaseException")
        return tuple(found)

    def caught(self, names: Iterable[str]) -> tuple[str, ...]:
        """The kinds that `except (names)` catches; empty for all but a denial and a cancellation."""
        wanted = set(names)
        if wanted & _OF_ALL:
            return ()
        known = (*self.own, *_BUILT_IN, *_ELSEWHERE, *_NAMED)
        kinds: list[str] = []
        for name in dict.fromkeys((*sorted(wanted), *known)):
            if wanted & set(self.bases(name)):
                kinds += [kind_of(name), *_ALSO.get(name, ())]
        return tuple(dict.fromkeys(kinds))


def kind_of(name: str) -> str:
    """The kind of failure of an exception.

    >>> kind_of("KeyError"), kind_of("RuntimeError")
    ('KEY', 'RuntimeError')
    """
    return _KINDS.get(name, name)


def exception_name(kind: str) -> str:
    """The exception that a kind of failure stands for.

    >>> exception_name("KEY"), exception_name("RuntimeError")
    ('KeyError', 'RuntimeError')
    """
    return _NAMES.get(kind, _FAILURES.get(kind, kind))


def denials_apart(nodes: Nodes) -> bool:
    """Write a handler of a denial and of all other errors as two; whether there was any.

    A handler of all errors is for all but a denial and a cancellation, which are no Exceptions; one of
    BaseException is for a cancellation, too.

    >>> module = ast.parse('try: x = f()\\nexcept (Exception, Denied) as error: y = str(error)')
    >>> denials_apart(Nodes(module))
    True
    >>> print(ast.unparse(module))
    try:
        x = f()
    except Exception as error:
        y = str(error)
    except Denied as error:
        y = str(error)
    """
    is_changed = False
    stops = any((dotted(one) or "").endswith("TaskGroup") for one in nodes if isinstance(one, _NAMES_OF_ONE))
    for one in nodes.of(ast.Try):
        made: list[ast.ExceptHandler] = []
        for handler in one.handlers:
            made.append(handler)
            kinds = handler.type.elts if isinstance(handler.type, ast.Tuple) else []
            names = [last_name(kind) for kind in kinds]
            if stops and (handler.type is None or dotted(handler.type) == "BaseException"):
                made.append(copy.deepcopy(handler))
                made[-1].type = ast.copy_location(ast.Name(CANCELLED, ast.Load()), handler)
                is_changed = True
            apart = [kind for kind, name in zip(kinds, names, strict=True) if name in _BY_NAME]
            if apart and _OF_ALL & set(names):
                handler.type = kinds[next(n for n, name in enumerate(names) if name in _OF_ALL)]
                for kind in apart:
                    made.append(copy.deepcopy(handler))
                    made[-1].type = kind
                is_changed = True
        one.handlers = made
    return is_changed


def error_tuples_in_place(module: ast.Module, nodes: Nodes) -> bool:
    """Write the errors of a tuple of the file where a handler or isinstance names it; whether there was any.

    >>> module = ast.parse('''KNOWN = (KeyError, OSError)
    ... known = isinstance(error, KNOWN)''')
    >>> error_tuples_in_place(module, Nodes(module))
    True
    >>> print(ast.unparse(module.body[1]))
    known = isinstance(error, (KeyError, OSError))
    """
    tuples: dict[str, ast.Tuple] = {}
    for one in module.body:
        match one:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Tuple() as made) if all(
                map(dotted, made.elts)
            ):
                tuples[name] = made
            case _:
                pass
    stored = [one.id for one in nodes.of(ast.Name) if isinstance(one.ctx, ast.Store)]
    known = {name: made for name, made in tuples.items() if stored.count(name) == 1}
    is_changed = False
    for one in nodes if known else ():
        match one:
            case ast.ExceptHandler(type=ast.Name(id=name) as at) if name in known:
                one.type = ast.copy_location(copy.deepcopy(known[name]), at)
            case ast.Call(func=ast.Name(id="isinstance"), args=[value, ast.Name(id=name) as at]) if (
                name in known
            ):
                one.args = [value, ast.copy_location(copy.deepcopy(known[name]), at)]
            case _:
                continue
        is_changed = True
    return is_changed


def suppress_as_try(module: ast.Module, nodes: Nodes) -> bool:
    """Write `with suppress(…): body` as `try: body except …: pass`; whether there was any.

    >>> module = ast.parse('''from contextlib import suppress
    ... with suppress(KeyError, ValueError): x = d[k]''')
    >>> suppress_as_try(module, Nodes(module))
    True
    >>> print(ast.unparse(module.body[1]))
    try:
        x = d[k]
    except (KeyError, ValueError):
        pass
    """
    names = {
        f"{each.asname or each.name}.suppress"
        for one in module.body
        if isinstance(one, ast.Import)
        for each in one.names
        if each.name == "contextlib"
    } | {
        each.asname or each.name
        for one in module.body
        if isinstance(one, ast.ImportFrom) and one.module == "contextlib"
        for each in one.names
        if each.name == "suppress"
    }
    found = [
        one
        for one in nodes
        if names and isinstance(one, ast.With) and any(_suppressed(each, names) for each in one.items)
    ]
    if found:
        _Suppressing(names).visit(module)
    return bool(found)


def _suppressed(item: ast.withitem, names: set[str]) -> list[ast.expr] | None:
    call = item.context_expr
    if not isinstance(call, ast.Call) or (dotted(call.func) or "") not in names or item.optional_vars:
        return None
    return None if call.keywords else call.args


class _Suppressing(ast.NodeTransformer):
    def __init__(self, names: set[str]) -> None:
        self.names = names

    def visit_With(self, node: ast.With) -> ast.stmt:
        self.generic_visit(node)
        for number, item in enumerate(node.items):
            kinds = _suppressed(item, self.names)
            if kinds is None:
                continue
            rest = node.items[number + 1 :]
            body: list[ast.stmt] = node.body
            if rest:
                body = [ast.copy_location(ast.With(rest, body), node)]
                body = [self.visit(body[0])]
            one = kinds[0] if len(kinds) == 1 else ast.Tuple(kinds, ast.Load())
            handler = ast.ExceptHandler(one, None, [ast.copy_location(ast.Pass(), node)])
            made: ast.stmt = (
                ast.Try(body, [handler], [], []) if kinds else ast.If(ast.Constant(True), body, [])
            )
            made = ast.copy_location(made, node)
            if number:
                made = ast.copy_location(ast.With(node.items[:number], [made]), node)
            for each in (handler, one, item.context_expr):
                ast.copy_location(each, item.context_expr)
            return ast.fix_missing_locations(made)
        return node
