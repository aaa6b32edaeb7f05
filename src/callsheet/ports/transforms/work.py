"""Limits the work of a query: visited nodes, copied items and scanned text are counted."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, cast

from callsheet.ports.transforms.fault import TooMuchWork

ENOUGH = 5_000_000
"""The limit of one query; some seconds on a slow machine."""
AT_ONCE = 20_000
"""Work that is short enough to be done on the event loop."""
_CHARACTERS = 16
"""The number of characters that count as one step."""


class Work:
    """Counts work; raises TooMuchWork when the limit is exceeded."""

    __slots__ = ("_left",)

    def __init__(self, limit: int = ENOUGH) -> None:
        self._left = limit

    def charge(self, steps: int) -> None:
        """Count steps before they are done."""
        self._left -= steps
        if self._left < 0:
            raise TooMuchWork("the query is too expensive for one step; filter the data first")

    def charge_text(self, length: int) -> None:
        """Count a text of this length before it is read or built."""
        self.charge(length // _CHARACTERS + 1)

    def charge_values(self, values: Iterable[object]) -> None:
        """Count values with everything in them; a value that occurs several times counts each time."""
        stack = list(values)
        while stack:
            value = stack.pop()
            if type(value) is str:
                self.charge_text(len(value))
                continue
            self.charge(1)
            if isinstance(value, list):
                items = cast("list[Any]", value)
                self.charge(len(items))
                stack += items
            elif isinstance(value, dict):
                pairs = cast("dict[Any, Any]", value)
                self.charge(len(pairs))
                stack += pairs.values()
