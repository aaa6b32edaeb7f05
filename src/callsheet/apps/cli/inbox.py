"""`callsheet inbox`: lists the requests of runs to people."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from callsheet.apps.cli import journals
from callsheet.apps.cli.output import ignoring_broken_pipe, print_json, print_text

if TYPE_CHECKING:
    from callsheet.runtime.answers import PendingAsk


@click.command()
@journals.journal_path
@click.option("--json", "as_json", is_flag=True, help="Print a JSON list of objects.")
def inbox(journal: Path | None, as_json: bool) -> None:
    """List what runs ask of people, oldest first: questions, and calls that need approval.

    `callsheet approve` answers them.
    """
    from callsheet.apps.cli.engines.temporal_runs import refresh_copies  # noqa: PLC0415 - as above
    from callsheet.apps.operations.outcomes import ask_json  # noqa: PLC0415 - as above
    from callsheet.apps.rendering import questions  # noqa: PLC0415 - imports the runtime

    refresh_copies(journal)
    pending = _asks(journal)
    with ignoring_broken_pipe():
        if as_json:
            print_json([ask_json(ask) for ask in pending])
        elif not pending:
            click.echo("no pending requests")
        else:
            hint = journals.journal_hint(journal)
            for number, ask in enumerate(pending):
                if number:
                    click.echo()
                for line in questions.question_lines(ask, hint):
                    print_text(line)


def _asks(path: Path | None) -> list[PendingAsk]:
    """All pending requests; none if the default journal does not exist yet."""
    from callsheet.runtime import inbox  # noqa: PLC0415 - as above
    from callsheet.store.journal_paths import default_journal_path, is_absent  # noqa: PLC0415 - as above

    if path is None and is_absent(default_journal_path()):
        return []
    with journals.open_to_read(path) as opened:
        return inbox.inbox(opened)
