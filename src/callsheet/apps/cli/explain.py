"""`callsheet explain`: the page of a diagnostic code."""

from __future__ import annotations

import click

from callsheet.apps.cli.output import print_json
from callsheet.diagnostics import CODES, CallsheetError, did_you_mean
from callsheet.diagnostics import explain as page_of


@click.command()
@click.argument("code")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object.")
def explain(code: str, as_json: bool) -> None:
    """Explain a diagnostic CODE, such as LTP012: what it means, an example, the repair."""
    page = page_of(code)
    if page is None:
        near = did_you_mean(code, CODES)
        way_out = f"did you mean {' or '.join(near)}?" if near else "codes look like LTP012, CHK001, CFG110"
        raise CallsheetError.single("CFG015", f"there is no diagnostic code {code[:40]!r}", help=way_out)
    if as_json:
        entry = CODES[code.upper()]
        print_json({"code": entry.name, "title": entry.title, "page": page})
    else:
        click.echo(page.rstrip())
