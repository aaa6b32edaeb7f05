"""What functions, methods, operators and slices do to labels, what conditions test, what failures tell.

In: the name of a function, an operator or a slice. A function in no table may do anything with what it is
given.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from callsheet.ir.expr import Literal
from callsheet.ir.expression import (
    Binary,
    BinaryOp,
    Compared,
    Comparison,
    Comprehension,
    Display,
    Expression,
    Logic,
    Slice,
    Text,
    Unary,
    UnaryOp,
    Variable,
)
from callsheet.ir.expression import Call as Function
from callsheet.ir.labels import LITERAL, Label, join
from callsheet.ir.types import Basic, Record, Type, names_values
from callsheet.policy.labelled import Labelled, Says, has_data

SAME_BITS = frozenset({"failed", "is_empty", "not_empty"})
"""Functions that only test whether a value is there."""
NO_TEXT = frozenset(
    {
        *("len", "sum", "any", "all", "round", "abs", "int", "float", "bool", "range", "date", "datetime"),
        *("duration", "now", "today", "count", "endswith", "startswith", "find", "rfind", "index", "rindex"),
        *("isalnum", "isalpha", "isascii", "isdecimal", "isdigit", "isidentifier", "islower", "isnumeric"),
        *("isprintable", "isspace", "istitle", "isupper", "issubset", "issuperset", "isdisjoint", "weekday"),
        *("isoweekday", "timestamp", "total_seconds", "toordinal", *SAME_BITS),
    }
)
"""Functions and methods whose result is a truth value, a number or a time: no text of the plan is in it."""
KEEPING = frozenset(
    {"len", "sum", "sorted", "list", "tuple", "reversed", "enumerate", "str", "bool", "abs", "round", "set"}
    | {"lower", "upper", "strip", "lstrip", "rstrip", "copy", "keys", "values", "items", "casefold", "title"}
    | {"zip", "any", "all", "min", "max", "isoformat"}
)
"""Functions and methods that are there, and of the same form, whenever what they are given is."""
STRIPPING = frozenset({"strip", "lstrip", "rstrip"})
"""Methods that keep whether a text is empty, unless they are told what to leave out."""
CONVERSIONS = frozenset(
    {"int", "float", "date", "datetime", "duration", "json", "range", "dict", "index", "rindex", "strftime"}
    | {"zfill", "center", "ljust", "rjust", "timestamp", "astimezone", "round"}
)
"""Functions and methods that fail for some contents."""
CHOOSING = frozenset({"min", "max", "sorted", "set"})
"""Functions of which content decides which item is where."""
SAME_ITEMS = frozenset({"list", "tuple", "reversed"})
"""Functions that give the items of a list."""
PATTERNS = frozenset({"match", "find_all"})
"""Functions that take a pattern, and fail for one that is none."""


SIZED_PART = Says.PART | Says.SIZED
NO_SAYING = Says.NOTHING
"""Constants, as finding and joining flags is slow."""
_NUMBER = re.compile(r"-?[0-9][0-9.e+-]*")


def parts_by_slice(node: Slice) -> Says:
    """What a slice says: it is empty only if what it is taken of is, if it takes the first items."""
    if not all(each is None or is_fixed(each) for each in (node.start, node.stop, node.step)):
        return SIZED_PART
    stop = node.stop
    is_some = stop is None or (isinstance(stop, Literal) and isinstance(stop.value, int) and stop.value > 0)
    return NO_SAYING if node.start is None and node.step is None and is_some else Says.PART


def parts_by_operator(node: Binary, left: Labelled, right: Labelled) -> Says:
    """What a repetition says, which is as long as a number is, and a set without the items of another."""
    match node.op:
        case BinaryOp.MULTIPLY:
            is_same = is_fixed(node.left) or is_fixed(node.right)
            return NO_SAYING if is_same else SIZED_PART
        case BinaryOp.SUBTRACT | BinaryOp.INTERSECTION | BinaryOp.DIFFERENCE:
            is_set = Says.CHOSEN in left.says | right.says
            return SIZED_PART if is_set else NO_SAYING
        case _:
            return NO_SAYING


def is_fixed(node: Expression) -> bool:
    """Whether it is a number of the plan's text, or nothing."""
    node = node.operand if isinstance(node, Unary) else node
    return isinstance(node, Literal) and not isinstance(node.value, str)


