"""Turns what happens to single calls of a run into news for a display: items of a FOREACH, progress of tools.

In: the keys of calls, from the listener of a run, and the notes of its machine. Out: news by step and item.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from math import isfinite
from time import monotonic
from typing import NamedTuple

from callsheet.apps.rendering.values import format_seconds, preview
from callsheet.ir import Plan
from callsheet.machine.keys import parse_key
from callsheet.machine.notes import CallPlace, Note, NoteKind
from callsheet.ports.calls import CallProgress

SLOW = 1.0
"""Seconds from which an item of a FOREACH is mentioned on a line of its own."""
BETWEEN_LINES = 2.0
"""Seconds between two lines about the progress of one call, and before the first one."""
_PERCENT = (1.0, 100.0)
"""Totals of tools that report a fraction."""


class NewsKind(StrEnum):
    """What happened to a call."""

    BEGAN = "began"
    QUEUED = "queued"
    """It waits for other calls of its tool, and leaves with a later `BEGAN`."""
    DONE = "item"
    """An item of a FOREACH, or the call of another step, has succeeded."""
    PROGRESS = "progress"


class CallNews(NamedTuple):
    """What happened to a call: `at` says which one of its step it is, `took` how long it has taken so far."""

    kind: NewsKind
    step: str
    at: CallPlace
    took: float
    progress: CallProgress | None = None

    @property
    def text(self) -> str:
        """What the tool says about its progress; one line."""
        return "" if self.progress is None else progress_text(self.progress)


def progress_text(progress: CallProgress) -> str:
    """Progress in words.

    >>> [progress_text(CallProgress(*said)) for said in ((3, 10, "pages"), (0.4, 1), (7,))]
    ['3 of 10, pages', '40%', '7']
    """
    done, total, message, waits = progress
    if waits:
        return preview(message, 100)
    if total in _PERCENT and 0 <= done <= total:
        count = f"{done / total:.0%}"
    else:
        count = f"{done:g}" if total is None else f"{done:g} of {total:g}"
    return ", ".join(filter(None, (count, preview(message, 100) if message else "")))


class CallTracker:
    """Follows the calls of a run, from the first attempt of each to its success or final failure."""

    def __init__(self, plan: Plan, tell: Callable[[CallNews], None]) -> None:
        self._tell = tell
        self._loops = frozenset(step.id for step in plan.steps if step.foreach is not None)
        self._since: dict[tuple[str, int], float] = {}
        """The start of the first attempt, by step and item from 1, 0 outside of a FOREACH."""
        self._latest: dict[str, CallPlace] = {}
        """What the last note of a step says about its calls: how many items and attempts there are."""

    def note(self, note: Note) -> float | None:
        """Take a note; returns how long the item that it ends has taken."""
        if note.kind is NoteKind.REPLANNED:
            self._loops, self._latest = frozenset[str](), {}
        if note.at is None:
            return None
        self._latest[note.step] = note.at
        if note.kind is not NoteKind.FAILED:
            return None
        since = self._since.pop((note.step, note.at.item), None)
        return None if since is None else monotonic() - since

    def began(self, key: str) -> None:
        """A call is sent."""
        at, step = self._place(key)
        if at.attempt == 1 and not _is_inner(key):
            self._since[step, at.item] = monotonic()
        self._tell(CallNews(NewsKind.BEGAN, step, at, self._took(step, at)))

    def queued(self, key: str) -> None:
        """A call waits for others of its tool."""
        at, step = self._place(key)
        self._tell(CallNews(NewsKind.QUEUED, step, at, 0.0))

    def ended(self, key: str, *, succeeded: bool) -> None:
        """A call has an outcome; one that has failed may be retried, so its note follows."""
        if succeeded and not _is_inner(key):
            at, step = self._place(key)
            self._tell(CallNews(NewsKind.DONE, step, at, self._took(step, at)))
            self._since.pop((step, at.item), None)

    def progressed(self, key: str, progress: CallProgress) -> None:
        """The tool has reported progress."""
        at, step = self._place(key)
        self._tell(CallNews(NewsKind.PROGRESS, step, at, self._took(step, at), progress))

    def _place(self, key: str) -> tuple[CallPlace, str]:
        parsed = parse_key(key)
        _, items, _, attempts = self._latest.get(parsed.step, CallPlace())
        item = parsed.index + 1 if items or parsed.step in self._loops else 0
        return CallPlace(item, items, parsed.attempt, attempts), parsed.step

    def _took(self, step: str, at: CallPlace) -> float:
        return monotonic() - self._since.get((step, at.item), monotonic())


def _is_inner(key: str) -> bool:
    """Whether it is the key of a call within an agent's turn."""
    return "/" in key.rpartition(".")[2]


class LineThrottle:
    """Decides which news are worth a line in a log."""

    def __init__(self) -> None:
        self._last: dict[tuple[str, int], float] = {}
        """When the last line about a call was due, by step and item, in seconds of its duration."""

    def passes(self, news: CallNews) -> bool:
        """Whether to print a line: for a slow item that is done, and now and then for progress."""
        place = news.step, news.at.item
        if news.kind is NewsKind.PROGRESS:
            last = self._last.get(place, 0.0)
            if news.progress is not None and news.progress.waits:
                return True
            if last <= news.took < last + BETWEEN_LINES:
                return False
            self._last[place] = news.took
            return True
        self._last.pop(place, None)
        return news.kind is NewsKind.DONE and news.at.item > 0 and news.took >= SLOW


def news_data(news: CallNews) -> dict[str, object]:
    """The news as JSON data, the item from 0 as in keys."""
    row: dict[str, object] = {"event": str(news.kind), "step": news.step}
    if news.at.item:
        row["item"] = news.at.item - 1
    if news.at.items:
        row["items"] = news.at.items
    if news.kind is NewsKind.DONE:
        return {**row, "seconds": round(news.took, 6)}
    if news.progress is not None:
        done, total, message, waits = news.progress
        if waits:
            return {**row, "waits": preview(message, 200)}
        row |= {"attempt": news.at.attempt, "done": _finite(done), "total": _finite(total)}
        row["message"] = preview(message, 200)
    return row


def _finite(number: float | None) -> float | None:
    return number if number is not None and isfinite(number) else None


def line_text(news: CallNews) -> tuple[str, str]:
    """The label and the message of a line about a call."""
    if news.kind is NewsKind.PROGRESS:
        word = "waiting" if news.progress is not None and news.progress.waits else "working"
        return word, ": ".join(filter(None, (news.at.describe(), news.text.removeprefix("waiting "))))
    return "item", f"{news.at.describe().removeprefix('item ')}  ({format_seconds(news.took)})"
