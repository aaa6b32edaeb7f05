"""`callsheet top`: displays a run live, also one of another process. Nothing is executed."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from callsheet.apps.cli import journals, options
from callsheet.apps.cli.output import ignoring_broken_pipe, to_stderr
from callsheet.apps.cli.terminal import can_redraw, is_terminal
from callsheet.machine import Outcome

if TYPE_CHECKING:
    from callsheet.apps.cli.progress.progress import LinePlayback, LivePlayback
    from callsheet.trace.replay import Moment


@click.command()
@click.argument("run", metavar="[RUN]", default="last")
@journals.journal_path
@options.strict
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object per line for each note.")
def top(run: str, journal: Path | None, is_strict: bool, as_json: bool) -> int:
    """Watch RUN live, until it ends or waits.

    RUN is a run id, a unique prefix of one, or `last` (the default). On a terminal this shows the display of
    `run`, otherwise a line per note. Ctrl-C ends only the watching. The exit status is that of the run: 0
    done, 3 refused, 4 waiting or in doubt, 1 failed, cancelled or interrupted.
    """
    from callsheet.apps.cli.progress.progress import LinePlayback, LivePlayback  # noqa: PLC0415 - as above
    from callsheet.apps.cli.run_follower import (  # noqa: PLC0415 - imports the store
        RunFollower,
        exit_for_status,
        needs_action,
        status_message,
    )
    from callsheet.trace.replay import play  # noqa: PLC0415 - as above

    is_live = not as_json and is_terminal(sys.stdout) and can_redraw(sys.stderr)
    with journals.open_to_read(journal) as opened, ignoring_broken_pipe():
        info = opened.find_run(run)
        plan = opened.plan_of(info.plan_hash)
        display = LivePlayback(plan, info.run_id) if is_live else LinePlayback(plan, as_json=as_json)
        following = RunFollower(opened, info.run_id)
        display.begin()
        try:
            play(plan, following.events(), opened.plan_of, _Watcher(display).on_moment)
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


class _Watcher:
    """Displays moments as they are recorded, with the time since the start of the run."""

    def __init__(self, shown: LivePlayback | LinePlayback) -> None:
        self._shown = shown
        self._begun: float | None = None

    def on_moment(self, moment: Moment) -> bool:
        """Display a moment; returns True, since more may follow."""
        ts = moment.event.ts
        self._begun = ts if self._begun is None else self._begun
        self._shown.show(moment, ts - self._begun, max(0.0, time.time() - ts))
        return True
