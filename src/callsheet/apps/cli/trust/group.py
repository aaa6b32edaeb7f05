"""The group `callsheet trust` and its table of commands, which are imported on demand."""

from __future__ import annotations

import click

from callsheet.apps.cli.group import Entry, LazyCommands

_HERE = "callsheet.apps.cli.trust"
_SECTION = "Commands"

COMMANDS: dict[str, Entry] = {
    "list": Entry(f"{_HERE}.look:list_trusted", "List the servers and tools that are known.", _SECTION),
    "diff": Entry(f"{_HERE}.look:diff", "Say what servers declare differently now.", _SECTION),
    "approve": Entry(f"{_HERE}.decide:approve", "Approve tools as they are declared now.", _SECTION),
    "revoke": Entry(f"{_HERE}.decide:revoke", "Take the trust in servers or tools back.", _SECTION),
}


@click.group("trust", cls=LazyCommands, entries=COMMANDS, epilog=None)
def trust() -> None:
    """Say which tools of MCP servers may be called, as which declarations."""
