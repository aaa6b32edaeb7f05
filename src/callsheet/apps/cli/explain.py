"""`callsheet explain`: the page of a diagnostic code, or of an LCTL rule."""

from __future__ import annotations

import click

from callsheet.apps.cli.output import print_json
from callsheet.apps.operations.texts import explain_code


@click.command()
@click.argument("code")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object.")
def explain(code: str, as_json: bool) -> None:
    """Explain the diagnostic CODE or LCTL rule: its meaning, an example and the fix.

    \b
    Example:
      callsheet explain LTP012
    """
    explanation = explain_code(code)
    if as_json:
        print_json(explanation)
    else:
        click.echo(explanation["page"].rstrip())
