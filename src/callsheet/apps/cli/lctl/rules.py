"""`callsheet lctl rules`: prints the table of rules."""

from __future__ import annotations

import click

from callsheet.apps.cli import options
from callsheet.apps.cli.output import ignoring_broken_pipe, print_json
from callsheet.trace.lctl.rules.table import RULES, Level


@click.command()
@click.option("--level", type=click.Choice([str(level) for level in Level]), help="Only rules of this level.")
@options.as_json
def rules(level: str | None, as_json: bool) -> None:
    """List the rules that documents are checked against; `callsheet explain X07` explains a rule."""
    selected = [rule for rule in RULES.values() if level is None or rule.level == level]
    with ignoring_broken_pipe():
        if as_json:
            print_json([rule._asdict() for rule in selected])
        else:
            for rule in selected:
                click.echo(f"{rule.id}  {rule.level!s:<5}  {rule.title}")
