"""The group `callsheet trace` and its table of commands, which are imported on demand."""

from __future__ import annotations

import click

from callsheet.apps.cli.group import Entry, LazyCommands

_HERE = "callsheet.apps.cli.trace"

COMMANDS: dict[str, Entry] = {
    "export": Entry(f"{_HERE}.export:export", "Give a run to tools that show traces.", "Give away"),
}


@click.group("trace", cls=LazyCommands, entries=COMMANDS, epilog=None)
def trace() -> None:
    """Give runs of the journal to other tools: as OpenTelemetry, as PROV."""
