"""A click parameter type for finite numbers: rejects infinity and `nan`.

Input: the text of an option. Output: a number, or a usage error with the name of the option.
"""

from __future__ import annotations

import math
from typing import Any

import click


class FiniteRange(click.FloatRange):
    """A finite number in a range. click accepts `nan` in any range, since comparisons with it are false."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The number; fails if it is not finite or not in the range."""
        number = super().convert(value, param, ctx)
        if not math.isfinite(number):
            self.fail(f"{value!r} is not a finite number", param, ctx)
        return number
