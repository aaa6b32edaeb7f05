"""The live display of a run on a terminal: its steps and open calls, or its graph, level by level.

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
from rich.live import Live
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from callsheet.apps.cli.progress.call_news import CallNews, OpenCalls
from callsheet.apps.cli.progress.lines import message_of
from callsheet.apps.rendering.loops import Loops, place_of, statement_of
from callsheet.apps.rendering.values import format_seconds
from callsheet.ir import Plan
from callsheet.machine.notes import Note, NoteKind, StepState
from callsheet.views.columns import Gap, cut, pad, printable, shown_rows, width
from callsheet.views.describe import describe_action, wording_of
from callsheet.views.terminal import Layout, LevelRows, StepStatus, mark_of


class Screen(Console):
    """A console on standard error; if it is closed, drawing stops and the process continues."""

    def on_broken_pipe(self) -> None:
        """Stop drawing; rich would end the process."""
        self.quiet = True


class Drawing(Live):
    """A live display that stops if it cannot be written."""

    def refresh(self) -> None:
        """Draw; also called by the refresh thread."""
        try:
            super().refresh()
        except (OSError, ValueError):
            self.console.quiet = True


_SHOWN = (
    StepState.DONE,
    StepState.RUNNING,
    StepState.WAITING,
    StepState.FAILED,
    StepState.STOPPED,
    StepState.SKIPPED,
)


def listed_steps(plan: Plan) -> list[tuple[str, str]]:
    """The steps that a display lists, with what each does, in the order of the text."""
    if plan.tree is None:
        return [(step.id, describe_action(step.action)) for step in plan.steps]
    from callsheet.ir.tree import (  # noqa: PLC0415 - only for plans with blocks
        Act,
        Compute,
        Foreach,
        Invoke,
        Repeat,
        Say,
        Word,
        all_statements,
    )

    statement = wording_of(plan).statement
    listed = (Act, Compute, Foreach, Invoke, Repeat)
    return [
        (one.id, statement(one))
        for one in all_statements(plan.tree)
        if isinstance(one, listed) or (isinstance(one, Say) and one.word is Word.RESPOND)
    ]


class Heading:
    """Counts the steps of a run by state."""

    def __init__(self, plan: Plan, run: str = "") -> None:
        self._run = run
        self._states: dict[str, StepState | None] = dict.fromkeys(step for step, _ in listed_steps(plan))
        self._began: float | None = None
        self._ended: float | None = None
        self._status = ""

    def apply(self, note: Note, ago: float = 0.0, state: StepState | None = None) -> None:
        """Count a note that is `ago` seconds old; `state` is that of the step with its other visits."""
        now = monotonic() - ago
        self._began = now if self._began is None else self._began
        if note.kind is NoteKind.ENDED:
            self._ended, self._status = now, note.detail
            running = [step for step, state in self._states.items() if state is StepState.RUNNING]
            self._states.update(dict.fromkeys(running, StepState.STOPPED))
        state = state or note.state
        if state is not None and note.step:
            is_early = state is StepState.EARLY
            self._states[note.step] = StepState.RUNNING if is_early else state

    def line(self, columns: int) -> Text:
        """The current heading."""
        counts = Counter([*self._states.values()])
        texts = [f"{counts[state]} {state}" for state in _SHOWN if counts[state]]
        steps = f"{len(self._states)} step{'' if len(self._states) == 1 else 's'}"
        parts = [f"run {printable(self._run)}" if self._run else "", self._status]
        parts.append(f"{steps}: {', '.join(texts)}" if texts else steps)
        if self._began is not None:
            until = monotonic() if self._ended is None else self._ended
            parts.append(format_seconds(max(0.0, until - self._began)))
        return Text(cut(" · ".join(filter(None, parts)), columns), "bold", no_wrap=True, overflow="crop")


_ACTION_WIDTH = 36
_ID_WIDTH = 12
_BETWEEN = 5
"""The width of the mark and of the gaps between columns."""
_MARKS = {
    StepState.DONE: ("✓", "green"),
    StepState.FAILED: ("✗", "red"),
    StepState.STOPPED: ("✗", "red"),
    StepState.SKIPPED: ("–", "dim"),
    StepState.WAITING: ("?", "yellow"),
}
_OWN_MARKS = {NoteKind.BEFORE: ("·", "dim"), NoteKind.JUMPED: ("↷", "cyan")}
_NO_MARK = "", ""
_REMARKS = {NoteKind.CUT: "[cut] ", NoteKind.EMPTY: "[empty text] "}
_BAD = (StepState.FAILED, StepState.STOPPED)
_OPEN = (StepState.EARLY, StepState.RUNNING, StepState.WAITING)
_BEGINS = (NoteKind.EARLY, NoteKind.STARTED, NoteKind.SKIPPED)
_AHEAD = 3
_FAILED_PART = 3
"""The fraction of lines, 1/N, for failed steps outside of the window."""
_FRAME_LINES = 2


@dataclass(slots=True)
class _Row:
    """The state of a step."""

    state: StepState | None = None
    mark: tuple[str, str] = _NO_MARK
    message: str = ""
    since: float = 0.0
    took: float | None = None
    visits: int = 0
    failed_items: int = 0
    open: dict[str, float] = field(default_factory=dict[str, float])
    """Its visits that are under way, by path, and since when."""
    calls: OpenCalls = field(default_factory=OpenCalls)
    remark: str = ""
    """What was remarked on its calls: a cut, a text with an empty reference."""

    @property
    def is_open(self) -> bool:
        """Whether it is under way, be it ahead of its turn."""
        return self.state in _OPEN

    def become(self, note: Note, path: str, ago: float) -> None:
        """Take the state that a visit has after a note; a jump is the last that a step does.

        While another visit is under way, the step is.
        """
        state = note.state or StepState.DONE
        mark = _OWN_MARKS.get(note.kind) or _MARKS.get(state, _NO_MARK)
        if state not in _OPEN:
            self.open.pop(path, None)
        elif note.kind in _BEGINS or path not in self.open:
            early = self.open.get(path) if self.state is StepState.EARLY else None
            self.open[path] = monotonic() - ago if early is None else early
        if self.open and state not in _OPEN:
            state, mark = StepState.RUNNING, _NO_MARK
        self.state, self.mark = state, mark
        self.since = next(iter(self.open.values()), self.since)


class LiveDisplay:
    """The live table of a run on standard error."""

    def __init__(self, plan: Plan, console: Console | None = None, heading: Heading | None = None) -> None:
        self._console = console or Screen(stderr=True)
        self._heading = heading
        self._words = wording_of(plan)
        self._steps = listed_steps(plan)
        self._loops = None if plan.tree is None else Loops()
        """The loops of a plan with blocks, whose statements have many visits at a time."""
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

    def restart(self) -> None:
        """What was applied happened in another process: no call is under way."""
        if self._loops is not None:
            self._loops.restart(monotonic())
        for row in self._rows.values():
            row.calls.restart()

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
        path = note.step
        if self._loops is not None and path:
            self._loops.take(note, monotonic() - ago)
            note = note._replace(step=statement_of(path))
        if note.kind.state is None and note.kind is not NoteKind.JUMPED:
            self._tell_heading(note, ago)
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
        was_early = row.state is StepState.EARLY
        row.calls.note(note._replace(step=path), ago)
        if note.kind is NoteKind.SETTLED:
            row.become(note, path, ago)
            self._tell_heading(note, ago, row)
            row.took, row.message = took, "waits for its group"
            return
        row.message = ": ".join(filter(None, (place_of(path), message_of(note, self._words))))
        if note.is_of_item and note.kind is NoteKind.FAILED:
            row.failed_items += 1
            return
        if row.failed_items and note.kind is NoteKind.FINISHED:
            items = "1 item" if row.failed_items == 1 else f"{row.failed_items:,} items"
            row.message, row.failed_items = f"{items} failed, {row.message}", 0
        row.become(note, path, ago)
        self._tell_heading(note, ago, row)
        if note.kind is NoteKind.EARLY or (note.kind is NoteKind.STARTED and not was_early):
            row.visits += 1
        row.took = took if took is not None else None if row.is_open else row.took
        self._latest = max(self._place[note.step], 0)

    def _tell_heading(self, note: Note, ago: float, row: _Row | None = None) -> None:
        if self._heading is not None:
            self._heading.apply(note, ago, None if row is None else row.state)

    def _stop(self, ago: float) -> None:
        """Mark the steps that were running at the end of the run as stopped."""
        for row in self._rows.values():
            if row.is_open:
                row.state, row.mark, row.message = StepState.STOPPED, _MARKS[StepState.STOPPED], "stopped"
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
            message = self._under_way(row) if row.is_open else row.message
            message = cut(f"{row.remark}{message}", room) if room > 0 else ""
            self._add(table, row, (name, action, took, message))
        return table

    def _under_way(self, row: _Row) -> str:
        """How far the loop of a row is, and what its calls do."""
        path = next(iter([*row.open]), "")
        loop = "" if self._loops is None else self._loops.text(path, monotonic())
        return loop or row.calls.text(row.message)

    def _window(self) -> list[tuple[str, str]]:
        """The steps that fit on the screen: around the latest one, and the last failed ones above it."""
        height = max(4, self._console.height - _FRAME_LINES - (self._heading is not None))
        end = min(len(self._steps), max(height, self._latest + 1 + _AHEAD))
        above = self._steps[: max(0, end - height)]
        failed = [step for step in above if self._rows[step[0]].state in _BAD]
        kept_failed = failed[-(height // _FAILED_PART) :]
        return [*kept_failed, *self._steps[len(above) + len(kept_failed) : end]]

    def _add(self, table: Table, row: _Row, texts: tuple[str, str, str, str]) -> None:
        name, action, took, message = texts
        running = row.is_open and row.state is not StepState.WAITING
        mark, style = row.mark
        table.add_row(
            self._spinner if running else Text(mark, style),
            Text(name, "bold" if running else "dim" if row.state is None else ""),
            Text(action, "dim" if row.state is None else ""),
            Text(took, "dim"),
            Text(message, "red" if row.state in _BAD else "dim"),
        )


def _time_of(row: _Row) -> str:
    took = monotonic() - row.since if row.is_open else row.took
    return format_seconds(took) if took is not None else ""


def _action_of(action: str, row: _Row, most: int) -> str:
    """The action and the number of visits, cut to the width."""
    times = f" ×{row.visits}" if row.visits > 1 else ""
    return cut(action, max(1, most - len(times))) + times


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

    def restart(self) -> None:
        """What was applied happened in another process: no call is under way."""
        with self._lock:
            for state in self._states:
                state.calls.restart()

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
            state.calls.note(note, ago)
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
        message = state.message
        if state.status is StepStatus.RUNNING:
            message = state.calls.text(message)
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
