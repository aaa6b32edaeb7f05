"""The steps that values were made by: they explain a label, and decide nothing."""

from __future__ import annotations

from callsheet.machine.monitor.admitted import Origins

MOST = 8
"""So many steps are kept, the last ones."""
NONE: Origins = ()


def merged(left: Origins, right: Origins) -> Origins:
    """The steps of both, each once.

    >>> merged(("S1", "S2"), ("S2", "S3"))
    ('S1', 'S2', 'S3')
    """
    if not left or left is right or left == right:
        return right
    return tuple(dict.fromkeys((*left, *right)))[-MOST:] if right else left


class Extended:
    """Steps with one more at their end: for the same as the last time, the same tuple."""

    __slots__ = ("_last",)

    def __init__(self) -> None:
        self._last: dict[str, tuple[Origins, Origins]] = {}

    def by(self, origins: Origins, step: str) -> Origins:
        """The steps, and then this one.

        >>> Extended().by(("S1", "S2"), "S1")
        ('S2', 'S1')
        """
        last = self._last.get(step)
        if last is not None and last[0] == origins:
            return last[1]
        made = (*[other for other in origins if other != step], step)[-MOST:]
        self._last[step] = origins, made
        return made
