"""The group `callsheet trace` and its table of commands, which are imported on demand."""

from __future__ import annotations

import click

from callsheet.apps.cli.group import CommandEntry, LazyCommands

_PACKAGE = "callsheet.apps.cli.trace"

COMMANDS: dict[str, CommandEntry] = {
    "export": CommandEntry(f"{_PACKAGE}.export:export", "Give a run to tools that show traces.", "Give away"),
}


@click.group("trace", cls=LazyCommands, entries=COMMANDS, epilog=None)
def trace() -> None:
    """Give runs of the journal to other tools: as OpenTelemetry, as PROV."""
