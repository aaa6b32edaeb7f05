"""The expressions of `@CALC`: exact numbers, and clear errors."""

from __future__ import annotations

import math
import operator
from contextlib import suppress
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from callsheet.ports.calls import ToolFailed
from callsheet.ports.transforms import calc, format_text


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("1 + 2 * 3", 7),
        ("(1 + 2) * 3", 9),
        ("0.1 + 0.2", 0.3),
        ("19.99 * 3", 59.97),
        ("6 / 2", 3),
        ("7 / 2", 3.5),
        ("1 / 3", 1 / 3),
        ("1 / 3 * 3", 1),
        ("7 // 2", 3),
        ("-7 // 2", -4),
        ("-7 % 3", 2),
        ("5 - -3", 8),
        ("2 ** 10", 1024),
        ("2 ** -2", 0.25),
        ("2 ** 3 ** 2", 512),
        ("(-3) ** 2", 9),
        ("2 ** 0.5", math.sqrt(2)),
        ("8 ** (1 / 3)", 2.0),
        ("0 ** 0", 1),
        ("(-1) ** 1000001", -1),
        ("1.0", 1),
        ("1e3 + .5 + 5.", 1005.5),
        ("2 ** 200", 2**200),
        ("min(3, 1, 2) + max([4, 5], 6)", 7),
        ("sum([1, 2.5, 3])", 6.5),
        ("sum([])", 0),
        ("avg([1,2,4])", 7 / 3),
        ("count([1,2,4])", 3),
        ("abs(-2) + floor(-1.5) + ceil(1.2)", 2),
        ("round(2.5) + round(-2.5)", 0),
        ("round(2.675, 2)", 2.68),
        ("round(1234, -2)", 1200),
        ("sqrt(16) + sqrt(0.25)", 4.5),
        ("sqrt(2)", math.sqrt(2)),
        ("2 > 1", True),
        ("1 / 3 == 2 / 6", True),
        ("1 != 1.0", False),
        ("MAX(1, 2)", 2),
        (1.5, 1.5),
        (3, 3),
        (2.0, 2),
    ],
)
def test_expression_returns_documented_result(expression: Any, expected: Any) -> None:
    found = calc(expression)
    assert found == expected
    assert type(found) is type(expected) or found == int(expected)


@pytest.mark.parametrize(
    ("expression", "message", "at"),
    [
        ("1,200 * 2", "write a number without it", 1),
        ("max(1,200)", "one number or two", 5),
        ("abc * 2", "abc is not a number", 0),
        ('2 * "x"', '"x" is not a number', 4),
        ("sum([1,null])", "null is not a number", 7),
        (" * 1.2", "a number is missing before *", 1),
        (" + 1", "a number is missing before +", 1),
        (" - 1", "a number is missing before -", 1),
        ("2 * - 1", "a number is missing before -", 4),
        ("-", "is a value empty?", 1),
        ("1.2 * ", "is a value empty?", 6),
        ("", "is a value empty?", 0),
        ("1 2", "an operator is missing", 2),
        ("$5", "'$' cannot be part", 0),
        ("5%", "is a value empty?", 2),
        ("1 / 0", "division by zero", 2),
        ("1 % (2 - 2)", "division by zero", 2),
        ("1 // 0", "division by zero", 2),
        ("0 ** -1", "division by zero", 2),
        ("-3 ** 2", "a sign before a power", 0),
        ("(-8) ** 0.5", "only whole powers", 5),
        ("2 ** 5000", "too large", 2),
        ("2 ** 4000 * 2 ** 4000", "too large", 10),
        ("1e401", "an exponent of 400", 0),
        ("9" * 401, "at most 400 digits", 0),
        ("1e400 / 3", "too large for a number", None),
        ("1e300 ** 1.5", "too large", 6),
        ("sqrt(-1)", "no square root", 0),
        ("avg([])", "at least one", 0),
        ("abs(1, 2)", "takes one number, not 2", 0),
        ("round(1, 0.5)", "whole number", 0),
        ("round(1, 999)", "300 decimal places", 0),
        ("rund(1)", "did you mean round?", 0),
        ("__import__(1)", "no function is called __import__", 0),
        ("[1]", "a list is allowed only in a function", 0),
        ("(1", ") is missing", 2),
        ("1)", "not opened", 1),
        ("sum([1", "] is missing", 6),
        ("1 < 2 < 3", "a comparison is between two values", 6),
        ("-" * 60 + "1", "deeper than 50", None),
        ("(" * 9_000, "deeper than 50", None),
        ("1+" * 60_000 + "1", "longer than 100,000", None),
        (None, "not nothing", None),
        ([1], "not list", None),
        (math.inf, "finite", None),
    ],
)
def test_invalid_expression_error_has_reason_and_position(
    expression: Any, message: str, at: int | None
) -> None:
    with pytest.raises(ToolFailed) as failed:
        calc(expression)
    said, _, place = str(failed.value).partition("\n")
    assert message in said
    if at is not None and len(expression) < 20:
        assert place == f"  {expression}\n  {' ' * at}^"


