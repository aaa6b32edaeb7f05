"""Parses and evaluates the expressions of `@CALC`, with exact arithmetic on decimals.

Whole results become ints, others the nearest float.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Iterator
from fractions import Fraction
from math import isqrt
from typing import NamedTuple, TypeAlias

from callsheet.diagnostics import did_you_mean
from callsheet.ports.transforms.work import Fault

Exact: TypeAlias = "int | Fraction"

MAX_BITS = 4_096
"""The most bits of a numerator or denominator, about 1,230 digits."""
MAX_PLACES = 300
_ROOT_BITS = 128


def simple(value: Exact) -> Exact:
    """The number as an int if it is whole; raises Fault if it is too large to be kept exactly."""
    if max(value.numerator.bit_length(), value.denominator.bit_length()) > MAX_BITS:
        raise Fault("a number becomes too large, or too long, to be kept exactly")
    return value.numerator if value.denominator == 1 else value


def exact(value: float) -> Exact:
    """The decimal number that a float is printed as: 0.1 is a tenth."""
    return value if isinstance(value, int) else simple(Fraction(repr(value)))


def plain(value: Exact) -> int | float:
    """The number for JSON: an int if it is whole, else the nearest float."""
    if value.denominator == 1:
        return value.numerator
    try:
        return float(value)
    except OverflowError:
        raise Fault("the result is too large for a number that is not whole") from None


def rounded(value: Exact, places: int = 0) -> Exact:
    """The number rounded to `places` decimal places, halves away from zero.

    >>> rounded(Fraction("2.5")), rounded(Fraction("-0.125"), 2), rounded(1234, -2)
    (3, Fraction(-13, 100), 1200)
    """
    if not -MAX_PLACES <= places <= MAX_PLACES:
        raise Fault(f"a number is rounded to at most {MAX_PLACES} decimal places")
    scaled = abs(Fraction(value)) * Fraction(10) ** places
    rounded_up = (2 * scaled.numerator + scaled.denominator) // (2 * scaled.denominator)
    return simple((rounded_up if value >= 0 else -rounded_up) / Fraction(10) ** places)


def root(value: Exact) -> Exact:
    """The square root; exact if it is rational, else to far more digits than a float has."""
    if value < 0:
        raise Fault("a negative number has no square root")
    above, below = isqrt(value.numerator), isqrt(value.denominator)
    if above * above == value.numerator and below * below == value.denominator:
        return simple(Fraction(above, below))
    shift = max(0, _ROOT_BITS + (value.denominator.bit_length() - value.numerator.bit_length()) // 2)
    return Fraction(isqrt((value.numerator << 2 * shift) // value.denominator), 1 << shift)


def power(base: Exact, exponent: Exact) -> Exact:
    """`base ** exponent`; exact if the exponent is whole or a half."""
    if base == 0 and exponent < 0:
        raise Fault("division by zero")
    if exponent.denominator == 1:
        times = exponent.numerator
        if base in (0, 1, -1):
            return 1 if times == 0 else base if times % 2 else abs(base)
        if max(base.numerator.bit_length(), base.denominator.bit_length()) * abs(times) > MAX_BITS + abs(
            times
        ):
            raise Fault("the power is too large to be kept exactly")
        return simple(Fraction(base) ** times)
    if base < 0:
        raise Fault("a negative number has only whole powers")
    if exponent == Fraction(1, 2):
        return root(base)
    try:
        return simple(Fraction(float(base) ** float(exponent)))
    except OverflowError:
        raise Fault("the power is too large") from None


MAX_LENGTH = 100_000
MAX_DEPTH = 50
_MAX_DIGITS, _MAX_EXPONENT = 400, 400

_TOKEN = re.compile(
    r"""(?P<number>(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)
      | (?P<name>[A-Za-z_][A-Za-z_0-9]*)
      | (?P<op>\*\*|//|[<>=!]=|[-+*/%<>(),\[\]])
      | (?P<text>"(?:[^"\\]|\\.)*"?)
      | (?P<blank>\s+)
      | (?P<other>.)""",
    re.VERBOSE | re.DOTALL,
)
_THOUSANDS = re.compile(r"[0-9],[0-9]{3}(?![0-9])")
_COMPARISONS: dict[str, Callable[[Exact, Exact], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
}


class Token(NamedTuple):
    """A token: its kind, its text and its offset in the expression."""

    kind: str
    text: str
    at: int


def work_out(text: str) -> int | float | bool:
    """The value of an expression; raises Fault."""
    if len(text) > MAX_LENGTH:
        raise Fault(f"the expression is longer than {MAX_LENGTH:,} characters")
    return _Reader(text).value()


def _tokens(text: str) -> Iterator[Token]:
    for match in _TOKEN.finditer(text):
        kind = match.lastgroup or "other"
        if kind != "blank":
            yield Token(kind, match.group(), match.start())
    yield Token("end", "", len(text))


class _Reader:
    """Recursive descent over the tokens of one expression."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = list(_tokens(text))
        self._next = 0
        self._depth = 0
        self._is_power = False

    def value(self) -> int | float | bool:
        left = self._sum()
        token = self._take()
        result: int | float | bool
        if token.text in _COMPARISONS:
            result = _COMPARISONS[token.text](left, self._sum())
            token = self._take()
        else:
            result = plain(left)
        if token.kind != "end":
            raise Fault(_misplaced(token), token.at)
        return result

    def _peek(self) -> str:
        token = self._tokens[self._next]
        return token.text if token.kind == "op" else ""

    def _take(self) -> Token:
        token = self._tokens[self._next]
        self._next = min(self._next + 1, len(self._tokens) - 1)
        return token

    def _expect(self, text: str) -> None:
        token = self._take()
        if token.text != text:
            raise Fault(f"{text} is missing" if token.kind == "end" else _misplaced(token), token.at)

    def _sum(self) -> Exact:
        value = self._product()
        while self._peek() in ("+", "-"):
            sign = self._take()
            right = self._product()
            value = _limited(sign, lambda a=value, b=right, s=sign.text: a + b if s == "+" else a - b)
        return value

    def _product(self) -> Exact:
        value = self._signed()
        while self._peek() in _PRODUCTS:
            sign = self._take()
            right = self._signed()
            if right == 0 and sign.text != "*":
                raise Fault("division by zero", sign.at)
            value = _limited(sign, lambda a=value, b=right, s=sign.text: _PRODUCTS[s](a, b))
        return value

    def _signed(self) -> Exact:
        """A number, perhaps with an adjoining minus: `- 1` may be `$a - 1` where $a is empty."""
        self._depth += 1
        token = self._tokens[self._next]
        if self._depth > MAX_DEPTH:
            raise Fault(f"the expression is nested deeper than {MAX_DEPTH} levels", token.at)
        if self._peek() == "-" and self._tokens[self._next + 1].at == token.at + 1:
            self._take()
            value = -self._signed()
            if self._is_power:
                raise Fault(
                    "a sign before a power is ambiguous: put parentheses around one of them", token.at
                )
        else:
            value = self._power()
        self._depth -= 1
        return value

    def _power(self) -> Exact:
        value = base = self._atom()
        self._is_power = False
        if self._peek() == "**":
            sign = self._take()
            exponent = self._signed()
            value = _limited(sign, lambda: power(base, exponent))
            self._is_power = True
        return value

    def _atom(self) -> Exact:
        token = self._take()
        if token.kind == "number":
            return _number(token)
        if token.kind == "name" and self._peek() == "(":
            return self._call(token)
        if token.text == "(":
            value = self._sum()
            self._expect(")")
            return value
        raise Fault(_no_number(token), token.at)

    def _call(self, name: Token) -> Exact:
        function = _FUNCTIONS.get(name.text.lower())
        if function is None:
            suggestions = did_you_mean(name.text.lower(), _FUNCTIONS)
            known = f"did you mean {suggestions[0]}?" if suggestions else "there are " + ", ".join(_FUNCTIONS)
            raise Fault(f"no function is called {name.text}; {known}", name.at)
        self._take()
        values: list[Exact] = []
        while self._peek() != ")":
            if self._peek() == "[":
                values += self._list()
            else:
                values.append(self._sum())
            if self._peek() == ",":
                self._separate()
            elif self._peek() != ")":
                self._expect(")")
        self._take()
        return _limited(name, lambda: function(values))

    def _separate(self) -> None:
        """Consume a comma between arguments, unless it may be a thousands separator."""
        comma = self._take()
        if comma.at and _THOUSANDS.match(self._text, comma.at - 1):
            raise Fault("is this one number or two? Remove the comma, or put a space after it", comma.at)

    def _list(self) -> list[Exact]:
        self._take()
        values: list[Exact] = []
        while self._peek() != "]":
            values.append(self._sum())
            if self._peek() != ",":
                break
            self._take()
        self._expect("]")
        return values


def _limited(token: Token, work: Callable[[], Exact]) -> Exact:
    """The result of `work`, limited in size; a fault in it is placed at `token`."""
    try:
        return simple(work())
    except Fault as fault:
        raise Fault(fault.message, token.at) from None


def _number(token: Token) -> Exact:
    mantissa, _, exponent = token.text.lower().partition("e")
    if len(mantissa) > _MAX_DIGITS or len(exponent) > 4 or abs(int(exponent or "0")) > _MAX_EXPONENT:
        raise Fault(f"a number has at most {_MAX_DIGITS} digits and an exponent of {_MAX_EXPONENT}", token.at)
    if mantissa.isdigit() and not exponent:
        return int(mantissa)
    return simple(Fraction(token.text))


def _misplaced(token: Token) -> str:
    if token.text == ",":
        return "a comma is allowed only between the values of a function; write a number without it (1200)"
    if token.text in _COMPARISONS:
        return "a comparison is between two values, and nothing can follow it"
    if token.kind == "number":
        return "an operator is missing before this number"
    return _no_number(token)


def _no_number(token: Token) -> str:
    if token.kind == "end":
        return "the expression ends where a number is missing (is a value empty?)"
    if token.kind in ("text", "name"):
        return f"{token.text[:40]} is not a number"
    if token.text in ("[", "]"):
        return "a list is allowed only in a function: sum([1, 2])"
    if token.text == ")":
        return "a parenthesis is closed that was not opened, or is empty"
    if token.kind == "op":
        return f"a number is missing before {token.text}"
    return f"{token.text!r} cannot be part of a number or an expression"


_PRODUCTS: dict[str, Callable[[Exact, Exact], Exact]] = {
    "*": lambda a, b: a * b,
    "/": lambda a, b: Fraction(a) / b,
    "//": lambda a, b: a // b,
    "%": lambda a, b: a % b,
}


# ---------------------------------------------------------------- functions


def _only(values: list[Exact]) -> Exact:
    if len(values) != 1:
        raise Fault(f"this function takes one number, not {len(values)}")
    return values[0]


def _some(values: list[Exact]) -> list[Exact]:
    if not values:
        raise Fault("this function needs at least one number")
    return values


def _total(values: list[Exact]) -> Exact:
    total: Exact = 0
    for value in values:
        total = simple(total + value)
    return total


def _round(values: list[Exact]) -> Exact:
    if len(values) == 2 and values[1].denominator == 1:
        return rounded(values[0], values[1].numerator)
    if len(values) == 2:
        raise Fault("the number of decimal places must be a whole number")
    return rounded(_only(values))


_FUNCTIONS: dict[str, Callable[[list[Exact]], Exact]] = {
    "min": lambda values: min(_some(values)),
    "max": lambda values: max(_some(values)),
    "sum": _total,
    "avg": lambda values: Fraction(_total(_some(values))) / len(values),
    "count": len,
    "abs": lambda values: abs(_only(values)),
    "round": _round,
    "floor": lambda values: math.floor(_only(values)),
    "ceil": lambda values: math.ceil(_only(values)),
    "sqrt": lambda values: root(_only(values)),
}


def function_names() -> tuple[str, ...]:
    """The functions that an expression may call.

    >>> "round" in function_names()
    True
    """
    return tuple(_FUNCTIONS)


def worked_out(expression: object) -> int | float | bool:
    """The value of the argument of `@CALC`: that of a text, or the number or truth that is given."""
    if isinstance(expression, bool):
        return expression
    if not isinstance(expression, str | int | float):
        kind = "nothing" if expression is None else type(expression).__name__
        raise Fault(f"the expression must be text or a number, not {kind}")
    if isinstance(expression, str):
        return work_out(expression)
    if isinstance(expression, float) and not math.isfinite(expression):
        raise Fault("the expression is not a finite number")
    return plain(exact(expression))
