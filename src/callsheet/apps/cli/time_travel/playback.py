"""`callsheet playback`: replays the recording of a run. Nothing is executed."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from callsheet.apps.cli import journals
from callsheet.apps.cli.exit_status import Exit
from callsheet.apps.cli.options import FiniteRange
from callsheet.apps.cli.output import ignoring_broken_pipe, to_stderr
from callsheet.apps.cli.progress.progress import LinePlayback, LivePlayback
from callsheet.apps.cli.terminal import can_redraw, is_terminal

if TYPE_CHECKING:
    from callsheet.ir import Plan
    from callsheet.store.journal import Journal
    from callsheet.store.runs import RunInfo
    from callsheet.trace.replay import Moment

_LONGEST = 3.0
"""The maximum pause in seconds: a run may have waited for people for days."""
_QUIT = frozenset("qQ\x03\x04")
_ESCAPE = "\x1b"
_KEYS = "any key: next event, q: quit"


@click.command()
@click.argument("run", metavar="RUN")
@click.option(
    "--from", "start", type=click.IntRange(1), default=1, metavar="SEQ", help="Start at this event."
)
@click.option("--to", "end", type=click.IntRange(1), metavar="SEQ", help="End with this event.")
@click.option(
    "--speed",
    type=FiniteRange(0, min_open=True),
    metavar="X",
    help="The speed, as a factor; default: 1 on a terminal, otherwise without pauses.",
)
@click.option("--step", "by_key", is_flag=True, help="Wait for a key after each event.")
@journals.journal_path
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object per line for each note.")
def playback(
    run: str,
    start: int,
    end: int | None,
    speed: float | None,
    by_key: bool,
    journal: Path | None,
    as_json: bool,
) -> int:
    """Replay the recording of RUN from its journal. Nothing is executed, and no tool is called.

    RUN is a run id, a unique prefix of one, or `last`. On a terminal this shows the display of `run` at the
    original speed, with pauses of at most three seconds. Otherwise a line is printed per note.

    \b
    Example:
      callsheet playback last --speed 4
    """
    if by_key and speed is not None:
        raise click.UsageError("--step and --speed cannot be combined")
    is_live = not as_json and is_terminal(sys.stdout) and can_redraw(sys.stderr)
    if by_key and not (is_live and is_terminal(sys.stdin)):
        raise click.UsageError("--step needs a terminal")
    if by_key:
        to_stderr(_KEYS)
    with journals.open_to_read(journal) as opened, ignoring_broken_pipe():
        info = opened.find_run(run)
        plan = opened.plan_of(info.plan_hash)
        pace = _Pace(by_key=by_key, speed=1.0 if speed is None and is_live else speed)
        display: LivePlayback | LinePlayback = (
            LivePlayback(plan, info.run_id) if is_live else LinePlayback(plan, as_json=as_json)
        )
        _play(opened, info, plan, _Player(display, pace, start, end or info.events))
    return Exit.OK


def _play(journal: Journal, info: RunInfo, plan: Plan, player: _Player) -> None:
    from callsheet.store.errors import JournalError  # noqa: PLC0415 - imports the store
    from callsheet.trace.replay import play  # noqa: PLC0415 - as above

    for seq in (player.start, player.end):
        if seq > info.events:
            raise JournalError(
                "JRN041", f"the run has no event {seq}", f"its events have the numbers 1 to {info.events}"
            )
    try:
        play(plan, journal.events(info.run_id), journal.plan_of, player.on_moment)
    finally:
        player.shown.end()


class _Pace:
    """The delay between events."""

    def __init__(self, *, by_key: bool, speed: float | None) -> None:
        self._by_key = by_key
        self._speed = speed

    def wait(self, between: float) -> bool:
        """Wait between two events. Returns False if the user quits."""
        if self._by_key:
            key = click.getchar()
            return key != _ESCAPE and _QUIT.isdisjoint(key)
        if self._speed is not None and between > 0:
            time.sleep(min(_LONGEST, between / self._speed))
        return True


class _Player:
    """Displays the moments between two events at a pace."""

    def __init__(self, shown: LivePlayback | LinePlayback, pace: _Pace, start: int, end: int) -> None:
        self.shown = shown
        self.start = start
        self.end = end
        self._pace = pace
        from callsheet.trace.visits import SteadyTime  # noqa: PLC0415 - brings the store

        self._time = SteadyTime()
        self._last: float | None = None
        self._begun: float | None = None

    def on_moment(self, moment: Moment) -> bool:
        """Display a moment. Returns whether more are to follow."""
        event = moment.event
        now = self._time.of(event)
        self._begun = now if self._begun is None else self._begun
        if event.seq > self.end:
            return False
        if event.seq < self.start:
            self.shown.before(moment)
            return True
        if self._last is None:
            self.shown.begin()
        elif moment.notes and not self._pace.wait(now - self._last):
            return False
        if moment.notes or self._last is None:
            self._last = now
        self.shown.show(moment, now - self._begun)
        return event.seq < self.end
