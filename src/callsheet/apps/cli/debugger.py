"""`callsheet debug`: steps through a recorded run on a terminal, with single keys."""

from __future__ import annotations

import codecs
import os
import re
import sys
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import click

from callsheet.apps.cli import journals, options
from callsheet.apps.cli.debugging.faces import Stops, face_of, stops
from callsheet.apps.cli.exit_status import Exit
from callsheet.apps.cli.output import (
    ignoring_broken_pipe,
    is_terminal,
    print_json,
    print_text,
    to_stderr,
    writing,
)
from callsheet.apps.operations.lineage import diff_lines
from callsheet.apps.operations.runs import shown_status
from callsheet.apps.rendering.values import format_seconds, preview
from callsheet.diagnostics import CallsheetError
from callsheet.sealing.sealer import shown
from callsheet.store.errors import JournalError
from callsheet.store.events import Event
from callsheet.store.journal import Journal
from callsheet.store.runs import RunInfo
from callsheet.trace.blame import blame_of
from callsheet.trace.comparing import compare_runs
from callsheet.trace.lineage.lineage import NONE
from callsheet.trace.lineage.record import lineage_of
from callsheet.trace.lineage.slices import Node, backward
from callsheet.trace.projection.recording import record_of
from callsheet.trace.replay import state_at_event
from callsheet.trace.search import finder, search
from callsheet.views.debugger import (
    KEY_LINES,
    FactConfidence,
    Row,
    Selected,
    Story,
    read_lines,
    row_at,
    rows_of,
    step_lines,
)
from callsheet.views.lineage import why_lines, words_of
from callsheet.views.report.visits import Times, facts_of, times_of

if TYPE_CHECKING:
    from rich.text import Text

    from callsheet.apps.cli.debugging.model import Face
    from callsheet.apps.operations.printed_rows import Debugged, DebuggedStep
    from callsheet.machine import Machine
    from callsheet.views.debugger import Line

_COLUMNS = 120
_ENTER, _ESCAPE, _BACK = frozenset("\r\n"), "\x1b", frozenset({"\x7f", "\x08"})


@click.command()
@click.argument("run", metavar="RUN")
@stops
@journals.journal_path
@options.as_json
def debug(run: str, stops: Stops, journal: Path | None, as_json: bool) -> int:
    """Step through the recorded RUN on a terminal. Nothing is executed.

    RUN is a run id, a unique prefix of one, or `last`. If standard output is not a terminal, the steps are
    printed. With --step or --break the recording is stepped through statement by statement, as `callsheet
    run --step` does it.

    \b
    Keys:
      j, k (down, up)     next, previous step
      l, h (right, left)  next, previous event
      w                   lineage of the value of the step
      v                   variables after the event
      d                   differences from another run
      /, n                search, next match
      e                   export as a report (.html) or as LCTL (.yaml)
      q                   quit
    """
    from callsheet.views.debugger import plain_lines  # noqa: PLC0415 - as above

    if as_json and any(stops):
        raise click.UsageError("--json prints all steps: remove it, or --step and --break")
    face = None if as_json else face_of(stops, otherwise="without them the steps are printed")
    with journals.open_to_read(journal) as opened:
        info = opened.find_run(run)
        if face is not None:
            return _step_through(opened, info, face)
        view = RunView(opened, info)
        with ignoring_broken_pipe():
            if as_json:
                print_json(_json(view))
            elif is_terminal(sys.stdout) and is_terminal(sys.stdin):
                _run_interactive(Debugger(view), view)
            else:
                for line in plain_lines(view.story, _COLUMNS):
                    print_text(line.text.rstrip())
    return Exit.OK


def _step_through(journal: Journal, info: RunInfo, face: Face) -> int:
    """Replay a run statement by statement: a face is told of each stop, and says how to go on."""
    from asyncio import Runner  # noqa: PLC0415 - only where a recording is stopped

    from callsheet.apps.cli.debugging.faces import debugger_of_recorded  # noqa: PLC0415 - as above
    from callsheet.apps.masking import Masker  # noqa: PLC0415 - as above
    from callsheet.apps.settings import load_settings  # noqa: PLC0415 - as above
    from callsheet.store.replay import fold  # noqa: PLC0415 - as above

    debugger = debugger_of_recorded(journal, info, face, Masker(load_settings().secrets.shapes))
    to_stderr(f"the recording of run {info.run_id}: nothing is executed")
    with suppress(KeyboardInterrupt), Runner() as runner:

        def look(machine: Machine) -> None:
            if debugger.stops(machine):
                runner.run(debugger.stopped())

        plan, events = journal.plan_of(info.plan_hash), journal.events(info.run_id)
        folded = fold(plan, events, journal.plan_of, look=look)
        if folded.start.is_veiled:
            to_stderr("what the run computed from secrets was computed from their placeholders here")
        to_stderr(f"the recording ends here: {shown_status(journal, info).replace('_', ' ')}")
    return Exit.OK


