"""The command group `callsheet models`; its commands are imported on demand."""

from __future__ import annotations

import click

from callsheet.apps.cli.group import CommandEntry, LazyCommands

_PACKAGE = "callsheet.apps.cli.models.commands"
_SECTION = "Commands"

COMMANDS: dict[str, CommandEntry] = {
    "list": CommandEntry(f"{_PACKAGE}:list_models", "List the available models.", _SECTION),
    "get": CommandEntry(f"{_PACKAGE}:get", "Download models.", _SECTION),
    "remove": CommandEntry(f"{_PACKAGE}:remove", "Remove models from this machine.", _SECTION),
    "path": CommandEntry(f"{_PACKAGE}:path", "Print the path of a model or of the folder.", _SECTION),
}


@click.group("models", cls=LazyCommands, entries=COMMANDS, epilog=None)
def models() -> None:
    """Download and remove models that run on this machine, named local:NAME."""
