"""Turns what happens to single calls of a run into news for a display: items of a FOREACH, progress of tools.

In: the keys of calls, from the listener of a run, and the notes of its machine. Out: news by step and item,
and what the open calls of a step do.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from time import monotonic
from typing import NamedTuple

from callsheet.apps.operations.live_calls import BETWEEN_LINES, progress_text
from callsheet.apps.rendering.loops import LoopCount, place_of
from callsheet.apps.rendering.values import finite, format_seconds, preview
from callsheet.ir import Plan
from callsheet.lazy import dataclass
from callsheet.machine.keys import is_of_tree, parse_key, visit_of
from callsheet.machine.notes import CallPlace, Note, NoteKind
from callsheet.ports.calls import CallProgress

SLOW = 1.0
"""Seconds from which an item of a FOREACH is mentioned on a line of its own."""


class NewsKind(StrEnum):
    """What happened to a call."""

    BEGAN = "began"
    QUEUED = "queued"
    """It waits for other calls of its tool, and leaves with a later `BEGAN`."""
    DONE = "item"
    """An item of a FOREACH, or the call of another step, has succeeded."""
    PROGRESS = "progress"


class CallNews(NamedTuple):
    """What happened to a call: `at` says which one of its step it is, `took` how long it has taken so far.

    `path` is that of its visit in a plan with blocks, elsewhere the step.
    """

    kind: NewsKind
    step: str
    path: str
    at: CallPlace
    took: float
    progress: CallProgress | None = None
    ago: float = 0.0
    """How many seconds old they are."""

    @property
    def text(self) -> str:
        """What the tool says about its progress; one line."""
        return "" if self.progress is None else progress_text(self.progress)


class CallTracker:
    """Follows the calls of a run, from the first attempt of each to its success or final failure."""

    def __init__(self, plan: Plan, tell: Callable[[CallNews], None]) -> None:
        self._tell = tell
        self._loops = frozenset(step.id for step in plan.steps if step.foreach is not None)
        self._since: dict[tuple[str, int], float] = {}
        """The start of the first attempt, by path and item from 1, 0 outside of a FOREACH."""
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

    def began(self, key: str, ago: float = 0.0) -> None:
        """A call is sent, or was `ago` seconds before."""
        at, step, path = self._place(key)
        if at.attempt == 1 and not _is_inner(key):
            self._since[path, at.item] = monotonic() - ago
        self._tell(CallNews(NewsKind.BEGAN, step, path, at, self._took(path, at)))

    def queued(self, key: str) -> None:
        """A call waits for others of its tool."""
        at, step, path = self._place(key)
        self._tell(CallNews(NewsKind.QUEUED, step, path, at, 0.0))

    def ended(self, key: str, *, succeeded: bool, ago: float = 0.0) -> None:
        """A call has an outcome; one that has failed may be retried, so its note follows."""
        if succeeded and not _is_inner(key):
            at, step, path = self._place(key)
            self._tell(CallNews(NewsKind.DONE, step, path, at, self._took(path, at), ago=ago))
            self._since.pop((path, at.item), None)

    def progressed(self, key: str, progress: CallProgress) -> None:
        """The tool has reported progress."""
        at, step, path = self._place(key)
        self._tell(CallNews(NewsKind.PROGRESS, step, path, at, self._took(path, at), progress))

    def _place(self, key: str) -> tuple[CallPlace, str, str]:
        parsed = parse_key(key)
        path = visit_of(key) if is_of_tree(key) else parsed.step
        _, items, _, attempts = self._latest.get(path, CallPlace())
        item = parsed.index + 1 if items or parsed.step in self._loops else 0
        return CallPlace(item, items, parsed.attempt, attempts), parsed.step, path

    def _took(self, path: str, at: CallPlace) -> float:
        return monotonic() - self._since.get((path, at.item), monotonic())


def _is_inner(key: str) -> bool:
    """Whether it is the key of a call within an agent's turn."""
    return "/" in key.rpartition(".")[2]


