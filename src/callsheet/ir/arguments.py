"""Which parameters positional arguments fill."""

from __future__ import annotations

from collections.abc import Collection, Iterable


def filled_parameters(parameters: Iterable[str], named: Collection[str], count: int) -> list[str]:
    """The parameters that so many arguments without a name fill: in order those that no name is given for.

    There may be fewer than arguments.

    >>> filled_parameters(("path", "text", "mode"), {"text"}, 2)
    ['path', 'mode']
    """
    return [name for name in parameters if name not in named][:count]
