"""The group `callsheet models` and its table of commands, which are imported on demand."""

from __future__ import annotations

import click

from callsheet.apps.cli.group import CommandEntry, LazyCommands

_PACKAGE = "callsheet.apps.cli.models.commands"
_SECTION = "Commands"

COMMANDS: dict[str, CommandEntry] = {
    "list": CommandEntry(f"{_PACKAGE}:list_models", "List the models that can be fetched.", _SECTION),
    "get": CommandEntry(f"{_PACKAGE}:get", "Fetch a model.", _SECTION),
    "remove": CommandEntry(f"{_PACKAGE}:remove", "Remove models from this machine.", _SECTION),
    "path": CommandEntry(f"{_PACKAGE}:path", "Print where models lie.", _SECTION),
}


@click.group("models", cls=LazyCommands, entries=COMMANDS, epilog=None)
def models() -> None:
    """Fetch and remove the models that run on this machine, named as local:NAME."""
