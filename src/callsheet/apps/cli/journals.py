"""The options that name a journal, and opening the journal for a command.

Input: values of options. Output: a journal whose warnings are printed, or a JournalError.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click

from callsheet.apps.cli import options
from callsheet.apps.cli.exit_status import Exit
from callsheet.apps.cli.output import to_stderr
from callsheet.lazy import dataclass

if TYPE_CHECKING:
    from callsheet.sealing.credentials import Shapes
    from callsheet.store.journal import Journal

journal_path = click.option(
    "--journal",
    type=click.Path(path_type=Path),
    metavar="PATH",
    help="The journal; default: $CALLSHEET_JOURNAL, otherwise in the user's data folder.",
)


@dataclass(frozen=True, slots=True)
class Recording:
    """Whether and where a run is recorded, and how durably."""

    journal: Path | None
    durability: str
    no_journal: bool = False

    def open(self, shapes: Shapes | None) -> Journal | None:
        """The journal, None if nothing is recorded. Raises JournalError.

        `shapes` are the patterns of credentials that are sealed in it, None for none.
        """
        return None if self.no_journal else open_journal(self.journal, self.durability, shapes)


class RunJournal:
    """The journal of a run that is about to start; nothing is created before `open`.

    So a plan that is refused leaves no journal behind. `journal` is None before that, and if nothing is
    recorded. `on_open` is called with the path once it is open.
    """

    def __init__(self, recording: Recording, shapes: Shapes | None, on_open: Callable[[Path], None]) -> None:
        self._recording = recording
        self._shapes = shapes
        self._on_open = on_open
        self.journal: Journal | None = None

    @property
    def records(self) -> bool:
        """Whether the run is recorded."""
        return not self._recording.no_journal

    @property
    def place(self) -> Path:
        """Where the journal is or would be."""
        from callsheet.store.journal_paths import default_journal_path  # noqa: PLC0415 - as below

        return default_journal_path() if self._recording.journal is None else self._recording.journal

    @property
    def path(self) -> Path | None:
        """The file of the open journal."""
        return None if self.journal is None else self.journal.path

    def open(self) -> Journal | None:
        """Open the journal, if the run is recorded, and return it. Raises JournalError."""
        self.journal = self._recording.open(self._shapes)
        if self.journal is not None:
            self._on_open(self.journal.path)
        return self.journal

    def close(self) -> None:
        """Close the journal, if it is open."""
        if self.journal is not None:
            self.journal.close()


def _durability(default: str) -> options.Decorator:
    return click.option(
        "--durability",
        type=click.Choice(["full", "normal", "off"]),
        default=default,
        show_default=True,
        help="How durably events are recorded. All of them survive a crash of the process; after a crash of "
        "the system, full has lost nothing, normal may have lost the last events, and off may be damaged.",
    )


recording = options.grouped(
    "recording",
    Recording,
    journal=journal_path,
    durability=_durability("full"),
    no_journal=click.option("--no-journal", is_flag=True, help="Record nothing; the run cannot be resumed."),
)
"""The options of recording, as `recording`."""
recording_in_journal = options.grouped(
    "recording", Recording, journal=journal_path, durability=_durability("full")
)
"""The same for commands that need a journal."""
recording_of_sessions = options.grouped(
    "recording", Recording, journal=journal_path, durability=_durability("normal")
)
"""The same for a gate, which records two events a call while a person's client waits for it."""


def open_journal(
    path: Path | None, durability: str = "full", shapes: Shapes | Literal["configured"] | None = "configured"
) -> Journal:
    """Open the journal at a path, or the default one. Raises JournalError if it cannot be opened.

    `shapes` are the patterns of credentials that are sealed in it, by default those of the configuration.
    """
    from callsheet.sealing.masking import Finder  # noqa: PLC0415 - as below
    from callsheet.store.journal import Journal  # noqa: PLC0415 - imports sqlite3
    from callsheet.store.journal_paths import default_journal_path  # noqa: PLC0415 - as above
    from callsheet.store.schema import Durability  # noqa: PLC0415 - as above

    if shapes == "configured":
        from callsheet.apps.settings import load_settings  # noqa: PLC0415 - as above

        shapes = load_settings().secrets.shapes
    finder = Finder(shapes=shapes)
    return _with_warnings(Journal.open(path or default_journal_path(), Durability(durability), finder=finder))


def open_recorded(path: Path | None) -> Journal:
    """Open the journal at a path, or the default one, to change runs in it; creates none.

    Raises JournalError: JRN010 if there is none, else as `open_journal` does.
    """
    from callsheet.store.errors import JournalError  # noqa: PLC0415 - as above
    from callsheet.store.journal_paths import default_journal_path, is_absent  # noqa: PLC0415 - as above

    place = path or default_journal_path()
    if is_absent(place):
        raise JournalError(
            "JRN010", f"there is no journal {place}", "name the journal with the runs: --journal PATH"
        )
    return open_journal(path)


def open_to_read(path: Path | None) -> Journal:
    """Open the journal at a path, or the default one, read-only. Raises JournalError if there is none."""
    from callsheet.store.journal import Journal  # noqa: PLC0415 - as above
    from callsheet.store.journal_paths import default_journal_path  # noqa: PLC0415 - as above

    return _with_warnings(Journal.open_to_read(path or default_journal_path()))


def is_intact(journal: Journal, run_id: str) -> bool:
    """Whether the chain of a run is unbroken; otherwise the place is printed on standard error."""
    bad = journal.verify(run_id)
    if bad is not None:
        to_stderr(f"run {run_id}: CHAIN BROKEN at event {bad.seq}: {bad.why}")
    return bad is None


def _with_warnings(journal: Journal) -> Journal:
    """The journal, whose warnings are printed on standard error."""
    journal.warn = lambda text: to_stderr(f"warning {text}")
    return journal


def journal_hint(path: Path | None) -> str:
    """The option that a further command needs to use the same journal; empty for the default one."""
    return "" if path is None else f" --journal {shlex.quote(str(path))}"


def report_interrupt(
    stop: KeyboardInterrupt, run_id: str | None, hint: str, *, on_server: bool = False
) -> Exit:
    """Print how to continue a run that a signal has interrupted, and return the exit status.

    A run that `on_server`, on the server of an engine, continues by itself: only the waiting has ended.
    """
    if not run_id:
        to_stderr("interrupted; nothing was recorded")
    elif on_server:
        to_stderr(f"the run continues on the server; wait for it again with: callsheet resume {run_id}{hint}")
    else:
        to_stderr(f"interrupted; continue with: callsheet resume {run_id}{hint}")
    return getattr(stop, "status", Exit.INTERRUPTED)
