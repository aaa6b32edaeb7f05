"""Exact arithmetic on decimals: whole results become ints, others the nearest float."""

from __future__ import annotations

from fractions import Fraction
from math import isqrt
from typing import TypeAlias

from callsheet.ports.transforms.fault import Fault

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
