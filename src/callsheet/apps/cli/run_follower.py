"""`callsheet tail`, `top` and `top --all`: follow runs through their journal, in any process."""

from __future__ import annotations

import json
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from callsheet.apps.cli import journals, options
from callsheet.apps.cli.exit_status import Exit
from callsheet.apps.cli.output import can_redraw, ignoring_broken_pipe, is_terminal, print_text, to_stderr
from callsheet.apps.operations.live_calls import (
    BETWEEN_LINES,
    CallReport,
    OpenRun,
    UnderWay,
    event_row,
    shared_reports,
)
from callsheet.apps.operations.runs import INTERRUPTED, RunRow, run_row, shown_outcome, shown_status
from callsheet.apps.rendering.runs import event_line, now_line
from callsheet.apps.rendering.values import format_seconds, preview
from callsheet.machine import Outcome
from callsheet.store.events import Event
from callsheet.store.journal import Journal
from callsheet.store.journal_paths import is_owned, place_of
from callsheet.store.listing import RunQuery, listed_runs
from callsheet.store.runs import RunFilter, RunInfo

if TYPE_CHECKING:
    from rich.table import Table

    from callsheet.apps.cli.progress.progress import LinePlayback, LivePlayback
    from callsheet.trace.replay import Moment

_PAUSE = 0.1
_MESSAGES = {
    INTERRUPTED: "interrupted, its process is gone; continue it with: callsheet resume {run}{hint}",
    "paused": "paused by a person; let it go on with: callsheet resume {run}{hint}",
    "waiting": "waiting for people; list the requests with: callsheet inbox{hint}",
    "in_doubt": "waiting for a decision: callsheet decide {run} CALL …{hint}",
}
_EXITS = {
    "done": Exit.OK,
    "done_with_failures": Exit.OK,
    "refused": Exit.REFUSED,
    "waiting": Exit.UNDECIDED,
    "paused": Exit.UNDECIDED,
    "in_doubt": Exit.UNDECIDED,
}


class RunFollower:
    """Iterates over the events of a run as they are recorded; `status` is set at the end, to its outcome."""

    def __init__(
        self, journal: Journal, run_id: str, hear: Callable[[list[CallReport]], None] | None = None
    ) -> None:
        self._journal = journal
        self._run_id = run_id
        self._hear = hear
        """Is told what the tools report about the open calls, while a process executes the run."""
        self.status = ""

    def events(self, after: int = 0) -> Iterator[Event]:
        """The events after a number; blocks until further events are recorded."""
        location = place_of(self._journal.path)
        while True:
            # checked before reading: all events of a process that has ended are then visible
            was_owned = is_owned(location, self._run_id)
            for event in self._journal.events(self._run_id, after, lenient=True):
                after = event.seq
                yield event
            info = self._journal.find_run(self._run_id)
            if after >= info.events and (info.status.is_final or not was_owned):
                self.status = shown_outcome(info, shown_status(self._journal, info))
                return
            if self._hear is not None:
                self._hear(shared_reports(self._journal.path, self._run_id) if was_owned else [])
            time.sleep(_PAUSE)


def needs_action(status: str) -> bool:
    """Whether a run with this status has not ended, and needs an action of a person to continue."""
    return status in _MESSAGES


def status_message(status: str, run_id: str, journal: Path | None) -> str:
    """A message about the status of a followed run, with the command that continues it."""
    text = _MESSAGES.get(status, f"ended: {status.replace('_', ' ')}")
    return f"run {run_id}: {text.format(run=run_id, hint=journals.journal_hint(journal))}"


def exit_for_status(status: str, *, is_strict: bool) -> Exit:
    """The exit status for a run with this status; with `is_strict` failures on the way count."""
    if is_strict and status == Outcome.DONE_WITH_FAILURES:
        return Exit.FAILED
    return _EXITS.get(status, Exit.FAILED)


