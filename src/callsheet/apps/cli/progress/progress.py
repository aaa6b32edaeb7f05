"""The interface of progress displays, and the selection of one.

Input: notes of the machine. Output: text on standard error. When a run is resumed, the notes of earlier
events come first; they are recorded without being displayed, until `begin`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import suppress
from time import monotonic
from typing import Any, Protocol, Self

from callsheet.apps.cli.progress.call_news import CallNews, CallTracker
from callsheet.apps.cli.progress.earlier_notes import record_note
from callsheet.apps.cli.progress_mode import ProgressMode
from callsheet.apps.cli.terminal import can_redraw
from callsheet.ir import Order, Plan
from callsheet.machine.keys import step_of
from callsheet.machine.notes import Note, NoteKind
from callsheet.ports.calls import CallProgress

_RUNNING = frozenset({NoteKind.STARTED, NoteKind.RETRYING, NoteKind.TURN, NoteKind.ASKED, NoteKind.ANSWERED})


class Display(Protocol):
    """A progress display."""

    def begin(self, done: dict[str, Note]) -> None:
        """Start the display; `done` has the last note of each earlier step, and of a new plan.

        They are in order, so that notes after a new plan belong to its steps.
        """

    def show(self, note: Note, took: float | None, ago: float = 0.0) -> None:
        """Display a note that is `ago` seconds old; `took` is the duration of the step if it has ended."""

    def call(self, news: CallNews) -> None:
        """Display news about a call under way."""

    def end(self) -> None:
        """End the display."""


class Progress:
    """Receives the notes of a run and news of its calls, measures durations, and passes all to a display.

    It is a `CallListener`. A run does not depend on it: after an exception the display is dropped without a
    message. As a context manager it ends the display.
    """

    def __init__(self, display: Display, plan: Plan) -> None:
        self._display = display
        self._calls = CallTracker(plan, display.call)
        self._before: dict[str, Note] = {}
        self._since: dict[str, float] = {}
        self._early: dict[str, float] = {}
        """The start of calls that were sent before their turn."""
        self._done: dict[str, float] = {}
        """The last outcome of a call of each step that is under way."""
        self._is_live = False
        self._is_lost = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def note(self, note: Note) -> None:
        """Receive a note, as an observer of the machine."""
        item_took = self._calls.note(note)
        if not self._is_live:
            record_note(self._before, note)
            return
        took: float | None = None
        if note.kind is NoteKind.EARLY:
            self._early[note.step] = monotonic()
            self._done.pop(note.step, None)
        elif note.kind is NoteKind.STARTED:
            early = self._early.pop(note.step, None)
            if early is None:
                self._done.pop(note.step, None)
            self._since[note.step] = early or monotonic()
        elif note.kind in (NoteKind.SETTLED, NoteKind.FINISHED, NoteKind.FAILED):
            since = self._since.get(note.step)
            took = None if since is None else self._done.get(note.step, monotonic()) - since
            if note.at is not None and note.at.item:
                took = item_took
        self._draw(lambda: self._display.show(note, took))

    @property
    def listener(self) -> Self | None:
        """Itself, if its display shows anything."""
        return None if isinstance(self._display, NoDisplay) else self

    def began(self, key: str) -> None:
        """Hear that a call is sent."""
        self._draw(lambda: self._calls.began(key))

    def queued(self, key: str) -> None:
        """Hear that a call waits for others of its tool."""
        self._draw(lambda: self._calls.queued(key))

    def ended(self, key: str, *, succeeded: bool) -> None:
        """Hear that a call has an outcome."""
        self._done[step_of(key)] = monotonic()
        self._draw(lambda: self._calls.ended(key, succeeded=succeeded))

    def progressed(self, key: str, progress: CallProgress) -> None:
        """Hear what a tool reports about its progress."""
        self._draw(lambda: self._calls.progressed(key, progress))

    def begin(self, _driver: Any = None) -> None:
        """Start the display."""
        if not self._is_live:
            self._is_live = True
            now = monotonic()
            self._since = {s: now for s, note in self._before.items() if note.kind in _RUNNING}
            self._early = {s: now for s, note in self._before.items() if note.kind is NoteKind.EARLY}
            self._draw(lambda: self._display.begin(self._before))

    def end(self) -> None:
        """End the display and release the terminal."""
        self._draw(self._display.end)

    def _draw(self, draw: Callable[[], None]) -> None:
        if self._is_lost:
            return
        try:
            draw()
        except Exception:
            self._is_lost = True
            with suppress(Exception):
                self._display.end()


def choose_progress(stage: ProgressMode, plan: Plan, *, as_json: bool) -> Progress:
    """The progress for a mode; with a JSON result there is none unless the mode is explicit."""
    if stage is ProgressMode.AUTO:
        stage = (
            ProgressMode.NONE
            if as_json
            else ProgressMode.LIVE
            if can_redraw(sys.stderr)
            else ProgressMode.PLAIN
        )
    return Progress(display_for(stage, plan), plan)


def display_for(stage: ProgressMode, plan: Plan, run: str = "") -> Display:
    """The display of a mode; a live one shows the name of the run."""
    match stage:
        case ProgressMode.LIVE if plan.order is Order.DAG:
            from callsheet.apps.cli.progress.graph import LiveGraph  # noqa: PLC0415 - imports rich
            from callsheet.apps.cli.progress.heading import Heading  # noqa: PLC0415 - as above

            return LiveGraph(plan, heading=Heading(plan, run))
        case ProgressMode.LIVE:
            from callsheet.apps.cli.progress.heading import Heading  # noqa: PLC0415 - imports rich
            from callsheet.apps.cli.progress.live import LiveDisplay  # noqa: PLC0415 - as above

            return LiveDisplay(plan, heading=Heading(plan, run))
        case ProgressMode.JSON:
            from callsheet.apps.cli.progress.lines import JsonLines  # noqa: PLC0415 - only one is used

            return JsonLines()
        case ProgressMode.NONE:
            return NoDisplay()
        case ProgressMode.PLAIN | ProgressMode.AUTO:
            from callsheet.apps.cli.progress.lines import PlainLines  # noqa: PLC0415 - only one is used

            return PlainLines(plan)


class NoDisplay:
    """Displays nothing."""

    def begin(self, done: dict[str, Note]) -> None:
        """Do nothing."""

    def show(self, note: Note, took: float | None, ago: float = 0.0) -> None:
        """Do nothing."""

    def call(self, news: CallNews) -> None:
        """Do nothing."""

    def end(self) -> None:
        """Do nothing."""