OPERATORS = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "//": operator.floordiv,
    "%": operator.mod,
}
numbers = st.integers(-(10**6), 10**6).map(lambda n: (f"({n})", Fraction(n))) | st.decimals(
    -1000, 1000, places=3
).map(lambda d: (f"({d})", Fraction(d)))


def _joined(parts: Any) -> tuple[str, Fraction | None]:
    (left, a), sign, (right, b) = parts
    text = f"({left} {sign} {right})"
    if a is None or b is None or (b == 0 and sign in ("/", "//", "%")):
        return text, None
    return text, a / b if sign == "/" else Fraction(OPERATORS[sign](a, b))


expressions = st.recursive(
    numbers,
    lambda inner: st.tuples(inner, st.sampled_from([*OPERATORS, "/"]), inner).map(_joined),
    max_leaves=8,
)


@settings(max_examples=400, deadline=None)
@given(expressions)
def test_expression_equals_fraction_arithmetic(case: tuple[str, Fraction | None]) -> None:
    text, expected = case
    if expected is None:
        with pytest.raises(ToolFailed, match="division by zero"):
            calc(text)
        return
    found = calc(text)
    assert found == (expected.numerator if expected.denominator == 1 else float(expected))
    assert isinstance(found, int) == (expected.denominator == 1)


SIGN = st.sampled_from([*OPERATORS, "/"])
DIGITS = st.integers(0, 99).map(str)
PARTS = st.lists(DIGITS | SIGN, max_size=9) | st.tuples(
    DIGITS, st.lists(st.tuples(SIGN, DIGITS).map(list), max_size=5)
).map(lambda parts: [parts[0], *(text for pair in parts[1] for text in pair)])


@settings(max_examples=400, deadline=None)
@given(PARTS)
def test_precedence_is_that_of_python(parts: list[str]) -> None:
    text = " ".join(parts)
    is_sum = len(parts) % 2 == 1 and all(p.isdigit() == (i % 2 == 0) for i, p in enumerate(parts))
    expected: Fraction | None = None
    with suppress(ZeroDivisionError):
        if is_sum:
            expected = eval(
                " ".join(f"Fraction({p})" if p.isdigit() else p for p in parts), {"Fraction": Fraction}
            )
    if expected is None:
        with pytest.raises(ToolFailed):
            calc(text)
    else:
        assert calc(text) == float(expected)


@settings(max_examples=500, deadline=None)
@given(st.text(max_size=30) | st.text('0123456789.eE+-*/%()[], "maxsum<>=', max_size=30))
def test_any_text_is_finite_number_or_failure(text: str) -> None:
    with suppress(ToolFailed):
        assert math.isfinite(calc(text))


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_single_float_is_unchanged(number: float) -> None:
    assert float(calc(number)) == number
    assert float(calc(repr(number))) == number


def test_format_is_text_of_value() -> None:
    assert [format_text(v) for v in ("a", 1, True, None, {"a": [1]})] == ["a", "1", "true", "", '{"a":[1]}']
