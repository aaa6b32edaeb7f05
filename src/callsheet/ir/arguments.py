"""Assigns positional arguments to parameters."""

from __future__ import annotations

from collections.abc import Collection, Iterable


def filled_parameters(parameters: Iterable[str], named: Collection[str], count: int) -> list[str]:
    """The parameters that `count` positional arguments fill: the first ones not in `named`.

    The result is shorter than `count` if there are too few parameters.

    >>> filled_parameters(("path", "text", "mode"), {"text"}, 2)
    ['path', 'mode']
    """
    return [name for name in parameters if name not in named][:count]