@click.command()
@click.argument("run", metavar="RUN")
@click.option("-f", "--follow", "follows", is_flag=True, help="Print new events until the run ends or waits.")
@click.option(
    "--from", "start", type=click.IntRange(1), default=1, metavar="SEQ", help="Start at this event."
)
@journals.journal_path
@options.strict
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object per line, with complete bodies.")
def tail(run: str, follows: bool, start: int, journal: Path | None, is_strict: bool, as_json: bool) -> int:
    """Print the events of RUN.

    RUN is a run id, a unique prefix of one, or `last`. With --follow, new events are printed as they are
    recorded, also by another process, until the run ends or waits; between them what the run
    does at that moment, except with --json. The exit status is then that of the run: 0
    done, 3 refused, 4 waiting or in doubt, 1 failed, cancelled or interrupted.

    \b
    Example:
      callsheet tail last --follow
    """

    with journals.open_to_read(journal) as opened:
        info = opened.find_run(run)
        run_id = info.run_id
        with ignoring_broken_pipe():
            following = RunFollower(opened, run_id, None if as_json else _Told(opened, info).hear)
            events = (
                following.events(start - 1) if follows else opened.events(run_id, start - 1, lenient=True)
            )
            for event in events:
                print_text(json.dumps(event_row(event)) if as_json else event_line(event))
            if not follows:
                return Exit.OK
    if not as_json:
        to_stderr(status_message(following.status, run_id, journal))
    return exit_for_status(following.status, is_strict=is_strict)


@click.command()
@click.argument("run", metavar="[RUN]", default="last")
@click.option("--all", "is_all", is_flag=True, help="Watch all runs that have not ended, until Ctrl-C.")
@journals.journal_path
@options.strict
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object per line for each note or run.")
def top(run: str, is_all: bool, journal: Path | None, is_strict: bool, as_json: bool) -> int:
    """Watch RUN live, until it ends or waits.

    RUN is a run id, a unique prefix of one, or `last` (the default). On a terminal this shows the display of
    `run`, otherwise a line per note. Ctrl-C ends only the watching. The exit status is that of the run: 0
    done, 3 refused, 4 waiting or in doubt, 1 failed, cancelled or interrupted.

    With --all it shows each run that has not ended, what it does or what it waits for; without a terminal it
    prints them once.
    """
    if is_all:
        return _watch_all(run, journal, as_json=as_json)
    from callsheet.apps.cli.progress.progress import LinePlayback, LivePlayback  # noqa: PLC0415 - as above
    from callsheet.trace.replay import play  # noqa: PLC0415 - as above

    is_live = not as_json and is_terminal(sys.stdout) and can_redraw(sys.stderr)
    with journals.open_to_read(journal) as opened, ignoring_broken_pipe():
        info = opened.find_run(run)
        plan = opened.plan_of(info.plan_hash)
        display = LivePlayback(plan, info.run_id) if is_live else LinePlayback(plan, as_json=as_json)
        watcher = _Watcher(display)
        following = RunFollower(opened, info.run_id, watcher.on_reports)
        display.begin()
        try:
            play(plan, following.events(), opened.plan_of, watcher.on_moment)
        except KeyboardInterrupt:
            hint = journals.journal_hint(journal)
            display.end()
            to_stderr(
                f"stopped watching, the run continues; watch it again with: callsheet top {info.run_id}{hint}"
            )
            raise
        display.end()
    if not as_json and (needs_action(following.status) or following.status == Outcome.DONE_WITH_FAILURES):
        to_stderr(status_message(following.status, info.run_id, journal))
    return exit_for_status(following.status, is_strict=is_strict)


def _watch_all(run: str, journal: Path | None, *, as_json: bool) -> int:
    if run != "last":
        raise click.UsageError("--all watches all runs: leave out RUN")
    with journals.open_to_read(journal) as opened, ignoring_broken_pipe():
        if not as_json and is_terminal(sys.stdout) and can_redraw(sys.stderr):
            watch(opened)
        runs = OpenRuns(opened)
        for row in runs.look():
            print_text(json.dumps(row) if as_json else line_of(row))
        if runs.cut:
            to_stderr(left_out(runs.cut))
    return Exit.OK


class _Told:
    """Prints between events what a run does, when anything has changed, and not too often."""

    def __init__(self, journal: Journal, info: RunInfo) -> None:
        self._under_way = UnderWay(journal)
        self._info = info
        self._printed = time.monotonic()
        self._before: object = None

    def hear(self, reports: list[CallReport]) -> None:
        """Print it if it is time."""
        if time.monotonic() < self._printed + BETWEEN_LINES:
            return
        doing = self._under_way.look(self._info)
        if doing.text and (doing.calls, doing.ended, reports) != self._before:
            print_text(now_line(doing.text))
            self._printed, self._before = time.monotonic(), (doing.calls, doing.ended, reports)


