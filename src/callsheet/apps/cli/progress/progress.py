"""The interface of progress displays, and the choice of one.

In: the machine's notes. Out: text on standard error. When a run is resumed, the notes of what
happened before come first: they are taken in silence, until `begin`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import suppress
from time import monotonic
from typing import Any, Protocol, Self

from callsheet.apps.cli.progress.earlier_notes import record_note
from callsheet.apps.cli.progress_mode import ProgressMode
from callsheet.apps.cli.terminal import is_terminal
from callsheet.ir import Order, Plan
from callsheet.machine.notes import Note, NoteKind

_RUNNING = frozenset({NoteKind.STARTED, NoteKind.RETRYING, NoteKind.TURN, NoteKind.ASKED, NoteKind.ANSWERED})


class Display(Protocol):
    """Shows notes somewhere."""

    def begin(self, done: dict[str, Note]) -> None:
        """The run goes on now; `done` is the last note of each step from before, and of a new plan.

        They stand in their order, so that those behind a new plan are of its steps.
        """

    def show(self, note: Note, took: float | None, ago: float = 0.0) -> None:
        """Something happened, so many seconds `ago`; `took` is how long the step has run, if it has ended."""

    def end(self) -> None:
        """Nothing more will happen in this process."""


class Progress:
    """Takes the notes of one run, measures how long steps take, and hands both to a display.

    Nothing of a run depends on it: a display that fails, as one whose reader has gone, is given
    up in silence. As a context it ends with the block.
    """

    def __init__(self, display: Display) -> None:
        self._display = display
        self._before: dict[str, Note] = {}
        self._since: dict[str, float] = {}
        self._early: dict[str, float] = {}
        """When calls left whose turn has not come."""
        self._is_live = False
        self._is_lost = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def note(self, note: Note) -> None:
        """Take a note; it is an observer of the machine."""
        if not self._is_live:
            record_note(self._before, note)
            return
        took: float | None = None
        if note.kind is NoteKind.EARLY:
            self._early[note.step] = monotonic()
        elif note.kind is NoteKind.STARTED:
            self._since[note.step] = self._early.pop(note.step, None) or monotonic()
        elif note.kind in (NoteKind.FINISHED, NoteKind.FAILED):
            since = self._since.get(note.step)
            took = None if since is None else monotonic() - since
        self._draw(lambda: self._display.show(note, took))

    def begin(self, _driver: Any = None) -> None:
        """What comes from now on happens now."""
        if not self._is_live:
            self._is_live = True
            now = monotonic()
            self._since = {s: now for s, note in self._before.items() if note.kind in _RUNNING}
            self._early = {s: now for s, note in self._before.items() if note.kind is NoteKind.EARLY}
            self._draw(lambda: self._display.begin(self._before))

    def end(self) -> None:
        """Leave the screen in order."""
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
    """The progress that was asked for; with a JSON result none is shown unless it was named."""
    if stage is ProgressMode.AUTO:
        on_terminal = is_terminal(sys.stderr)
        stage = ProgressMode.NONE if as_json else ProgressMode.LIVE if on_terminal else ProgressMode.PLAIN
    return Progress(display_for(stage, plan))


def display_for(stage: ProgressMode, plan: Plan, run: str = "") -> Display:
    """The display of a stage that is chosen; a live one has the name of the run above it."""
    match stage:
        case ProgressMode.LIVE if plan.order is Order.DAG:
            from callsheet.apps.cli.progress.graph import LiveGraph  # noqa: PLC0415 - brings rich
            from callsheet.apps.cli.progress.heading import Heading  # noqa: PLC0415 - as above

            return LiveGraph(plan, heading=Heading(plan, run))
        case ProgressMode.LIVE:
            from callsheet.apps.cli.progress.heading import Heading  # noqa: PLC0415 - brings rich
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
    """Shows nothing."""

    def begin(self, done: dict[str, Note]) -> None:
        """Show nothing."""

    def show(self, note: Note, took: float | None, ago: float = 0.0) -> None:
        """Show nothing."""

    def end(self) -> None:
        """Show nothing."""