def _json(run: RunView) -> Debugged:
    steps: list[DebuggedStep] = [
        {
            "step": row.label,
            "mark": row.mark,
            "action": row.action,
            "first": row.first,
            "last": row.last,
            "begun": round(row.begun, 6),
            "ended": round(row.ended, 6),
            "came": row.came,
            "likely_cause": row.is_cause,
        }
        for row in run.rows()
    ]
    return {"run_id": run.run_id, "status": run.status, "events": len(run.story.events), "steps": steps}


def _run_interactive(debugger: Debugger, run: RunView) -> None:
    """Draw the run and handle keys until the user quits."""
    from rich.console import Console  # noqa: PLC0415 - only on a terminal

    from callsheet.views.debugger import screen_lines  # noqa: PLC0415 - as above

    console = Console(highlight=False)

    def render_screen(prompt: str | None = None) -> Text:
        lines = screen_lines(run.story, debugger.view, console.width, console.height)
        if prompt is not None:
            lines[-2] = lines[-2]._replace(text=prompt[-console.width + 1 :] + "▏")
        return _styled_text(lines)

    with (
        suppress(KeyboardInterrupt, EOFError),
        keyboard() as keys,
        console.screen(hide_cursor=True) as screen,
    ):

        def ask(question: str, initial: str) -> str | None:
            return _read_text(keys, initial, lambda text: screen.update(render_screen(question + text)))

        screen.update(render_screen())
        while debugger.press(keys.key(), ask):
            screen.update(render_screen())


def _read_text(keys: Keyboard, initial: str, show: Callable[[str], None]) -> str | None:
    """Read a text key by key; None if it is cancelled with Escape."""
    text = initial
    while True:
        show(text)
        key = keys.key()
        if key in _ENTER:
            return text.strip()
        if key == _ESCAPE:
            return None
        if key in _BACK:
            text = text[:-1]
        elif key.isprintable():
            text += key


def _styled_text(lines: list[Line]) -> Text:
    """The lines as rich text; texts of a run are not parsed as markup."""
    from rich.text import Text  # noqa: PLC0415 - only on a terminal

    styled = Text(no_wrap=True, overflow="crop", end="")
    for number, line in enumerate(lines):
        styled.append(("\n" if number else "") + line.text, style=str(line.style) or None)
    return styled


_MAX_EVENTS = 5_000
"""The largest run, in events, for whose values a confidence is computed."""
_MAX_PLACES = 2_000
_DEPTH = 6
_MAX_LINES = 500
_MAX_DIFFERENCES = 20


def _event_line(event: Event, count: int, times: Times) -> str:
    body = "" if event.body is None else preview(shown(event.body), 200)
    about = " ".join(filter(None, (str(event.type), event.key, body)))
    return f"event {event.seq} of {count}  +{format_seconds(max(0.0, times.of(event.seq)))}  {about}"


