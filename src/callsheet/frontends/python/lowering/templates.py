"""Templates of `text.format(…)`: which stand in the file, so that it is known what they read."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Final

from callsheet.frontends.python.source import Refused, dotted, is_named, walk

if TYPE_CHECKING:
    from callsheet.frontends.python.lowering.scope import Scope

FORMATS: Final = frozenset({"format", "format_map", "vformat"})
"""The methods that read a template."""
_KEEP: Final = frozenset({"strip", "lstrip", "rstrip", "textwrap.dedent"})
"""What leaves the places of a template as they are."""
_LOOKS: Final = frozenset({"get", "items", "values", "keys", "index", "count"})
"""Methods that look at a container."""
_COPIES: Final = frozenset(
    {"len", "sorted", "list", "tuple", "set", "dict", "dict.fromkeys", "enumerate", "zip", "any", "all"}
)
"""Functions that look at a container, and keep its items alone."""
_MOST: Final = 1_000
"""Texts that a template may be."""
_LONGEST: Final = 1_000_000
"""Characters of all of them."""
_CONTAINERS: Final = (ast.Dict, ast.List, ast.Tuple)


class Templates:
    """The templates of an async function, with all that is inside it."""

    def __init__(self, of: Scope) -> None:
        self.of = of
        self.known: dict[str, tuple[str, ...] | None] = {}
        """The texts that variables and constants may be."""

    def check(self, node: ast.Attribute) -> None:
        """Raises Refused (PYT025) for a template that could read any attribute of what it is given."""
        template = node.value
        if is_named(template, "str"):
            template = ast.Name("")  # `str.format`, whose template is an argument
        texts = self._texts(template)
        if texts is None:
            raise Refused(
                "PYT025",
                node,
                "a template that is not written here can read any attribute of what it is given",
                'write an f-string, or replace the parts: text.replace("{name}", name)',
            )
        if any(re.search(r"\{[^{}]*(?:\.|\[)_", text) for text in texts):
            raise Refused(
                "PYT025",
                node,
                "the template reaches behind the values of the plan",
                "write an f-string of fields that the records have",
            )

    def _texts(self, node: ast.expr) -> tuple[str, ...] | None:
        """The texts that a template in the file may be: of a literal, a constant, or a table of them."""
        match node:
            case ast.Constant(value=value):
                return (str(value),)
            case ast.BinOp(op=ast.Add(), left=left, right=right):
                first, second = self._texts(left), self._texts(right)
                if first is None or second is None or len(first) * len(second) > _MOST:
                    return None
                return _unless_too_much([one + other for one in first for other in second])
            case ast.Name(id=name):
                if (around := self._around(name)) is not None:
                    return around._texts(node)
                if name not in self.known:
                    self.known[name] = None  # as long as its value is looked at
                    found = self._value(name)
                    self.known[name] = None if found is None else self._texts(found)
                return self.known[name]
            case ast.Dict(values=parts) | ast.List(elts=parts) | ast.Tuple(elts=parts):
                return self._all_texts(parts)
            case ast.IfExp(body=first, orelse=second):
                return self._all_texts([first, second])
            case ast.Call(func=ast.Attribute(value=inner, attr="get"), args=[_, *others]):
                return self._all_texts([inner, *others])
            case _:
                part = self._of(node)
                return None if part is None else self._texts(part)

    def _of(self, node: ast.expr) -> ast.expr | None:
        """What an expression takes its template from, whose places it leaves as they are."""
        match node:
            case ast.Subscript(value=inner, slice=part):  # with a step it would leave letters out
                return None if isinstance(part, ast.Slice) and part.step is not None else inner
            case ast.Call(func=ast.Attribute(value=inner, attr="items" | "values"), args=[]):
                return inner
            case ast.Call(func=ast.Attribute(value=inner, attr=attr)) if attr in _KEEP:
                return inner
            case ast.Call(func=func, args=[inner]) if self.of.program.resolved(func) in _KEEP:
                return inner
            case ast.Call(func=ast.Name(id="enumerate" | "sorted" | "reversed"), args=[inner, *_]):
                return inner
            case _:
                return None

    def _all_texts(self, parts: list[ast.expr]) -> tuple[str, ...] | None:
        found: list[str] = []
        for one in parts:
            texts = self._texts(one)
            if texts is None:
                return None
            found += texts
        return _unless_too_much(found)

    def _value(self, name: str) -> ast.expr | None:
        """The value of a constant of the file, or of a variable that is set in one place."""
        if name in self.of.parameters:
            return None
        if name in self._set_once:
            value = self._set_once[name]
            return None if isinstance(value, _CONTAINERS) and self._may_change(name) else value
        found = None if self.of.is_variable(name) else self.of.program.definitions.get(name)
        return found.value if isinstance(found, (ast.Assign, ast.AnnAssign)) else None

    def _around(self, name: str) -> Templates | None:
        """The templates of the function around this one, if a variable is of that."""
        of = self.of
        is_own = name in of.parameters or name in self._set_once or name in of.bound
        return None if is_own or of.outer is None or not of.is_variable(name) else of.outer.templates

    @cached_property
    def _nodes(self) -> list[ast.AST]:
        return [one for part in self.of.function.body for one in walk(part)]

    @cached_property
    def _set_once(self) -> Mapping[str, ast.expr]:
        """The values of the names that are set in one place: by an assignment, or by a loop."""
        times = Counter(name for one in self._nodes for name in _names_set(one))
        found: dict[str, ast.expr] = {}
        for one in self._nodes:
            match one:
                case ast.Assign(targets=[ast.Name(id=name)], value=value):
                    found[name] = value
                case ast.For(target=target, iter=source) | ast.comprehension(target=target, iter=source):
                    parts = target.elts if isinstance(target, ast.Tuple) else [target]
                    item = ast.Subscript(source, ast.Constant(0))
                    found |= {part.id: item for part in parts if isinstance(part, ast.Name)}
                case _:
                    pass
        return {name: value for name, value in found.items() if times[name] == 1}

    def _may_change(self, name: str) -> bool:
        """Whether a container is used in any other way than to look at it."""
        looks: set[int] = set()
        for one in self._nodes:
            match one:
                case ast.Subscript(value=ast.Name() as held, ctx=ast.Load()):
                    looks.add(id(held))
                case ast.Call(func=ast.Attribute(value=ast.Name() as held, attr=attr)) if attr in _LOOKS:
                    looks.add(id(held))
                case ast.Call(func=func, args=args) if dotted(func) in _COPIES:
                    looks |= set(map(id, args))
                case ast.Compare(comparators=[ast.Name() as held], ops=[ast.In() | ast.NotIn()]):
                    looks.add(id(held))
                case ast.For(iter=ast.Name() as held) | ast.comprehension(iter=ast.Name() as held):
                    looks.add(id(held))
                case _:
                    pass
        return any(
            is_named(one, name) and isinstance(one.ctx, ast.Load) and id(one) not in looks
            for one in self._nodes
        )


def _unless_too_much(texts: list[str]) -> tuple[str, ...] | None:
    return tuple(texts) if len(texts) <= _MOST and sum(map(len, texts)) <= _LONGEST else None


def _names_set(one: ast.AST) -> list[str]:
    """The names to which a node itself may give values."""
    if isinstance(one, ast.Name):
        return [] if isinstance(one.ctx, ast.Load) else [one.id]
    if isinstance(one, ast.keyword):
        return []
    if isinstance(one, (ast.Global, ast.Nonlocal)):
        return one.names
    texts = (getattr(one, part, None) for part in ("name", "asname", "rest", "arg"))
    return [text for text in texts if text is not None]