@dataclass(slots=True)
class _Open:
    at: CallPlace
    where: str
    """Where its visit stands in a plan with blocks."""
    since: float
    text: str = ""
    is_queued: bool = False
    """Whether it waits for other calls of its tool, which is no time of its own."""


class OpenCalls:
    """The open calls of a step, by visit and item, and how far its loop is if it is a FOREACH."""

    def __init__(self) -> None:
        self._calls: dict[tuple[str, int], _Open] = {}
        self._loop: LoopCount | None = None

    def take(self, news: CallNews) -> None:
        """Take news of a call."""
        key = news.path, news.at.item
        if news.kind is NewsKind.DONE:
            self._calls.pop(key, None)
            if self._loop is not None and news.at.item:
                self._loop.end(news.at.item, monotonic() - news.ago)
            return
        call = self._calls.setdefault(key, _Open(news.at, place_of(news.path), 0.0))
        call.at = news.at
        call.is_queued = news.kind is NewsKind.QUEUED
        call.since = monotonic() - news.took
        if news.kind is NewsKind.PROGRESS:
            call.text = news.text

    def note(self, note: Note, ago: float = 0.0) -> None:
        """Take a note of the step that is `ago` seconds old."""
        at = note.at or CallPlace()
        key = note.step, at.item
        if note.kind is NoteKind.STARTED and at.items and not at.item:
            self._loop = LoopCount(at.items, monotonic() - ago)
        elif note.kind in (NoteKind.FINISHED, NoteKind.SETTLED):
            self._calls = {known: call for known, call in self._calls.items() if known[0] != note.step}
            self._loop = None
        elif note.kind is NoteKind.FAILED:
            self._calls.pop(key, None)
            if self._loop is not None and at.item:
                self._loop.end(at.item, monotonic() - ago, failed=True)
        elif note.kind is NoteKind.RETRYING and key in self._calls:
            call = self._calls[key]
            call.at, call.text = at, preview(note.detail, 100)

    def restart(self) -> None:
        """Another process goes on: its calls are made anew."""
        self._calls = {}
        if self._loop is not None:
            self._loop.restart(monotonic())

    def text(self, otherwise: str = "") -> str:
        """How far the loop is, then the oldest open call with how many others there are, or `otherwise`."""
        loop = "" if self._loop is None else self._loop.text(monotonic())
        return ": ".join(filter(None, (loop, self._oldest() or otherwise)))

    def _oldest(self) -> str:
        calls = list(self._calls.values())
        if not calls:
            return ""
        oldest = calls[0]
        others = f" and {len(calls) - 1} more" if len(calls) > 1 else ""
        place, is_one = oldest.at.describe() or oldest.where, not (oldest.at.item or oldest.where)
        took = "" if is_one else f" ({format_seconds(monotonic() - oldest.since)})"
        if oldest.is_queued:
            took = "waiting for the tool" if is_one else ", waiting for the tool"
        return ": ".join(filter(None, (f"{place}{others}{took}", oldest.text)))


class LineThrottle:
    """Decides which news are worth a line in a log."""

    def __init__(self) -> None:
        self._last: dict[tuple[str, int], float] = {}
        """When the last line about a call was due, by path and item, in seconds of its duration."""

    def passes(self, news: CallNews) -> bool:
        """Whether to print a line: for a slow item that is done, and now and then for progress."""
        place = news.path, news.at.item
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
        row |= {"attempt": news.at.attempt, "done": finite(done), "total": finite(total)}
        row["message"] = preview(message, 200)
    return row


def line_text(news: CallNews) -> tuple[str, str]:
    """The label and the message of a line about a call."""
    if news.kind is NewsKind.PROGRESS:
        word = "waiting" if news.progress is not None and news.progress.waits else "working"
        return word, ": ".join(filter(None, (news.at.describe(), news.text.removeprefix("waiting "))))
    return "item", f"{news.at.describe().removeprefix('item ')}  ({format_seconds(news.took)})"
