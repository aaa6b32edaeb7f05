"""The operators of expressions: Python's with its precedence, and `??`, tighter than a comparison.

All that joins operands is read here; whoever reads an expression says with `postfix` what an operand is.
"""

from __future__ import annotations

import re
from abc import abstractmethod
from typing import Final

from callsheet.diagnostics import Span
from callsheet.frontends.expressions.cursor import MAX_HEIGHT, Cursor
from callsheet.ir.expr import Literal
from callsheet.ir.expression import (
    Binary,
    BinaryOp,
    Coalesce,
    Compared,
    Comparison,
    Conditional,
    Expression,
    Logic,
    LogicOp,
    Unary,
    UnaryOp,
)

_COMPARISONS: Final = {"==", "!=", "<", "<=", ">", ">="}
_NOT_IN: Final = re.compile(r"not\s+in\b")

TERNARY, OR, AND, NOT, COMPARE, COALESCE, UNION, XOR, BOTH, SUM, PRODUCT, SIGN, POWER, ATOM = range(14)
"""How tightly the parts of an expression hold together, from `a if b else c` to a name."""
BINDINGS: Final = {
    "or": OR,
    "and": AND,
    **dict.fromkeys([*_COMPARISONS, "in", "is"], COMPARE),
    "??": COALESCE,
    "|": UNION,
    "^": XOR,
    "&": BOTH,
    **dict.fromkeys("+-", SUM),
    **dict.fromkeys(["*", "/", "//", "%"], PRODUCT),
    "**": POWER,
}
"""How tightly each operator between operands binds; both who reads and who prints them go by it."""


class Operators(Cursor):
    """Reads operands that operators join, from the loosest operator to the tightest."""

    @abstractmethod
    def postfix(self) -> Expression:
        """An operand without operators."""

    def expression(self) -> Expression:
        """`then if condition else otherwise`, and everything tighter."""
        start = self.pos
        with self.inside(start):
            then = self.disjunction()
            if not self.takes("if"):
                return then
            condition = self.disjunction()
            if not self.takes("else"):
                self.fail("else is missing: a if condition else b", self.pos)
            otherwise = self.expression()
            return Conditional(condition, then, otherwise, joined_span(then, otherwise))

    def disjunction(self) -> Expression:
        """An expression without `if` and `else` of its own."""
        return self.operation(OR)

    def operation(self, least: int) -> Expression:
        """Operators that bind at least so tightly, by precedence climbing."""
        left = self.prefix(least)
        while (binding := self.binding()) >= least:
            left = self.joined(left, binding)
        return left

    def binding(self) -> int:
        """How tightly the operator at the position binds; 0 where there is none."""
        operator = self.operator()
        if operator:
            return BINDINGS.get(operator, 0)
        word = self.word()
        if word == "not":
            return COMPARE if _NOT_IN.match(self.text, self.pos, self.end) else 0
        return BINDINGS.get(word, 0)

    def joined(self, left: Expression, binding: int) -> Expression:
        """An operand with the operator at the position and what it is joined to."""
        at = self.pos
        with self.inside(at):
            if binding in (OR, AND):
                return self.chain(left, binding)
            if binding == COMPARE:
                return self.comparison(left)
            op = self.operator()
            self.pos += len(op)
            if binding == COALESCE:
                right = self.operation(COALESCE)
                return Coalesce(left, right, joined_span(left, right))
            right = self.operation(SIGN if binding == POWER else binding + 1)
            return Binary(BinaryOp(op), left, right, joined_span(left, right))

    def chain(self, first: Expression, binding: int) -> Expression:
        """An operand with all that the same `and` or `or` joins to it."""
        op = LogicOp.OR if binding == OR else LogicOp.AND
        # brackets around the first operand of a chain of the same operator mean nothing
        operands = list(first.operands) if isinstance(first, Logic) and first.op is op else [first]
        while self.takes(op):
            operands.append(self.operation(binding + 1))
        return Logic(op, tuple(operands), joined_span(first, operands[-1]))

    def comparison(self, first: Expression) -> Expression:
        """An operand with all that it is compared with in a row."""
        rest: list[tuple[Comparison, Expression]] = []
        while (op := self.comparing()) is not None:
            self.skip()
            at = self.pos
            operand = self.operation(COALESCE)
            if op in {Comparison.IS, Comparison.IS_NOT} and operand != Literal(None):
                self.fail(f"{op} compares with None only; write == for values", at, self.pos)
            rest.append((op, operand))
            if len(rest) > MAX_HEIGHT:
                help_ = "join several comparisons with and"
                self.fail(f"at most {MAX_HEIGHT} comparisons stand in a row", at, self.pos, help_)
        return Compared(first, tuple(rest), joined_span(first, rest[-1][1]))

    def comparing(self) -> Comparison | None:
        """Consume the comparison at the position; None if there is none."""
        operator = self.operator()
        if operator in _COMPARISONS:
            self.pos += len(operator)
            return Comparison(operator)
        if self.takes("in"):
            return Comparison.IN
        if self.takes("is"):
            return Comparison.IS_NOT if self.takes("not") else Comparison.IS
        found = _NOT_IN.match(self.text, self.pos, self.end)
        if found is None:
            return None
        self.pos = found.end()
        return Comparison.NOT_IN

    def prefix(self, least: int) -> Expression:
        """An operand with the signs, or the `not`, before it."""
        char = self.skip()
        start = self.pos
        if least <= NOT and self.takes("not"):
            with self.inside(start):
                operand = self.operation(NOT)
            return Unary(UnaryOp.NOT, operand, _from(start, operand))
        if not char or char not in "+-":
            return self.postfix()
        self.pos += 1
        in_brackets = self.skip() == "("
        with self.inside(start):
            operand = self.operation(SIGN)
        span = _from(start, operand)
        number = operand.value if isinstance(operand, Literal) and not in_brackets else None
        if char == "-" and (type(number) is int or type(number) is float):
            return Literal(-number, span)
        return Unary(UnaryOp.MINUS if char == "-" else UnaryOp.PLUS, operand, span)


def _from(start: int, last: Expression) -> Span | None:
    return None if last.span is None else Span(start, last.span.end)


def joined_span(first: Expression, last: Expression) -> Span | None:
    """From the beginning of one expression to the end of another."""
    return None if first.span is None or last.span is None else first.span.to(last.span)
