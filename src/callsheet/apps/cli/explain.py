"""`callsheet explain`: the page of a diagnostic code, or of a rule of LCTL."""

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
    page, entry = page_of(code), CODES.get(code.upper())
    name, title = (entry.name, entry.title) if entry is not None else ("", "")
    if page is None:
        from callsheet.trace.lctl.findings import rule_page  # noqa: PLC0415 - for rules of LCTL alone
        from callsheet.trace.lctl.rules.table import RULES  # noqa: PLC0415 - as above

        rule = RULES.get(code.upper())
        if rule is None:
            near = did_you_mean(code, CODES)
            way_out = (
                f"did you mean {' or '.join(near)}?" if near else "codes look like LTP012, CHK001, CFG110"
            )
            raise CallsheetError.single("CFG015", f"there is no diagnostic code {code[:40]!r}", help=way_out)
        page, name, title = rule_page(rule), rule.id, rule.title
    if as_json:
        print_json({"code": name, "title": title, "page": page})
    else:
        click.echo(page.rstrip())