class _Watcher:
    """Displays moments as they are recorded, with the time since the start of the run."""

    def __init__(self, shown: LivePlayback | LinePlayback) -> None:
        self._shown = shown
        self._begun: float | None = None
        self._reports: dict[str, CallReport] = {}

    def on_moment(self, moment: Moment) -> bool:
        """Display a moment; returns True, since more may follow."""
        ts = moment.event.ts
        self._begun = ts if self._begun is None else self._begun
        self._shown.show(moment, ts - self._begun, max(0.0, time.time() - ts))
        return True

    def on_reports(self, reports: list[CallReport]) -> None:
        """Display what tools have reported anew about open calls."""
        at = 0.0 if self._begun is None else time.time() - self._begun
        for report in reports:
            if self._reports.get(report.key) != report:
                self._shown.progressed(report.key, report.progress, at)
        self._reports = {report.key: report for report in reports}


_OPEN = ("running", "waiting", "in_doubt", "paused", "interrupted")
_MOST = 50
_BETWEEN_LOOKS = 0.5
_STYLES = {
    "running": "cyan",
    "waiting": "yellow",
    "in_doubt": "red",
    "paused": "yellow",
    "interrupted": "red",
}


class OpenRuns:
    """The runs of a journal that have not ended, by status; each look reads only what is new."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._under_way = UnderWay(journal)
        self.cut: tuple[str, ...] = ()
        """The statuses of which there are more runs than the newest that the last look gave."""

    def look(self) -> list[OpenRun]:
        """How they are now."""
        now = time.time()
        rows: list[OpenRun] = []
        found = {
            status: listed_runs(self._journal, RunQuery(wanted=RunFilter(status=status), limit=_MOST + 1))
            for status in _OPEN
        }
        self.cut = tuple(status for status, runs in found.items() if len(runs) > _MOST)
        for runs in found.values():
            for info, shown in runs[:_MOST]:
                row = run_row(self._journal, info, shown, self._under_way, has_doubts=False)
                rows.append(self._row(row, info, max(0.0, now - info.created)))
        return rows

    def _row(self, row: RunRow, info: RunInfo, took: float) -> OpenRun:
        return {
            "run_id": row["run_id"],
            "status": row["outcome"],
            "plan": row["plan"],
            "seconds": round(took, 3),
            "calls": self._under_way.look(info, info.events).calls,
            "under_way": row.get("under_way") or _rest(row),
        }


def _rest(row: RunRow) -> str:
    """What a run that goes on only if somebody acts waits for."""
    return row["waits_for"] or "" if row["pause"] is None else row["pause"]["words"]


def left_out(cut: tuple[str, ...]) -> str:
    """Which runs are not shown, and how they are."""
    words = " and ".join(status.replace("_", " ") for status in cut)
    return f"the newest {_MOST} runs that are {words}; all: callsheet runs --status {cut[0]}"


def line_of(row: OpenRun) -> str:
    """A run on one line."""
    status, took = row["status"].replace("_", " "), format_seconds(row["seconds"])
    head = f"{row['run_id']:<22} {status:<12} {took:>9} {row['calls']:>7,}"
    return f"{head}  {preview(row['plan'], 40)}  {row['under_way']}"


def watch(journal: Journal) -> None:
    """Draw the runs until the caller is interrupted."""
    from callsheet.apps.cli.progress.live import Drawing, Screen  # noqa: PLC0415 - imports rich

    runs = OpenRuns(journal)
    screen = Screen(stderr=True)
    drawing = Drawing(console=screen, auto_refresh=False, screen=False)
    with drawing:
        while True:
            rows = runs.look()
            drawing.update(_table(rows, screen.height - 2, runs.cut), refresh=True)
            time.sleep(_BETWEEN_LOOKS)


def _table(rows: list[OpenRun], most: int, cut: tuple[str, ...]) -> Table:
    from rich.table import Table  # noqa: PLC0415 - imports rich
    from rich.text import Text  # noqa: PLC0415 - as above

    counts = Counter(row["status"] for row in rows)
    head = ", ".join(f"{count} {status.replace('_', ' ')}" for status, count in counts.items())
    table = Table(title=Text(head or "no run is under way", "bold"), title_justify="left", box=None)
    for name in ("run", "status", "time", "calls", "plan", "under way"):
        table.add_column(name, no_wrap=True, justify="right" if name in ("time", "calls") else "left")
    for row in rows[:most]:
        table.add_row(
            row["run_id"],
            Text(row["status"].replace("_", " "), _STYLES.get(row["status"], "")),
            format_seconds(row["seconds"]),
            f"{row['calls']:,}",
            Text(preview(row["plan"], 40)),
            Text(row["under_way"]),
        )
    if len(rows) > most:
        table.add_row(f"and {len(rows) - most} more")
    if cut:
        table.caption = Text(left_out(cut))
    return table
