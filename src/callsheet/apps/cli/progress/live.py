"""The live display of a text plan on a terminal: its steps with status, time and result.

A plan that is longer than the screen is shown in a window around the current steps.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from time import monotonic

from rich.console import Console, Group
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from callsheet.apps.cli.progress.call_news import CallNews
from callsheet.apps.cli.progress.heading import Heading
from callsheet.apps.cli.progress.lines import message_of
from callsheet.apps.cli.progress.live_screen import Drawing, Screen
from callsheet.apps.cli.progress.open_calls import OpenCalls, is_of_item
from callsheet.apps.rendering.values import format_seconds
from callsheet.ir import Plan
from callsheet.machine.notes import Note, NoteKind, StepOutcome
from callsheet.views.columns import cut, width
from callsheet.views.describe import describe_action

_ACTION_WIDTH = 36
_ID_WIDTH = 12
_BETWEEN = 5
"""The width of the mark and of the gaps between columns."""
_MARKS = {
    NoteKind.BEFORE: ("·", "dim"),
    NoteKind.FINISHED: ("✓", "green"),
    NoteKind.FAILED: ("✗", "red"),
    NoteKind.SKIPPED: ("–", "dim"),
    NoteKind.JUMPED: ("↷", "cyan"),
    NoteKind.ASKED: ("?", "yellow"),
}
_RUNNING = frozenset(
    {
        NoteKind.EARLY,
        NoteKind.STARTED,
        NoteKind.RETRYING,
        NoteKind.TURN,
        NoteKind.ASKED,
        NoteKind.ANSWERED,
    }
)
_IGNORED = frozenset(
    {
        NoteKind.ENDED,
        NoteKind.REPLANNED,
        NoteKind.EDITED,
        NoteKind.CAST_FAILED,
        NoteKind.CUT,
        NoteKind.EMPTY,
        NoteKind.FACT,
    }
)
"""Notes that do not change the row of a step."""
_REMARKS = {NoteKind.CUT: "[cut] ", NoteKind.EMPTY: "[empty text] "}
_BAD = (StepOutcome.FAILED, StepOutcome.STOPPED)
_BEGINS = (NoteKind.EARLY, NoteKind.STARTED, NoteKind.SKIPPED)
_AHEAD = 3
_FAILED_PART = 3
"""The fraction of lines, 1/N, for failed steps outside of the window."""
_FRAME_LINES = 2


@dataclass(slots=True)
class _Row:
    """The state of a step."""

    kind: NoteKind | None = None
    message: str = ""
    since: float = 0.0
    took: float | None = None
    visits: int = 0
    failed_items: int = 0
    calls: OpenCalls = field(default_factory=OpenCalls)
    remark: str = ""
    """What was remarked on its calls: a cut, a text with an empty reference."""
    """Whether an input or a result was cut."""


class LiveDisplay:
    """The live table of a run on standard error."""

    def __init__(self, plan: Plan, console: Console | None = None, heading: Heading | None = None) -> None:
        self._console = console or Screen(stderr=True)
        self._heading = heading
        self._steps: list[tuple[str, str]] = [(step.id, describe_action(step.action)) for step in plan.steps]
        self._place = {step_id: n for n, (step_id, _) in enumerate(self._steps)}
        self._rows = {step_id: _Row() for step_id, _ in self._steps}
        self._spinner = Spinner("dots")
        self._latest = 0
        self._is_replanned = False
        """Whether step ids now belong to a new plan."""
        self._live = Drawing(
            get_renderable=self._picture, console=self._console, refresh_per_second=10, transient=False
        )

    def begin(self, done: dict[str, Note]) -> None:
        """Start drawing."""
        for note in done.values():
            self._apply(note, None)
            if self._is_replanned and note.step in self._place:
                self._steps[self._place[note.step]] = (note.step, "")
        self._live.start()

    def show(self, note: Note, took: float | None, ago: float = 0.0) -> None:
        """Apply a note; the next refresh draws it."""
        self._apply(note, took, ago)

    def call(self, news: CallNews) -> None:
        """Apply news of a call; the next refresh draws them."""
        row = self._rows.get(news.step)
        if row is not None:
            row.calls.take(news)

    def end(self) -> None:
        """Draw for the last time and release the terminal."""
        if self._live.is_started:
            self._live.stop()

    def _apply(self, note: Note, took: float | None, ago: float = 0.0) -> None:
        if self._heading is not None:
            self._heading.apply(note, ago)
        if note.kind in _IGNORED:
            self._is_replanned |= note.kind is NoteKind.REPLANNED
            if note.kind in _REMARKS and note.step in self._rows:
                self._rows[note.step].remark = _REMARKS[note.kind]
            if note.kind is NoteKind.ENDED:
                self._stop(ago)
            return
        row = self._rows.get(note.step)
        if row is None:
            row = self._rows[note.step] = _Row()
            self._place[note.step] = len(self._steps)
            self._steps.append((note.step, ""))
        elif self._is_replanned and note.kind in _BEGINS:
            self._steps[self._place[note.step]] = (note.step, "")
        was_early = row.kind is NoteKind.EARLY
        row.calls.note(note)
        if note.kind is NoteKind.SETTLED:
            row.kind = NoteKind.FAILED if note.is_failure else NoteKind.FINISHED
            row.took, row.message = took, "waits for its group"
            return
        row.message = message_of(note)
        if is_of_item(note):
            row.failed_items += 1
            return
        if row.failed_items and note.kind is NoteKind.FINISHED:
            items = "1 item" if row.failed_items == 1 else f"{row.failed_items:,} items"
            row.message, row.failed_items = f"{items} failed, {row.message}", 0
        row.kind = NoteKind.FAILED if note.outcome in _BAD else note.kind
        if note.kind is NoteKind.EARLY or (note.kind is NoteKind.STARTED and not was_early):
            row.since, row.visits = monotonic() - ago, row.visits + 1
        row.took = took if took is not None else None if note.kind in _RUNNING else row.took
        self._latest = max(self._place[note.step], 0)

    def _stop(self, ago: float) -> None:
        """Mark the steps that were running at the end of the run as stopped."""
        for row in self._rows.values():
            if row.kind in _RUNNING:
                row.kind, row.message = NoteKind.FAILED, "stopped"
                row.took = max(0.0, monotonic() - ago - row.since)

    def _picture(self) -> Group:
        """The heading, if any, and the table."""
        table = self._table()
        return (
            Group(table) if self._heading is None else Group(self._heading.line(self._console.width), table)
        )

    def _table(self) -> Table:
        """The rows, no wider than the screen: long actions and results are cut."""
        shown = [(cut(step_id, _ID_WIDTH), action, self._rows[step_id]) for step_id, action in self._window()]
        times = [_time_of(row) for _, _, row in shown]
        room = self._console.width - _BETWEEN
        room -= max((width(name) for name, _, _ in shown), default=0) + max(map(width, times), default=0)
        actions = [_action_of(action, row, max(1, min(_ACTION_WIDTH, room))) for _, action, row in shown]
        room -= max(map(width, actions), default=0)
        table = Table.grid(padding=(0, 1))
        table.add_column(width=1)
        table.add_column(no_wrap=True)
        table.add_column(no_wrap=True)
        table.add_column(justify="right", no_wrap=True)
        table.add_column(no_wrap=True)
        for (name, _, row), action, took in zip(shown, actions, times, strict=True):
            message = (row.calls.text() if row.kind in _RUNNING else "") or row.message
            message = cut(f"{row.remark}{message}", room) if room > 0 else ""
            self._add(table, row, (name, action, took, message))
        return table

    def _window(self) -> list[tuple[str, str]]:
        """The steps that fit on the screen: around the latest one, and the last failed ones above it."""
        height = max(4, self._console.height - _FRAME_LINES - (self._heading is not None))
        end = min(len(self._steps), max(height, self._latest + 1 + _AHEAD))
        above = self._steps[: max(0, end - height)]
        failed = [step for step in above if self._rows[step[0]].kind is NoteKind.FAILED]
        kept_failed = failed[-(height // _FAILED_PART) :]
        return [*kept_failed, *self._steps[len(above) + len(kept_failed) : end]]

    def _add(self, table: Table, row: _Row, texts: tuple[str, str, str, str]) -> None:
        name, action, took, message = texts
        running = row.kind in _RUNNING and row.kind is not NoteKind.ASKED
        mark, style = ("", "") if row.kind is None else _MARKS.get(row.kind, ("", ""))
        table.add_row(
            self._spinner if running else Text(mark, style),
            Text(name, "bold" if running else "dim" if row.kind is None else ""),
            Text(action, "dim" if row.kind is None else ""),
            Text(took, "dim"),
            Text(message, "red" if row.kind is NoteKind.FAILED else "dim"),
        )


def _time_of(row: _Row) -> str:
    took = monotonic() - row.since if row.kind in _RUNNING else row.took
    return format_seconds(took) if took is not None else ""


def _action_of(action: str, row: _Row, most: int) -> str:
    """The action and the number of visits, cut to the width."""
    times = f" ×{row.visits}" if row.visits > 1 else ""
    return cut(action, max(1, most - len(times))) + times
