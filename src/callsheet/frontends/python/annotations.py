"""Annotations of parameters and results as types of a plan.

In: an annotation, and what the file imports and defines. Out: a type, or None for one that a plan's types
cannot say. A `TypedDict` of the file is a TYPE of the plan if an annotation names it.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from datetime import date, datetime, timedelta
from typing import TypeAlias, cast

from callsheet.frontends.python.source import last_name
from callsheet.ir import types
from callsheet.ir.inputs import duration_text

_BASIC = {
    "str": types.Basic.STR,
    "int": types.Basic.INT,
    "float": types.Basic.FLOAT,
    "bool": types.Basic.BOOL,
}


_MOMENTS = {
    "datetime.date": types.Basic.DATE,
    "datetime.datetime": types.Basic.DATETIME,
    "datetime.timedelta": types.Basic.DURATION,
}

Resolved: TypeAlias = Callable[[ast.AST], "str | None"]
"""Gives the full name of what was imported."""


def moment(node: ast.expr, kind: types.Basic, resolved: Resolved) -> str | None:
    """The text of a constant date, datetime or duration of this type; None for all else."""
    if not isinstance(node, ast.Call):
        return None
    try:
        given = [ast.literal_eval(one) for one in node.args]
        named = {word.arg or "": ast.literal_eval(word.value) for word in node.keywords}
        called = resolved(node.func) or ""
        made = _CONSTANT_MOMENTS[called](*given, **named)
    except (KeyError, ValueError, TypeError, SyntaxError, OverflowError, MemoryError, RecursionError):
        return None
    if _MOMENTS[called.removesuffix(".fromisoformat")] is not kind:
        return None
    return duration_text(made) if isinstance(made, timedelta) else made.isoformat()


_CONSTANT_MOMENTS: Mapping[str, Callable[..., date | timedelta]] = {
    "datetime.date": date,
    "datetime.datetime": datetime,
    "datetime.timedelta": timedelta,
    "datetime.date.fromisoformat": date.fromisoformat,
    "datetime.datetime.fromisoformat": datetime.fromisoformat,
}


def is_moment(kind: types.Basic) -> bool:
    """Whether a type is that of dates, of moments or of durations."""
    return kind in _MOMENTS.values()


class Annotations:
    """The annotations of one file."""

    def __init__(self, definitions: Mapping[str, ast.stmt], resolved: Resolved) -> None:
        self.definitions, self.resolved = definitions, resolved
        self.records: dict[str, types.Record] = {}
        """The records that the annotations read so far have named."""

    def revealed(self, node: ast.expr | None) -> tuple[ast.expr | None, bool]:
        """The annotation of a value, and whether it was `Secret[…]`, which says that nobody may see it."""
        match node:
            case ast.Subscript(value=name, slice=inner) if last_name(name) == "Secret":
                return inner, True
            case ast.Name(id="Secret") | ast.Attribute(attr="Secret"):
                return None, True
            case _:
                return node, False

    def type(self, node: ast.expr | None) -> types.Type | None:
        """The type that an annotation says, as far as a plan's types go; None if it says another one."""
        match node:
            case ast.Name(id=name) if name in _BASIC:
                return _BASIC[name]
            case ast.Name() | ast.Attribute() if self.resolved(node) in _MOMENTS:
                return _MOMENTS[self.resolved(node) or ""]
            case ast.Name(id="list") | ast.Attribute(attr="List") | ast.Name(id="List"):
                return types.ListOf(types.Basic.JSON)
            case ast.Name(id="dict") | ast.Name(id="Dict"):
                return types.DictOf(types.Basic.JSON)
            case ast.Name(id=name):
                return self._record(name)
            case ast.Constant(value=str() as text):
                try:
                    return self.type(ast.parse(text, mode="eval").body)
                except SyntaxError:
                    return None
            case ast.Subscript(value=value, slice=inner):
                return self._of(last_name(value), inner)
            case ast.BinOp(left=left, op=ast.BitOr(), right=ast.Constant(value=None)):
                return self._maybe(left)
            case _:
                return None

    def _maybe(self, node: ast.expr) -> types.Type | None:
        made = self.type(node)
        return made if made is None or isinstance(made, types.Maybe) else types.Maybe(made)

    def _of(self, name: str, inner: ast.expr) -> types.Type | None:
        if name in {"list", "List", "Sequence", "Iterable"}:
            return types.ListOf(self.type(inner) or types.Basic.JSON)
        if name in {"dict", "Dict", "Mapping"} and isinstance(inner, ast.Tuple) and len(inner.elts) == 2:
            return types.DictOf(self.type(inner.elts[1]) or types.Basic.JSON)
        if name == "Optional":
            return self._maybe(inner)
        if name == "Literal":
            parts = inner.elts if isinstance(inner, ast.Tuple) else [inner]
            values = [one.value for one in parts if isinstance(one, ast.Constant)]
            if len(values) == len(parts) and all(isinstance(one, (str, int, bool)) for one in values):
                return types.OneOf(tuple(cast("list[str | int | bool]", values)))
        return None

    def _record(self, name: str) -> types.Type | None:
        """The record that a `TypedDict` of the file says; None for any other class, and for one in itself."""
        found = self.definitions.get(name)
        if not isinstance(found, ast.ClassDef) or [last_name(one) for one in found.bases] != ["TypedDict"]:
            return None
        if name not in self.records:
            is_total = not any(
                word.arg == "total" and isinstance(word.value, ast.Constant) and not word.value.value
                for word in found.keywords
            )
            fields: list[tuple[str, types.Type]] = []
            saved, self.definitions = self.definitions, {**self.definitions, name: ast.Pass()}
            for one in found.body:
                if isinstance(one, ast.AnnAssign) and isinstance(one.target, ast.Name):
                    fields.append((one.target.id, self._field(one.annotation, is_total=is_total)))
            self.definitions = saved
            self.records[name] = types.Record(tuple(fields))
        return types.Named(name)

    def _field(self, node: ast.expr, *, is_total: bool) -> types.Type:
        match node:
            case ast.Subscript(value=name, slice=inner) if last_name(name) in {"NotRequired", "Required"}:
                made, may_lack = self.type(inner), last_name(name) == "NotRequired"
            case _:
                made, may_lack = self.type(node), not is_total
        made = made or types.Basic.JSON
        return types.Maybe(made) if may_lack and not isinstance(made, types.Maybe) else made
