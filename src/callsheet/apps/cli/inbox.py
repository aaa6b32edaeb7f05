"""`callsheet inbox`: lists the requests of runs to people."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from callsheet.apps.cli import journals
from callsheet.apps.cli.output import ignoring_broken_pipe, print_json, print_text

if TYPE_CHECKING:
    from collections.abc import Iterable

    from callsheet.runtime.answers import PendingAsk
    from callsheet.runtime.inbox import Doubts


@click.command()
@journals.journal_path
@click.option("--json", "as_json", is_flag=True, help="Print a JSON list of objects.")
def inbox(journal: Path | None, as_json: bool) -> None:
    """List what runs need people for, oldest first: questions, calls that need approval, calls in doubt.

    `callsheet approve` answers a question, `callsheet decide` decides about a call in doubt.
    """
    from callsheet.apps.cli.engines.temporal_runs import refresh_copies  # noqa: PLC0415 - as above
    from callsheet.apps.operations.runs import ask_json, run_doubt_json  # noqa: PLC0415 - as above
    from callsheet.apps.rendering import runs  # noqa: PLC0415 - imports the runtime
    from callsheet.apps.rendering.runs import doubt_lines  # noqa: PLC0415 - as above

    refresh_copies(journal)
    pending, doubts = _pending(journal)
    with ignoring_broken_pipe():
        if as_json:
            in_doubt = [run_doubt_json(run_id, call) for run_id, calls in doubts.items() for call in calls]
            print_json([*map(ask_json, pending), *in_doubt])
            return
        hint = journals.journal_hint(journal)
        blocks: list[Iterable[str]] = [runs.question_lines(ask, hint) for ask in pending]
        blocks += [[f"run {run_id}", *doubt_lines(calls, run_id, hint)] for run_id, calls in doubts.items()]
        if not blocks:
            click.echo("no pending requests")
        for number, block in enumerate(blocks):
            if number:
                click.echo()
            for line in block:
                print_text(line)


def _pending(path: Path | None) -> tuple[list[PendingAsk], Doubts]:
    """All pending questions and calls in doubt; none if the default journal does not exist yet."""
    from callsheet.runtime import inbox  # noqa: PLC0415 - as above
    from callsheet.store.journal_paths import default_journal_path, is_absent  # noqa: PLC0415 - as above

    if path is None and is_absent(default_journal_path()):
        return [], {}
    with journals.open_to_read(path) as opened:
        return inbox.inbox(opened), inbox.calls_in_doubt(opened)
