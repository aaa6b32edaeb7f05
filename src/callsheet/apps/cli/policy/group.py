"""The command group `callsheet policy`; its commands are imported on demand."""

from __future__ import annotations

import click

from callsheet.apps.cli.group import CommandEntry, LazyCommands

_PACKAGE = "callsheet.apps.cli.policy"
_SECTION = "Commands"

COMMANDS: dict[str, CommandEntry] = {
    "init": CommandEntry(f"{_PACKAGE}.init:init", "Write a policy for the available tools.", _SECTION),
    "check": CommandEntry(f"{_PACKAGE}.check:check", "Report errors in policies.", _SECTION),
    "share": CommandEntry(f"{_PACKAGE}.share:share", "Store a policy in the shared store.", _SECTION),
    "show": CommandEntry(f"{_PACKAGE}.show:show", "Print a policy.", _SECTION),
}


@click.group("policy", cls=LazyCommands, entries=COMMANDS, epilog=None)
def policy() -> None:
    """Manage policies: which tools plans may call, where data may flow, what needs approval."""
