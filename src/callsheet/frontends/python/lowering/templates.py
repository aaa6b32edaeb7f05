"""Templates of `text.format(…)`: which stand in the file, so that it is known what they read."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Final

from callsheet.frontends.python.source import Refused, dotted, walk

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
_CONTAINERS: Final = (ast.Dict, ast.List, ast.Tuple)


class Templates:
    """The templates of an async function, with all that is inside it."""

    def __init__(self, of: Scope) -> None:
        self.of = of

    def check(self, node: ast.Attribute) -> None:
        """Raises Refused (PYT025) for a template that could read any attribute of what it is given."""
        template = node.value
        if isinstance(template, ast.Name) and template.id == "str":
            template = ast.Name("")  # `str.format`, whose template is an argument
        text = self._text(template, frozenset())
        if text is None:
            raise Refused(
                "PYT025",
                node,
                "a template that is not written here can read any attribute of what it is given",
                'write an f-string, or replace the parts: text.replace("{name}", name)',
            )
        if re.search(r"\{[^{}]*(?:\.|\[)_", text):
            raise Refused(
                "PYT025",
                node,
                "the template reaches behind the values of the plan",
                "write an f-string of fields that the records have",
            )

    def _text(self, node: ast.expr, seen: frozenset[str]) -> str | None:
        """The text of a template that stands in the file: of a literal, a constant, or a table of them."""
        match node:
            case ast.Constant(value=value):
                return str(value)
            case ast.BinOp(op=ast.Add(), left=left, right=right):
                return self._joined("", [left, right], seen)
            case ast.Name(id=name):
                found = None if name in seen else self._value(name)
                return None if found is None else self._text(found, seen | {name})
            case ast.Dict(values=parts) | ast.List(elts=parts) | ast.Tuple(elts=parts):
                return self._joined("\n", parts, seen)
            case ast.IfExp(body=first, orelse=second):
                return self._joined("\n", [first, second], seen)
            case ast.Call(func=ast.Attribute(value=inner, attr="get"), args=[_, *others]):
                return self._joined("\n", [inner, *others], seen)
            case _:
                part = self._of(node)
                return None if part is None else self._text(part, seen)

    def _of(self, node: ast.expr) -> ast.expr | None:
        """What an expression takes its template from, whose places it leaves as they are."""
        match node:
            case ast.Subscript(value=inner):
                return inner
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

    def _joined(self, between: str, parts: list[ast.expr], seen: frozenset[str]) -> str | None:
        texts = [self._text(one, seen) for one in parts]
        return None if None in texts else between.join(map(str, texts))

    def _value(self, name: str) -> ast.expr | None:
        """The value of a constant of the file, or of a variable that is set in one place."""
        if name in self.of.parameters:
            return None
        if name in self._set_once:
            value = self._set_once[name]
            return None if isinstance(value, _CONTAINERS) and self._may_change(name) else value
        if not self.of.is_variable(name):
            found = self.of.program.definitions.get(name)
            return found.value if isinstance(found, (ast.Assign, ast.AnnAssign)) else None
        if name in self.of.bound or self.of.outer is None:
            return None
        return self.of.outer.templates._value(name)

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
            isinstance(one, ast.Name)
            and one.id == name
            and isinstance(one.ctx, ast.Load)
            and id(one) not in looks
            for one in self._nodes
        )


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
