"""The group `callsheet lctl` and its table of commands, which are imported on demand."""

from __future__ import annotations

import click

from callsheet.apps.cli.group import Entry, LazyCommands

_HERE = "callsheet.apps.cli.lctl"
_READ, _ANSWER, _WRITE = "Look", "Answer and compare", "Write"

COMMANDS: dict[str, Entry] = {
    "check": Entry(f"{_HERE}.check:check", "Check the documents of a chain against all rules.", _READ),
    "show": Entry(f"{_HERE}.look:show", "Tell what a document hands on, and what it is worth.", _READ),
    "chain": Entry(f"{_HERE}.look:chain", "Tell hop by hop what became of the facts.", _READ),
    "graph": Entry(f"{_HERE}.look:graph", "Draw the chain as a flowchart.", _READ),
    "emit": Entry(f"{_HERE}.emit:emit", "Write a run of the journal as a document.", _WRITE),
    "ack": Entry(f"{_HERE}.ack:ack", "Write the ack of a hand-off.", _ANSWER),
    "merge": Entry(f"{_HERE}.merge:merge", "Join the branches of a chain.", _ANSWER),
    "diff": Entry(f"{_HERE}.diff:diff", "Say what differs between two documents.", _ANSWER),
    "rules": Entry(f"{_HERE}.rules:rules", "List the rules.", _ANSWER),
}


@click.group("lctl", cls=LazyCommands, entries=COMMANDS, epilog=None)
def lctl() -> None:
    """Write, check, acknowledge, merge, draw and compare LCTL documents, which agents hand to one another."""
