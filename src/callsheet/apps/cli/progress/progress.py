"""The interface of progress displays, and the selection of one.

Input: notes of the machine. Output: text on standard error. When a run is resumed, the notes of earlier
events come first; they are recorded without being displayed, until `begin`.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from time import monotonic, time
from typing import TYPE_CHECKING, Any, Protocol, Self, cast

from callsheet.apps.cli.options import ProgressMode
from callsheet.apps.cli.output import print_text, to_stderr
from callsheet.apps.cli.progress.call_news import (
    CallNews,
    CallTracker,
    LineThrottle,
    NewsKind,
    line_text,
    news_data,
)
from callsheet.apps.cli.progress.lines import record_note
from callsheet.apps.rendering.values import format_seconds, iso, preview
from callsheet.ir import Order, Plan
from callsheet.machine.keys import step_of
from callsheet.machine.notes import Note
from callsheet.ports.calls import CallProgress
from callsheet.store.events import EventType

if TYPE_CHECKING:
    from callsheet.apps.operations.live_calls import NoteRow
    from callsheet.ir import Plan
    from callsheet.machine.notes import Note
    from callsheet.trace.replay import Moment, PlayedNote
    from callsheet.views.describe import ActionTexts


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

    def restart(self) -> None:
        """What was shown so far happened in another process."""

    def end(self) -> None:
        """End the display."""


def _display_moment(display: Display, calls: CallTracker, moment: Moment, ago: float) -> None:
    """Display what a recorded event, `ago` seconds old, has brought about."""
    event = moment.event
    if event.key is not None and event.type.answers:
        calls.ended(event.key, succeeded=event.type is EventType.OK, ago=ago)
    for played in moment.notes:
        calls.note(played.note)
        display.show(played.note, played.took, ago)
    if event.key is not None and event.type.opens:
        calls.began(event.key, ago)


class Progress:
    """Receives the notes of a run and news of its calls, measures durations, and passes all to a display.

    It is a `CallListener`. A run does not depend on it: after an exception the display is dropped without a
    message. As a context manager it ends the display.
    """

    def __init__(self, display: Display, plan: Plan, *, draws: bool = False) -> None:
        self._display = display
        self._draws = draws
        self._calls = CallTracker(plan, display.call)
        self._before: dict[str, Note] = {}
        from callsheet.trace.visits import Visits  # noqa: PLC0415 - brings the store

        self._visits = Visits()
        self._is_live = False
        self._is_lost = False
        self._is_restored = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def note(self, note: Note) -> None:
        """Receive a note, as an observer of the machine."""
        item_took = self._calls.note(note)
        self._visits.at(monotonic())
        took = self._visits.timed(note)
        if not self._is_live:
            record_note(self._before, note)
            return
        if note.is_of_item and note.kind.ends_visit:
            took = item_took
        self._draw(lambda: self._display.show(note, took))

    def restore(self, moments: Callable[[Callable[[Moment], bool]], object]) -> None:
        """Display what the journal knows of a run that is resumed; `moments` passes on each of its moments.

        Only a display that draws the state of the whole run asks for them.
        """
        if not self._draws:
            return

        def take(moment: Moment) -> bool:
            _display_moment(self._display, self._calls, moment, max(0.0, time() - moment.event.ts))
            return True

        self._is_restored = True

        def draw() -> None:
            moments(take)
            self._display.restart()

        self._draw(draw)

    @property
    def observer(self) -> Callable[[Note], None]:
        """What receives the notes of the machine."""
        return self.note

    @property
    def listener(self) -> Self:
        """What hears of the calls."""
        return self

    def began(self, key: str) -> None:
        """Hear that a call is sent."""
        self._draw(lambda: self._calls.began(key))

    def queued(self, key: str) -> None:
        """Hear that a call waits for others of its tool."""
        self._draw(lambda: self._calls.queued(key))

    def ended(self, key: str, *, succeeded: bool) -> None:
        """Hear that a call has an outcome."""
        self._visits.at(monotonic())
        self._visits.answer(step_of(key), key)
        self._draw(lambda: self._calls.ended(key, succeeded=succeeded))

    def progressed(self, key: str, progress: CallProgress) -> None:
        """Hear what a tool reports about its progress."""
        self._draw(lambda: self._calls.progressed(key, progress))

    def begin(self, _driver: Any = None) -> None:
        """Start the display."""
        if not self._is_live:
            self._is_live = True
            self._visits.at(monotonic())
            self._visits.begin_anew()
            self._draw(lambda: self._display.begin({} if self._is_restored else self._before))

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


def display_for(stage: ProgressMode, plan: Plan, run: str = "") -> Display:
    """The display of a mode; a live one shows the name of the run."""
    match stage:
        case ProgressMode.LIVE if plan.order is Order.DAG:
            from callsheet.apps.cli.progress.live import Heading, LiveGraph  # noqa: PLC0415 - imports rich

            return LiveGraph(plan, heading=Heading(plan, run))
        case ProgressMode.LIVE:
            from callsheet.apps.cli.progress.live import (  # noqa: PLC0415 - as above
                Heading,
                LiveDisplay,
            )

            return LiveDisplay(plan, heading=Heading(plan, run))
        case ProgressMode.JSON:
            from callsheet.apps.cli.progress.lines import JsonLines  # noqa: PLC0415 - only one is used

            return JsonLines()
        case _:
            from callsheet.apps.cli.progress.lines import PlainLines  # noqa: PLC0415 - only one is used

            return PlainLines(plan)


class LivePlayback:
    """The live display of `run`, fed from a recording."""

    def __init__(self, plan: Plan, run: str) -> None:
        from callsheet.apps.cli.options import ProgressMode  # noqa: PLC0415 - as above

        self._display: Display = display_for(ProgressMode.LIVE, plan, run)
        self._calls = CallTracker(plan, self._display.call)
        self._before: dict[str, Note] = {}
        self._answer = ""

    def before(self, moment: Moment) -> None:
        """Record a moment before the first event that is shown."""
        from callsheet.apps.cli.progress.lines import record_note  # noqa: PLC0415 - not for --help

        for played in moment.notes:
            record_note(self._before, played.note)

    def begin(self) -> None:
        """Start drawing."""
        self._display.begin(self._before)

    def show(self, moment: Moment, _at: float, ago: float = 0.0) -> None:
        """Display a moment that is `ago` seconds old."""
        _display_moment(self._display, self._calls, moment, ago)
        if any(played.note.kind == "ended" for played in moment.notes):
            self._answer = _ended(moment)

    def progressed(self, key: str, progress: CallProgress, _at: float) -> None:
        """Display what a tool reports about an open call."""
        self._calls.progressed(key, progress)

    def end(self) -> None:
        """Release the terminal, and print how the run ended."""
        self._display.end()
        if self._answer:
            to_stderr(self._answer)


class LinePlayback:
    """Prints a line for each note, with the time since the start of the run."""

    def __init__(self, plan: Plan, *, as_json: bool) -> None:
        from callsheet.ir import Order  # noqa: PLC0415 - not for --help
        from callsheet.views.describe import ActionTexts  # noqa: PLC0415 - as above

        self._as_json = as_json
        self._actions = ActionTexts(plan)
        self._is_graph = plan.order is Order.DAG
        self._calls = CallTracker(plan, self._call)
        self._throttle = LineThrottle()
        self._at, self._seq = 0.0, 0

    def before(self, moment: Moment) -> None:
        """Earlier moments are not shown."""

    def begin(self) -> None:
        """Nothing to do."""

    def show(self, moment: Moment, at: float, _ago: float = 0.0) -> None:
        """Print a moment, `at` seconds after the start of the run."""
        event = moment.event
        self._at, self._seq = at, event.seq
        if event.key is not None and event.type.answers:
            self._calls.ended(event.key, succeeded=event.type is EventType.OK)
        for played in moment.notes:
            self._calls.note(played.note)
            if self._as_json:
                print_text(json.dumps(_json(moment, played, at), ensure_ascii=True))
                continue
            line = _line(moment, played, self._actions)
            if played.note.kind == "replanned" and not self._is_graph:
                self._actions.forget()
            if line:
                print_text(f"{moment.event.seq:>6}  +{format_seconds(max(0.0, at)):<9}  {line}")

        if event.key is not None and event.type.opens:
            self._calls.began(event.key)

    def progressed(self, key: str, progress: CallProgress, at: float) -> None:
        """Print what a tool reports about an open call, now and then."""
        self._at = at
        self._calls.progressed(key, progress)

    def _call(self, news: CallNews) -> None:
        if news.kind is not NewsKind.PROGRESS:
            return
        if self._as_json:
            row = {"seq": self._seq, "time": iso(time()), "at": round(self._at, 6), **news_data(news)}
            print_text(json.dumps(row, ensure_ascii=True))
            return
        if not self._throttle.passes(news):
            return
        word, text = line_text(news)
        print_text(f"{'':>6}  +{format_seconds(max(0.0, self._at)):<9}  {news.step:<5} {word:<8} {text}")

    def end(self) -> None:
        """Nothing to do."""


def _line(moment: Moment, played: PlayedNote, actions: ActionTexts) -> str:
    from callsheet.apps.cli.progress.lines import action_of, label_of, message_of  # noqa: PLC0415 - not for --help

    note = played.note
    if note.kind == "ended":
        return _ended(moment)
    word = label_of(note)
    if word is None:
        return ""
    took = "" if played.took is None else f"  ({format_seconds(played.took)})"
    begins = note.kind in ("started", "early")
    action = preview(actions.of(note.step), 100)
    message = action_of(note, action) if begins else message_of(note, actions.words)
    return f"{note.step:<5} {word:<8} {message}".rstrip() + took


def _ended(moment: Moment) -> str:
    note = next(played.note for played in moment.notes if played.note.kind == "ended")
    return f"ended: {note.detail}" + (f" at {note.step}" if note.step else "")


def _json(moment: Moment, played: PlayedNote, at: float) -> NoteRow:
    from callsheet.apps.cli.progress.lines import place_data  # noqa: PLC0415 - not for --help

    note, took = played
    row: NoteRow = {
        "seq": moment.event.seq,
        "time": iso(moment.event.ts),
        "at": round(at, 6),
        "event": str(note.kind),
        "step": note.step or None,
    }
    if note.detail:
        row["detail"] = note.detail
    row |= cast("NoteRow", place_data(note))
    if note.kind == "finished":
        row["outcome"] = note.outcome
    if note.var is not None or note.kind == "finished":
        row["var"], row["preview"] = note.var, preview(note.value, 200)
    if took is not None:
        row["seconds"] = round(took, 6)
    return row
