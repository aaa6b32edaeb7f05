"""The command group `callsheet trace`; its commands are imported on demand."""

from __future__ import annotations

import click

from callsheet.apps.cli.group import CommandEntry, LazyCommands

_PACKAGE = "callsheet.apps.cli.trace"

COMMANDS: dict[str, CommandEntry] = {
    "export": CommandEntry(f"{_PACKAGE}.export:export", "Export a run to tracing tools.", "Export"),
}


@click.group("trace", cls=LazyCommands, entries=COMMANDS, epilog=None)
def trace() -> None:
    """Export runs to tracing tools, as OpenTelemetry or PROV."""
