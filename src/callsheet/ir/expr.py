"""The AST of values and conditions: literals, references, templates, comparisons.

Nodes are immutable; equality ignores spans. Nothing is evaluated here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import field
from enum import StrEnum
from typing import TypeAlias

from callsheet.diagnostics import Span
from callsheet.lazy import dataclass

JSON: TypeAlias = "bool | int | float | str | list[JSON] | dict[str, JSON] | None"
"""A run-time value: JSON data as native Python types."""

Scalar: TypeAlias = "bool | int | float | str | None"
"""A JSON value that is no array or object."""


class Cast(StrEnum):
    """The type that a step's result is converted to after success (`> $n:int`)."""

    INT = "int"
    FLOAT = "float"
    BOOL = "bool"
    LIST = "list"
    JSON = "json"


PathPart: TypeAlias = "str | int"
"""One step of a dot path: a key, or an index (from 0; negative counts from the end)."""


@dataclass(frozen=True, slots=True)
class Literal:
    """A constant: string, number, true, false or null."""

    value: Scalar
    span: Span | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Ref:
    """A variable, or a path into its value: `$name.path.0`. The name has no dollar sign.

    A path part of decimal digits is an index; on a dict it is the key with these digits.
    """

    name: str
    path: tuple[PathPart, ...] = ()
    span: Span | None = field(default=None, compare=False, repr=False)

    @property
    def dotted(self) -> str:
        """The name and the path for a message.

        >>> Ref("page", ("items", 0)).dotted
        'page.items.0'
        """
        return ".".join([self.name, *map(str, self.path)]) if self.path else self.name


@dataclass(frozen=True, slots=True)
class Template:
    """A text with references, which are substituted once.

    In normal form, as returned by `template`: no empty or adjacent texts, at least one reference, and more
    than one part (a single reference is a `Ref`).
    """

    parts: tuple[str | Ref, ...]
    span: Span | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class ListExpr:
    """A list of values."""

    items: tuple[Value, ...]
    span: Span | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class DictExpr:
    """A dict of values; its keys are literal, unique and in the order written."""

    items: tuple[tuple[str, Value], ...]
    span: Span | None = field(default=None, compare=False, repr=False)


Value: TypeAlias = "Literal | Ref | Template | ListExpr | DictExpr"


def template(parts: list[str | Ref], span: Span | None = None) -> Literal | Ref | Template:
    """The normal form of a text with references.

    >>> template(["a", "b"])
    Literal(value='ab')
    >>> template(["", Ref("x"), ""])
    Ref(name='x', path=())
    """
    merged: list[str | Ref] = []
    texts: list[str] = []
    for part in parts:
        if not isinstance(part, Ref):
            texts.append(part)
            continue
        if any(texts):
            merged.append("".join(texts))
        texts = []
        merged.append(part)
    if any(texts):
        merged.append("".join(texts))
    if not merged:
        return Literal("", span)
    if len(merged) == 1:
        only = merged[0]
        return Literal(only, span) if isinstance(only, str) else only
    return Template(tuple(merged), span)


class CompareOp(StrEnum):
    """How two values are compared in a condition."""

    EQ = "=="
    NE = "!="
    GT = ">"
    LT = "<"
    GE = ">="
    LE = "<="
    CONTAINS = "contains"


@dataclass(frozen=True, slots=True)
class Compare:
    """`left op right`."""

    op: CompareOp
    left: Value
    right: Value
    span: Span | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class IsEmpty:
    """`IS_EMPTY(value)`."""

    value: Value
    span: Span | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class NotEmpty:
    """`NOT_EMPTY(value)`."""

    value: Value
    span: Span | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Not:
    """`NOT (condition)`."""

    condition: Condition
    span: Span | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class And:
    """All of two or more conditions; none of them is itself an `And`."""

    conditions: tuple[Condition, ...]
    span: Span | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Or:
    """Any of two or more conditions; none of them is itself an `Or`."""

    conditions: tuple[Condition, ...]
    span: Span | None = field(default=None, compare=False, repr=False)


Condition: TypeAlias = "Compare | IsEmpty | NotEmpty | Not | And | Or"


def refs_of(node: Value | Condition) -> Iterator[Ref]:
    """All references in a value or a condition, in the order of the text."""
    if isinstance(node, Ref):
        return iter((node,))
    if isinstance(node, Literal):
        return iter(())
    if isinstance(node, Template):
        return iter([part for part in node.parts if isinstance(part, Ref)])
    if isinstance(node, Compare) and isinstance(node.left, Ref) and isinstance(node.right, Literal):
        return iter((node.left,))
    return _refs_inside(node)


def in_texts(value: Value) -> Iterator[Ref]:
    """The references of a value that are inside a text.

    >>> list(in_texts(ListExpr((Ref("a"), Template(("is ", Ref("b")))))))
    [Ref(name='b', path=())]
    """
    kind = type(value)
    if kind is Template:
        yield from refs_of(value)
    elif isinstance(value, ListExpr):
        for item in value.items:
            yield from in_texts(item)
    elif isinstance(value, DictExpr):
        for _, item in value.items:
            yield from in_texts(item)


def names_in(values: Iterable[Value | Condition]) -> Iterator[str]:
    """The names of variables that values and conditions read, in order, with duplicates.

    >>> list(names_in([Literal(1), Ref("a"), Template((Ref("b"), "!"))]))
    ['a', 'b']
    """
    for value in values:
        if isinstance(value, Ref):
            yield value.name
        elif not isinstance(value, Literal):
            yield from (ref.name for ref in refs_of(value))


def tests_of(condition: Condition) -> tuple[list[Condition], list[Value]]:
    """What a condition tests: its parts that compare contents, and the values that only may be empty.

    >>> tests_of(Not(IsEmpty(Ref("a"))))
    ([], [Ref(name='a', path=())])
    """
    contents: list[Condition] = []
    emptiness: list[Value] = []
    _sort_tests(condition, contents, emptiness)
    return contents, emptiness


def _sort_tests(condition: Condition, contents: list[Condition], emptiness: list[Value]) -> None:
    match condition:
        case IsEmpty(value=value) | NotEmpty(value=value):
            emptiness.append(value)
        case Not(condition=inner):
            _sort_tests(inner, contents, emptiness)
        case And(conditions=parts) | Or(conditions=parts):
            for part in parts:
                _sort_tests(part, contents, emptiness)
        case Compare():
            contents.append(condition)


def _refs_inside(node: Value | Condition) -> Iterator[Ref]:
    stack: list[Value | Condition] = [node]
    while stack:
        current = stack.pop()
        match current:
            case Literal():
                pass
            case Ref():
                yield current
            case Template(parts=parts):
                yield from (part for part in parts if isinstance(part, Ref))
            case ListExpr(items=items):
                stack.extend(reversed(items))
            case DictExpr(items=pairs):
                stack.extend(value for _, value in reversed(pairs))
            case Compare(left=left, right=right):
                stack.extend((right, left))
            case IsEmpty(value=value) | NotEmpty(value=value):
                stack.append(value)
            case Not(condition=inner):
                stack.append(inner)
            case And(conditions=inner) | Or(conditions=inner):
                stack.extend(reversed(inner))
