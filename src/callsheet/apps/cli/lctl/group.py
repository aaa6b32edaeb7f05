"""The group `callsheet lctl` and its table of commands, which are imported on demand."""

from __future__ import annotations

import click

from callsheet.apps.cli.group import CommandEntry, LazyCommands

_PACKAGE = "callsheet.apps.cli.lctl"
_READ, _ANSWER, _WRITE = "Look", "Answer and compare", "Write"

COMMANDS: dict[str, CommandEntry] = {
    "check": CommandEntry(
        f"{_PACKAGE}.check:check", "Check the documents of a chain against all rules.", _READ
    ),
    "show": CommandEntry(
        f"{_PACKAGE}.show:show", "Tell what a document hands on, and what it is worth.", _READ
    ),
    "chain": CommandEntry(f"{_PACKAGE}.show:chain", "Tell hop by hop what became of the facts.", _READ),
    "graph": CommandEntry(f"{_PACKAGE}.show:graph", "Draw the chain as a flowchart.", _READ),
    "emit": CommandEntry(f"{_PACKAGE}.emit:emit", "Write a run of the journal as a document.", _WRITE),
    "ack": CommandEntry(f"{_PACKAGE}.ack:ack", "Write the ack of a hand-off.", _ANSWER),
    "merge": CommandEntry(f"{_PACKAGE}.merge:merge", "Join the branches of a chain.", _ANSWER),
    "diff": CommandEntry(f"{_PACKAGE}.diff:diff", "Say what differs between two documents.", _ANSWER),
    "rules": CommandEntry(f"{_PACKAGE}.rules:rules", "List the rules.", _ANSWER),
}


@click.group("lctl", cls=LazyCommands, entries=COMMANDS, epilog=None)
def lctl() -> None:
    """Write, check, acknowledge, merge, draw and compare LCTL documents, which agents hand to one another."""
