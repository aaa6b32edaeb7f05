"""A click parameter type for finite numbers: refuses infinity and `nan`.

In: the text behind an option. Out: a number, or click's refusal, which names the option.
"""

from __future__ import annotations

import math
from typing import Any

import click


class FiniteRange(click.FloatRange):
    """A number of a range. click itself takes `nan` for one in any range: no comparison holds for it."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The number; refused where it is not finite, and as click does it."""
        number = super().convert(value, param, ctx)
        if not math.isfinite(number):
            self.fail(f"{value!r} is not a finite number", param, ctx)
        return number
