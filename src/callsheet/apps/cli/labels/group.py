"""The group `callsheet labels` and its table of commands, which are imported on demand."""

from __future__ import annotations

import click

from callsheet.apps.cli.group import Entry, LazyCommands

_HERE = "callsheet.apps.cli.labels.places"
_SECTION = "Commands"

COMMANDS: dict[str, Entry] = {
    "list": Entry(f"{_HERE}:list_labels", "List what is known of files, facts and notes.", _SECTION),
    "set": Entry(f"{_HERE}:set_label", "Say whose data a file or a fact is.", _SECTION),
    "forget": Entry(f"{_HERE}:forget", "Let go of what is known of a file or a fact.", _SECTION),
}


@click.group("labels", cls=LazyCommands, entries=COMMANDS, epilog=None)
def labels() -> None:
    """Whose data runs under a policy have left in files and in the memory."""
