"""The group `callsheet trust` and its table of commands, which are imported on demand."""

from __future__ import annotations

import click

from callsheet.apps.cli.group import CommandEntry, LazyCommands

_PACKAGE = "callsheet.apps.cli.trust"
_SECTION = "Commands"

COMMANDS: dict[str, CommandEntry] = {
    "list": CommandEntry(
        f"{_PACKAGE}.status:list_trusted", "List the servers and tools that are known.", _SECTION
    ),
    "diff": CommandEntry(f"{_PACKAGE}.status:diff", "Say what servers declare differently now.", _SECTION),
    "approve": CommandEntry(
        f"{_PACKAGE}.decide:approve", "Approve tools as they are declared now.", _SECTION
    ),
    "revoke": CommandEntry(f"{_PACKAGE}.decide:revoke", "Take the trust in servers or tools back.", _SECTION),
}


@click.group("trust", cls=LazyCommands, entries=COMMANDS, epilog=None)
def trust() -> None:
    """Say which tools of MCP servers may be called, as which declarations."""
