"""The group `callsheet plan` and its table of commands; each is imported when it is asked for."""

from __future__ import annotations

import click

from callsheet.apps.cli.group import Entry, LazyCommands

_HERE = "callsheet.apps.cli.plan"

COMMANDS: dict[str, Entry] = {
    "diff": Entry(f"{_HERE}.diff:diff", "Say what differs between two plans.", "Plans"),
}


@click.group("plan", cls=LazyCommands, entries=COMMANDS, epilog=None)
def plan() -> None:
    """Work on plans as texts under review."""
