"""The options that name a journal, and opening it for a command.

In: what the command line says. Out: a journal, of which whoever has typed the command hears what they should
know; or a JournalError that says why there is none.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click

from callsheet.apps.cli import options
from callsheet.apps.cli.exit_status import Exit
from callsheet.apps.cli.output import to_stderr

if TYPE_CHECKING:
    from callsheet.sealing.shapes import Shapes
    from callsheet.store.journal import Journal

journal_path = click.option(
    "--journal",
    type=click.Path(path_type=Path),
    metavar="PATH",
    help="The journal; default: $CALLSHEET_JOURNAL, else in the user's data folder.",
)


@dataclass(frozen=True, slots=True)
class Recording:
    """Where a run is recorded, if it is, and how durably."""

    journal: Path | None
    durability: str
    no_journal: bool = False

    def open(self, shapes: Shapes | None) -> Journal | None:
        """The journal, None where nothing is to be recorded; raises JournalError.

        `shapes` are those of credentials that are sealed in it, None for none.
        """
        return None if self.no_journal else open_journal(self.journal, self.durability, shapes)


_durability = click.option(
    "--durability",
    type=click.Choice(["full", "normal", "off"]),
    default="full",
    show_default=True,
    help="What is safe from what: full from a loss of power, normal from a crash of the system, "
    "off from one of the process.",
)
recording = options.grouped(
    "recording",
    Recording,
    journal=journal_path,
    durability=_durability,
    no_journal=click.option("--no-journal", is_flag=True, help="Record nothing; the run cannot be resumed."),
)
"""Where a run is recorded, as `recording`."""
recording_in_journal = options.grouped("recording", Recording, journal=journal_path, durability=_durability)
"""The same for commands that need a journal."""


def open_journal(
    path: Path | None, durability: str = "full", shapes: Shapes | Literal["configured"] | None = "configured"
) -> Journal:
    """The journal at a path, or the default one; raises JournalError where there cannot be one.

    `shapes` are those of credentials that are sealed in it, by default those of the configuration.
    """
    from callsheet.sealing.finder import Finder  # noqa: PLC0415 - as below
    from callsheet.store.journal import Journal  # noqa: PLC0415 - brings sqlite3
    from callsheet.store.journal_paths import default_journal_path  # noqa: PLC0415 - as above
    from callsheet.store.schema import Durability  # noqa: PLC0415 - as above

    if shapes == "configured":
        from callsheet.apps.settings import load_settings  # noqa: PLC0415 - as above

        shapes = load_settings().secrets.shapes
    finder = Finder(shapes=shapes)
    return _with_warnings(Journal.open(path or default_journal_path(), Durability(durability), finder=finder))


def open_to_read(path: Path | None) -> Journal:
    """The journal at a path, or the default one, for reading alone; raises JournalError if there is none."""
    from callsheet.store.journal import Journal  # noqa: PLC0415 - as above
    from callsheet.store.journal_paths import default_journal_path  # noqa: PLC0415 - as above

    return _with_warnings(Journal.open_to_read(path or default_journal_path()))


def _with_warnings(journal: Journal) -> Journal:
    """The journal, of which whoever has typed the command hears what they should know."""
    journal.warn = lambda text: to_stderr(f"warning {text}")
    return journal


def journal_hint(path: Path | None) -> str:
    """What a further command needs to find this journal again."""
    return "" if path is None else f" --journal {shlex.quote(str(path))}"


def report_interrupt(
    stop: KeyboardInterrupt, run_id: str | None, hint: str, *, is_there: bool = False
) -> Exit:
    """Say how a run goes on that Ctrl-C or another signal has stopped, and give the exit status.

    A run that `is_there`, on an engine's server, goes on by itself: only the waiting for it has ended.
    """
    if not run_id:
        to_stderr("interrupted; nothing was recorded")
    elif is_there:
        to_stderr(f"it goes on without you; it is waited for again by: callsheet resume {run_id}{hint}")
    else:
        to_stderr(f"interrupted; it goes on with: callsheet resume {run_id}{hint}")
    return getattr(stop, "status", Exit.INTERRUPTED)
