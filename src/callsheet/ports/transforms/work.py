"""How much a query may do: every node visited, item copied and text scanned counts."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, cast

from callsheet.ports.transforms.fault import TooMuchWork

ENOUGH = 5_000_000
"""What one query may do; some seconds of a slow machine."""
AT_ONCE = 20_000
"""What takes so short a time that an event loop can wait for it."""
_CHARACTERS = 16
"""So many characters of a text count as one step."""


class Work:
    """Counts what is done; raises TooMuchWork where it is more than the limit."""

    __slots__ = ("_left",)

    def __init__(self, limit: int = ENOUGH) -> None:
        self._left = limit

    def charge(self, steps: int) -> None:
        """Count steps that are about to be done."""
        self._left -= steps
        if self._left < 0:
            raise TooMuchWork("the query does too much for one step; filter the data first, or ask for less")

    def charge_text(self, length: int) -> None:
        """Count a text of this length that is about to be read or made."""
        self.charge(length // _CHARACTERS + 1)

    def charge_values(self, values: Iterable[object]) -> None:
        """Count values with all that is in them, each place in which one stands on its own."""
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
