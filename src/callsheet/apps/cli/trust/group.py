"""The command group `callsheet trust`; its commands are imported on demand."""

from __future__ import annotations

import click

from callsheet.apps.cli.group import CommandEntry, LazyCommands

_PACKAGE = "callsheet.apps.cli.trust"
_SECTION = "Commands"

COMMANDS: dict[str, CommandEntry] = {
    "list": CommandEntry(f"{_PACKAGE}.status:list_trusted", "List the known servers and tools.", _SECTION),
    "diff": CommandEntry(
        f"{_PACKAGE}.status:diff", "Compare the stored declarations with the current ones.", _SECTION
    ),
    "approve": CommandEntry(
        f"{_PACKAGE}.decide:approve", "Approve the current declarations of tools.", _SECTION
    ),
    "revoke": CommandEntry(f"{_PACKAGE}.decide:revoke", "Revoke the approval of tools.", _SECTION),
}


@click.group("trust", cls=LazyCommands, entries=COMMANDS, epilog=None)
def trust() -> None:
    """Manage which tools of MCP servers may be called, by their declarations."""
