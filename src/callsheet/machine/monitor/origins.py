"""Origins: the steps that a value was made by. They explain a label in messages and decide nothing."""

from __future__ import annotations

from callsheet.machine.monitor.admitted import Origins

MOST = 8
"""The most steps that are kept: the last ones."""
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
    """Appends a step to origins, remembering the last result, as loops ask for the same one repeatedly."""

    __slots__ = ("_origins", "_result", "_step")

    def __init__(self) -> None:
        self._step = ""
        self._origins: Origins = NONE
        self._result: Origins = NONE

    def extend(self, origins: Origins, step: str) -> Origins:
        """The origins with `step` moved or added to the end.

        >>> Extended().extend(("S1", "S2"), "S1")
        ('S2', 'S1')
        """
        if origins is self._origins and step is self._step:
            return self._result
        others = tuple([other for other in origins if other != step]) if step in origins else origins
        extended = others[1 - MOST :] + (step,)  # noqa: RUF005 - for each call: faster than unpacking
        self._step, self._origins, self._result = step, origins, extended
        return extended
