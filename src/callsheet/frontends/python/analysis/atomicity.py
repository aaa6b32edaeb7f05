"""What a statement that fails has changed by then: nothing, if it is atomic; else its variables are kept.

In: a statement of Python, and what is known of the names in it. A statement is atomic if all that it changes
or sets comes last, as in `rows.append(int(text))`. `rows.append(queue.pop()["n"])` is not.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Container, Iterable, Sequence
from typing import Final, cast

from callsheet.frontends.python.analysis.container_words import LAZY
from callsheet.frontends.python.analysis.kinds import FLAT, OPAQUE
from callsheet.frontends.python.error_values import fields_of
from callsheet.frontends.python.exceptions import FAILURE_KINDS, exception_name
from callsheet.frontends.python.source import dotted, own_nodes
from callsheet.frontends.python.syntax import parsed_lines

_WHOLE: Final = frozenset(
    {
        *("append", "add", "insert", "pop", "remove", "discard", "clear", "reverse", "popitem", "setdefault"),
        *("appendleft", "popleft", "rotate", "move_to_end", "write"),
    }
)
"""The methods of containers that change all or nothing."""
_SURE: Final = frozenset({"append", "appendleft"})
"""Those that no argument lets fail."""
_BULK: Final = frozenset({"extend", "update", "extendleft", "subtract", "difference_update"})
"""Those that take items in one by one, from what they are given."""


def may_end_half_done(
    stmt: ast.stmt,
    changes: Callable[[ast.AST], bool],
    kind_of: Callable[[ast.AST], str],
    methods: Container[str],
) -> bool:
    """Whether a statement may fail after it has changed or set something.

    `changes` says whether an expression changes an object, `kind_of` the kind of its value; `methods` are
    those of the program's own classes.
    """
    return not _Statement(changes, kind_of, methods).is_atomic(stmt)


def methods_of(definitions: Iterable[ast.AST]) -> frozenset[str]:
    """The names of the methods of classes."""
    return frozenset(
        each.name
        for one in definitions
        if isinstance(one, ast.ClassDef)
        for each in one.body
        if isinstance(each, ast.FunctionDef)
    )


class _Statement:
    def __init__(
        self, changes: Callable[[ast.AST], bool], kind_of: Callable[[ast.AST], str], methods: Container[str]
    ) -> None:
        self.changes, self.kind_of, self.methods = changes, kind_of, methods

    def is_atomic(self, stmt: ast.stmt) -> bool:
        match stmt:
            case ast.Expr(value=value):
                return self._is_atomic_value(value)
            case (
                ast.Assign(targets=[target], value=value)
                | ast.AnnAssign(target=target, value=ast.expr() as value)
            ):
                if isinstance(target, ast.Name):
                    return self._is_atomic_value(value)
                return self._is_quiet(value) and self._is_one(target)
            case ast.Assign(targets=targets, value=value):
                return all(isinstance(one, ast.Name) for one in targets) and self._is_atomic_value(value)
            case ast.AugAssign(target=target, value=value):
                is_name = isinstance(target, ast.Name)
                return self._is_whole(value) and (is_name or self._is_one(target))
            case ast.Delete(targets=[target]):
                return isinstance(target, ast.Name) or self._is_one(target)
            case ast.Assert() | ast.Raise() | ast.Return():
                return self._is_quiet(stmt)
            case ast.AnnAssign() | ast.Pass() | ast.FunctionDef() | ast.ClassDef():
                return True
            case _:
                return False

    def _is_quiet(self, node: ast.AST) -> bool:
        """Whether evaluating something changes and sets nothing."""
        return not any(isinstance(one, ast.NamedExpr) for one in own_nodes(node)) and not self.changes(node)

    def _are_quiet(self, nodes: Iterable[ast.AST]) -> bool:
        return all(map(self._is_quiet, nodes))

    def _is_one(self, target: ast.expr) -> bool:
        """Whether storing into a target is a single change."""
        match target:
            case ast.Subscript(value=holder, slice=key):
                return self._is_quiet(holder) and self._is_quiet(key)
            case ast.Attribute(value=holder):
                return self._is_quiet(holder)
            case ast.Tuple(elts=parts) | ast.List(elts=parts):  # taken apart before the first is set
                names = [one.value if isinstance(one, ast.Starred) else one for one in parts]
                return all(isinstance(one, ast.Name) for one in names)
            case _:
                return False

    def _is_whole(self, value: ast.expr) -> bool:
        """Whether all items of a value are there before the first is taken."""
        if isinstance(value, ast.GeneratorExp) or not self._is_quiet(value):
            return False
        if isinstance(value, ast.Call):
            name = dotted(value.func) or ""
            return name not in LAZY and self.kind_of(value) != OPAQUE
        return not isinstance(value, ast.Name) or self.kind_of(value) != OPAQUE

    def _is_atomic_value(self, value: ast.expr) -> bool:
        if self._is_quiet(value):
            return True
        match value:
            case ast.Call(func=ast.Attribute(value=holder, attr=method), args=args, keywords=words):
                if method in self.methods or not self._is_quiet(holder):
                    return False
                if method in _SURE and len(args) == 1:
                    return self._is_atomic_value(args[0])
                if not self._are_quiet([*args, *words]):
                    return False
                return method in _WHOLE or (method in _BULK and all(map(self._is_bulk, args)))
            case _:
                return False

    def _is_bulk(self, value: ast.expr) -> bool:
        """Whether a method surely takes all items of a value in."""
        if isinstance(value, (ast.List, ast.Tuple, ast.Set)):
            return all(self.kind_of(one) in FLAT for one in value.elts)
        return isinstance(value, (ast.Dict, ast.DictComp, ast.SetComp)) or self.kind_of(value) in {
            "dict",
            "set",
            "str",
        }


_KEPT = """
{failed} = None
try:
    pass
except Exception as _error:
    _name = type(_error).__name__
    {failed} = {{"kind": {kinds!r}.get(_name, _name), "message": str(_error), "step": ""{fields}}}
"""


def kept_after_failure(body: Sequence[ast.stmt], failed: str, error_fields: Sequence[str]) -> list[ast.stmt]:
    """Statements whose failure is a value, so that what they have set until then is kept.

    So is what the exception carries beside its words.
    """
    kinds = {
        exception_name(kind): kind for kind in FAILURE_KINDS if kind not in {"SCHEMA", "REQUIRE", "TIMEOUT"}
    }
    fields = f', "fields": {fields_of("_error", error_fields)}' if error_fields else ""
    made = parsed_lines([_KEPT.format(failed=failed, kinds=kinds, fields=fields)], body[0])
    attempt = cast("ast.Try", made[1])
    attempt.body = list(body)
    return made
