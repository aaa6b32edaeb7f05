"""How far the loops of a run are: items done and failed, their rate, the time left.

In: notes and news with the time of each. Out: words. A plan with blocks names its visits by paths such as
`S2[4]/S5`: the statement is S5, and it stands in item 4 of the loop S2.
"""

from __future__ import annotations

from collections.abc import Iterator

from callsheet import lazy
from callsheet.apps.rendering.values import format_seconds
from callsheet.machine.keys import step_named
from callsheet.machine.notes import Note, NoteKind, StepState

_WINDOW = 50
"""The number of items from whose ends the present rate is computed."""
_PLACE = lazy.pattern(r"\[#?(\d+)\]|~\d+$")


def statement_of(path: str) -> str:
    """The statement of a visit.

    >>> statement_of("S2[4]/S5"), statement_of("S1"), statement_of("S7[#3]")
    ('S5', 'S1', 'S7')
    """
    return step_named(_PLACE.sub("", path.rpartition("/")[2]))


def place_of(path: str) -> str:
    """Where a visit of a plan with blocks stands.

    >>> place_of("S2[4]/S5"), place_of("S1")
    ('S2[4]', '')
    """
    return path.rpartition("/")[0]


def items_around(path: str) -> Iterator[tuple[str, int]]:
    """The loops around a visit, and which item of each it is in.

    >>> list(items_around("S2[4]/S5[0]/S6"))
    [('S2', 4), ('S2[4]/S5', 0)]
    """
    for found in _PLACE.finditer(path):
        if found[1]:
            yield path[: found.start()], int(found[1])


class LoopCount:
    """The items of a visit of a loop that began at a time in seconds; `items` is 0 if unknown."""

    def __init__(self, items: int, since: float) -> None:
        self.items = items
        self._open: dict[int, int] = {}
        self._ended: dict[int, float] = {}
        """When each item ended that is not under way, in this order."""
        self._failed: set[int] = set()
        self._restarted = since

    def restart(self, at: float) -> None:
        """Another process goes on: the rate is that of the items that end from now on."""
        self._open.clear()
        self._restarted = at

    def begin(self, item: int) -> None:
        """Something of an item begins."""
        self._open[item] = self._open.get(item, 0) + 1
        self._ended.pop(item, None)

    def end(self, item: int, at: float, *, failed: bool = False) -> None:
        """Something of an item has ended; the item has, if nothing else of it is under way."""
        left = self._open.pop(item, 1) - 1
        if failed:
            self._failed.add(item)
        if left > 0:
            self._open[item] = left
        else:
            self._ended[item] = at

    def text(self, now: float) -> str:
        """How far it is, in words; "" before the first item is done.

        >>> loop = LoopCount(10, 0.0)
        >>> for item in range(4):
        ...     loop.begin(item)
        ...     loop.end(item, item + 1.0, failed=item == 2)
        >>> loop.text(4.0)
        '4 of 10, 1 with failures, 1.0/s, 6.0 s left'
        """
        done = len(self._ended)
        if not done:
            return ""
        parts = [f"{done:,} of {self.items:,}" if self.items else f"{done:,}"]
        if self._failed:
            parts.append(f"{len(self._failed):,} with failures")
        last = [at for at in [*self._ended.values()][-_WINDOW - 1 :] if at >= self._restarted]  # a copy
        since = last[0] if len(last) > _WINDOW else self._restarted
        counted = min(len(last), _WINDOW)
        if counted > 1 and now > since:
            rate = counted / (now - since)
            parts.append(_rate(rate))
            if self.items > done:
                parts.append(f"{format_seconds((self.items - done) / rate)} left")
        return ", ".join(parts)


def _rate(rate: float) -> str:
    number, unit = (rate, "s") if rate >= 1 else (rate * 60, "min") if rate * 60 >= 1 else (rate * 3600, "h")
    return f"{number:.0f}/{unit}" if number >= 10 else f"{number:.1f}/{unit}"


class Loops:
    """The loops of a plan with blocks that are under way, by the paths of their visits."""

    def __init__(self) -> None:
        self._by_path: dict[str, LoopCount] = {}

    def take(self, note: Note, at: float) -> None:
        """Take a note of that time."""
        path, kind = note.step, note.kind
        if kind is NoteKind.STARTED:
            if note.at is not None and note.at.items:
                self._by_path[path] = LoopCount(note.at.items, at)
            for loop, item in items_around(path):
                self._by_path.setdefault(loop, LoopCount(0, at)).begin(item)
        elif kind.ends_visit or kind is NoteKind.SKIPPED:
            self._by_path.pop(path, None)
            failed = note.state is StepState.FAILED
            for loop, item in items_around(path):
                if loop in self._by_path:
                    self._by_path[loop].end(item, at, failed=failed)

    def restart(self, at: float) -> None:
        """Another process goes on with them."""
        for loop in self._by_path.values():
            loop.restart(at)

    def text(self, path: str, now: float) -> str:
        """How far the loop with this path is; "" if there is none."""
        loop = self._by_path.get(path)
        return "" if loop is None else loop.text(now)