class RunView:
    """A run of an open journal, as of its opening. Raises JournalError for unreadable events."""

    def __init__(self, journal: Journal, info: RunInfo) -> None:
        self._journal, self._info = journal, info
        self._plan = journal.plan_of(info.plan_hash)
        events = list(journal.events(info.run_id))
        self._lineage = lineage_of(self._plan, journal.entries(info.run_id), journal.plan_of)
        times = times_of(events, info)
        rows = rows_of(self._lineage, self._confidences(), times)
        lines = tuple(_event_line(event, len(events), times) for event in events)
        self.story = Story(self._head(times), rows, lines)

    @property
    def run_id(self) -> str:
        """The id of the run."""
        return self._info.run_id

    @property
    def status(self) -> str:
        """The status of the run."""
        return shown_status(self._journal, self._info)

    def _confidences(self) -> dict[int, FactConfidence]:
        if self._info.events > _MAX_EVENTS:
            return {}
        record = record_of(self._plan, self._journal.events(self.run_id), self._journal.plan_of)
        facts = facts_of(record, {})
        return {
            fact.write: FactConfidence(fact.id, fact.value, fact.basis)
            for fact in facts
            if fact.write != NONE
        }

    def _head(self, times: Times) -> str:
        info = self._info
        bad_event = self._journal.verify(info.run_id)
        name = info.title or info.plan_id or ""
        status = self.status
        failed = blame_of(self._lineage) if status in ("failed", "refused") else None
        at = ""
        if failed is not None and failed.visit != NONE:
            at = f" at {self._lineage.label(self._lineage.visits[failed.visit])}"
        chain = "chain ok" if bad_event is None else f"CHAIN BROKEN at event {bad_event.seq}"
        took = format_seconds(max(times.at) - times.inherited)
        return f"run {info.run_id}  {name + '  ' if name else ''}{status.upper()}{at}  {took}  {chain}"

    # ------------------------------------------------------------ views

    def step(self, row: int) -> list[str]:
        """The inputs and the result of a step."""
        return step_lines(self._lineage, self._lineage.visits[self.story.rows[row].visit])

    def why(self, row: int) -> list[str]:
        """The lineage of the value of a step; for a step without a value, what it has read."""
        visit = self._lineage.visits[self.story.rows[row].visit]
        written = self._lineage.write_of.get(visit.id, NONE)
        if written == NONE:
            return read_lines(self._lineage, visit)
        start = Node(written, ())
        graph = backward(self._lineage, start, _MAX_PLACES, _DEPTH)
        return list(islice(why_lines(self._lineage, graph, start, _DEPTH), _MAX_LINES))

    def variables(self, seq: int) -> list[str]:
        """The variables after an event."""
        _, folded = state_at_event(self._journal, self._info, seq)
        words = words_of(self._lineage)
        shown = folded.variables_to_show().items()
        lines = [f"{words.variable(name)} = {preview(value, 200)}" for name, value in shown]
        return lines or ["no variable is set"]

    def diff(self, other: str) -> list[str]:
        """The differences from another run. Raises JournalError if there is no such run."""
        info = self._journal.find_run(other)
        return [
            f"A {self.run_id}, B {info.run_id}",
            *diff_lines(compare_runs(self._journal, self._info, info, _MAX_DIFFERENCES)),
        ]

    def search(self, text: str) -> list[tuple[int, str]]:
        """The events that match a text or a pattern, with the place. Raises JournalError (JRN085)."""
        find = finder(text, ignore_case=text.islower())
        events = self._journal.events(self.run_id)
        matches = islice(search(self._plan, events, self._journal.plan_of, find), _MAX_PLACES)
        return [
            (m.seq, f"{m.what} {m.place}".rstrip() + f": {preview(f'{m.before}{m.text}{m.after}', 120)}")
            for m in matches
        ]

    def export(self, path: Path) -> str:
        """Write the run as a report (.html) or as LCTL (.yaml), and return a message.

        Raises CallsheetError (CFG014) if the file cannot be written.
        """
        if path.suffix in (".yaml", ".yml"):
            from callsheet.runtime.reporting import lctl_of  # noqa: PLC0415 - only where it is asked for
            from callsheet.trace.lctl.write import write  # noqa: PLC0415 - as above

            text = write(lctl_of(self._journal, self.run_id))
        elif path.suffix in (".html", ".htm"):
            from callsheet.runtime.reporting import MADE_BY, report_document, report_page  # noqa: PLC0415
            from callsheet.views.report.build import Showing  # noqa: PLC0415 - as above

            text = report_page(report_document(self._journal, self.run_id, MADE_BY, Showing(), None))
        else:
            raise JournalError(
                "CFG014", f"{path} is neither .html nor .yaml", "name a file RUN.html or RUN.yaml"
            )
        with writing(path, None):
            path.write_text(text, encoding="utf-8", errors="backslashreplace")
        return f"wrote {path}, {len(text):,} characters"

    def row_at(self, seq: int) -> int:
        """The row of the last visit that had started at an event."""
        return row_at(self.story, seq)

    def rows(self) -> Sequence[Row]:
        """The visits of the run."""
        return self.story.rows


Ask = Callable[[str, str], "str | None"]
"""Takes a question and an initial text, returns the typed text, or None if it was cancelled."""
_ARROWS = {
    f"\x1b{between}{letter}": key
    for between in "[O"
    for letter, key in (("A", "k"), ("B", "j"), ("C", "l"), ("D", "h"))
}
"""The escape sequences of arrow keys, and the keys that they are equivalent to."""
QUIT = frozenset({"q", "Q", "\x1b", "\x03", "\x04"})


