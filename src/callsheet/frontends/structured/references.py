"""Ends references in texts where the types that a plan declares say so: `"$e.name.md"` is `"${e.name}.md"`.

In: a tree as it was read. Out: the same tree, where each reference without braces that comes to a text, a
number or a word of a union ends there, and the rest is text. Known are the types of inputs, results with a
type, items of typed lists, and paths in them; the checks tell where a type is not known.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import fields, replace
from typing import Any, Final, TypeVar

from callsheet import lazy
from callsheet.ir.expr import Literal
from callsheet.ir.expression import Expression, Field, Hole, Index, Text, Variable
from callsheet.ir.tree import (
    Act,
    Assign,
    Block,
    Compute,
    Foreach,
    Input,
    Invoke,
    Let,
    Statement,
    Tree,
    recovery_of,
    statements,
)
from callsheet.ir.types import Basic, DictOf, ListOf, Maybe, Named, OneOf, Record, Type

_SUSPECT = lazy.pattern(r"\$[A-Za-z_]\w*\.\w")
_SCALARS: Final = frozenset({Basic.STR, Basic.INT, Basic.FLOAT, Basic.BOOL})
_FAILURE: Final = Record(
    (*((name, Basic.STR) for name in ("error", "message", "kind", "step")), ("attempts", Basic.INT))
)
_T = TypeVar("_T")


def with_ended_references(tree: Tree, source: str) -> Tree:
    """The tree that was read from a text, with each reference ended where its types say so."""
    if _SUSPECT.search(source) is None:
        return tree
    plans = {one.name: one.result for one in tree.plans}

    def ended(block: Block, inputs: Iterable[Input]) -> Block:
        return _Scope(block, inputs, tree.named_types, plans).ended(block)

    bodies = tuple(replace(one, body=ended(one.body, one.inputs)) for one in tree.plans)
    return replace(tree, body=ended(tree.body, tree.inputs), plans=bodies)


class _Scope:
    """The types of the variables of a plan or sub-plan."""

    def __init__(
        self,
        block: Block,
        inputs: Iterable[Input],
        named: Mapping[str, Record],
        plans: Mapping[str, Type | None],
    ) -> None:
        self._named, self._plans = named, plans
        self._sources: dict[str, list[Type | Expression | None]] = {}
        self._items: dict[str, list[Expression]] = {}
        self._known: dict[str, Type | None] = {}
        for one in inputs:
            self._sources.setdefault(one.name, []).append(one.type)
        for statement in statements(block):
            self._read(statement)

    def _read(self, one: Statement) -> None:
        """Note what a statement sets its variables to."""
        match one:
            case Act(into=into) | Invoke(into=into) | Foreach(into=into) if into is not None:
                result = self._plans.get(one.plan) if isinstance(one, Invoke) else None
                self._sources.setdefault(into.name, []).append(into.type or result)
            case Let(name=name, value=value, type=kind):
                self._sources.setdefault(name, []).append(kind or value)
            case Assign(name=name, value=value):
                self._sources.setdefault(name, []).append(value)
            case Compute(into=names):
                for name in names:
                    self._sources.setdefault(name, []).append(None)
            case _:
                pass
        if isinstance(one, Foreach):
            self._items.setdefault(one.var, []).append(one.source)
        recovery = recovery_of(one)
        for handler in () if recovery is None else recovery.handlers:
            self._sources.setdefault(handler.binds, []).append(_FAILURE)

    def _of_variable(self, name: str) -> Type | None:
        """The type of a variable, if all that sets it agrees on one."""
        if name not in self._known:
            self._known[name] = None  # while it is looked for: a value may depend on itself
            kinds = [self._of_source(one) for one in self._sources.get(name, ())]
            kinds += [self._item(self.of(one)) for one in self._items.get(name, ())]
            is_one = bool(kinds) and all(kind == kinds[0] for kind in kinds)
            self._known[name] = kinds[0] if is_one else None
        return self._known[name]

    def _of_source(self, one: Type | Expression | None) -> Type | None:
        if one is None or isinstance(one, Basic | ListOf | DictOf | OneOf | Maybe | Named | Record):
            return one
        return self.of(one)

    def _plain(self, kind: Type | None) -> Type | None:
        """A type without `?` and names."""
        while isinstance(kind, Maybe | Named):
            kind = kind.of if isinstance(kind, Maybe) else self._named.get(kind.name)
        return kind

    def _item(self, kind: Type | None) -> Type | None:
        kind = self._plain(kind)
        return kind.item if isinstance(kind, ListOf) else None

    def of(self, node: Expression) -> Type | None:
        """The type of an expression; None where it is not known."""
        match node:
            case Literal(value=bool()):
                return Basic.BOOL
            case Literal(value=str()) | Text():
                return Basic.STR
            case Literal(value=int()):
                return Basic.INT
            case Variable(name=name):
                return self._of_variable(name)
            case Field(target=target, name=name):
                kind = self._plain(self.of(target))
                if isinstance(kind, Record):
                    return dict(kind.fields).get(name)
                return kind.value if isinstance(kind, DictOf) else None
            case Index(target=target):
                kind = self._plain(self.of(target))
                return kind.value if isinstance(kind, DictOf) else self._item(kind)
            case _:
                return None

    # ------------------------------------------------------------ texts

    def ended(self, node: _T) -> _T:
        """A part of a tree with the references in its texts ended."""
        return self._ended(node)

    def _ended(self, node: Any) -> Any:
        if isinstance(node, tuple):
            made = tuple(map(self._ended, node))  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
            return node if all(a is b for a, b in zip(made, node, strict=True)) else made  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
        if not hasattr(node, "__dataclass_fields__"):
            return node
        changed: dict[str, Any] = {}
        for part in fields(node):
            value = getattr(node, part.name)
            if part.compare and value is not (made := self._ended(value)):
                changed[part.name] = made
        node = replace(node, **changed) if changed else node
        return self._ended_text(node) if isinstance(node, Text) else node

    def _ended_text(self, text: Text) -> Text:
        parts: list[str | Hole] = []
        for part in text.parts:
            made = self._split(part) if isinstance(part, Hole) and part.is_open else (part,)
            for one in made:
                if isinstance(one, str) and parts and isinstance(parts[-1], str):
                    parts[-1] += one
                else:
                    parts.append(one)
        return (
            text
            if len(parts) == len(text.parts) and parts == list(text.parts)
            else replace(text, parts=tuple(parts))
        )

    def _split(self, hole: Hole) -> tuple[str | Hole, ...]:
        """A reference without braces, and the text behind its end."""
        path: list[Field | Index] = []
        node = hole.expression
        while isinstance(node, Field | Index):
            path.insert(0, node)
            node = node.target
        for number, step in enumerate(path):
            kind = self._plain(self.of(step.target))
            if kind in _SCALARS or isinstance(kind, OneOf):
                rest = "".join(map(_written, path[number:]))
                return Hole(step.target, is_open=isinstance(step.target, Field | Index)), rest
        return (hole,)


def _written(step: Field | Index) -> str:
    """A field or an index as it stands behind a reference without braces."""
    name = (
        step.name if isinstance(step, Field) else step.index.value if isinstance(step.index, Literal) else ""
    )
    return f".{name}"
