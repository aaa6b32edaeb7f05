"""A click parameter type for a fraction of a time; imports nothing but click."""

from __future__ import annotations

from typing import Any

import click

_PERCENT = 100


class ToleranceType(click.ParamType[float]):
    """A fraction of a time, such as `20%` or `0.2`."""

    name = "FRACTION"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """The fraction as a number of at least 0."""
        if isinstance(value, float):
            return value
        text = str(value)
        try:
            part = float(text.removesuffix("%")) / (_PERCENT if text.endswith("%") else 1)
        except ValueError:
            part = -1.0
        if not 0 <= part < float("inf"):
            self.fail(f"{text!r} is not a fraction; write 20% or 0.2", param, ctx)
        return part