class Debugger:
    """The state of the debugger; `press` handles a key."""

    def __init__(self, run: RunView) -> None:
        self._run = run
        self._matches: list[tuple[int, str]] = []
        last = len(run.story.events)
        rows = run.rows()
        row = next((n for n, row in enumerate(rows) if row.has_failures), 0)
        self.view = Selected(row, rows[row].last if rows else last)
        self._show_step()

    def press(self, key: str, ask: Ask) -> bool:
        """Handle a key. Returns False if the debugger is to quit."""
        key = _ARROWS.get(key, key)
        if key in QUIT:
            return False
        self.view = self.view._replace(message="")
        try:
            self._handle(key, ask)
        except (CallsheetError, ValueError) as error:
            message = error.diagnostics[0].message if isinstance(error, CallsheetError) else str(error)
            self.view = self.view._replace(message=message)
        return True

    def _handle(self, key: str, ask: Ask) -> None:
        match key:
            case "j" | "k":
                self._to_row(self.view.row + (1 if key == "j" else -1))
            case "h" | "l":
                self._to_event(self.view.seq + (1 if key == "l" else -1))
            case "J" | "K":
                top = self.view.top + (5 if key == "J" else -5)
                self.view = self.view._replace(top=max(0, min(top, len(self.view.pane) - 1)))
            case "w" | "v" | "?":
                self._show(key)
            case "d":
                other = ask("compare with run: ", "")
                if other:
                    self._pane("diff", self._run.diff(other))
            case "/":
                text = ask("search: ", "")
                if text:
                    self._matches = self._run.search(text)
                    self._to_next(f"{len(self._matches)} matches" if self._matches else "no match")
            case "n":
                self._to_next("no search yet")
            case "e":
                path = ask("write to (.html, .yaml): ", f"{self._run.run_id}.html")
                if path:
                    self.view = self.view._replace(message=self._run.export(Path(path)))
            case _:
                self.view = self.view._replace(message="unknown key; ? shows the keys")

    def _to_row(self, row: int) -> None:
        rows = self._run.rows()
        if rows:
            row = max(0, min(row, len(rows) - 1))
            self.view = self.view._replace(row=row, seq=rows[row].last)
            self._show_step()

    def _to_event(self, seq: int) -> None:
        seq = max(1, min(seq, len(self._run.story.events)))
        row = self._run.row_at(seq)
        was = self.view.row
        self.view = self.view._replace(seq=seq, row=row)
        if self.view.title.startswith("variables"):
            self._pane(f"variables after event {seq}", self._run.variables(seq))
        elif row != was:
            self._show_step()

    def _to_next(self, otherwise: str) -> None:
        """Go to the next match; after the last one, to the first."""
        if not self._matches:
            self.view = self.view._replace(message=otherwise)
            return
        seq, text = next((hit for hit in self._matches if hit[0] > self.view.seq), self._matches[0])
        self._to_event(seq)
        self.view = self.view._replace(message=f"{text}   (event {seq}; {len(self._matches)} matches)")

    def _show(self, key: str) -> None:
        match key:
            case "w":
                if self._run.rows():
                    self._pane("why", self._run.why(self.view.row))
            case "v":
                self._pane(f"variables after event {self.view.seq}", self._run.variables(self.view.seq))
            case _:
                self._pane("keys", list(KEY_LINES))

    def _show_step(self) -> None:
        if self._run.rows():
            row = self._run.rows()[self.view.row]
            self._pane(f"{row.label} {row.action}", self._run.step(self.view.row))

    def _pane(self, title: str, lines: list[str]) -> None:
        self.view = self.view._replace(title=title, pane=tuple(lines), top=0)


_KEY = re.compile(r"\x1b[\[O][0-?]*[ -/]*[@-~]|.", re.DOTALL)
_READ_SIZE = 1_024


class Keyboard:
    """The keys of standard input, in order."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._typed: deque[str] = deque()
        self._decode = codecs.getincrementaldecoder("utf-8")("replace").decode

    def key(self) -> str:
        """The next key. Raises EOFError at the end of input."""
        while not self._typed:
            data = os.read(self._fd, _READ_SIZE)
            if not data:
                raise EOFError
            self._typed.extend(keys_in(self._decode(data)))
        return self._typed.popleft()


class _ClickKeyboard(Keyboard):
    """Reads keys with click, on systems without termios."""

    def key(self) -> str:
        return click.getchar()


def keys_in(text: str) -> Iterator[str]:
    """The keys in the data that a terminal has sent.

    >>> list(keys_in("jk\\x1b[A\\x1bOBq"))
    ['j', 'k', '\\x1b[A', '\\x1bOB', 'q']
    """
    yield from _KEY.findall(text)


@contextmanager
def keyboard() -> Generator[Keyboard]:
    """The keys of the terminal, whose mode is restored at the end."""
    try:
        import termios  # noqa: PLC0415 - not everywhere
        import tty  # noqa: PLC0415 - as above
    except ImportError:
        yield _ClickKeyboard(-1)
        return
    fd = sys.stdin.fileno()
    saved_mode = termios.tcgetattr(fd)
    tty.setcbreak(fd, termios.TCSADRAIN)
    try:
        yield Keyboard(fd)
    finally:
        termios.tcsetattr(fd, termios.TCSADRAIN, saved_mode)
