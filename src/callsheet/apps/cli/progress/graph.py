"""The live display of a dependency plan on a terminal: its graph, level by level.

If the plan is larger than the screen, it shows the running and failed steps and their neighbours, and the
number of the others.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from threading import Lock
from time import monotonic

from rich.console import Console, Group
from rich.text import Text

from callsheet.apps.cli.progress.call_news import CallNews
from callsheet.apps.cli.progress.lines import message_of
from callsheet.apps.cli.progress.live import Drawing, Heading, OpenCalls, Screen
from callsheet.apps.rendering.values import format_seconds
from callsheet.ir import Plan
from callsheet.machine.notes import Note, NoteKind, StepState
from callsheet.views.columns import Gap, cut, pad, printable, shown_rows, width
from callsheet.views.terminal import Layout, LevelRows, StepStatus, mark_of

_STATUS = {
    StepState.RUNNING: StepStatus.RUNNING,
    StepState.WAITING: StepStatus.RUNNING,
    StepState.DONE: StepStatus.DONE,
    StepState.FAILED: StepStatus.FAILED,
    StepState.STOPPED: StepStatus.FAILED,
    StepState.SKIPPED: StepStatus.SKIPPED,
}
_STYLES = {
    StepStatus.PENDING: ("", "dim"),
    StepStatus.RUNNING: ("cyan", "bold"),
    StepStatus.DONE: ("green", ""),
    StepStatus.FAILED: ("red", ""),
    StepStatus.SKIPPED: ("dim", "dim"),
}
"""The styles of the mark and of the step."""
_WORDS = {
    StepStatus.DONE: "done",
    StepStatus.RUNNING: "running",
    StepStatus.FAILED: "failed",
    StepStatus.SKIPPED: "skipped",
    StepStatus.PENDING: "pending",
}
_TIME = 8
_FRAME_LINES = 2
_MAX_FAILED = 5


@dataclass(slots=True)
class _State:
    """The state of a step."""

    status: StepStatus = StepStatus.PENDING
    message: str = ""
    since: float = 0.0
    took: float | None = None
    calls: OpenCalls = field(default_factory=OpenCalls)


class LiveGraph:
    """The live graph of a dependency plan on standard error."""

    def __init__(self, plan: Plan, console: Console | None = None, heading: Heading | None = None) -> None:
        self._console = console or Screen(stderr=True)
        self._heading = heading
        self._rows = LevelRows(plan)
        self._place = {plan.steps[number].id: place for place, number in enumerate(self._rows.order)}
        self._states = [_State() for _ in self._rows.order]
        self._added: list[str] = []
        """Steps of a new plan, which follow those of the first one."""
        self._counts = Counter({StepStatus.PENDING: len(self._states)})
        self._running: dict[int, None] = {}
        self._failed: dict[int, None] = {}
        self._latest = 0
        self._lock = Lock()
        self._drawing = Drawing(
            get_renderable=self._picture, console=self._console, refresh_per_second=10, transient=False
        )

    def begin(self, done: dict[str, Note]) -> None:
        """Start drawing."""
        for note in done.values():
            self._apply(note, None)
        self._drawing.start()

    def show(self, note: Note, took: float | None, ago: float = 0.0) -> None:
        """Apply a note; the next refresh draws it."""
        self._apply(note, took, ago)

    def call(self, news: CallNews) -> None:
        """Apply news of a call; the next refresh draws them."""
        with self._lock:
            place = self._place.get(news.step)
            if place is not None:
                self._states[place].calls.take(news)

    def end(self) -> None:
        """Draw for the last time and release the terminal."""
        if self._drawing.is_started:
            self._drawing.stop()

    # ------------------------------------------------------------ state

    def _apply(self, note: Note, took: float | None, ago: float = 0.0) -> None:
        status = None if note.state is None else _STATUS.get(note.state)
        if self._heading is not None:
            with self._lock:
                self._heading.apply(note, ago)
        if status is None:
            return
        with self._lock:
            place = self._place.get(note.step)
            if place is None:
                place = self._place[note.step] = len(self._states)
                self._states.append(_State())
                self._added.append(note.step)
                self._counts[StepStatus.PENDING] += 1
            state = self._states[place]
            state.calls.note(note)
            self._counts[state.status] -= 1
            self._counts[status] += 1
            state.status, state.message, state.took = status, message_of(note), took
            if note.kind is NoteKind.STARTED:
                state.since = monotonic() - ago
            for places, kind in ((self._running, StepStatus.RUNNING), (self._failed, StepStatus.FAILED)):
                if status is kind:
                    places[place] = None
                else:
                    places.pop(place, None)
            self._latest = place

    # ------------------------------------------------------------ drawing

    def _picture(self) -> Group:
        """The lines that fit on the screen."""
        with self._lock:
            columns, height = self._console.width, self._console.height - _FRAME_LINES
            if self._heading is None:
                return Group(*self._lines(columns, max(4, height)))
            return Group(self._heading.line(columns), *self._lines(columns, max(4, height - 1)))

    def _lines(self, columns: int, height: int) -> Iterator[Text]:
        count = len(self._states)
        layout = self._rows.layout(columns, _TIME + 2)
        with_gaps = count + len(self._rows.begins) - 1 <= height
        if count <= height:
            for place in range(count):
                if with_gaps and place and place in self._rows.begins:
                    yield Text("")
                yield self._line(place, layout, columns)
            return
        failed = list(self._failed)[:_MAX_FAILED]
        for row in shown_rows(count, height - 1, [*self._running, *failed, self._latest]):
            if isinstance(row, Gap):
                yield Text(f"⋮ {row.rows} more", "dim")
            else:
                yield self._line(row, layout, columns)
        parts = [f"{self._counts[status]} {word}" for status, word in _WORDS.items() if self._counts[status]]
        yield Text(cut(f"{count} steps: {', '.join(parts)}", columns))

    def _line(self, place: int, layout: Layout, columns: int) -> Text:
        state, known = self._states[place], len(self._rows.order)
        head = (
            self._rows.head(place, layout)
            if place < known
            else cut(printable(self._added[place - known]), 24)
        )
        took = monotonic() - state.since if state.status is StepStatus.RUNNING else state.took
        time = pad(cut(format_seconds(took), _TIME) if took is not None else "", _TIME)
        room = columns - 2 - width(head) - 2 - _TIME - 2
        message = (state.calls.text() if state.status is StepStatus.RUNNING else "") or state.message
        message = cut(message, room) if room > 0 else ""
        if not message and place < known:
            message = self._rows.more(place, room)
        mark_style, style = _STYLES[state.status]
        text = Text(no_wrap=True, overflow="crop")
        text.append(mark_of(state.status, ansi=False), mark_style)
        text.append(f" {head}", style)
        text.append(f"  {time}", "dim")
        text.append(f"  {message}".rstrip(), "red" if state.status is StepStatus.FAILED else "dim")
        return text
