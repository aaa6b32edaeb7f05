"""The command group `callsheet labels`; its commands are imported on demand."""

from __future__ import annotations

import click

from callsheet.apps.cli.group import CommandEntry, LazyCommands

_PACKAGE = "callsheet.apps.cli.labels.commands"
_SECTION = "Commands"

COMMANDS: dict[str, CommandEntry] = {
    "list": CommandEntry(f"{_PACKAGE}:list_labels", "List the labels of files, facts and notes.", _SECTION),
    "set": CommandEntry(f"{_PACKAGE}:set_label", "Set the label of a file or a fact.", _SECTION),
    "forget": CommandEntry(f"{_PACKAGE}:forget", "Remove the label of a file or a fact.", _SECTION),
}


@click.group("labels", cls=LazyCommands, entries=COMMANDS, epilog=None)
def labels() -> None:
    """Manage the labels of data that runs under a policy have left in files and in memory."""
