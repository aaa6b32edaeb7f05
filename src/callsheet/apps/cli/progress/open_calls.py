"""The calls of one step that are under way, as its row in a live display shows them."""

from __future__ import annotations

from dataclasses import dataclass
from time import monotonic

from callsheet.apps.cli.progress.call_news import CallNews, NewsKind
from callsheet.apps.rendering.values import format_seconds, preview
from callsheet.machine.notes import CallPlace, Note, NoteKind


@dataclass(slots=True)
class _Open:
    at: CallPlace
    since: float
    text: str = ""
    is_queued: bool = False
    """Whether it waits for other calls of its tool, which is no time of its own."""


class OpenCalls:
    """The open calls of a step, by item."""

    def __init__(self) -> None:
        self._calls: dict[int, _Open] = {}

    def take(self, news: CallNews) -> None:
        """Take news of a call."""
        item = news.at.item
        if news.kind is NewsKind.DONE:
            self._calls.pop(item, None)
            return
        call = self._calls.setdefault(item, _Open(news.at, 0.0))
        call.at = news.at
        call.is_queued = news.kind is NewsKind.QUEUED
        call.since = monotonic() - news.took
        if news.kind is NewsKind.PROGRESS:
            call.text = news.text

    def note(self, note: Note) -> None:
        """Take a note of the step."""
        at = note.at or CallPlace()
        if note.kind in (NoteKind.FINISHED, NoteKind.SETTLED):
            self._calls.clear()
        elif note.kind is NoteKind.FAILED:
            self._calls.pop(at.item, None)
        elif note.kind is NoteKind.RETRYING and at.item in self._calls:
            call = self._calls[at.item]
            call.at, call.text = at, preview(note.detail, 100)

    def text(self) -> str:
        """The oldest call in words, with how many others there are; "" if there is nothing to tell."""
        calls = list(self._calls.values())
        if not calls:
            return ""
        oldest = calls[0]
        others = f" and {len(calls) - 1} more" if len(calls) > 1 else ""
        took = f" ({format_seconds(monotonic() - oldest.since)})" if oldest.at.item else ""
        if oldest.is_queued:
            took = ", waiting for the tool" if oldest.at.item else "waiting for the tool"
        head = f"{oldest.at.describe()}{others}{took}"
        return ": ".join(filter(None, (head, oldest.text)))


def is_of_item(note: Note) -> bool:
    """Whether a note is about the failure of one item, after which its loop goes on."""
    return note.kind is NoteKind.FAILED and note.at is not None and note.at.item > 0
