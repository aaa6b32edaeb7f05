"""`callsheet policy check`: all that is wrong with policy files, with carets."""

from __future__ import annotations

import click

from callsheet.apps.cli import options
from callsheet.apps.cli.exits import Exit
from callsheet.apps.cli.output import json_rows, print_json
from callsheet.diagnostics import CallsheetError, Source, render_all


@click.command()
@click.argument("policies", nargs=-1, required=True, metavar="POLICY...")
@options.as_json
def check(policies: tuple[str, ...], as_json: bool) -> int:
    """Say what is wrong with each POLICY, a file or a shipped one; exit 2 if there is an error."""
    from callsheet.api.policies import load_policy  # noqa: PLC0415 - not for --help

    rows: list[dict[str, object]] = []
    is_wrong = False
    for named in policies:
        try:
            load_policy(named)
        except CallsheetError as error:
            is_wrong = True
            rows.extend(json_rows(error.diagnostics, error.source or Source(named, "")))
            if not as_json:
                click.echo(render_all(error.diagnostics, error.source))
        else:
            if not as_json:
                click.echo(f"{named}: ok")
    if as_json:
        print_json({"ok": not is_wrong, "diagnostics": rows})
    return Exit.WRONG if is_wrong else Exit.OK
