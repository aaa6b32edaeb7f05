"""`callsheet lctl diff`: the differences between two documents."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from callsheet.apps.cli import options
from callsheet.apps.cli.exit_status import Exit
from callsheet.apps.cli.lctl.documents import STDIN, read_block
from callsheet.apps.cli.output import ignoring_broken_pipe, print_json, print_text
from callsheet.diagnostics import CallsheetError
from callsheet.trace.lctl.diff import Changed, Diff
from callsheet.trace.lctl.diff import diff as differences
from callsheet.trace.lctl.findings import LctlError
from callsheet.trace.lctl.model import Body
from callsheet.views.lctl import changes_text


@click.command()
@click.argument("old", metavar="A")
@click.argument("new", metavar="B")
@click.option("--exit-code", is_flag=True, help="Exit 1 if the documents differ.")
@options.as_json
def diff(old: str, new: str, exit_code: bool, as_json: bool) -> int:
    """Show the differences of the documents A and B, for example of two runs of one chain.

    Steps are aligned, so that an inserted step does not change all later ones. Times are ignored. One of the
    two may be - for standard input.
    """
    if old == new == STDIN:
        raise click.UsageError("only one of the two documents can come from standard input")
    difference = differences(_body(old), _body(new))
    with ignoring_broken_pipe():
        if as_json:
            print_json(_as_json(difference))
        else:
            print_text(changes_text(difference))
    return Exit.FAILED if exit_code and not difference.is_equal else Exit.OK


def _body(name: str) -> Body:
    reading = read_block(name)
    if reading.document is None:
        raise LctlError.of(reading.findings, reading.source)
    if not isinstance(reading.document, Body):
        help_text = "an acknowledgement has no trace; compare hand-offs or post-mortems"
        raise CallsheetError.single("CFG012", f"{name} is an acknowledgement", help=help_text)
    return reading.document


def _as_json(difference: Diff) -> dict[str, Any]:
    return {
        "equal": difference.is_equal,
        "first_divergence_step": difference.first_divergence_step,
        "steps_added": [{"step": entry.step, "agent": entry.agent} for entry in difference.steps_added],
        "steps_removed": [{"step": entry.step, "agent": entry.agent} for entry in difference.steps_removed],
        "steps_changed": [
            {"step": change.step, "agent": change.agent, "fields": _values(change.fields)}
            for change in difference.steps_changed
        ],
        "facts_added": list(difference.facts_added),
        "facts_removed": list(difference.facts_removed),
        "facts_changed": {fact: _values(fields) for fact, fields in difference.facts_changed.items()},
        "rest_changed": _values(difference.rest_changed),
    }


def _values(fields: Mapping[str, Changed]) -> dict[str, Any]:
    return {name: {"old": change.old, "new": change.new} for name, change in fields.items()}
