"""The group `callsheet models` and its table of commands, which are imported on demand."""

from __future__ import annotations

import click

from callsheet.apps.cli.group import Entry, LazyCommands

_HERE = "callsheet.apps.cli.models.files"
_SECTION = "Commands"

COMMANDS: dict[str, Entry] = {
    "list": Entry(f"{_HERE}:list_models", "List the models that can be fetched.", _SECTION),
    "get": Entry(f"{_HERE}:get", "Fetch a model.", _SECTION),
    "remove": Entry(f"{_HERE}:remove", "Remove models from this machine.", _SECTION),
    "path": Entry(f"{_HERE}:path", "Print where models lie.", _SECTION),
}


@click.group("models", cls=LazyCommands, entries=COMMANDS, epilog=None)
def models() -> None:
    """Fetch and remove the models that run on this machine, named as local:NAME."""
