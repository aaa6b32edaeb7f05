"""`callsheet tail`: prints the events of a run, and with --follow new ones as they are recorded."""

from __future__ import annotations

import json
from pathlib import Path

import click

from callsheet.apps.cli import journals, options
from callsheet.apps.cli.exit_status import Exit
from callsheet.apps.cli.output import ignoring_broken_pipe, print_text, to_stderr
from callsheet.apps.rendering.runs import event_json, event_line


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
    recorded, also by another process, until the run ends or waits. The exit status is then that of the run: 0
    done, 3 refused, 4 waiting or in doubt, 1 failed, cancelled or interrupted.

    \b
    Example:
      callsheet tail last --follow
    """
    from callsheet.apps.cli.run_follower import (  # noqa: PLC0415 - imports the store
        RunFollower,
        exit_for_status,
        status_message,
    )

    with journals.open_to_read(journal) as opened:
        run_id = opened.find_run(run).run_id
        with ignoring_broken_pipe():
            following = RunFollower(opened, run_id)
            events = (
                following.events(start - 1) if follows else opened.events(run_id, start - 1, lenient=True)
            )
            for event in events:
                print_text(json.dumps(event_json(event)) if as_json else event_line(event))
            if not follows:
                return Exit.OK
    if not as_json:
        to_stderr(status_message(following.status, run_id, journal))
    return exit_for_status(following.status, is_strict=is_strict)
