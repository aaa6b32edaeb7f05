"""The command group `callsheet lctl`; its commands are imported on demand."""

from __future__ import annotations

import click

from callsheet.apps.cli.group import CommandEntry, LazyCommands

_PACKAGE = "callsheet.apps.cli.lctl"
_READ, _ANSWER, _WRITE = "Inspect", "Answer and compare", "Write"

COMMANDS: dict[str, CommandEntry] = {
    "check": CommandEntry(f"{_PACKAGE}.reading:check", "Check the documents of a chain.", _READ),
    "show": CommandEntry(f"{_PACKAGE}.reading:show", "Show what a document hands on.", _READ),
    "chain": CommandEntry(f"{_PACKAGE}.reading:chain", "Show the facts of a chain hop by hop.", _READ),
    "graph": CommandEntry(f"{_PACKAGE}.reading:graph", "Draw a chain as a flow chart.", _READ),
    "emit": CommandEntry(f"{_PACKAGE}.writing:emit", "Write a run of the journal as a document.", _WRITE),
    "ack": CommandEntry(f"{_PACKAGE}.reading:ack", "Write the acknowledgement of a hand-off.", _ANSWER),
    "merge": CommandEntry(f"{_PACKAGE}.writing:merge", "Merge branches of a chain.", _ANSWER),
    "diff": CommandEntry(f"{_PACKAGE}.reading:diff", "Compare two documents.", _ANSWER),
    "rules": CommandEntry(f"{_PACKAGE}.reading:rules", "List the rules.", _ANSWER),
}


@click.group("lctl", cls=LazyCommands, entries=COMMANDS, epilog=None)
def lctl() -> None:
    """Write, check, acknowledge, merge, draw and compare LCTL documents: hand-offs between agents."""
