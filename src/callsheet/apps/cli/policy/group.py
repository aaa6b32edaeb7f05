"""The group `callsheet policy` and its table of commands, which are imported on demand."""

from __future__ import annotations

import click

from callsheet.apps.cli.group import CommandEntry, LazyCommands

_PACKAGE = "callsheet.apps.cli.policy"
_SECTION = "Commands"

COMMANDS: dict[str, CommandEntry] = {
    "init": CommandEntry(
        f"{_PACKAGE}.init:init", "Write a policy for the tools that can be reached.", _SECTION
    ),
    "check": CommandEntry(f"{_PACKAGE}.check:check", "Say what is wrong with policies.", _SECTION),
    "share": CommandEntry(
        f"{_PACKAGE}.share:share", "Put a policy into the store that machines share.", _SECTION
    ),
    "show": CommandEntry(
        f"{_PACKAGE}.show:show", "Print a policy: strict, workspace, open, or a file.", _SECTION
    ),
}


@click.group("policy", cls=LazyCommands, entries=COMMANDS, epilog=None)
def policy() -> None:
    """Say what plans may do: which tools, whose data goes where, what needs a yes."""