def may_overflow(node: Binary, left: Labelled, right: Labelled) -> bool:
    """Whether an operator fails for some contents of these values: by zero, or for a result too large."""
    match node.op:
        case BinaryOp.DIVIDE | BinaryOp.FLOOR | BinaryOp.REMAINDER:
            by = node.right
            return not (isinstance(by, Literal) and isinstance(by.value, int | float) and by.value != 0)
        case BinaryOp.MULTIPLY:
            if is_fixed(node.left) or is_fixed(node.right) or left.label == right.label:
                return _is_sequence(node.left, left) or _is_sequence(node.right, right)
            return True
        case op:
            return op is BinaryOp.POWER


def _is_sequence(node: Expression, value: Labelled) -> bool:
    """Whether the plan makes this a text or a list, which it may repeat as often as data says."""
    if isinstance(node, Literal):
        return isinstance(node.value, str)
    if isinstance(node, Text | Display | Comprehension):
        return True
    return any(shape.items or not _NUMBER.fullmatch(shape.text or "0") for shape in value.shapes)


def split_tests(
    condition: Expression, contents: list[Expression], presence: list[tuple[Variable, bool]]
) -> None:
    """Take a condition apart into tests of content and of presence, those of emptiness marked."""
    match condition:
        case Unary(op=UnaryOp.NOT, operand=operand):
            split_tests(operand, contents, presence)
        case Logic(operands=operands):
            for operand in operands:
                split_tests(operand, contents, presence)
        case Compared(
            first=Variable() as tested, rest=((Comparison.IS | Comparison.IS_NOT, Literal(value=None)),)
        ):
            presence.append((tested, False))
        case Function(function=function, arguments=(Variable() as tested,)) if function.lower() in SAME_BITS:
            presence.append((tested, function.lower() != "failed"))
        case _:
            contents.append(condition)


class Decision(NamedTuple):
    """What a condition reveals: its label, and whether it lets a single bit of private data through."""

    label: Label
    reveals_bit: bool
    origins: tuple[int, ...] = ()


class EvaluationFailures:
    """Collects what is read, and what decides whether evaluations fail."""

    __slots__ = ("can_fail", "content", "fails_by_content", "reads")

    def __init__(self) -> None:
        self.content: Label = LITERAL
        """The label of what decides whether an evaluation fails by a test of content."""
        self.reads: Label = LITERAL
        """The join of everything that is read."""
        self.can_fail = False
        """Whether an evaluation may fail at all."""
        self.fails_by_content = False
        """Whether it may fail by a test of content, or by what the plan itself composes."""

    def fails(self, value: Labelled) -> None:
        """What is done with a value may fail by its content."""
        self.reads = self.reads.join(value.label)
        self._fails((value,))

    def casts(self, value: Labelled, type_: Type | None, named: Mapping[str, Record]) -> None:
        """A value is checked against a type: one that names values tests the content, any other the form."""
        if type_ is None or type_ is Basic.JSON:
            return
        self.reads = self.reads.join(value.label)
        self._typed((value,))
        if names_values(type_, named):
            self.fails(value)

    def _typed(self, values: tuple[Labelled, ...]) -> None:
        """An operation that fails for values of other types, which depends on what decides their types."""
        self.can_fail = True
        self.content = self.content.join(join(value.presence for value in values))
        if all(value.shapes and not any(map(has_data, value.shapes)) for value in values):
            self.fails_by_content = True

    def _fails(self, values: Iterable[Labelled]) -> None:
        """The evaluation may fail by the content of these values."""
        self.can_fail = self.fails_by_content = True
        self.content = self.content.join(join(value.label for value in values))
