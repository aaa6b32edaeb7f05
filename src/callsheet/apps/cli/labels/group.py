"""The group `callsheet labels` and its table of commands, which are imported on demand."""

from __future__ import annotations

import click

from callsheet.apps.cli.group import CommandEntry, LazyCommands

_PACKAGE = "callsheet.apps.cli.labels.commands"
_SECTION = "Commands"

COMMANDS: dict[str, CommandEntry] = {
    "list": CommandEntry(
        f"{_PACKAGE}:list_labels", "List what is known of files, facts and notes.", _SECTION
    ),
    "set": CommandEntry(f"{_PACKAGE}:set_label", "Say whose data a file or a fact is.", _SECTION),
    "forget": CommandEntry(f"{_PACKAGE}:forget", "Let go of what is known of a file or a fact.", _SECTION),
}


@click.group("labels", cls=LazyCommands, entries=COMMANDS, epilog=None)
def labels() -> None:
    """Whose data runs under a policy have left in files and in the memory."""
