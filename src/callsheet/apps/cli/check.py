"""`callsheet check`: reports all errors in plans, with carets. Nothing is executed.

Servers are started only if --mcp-config is given. Otherwise only built-in tools and those of Python files are
known.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from callsheet.apps.cli import options
from callsheet.apps.cli.assignments import parse_variables
from callsheet.apps.cli.exit_status import exit_for_diagnostics
from callsheet.apps.cli.output import count_by_severity, format_diagnostics, json_rows, print_json
from callsheet.apps.cli.plan_input import try_read_plan
from callsheet.apps.operations.checking import Checked, check_text
from callsheet.apps.rendering.values import preview
from callsheet.apps.tool_declarations import DeclaredTools

if TYPE_CHECKING:
    from callsheet.apps.setup import Setup
    from callsheet.frontends.spelling import Syntax


@click.command()
@click.argument("plans", nargs=-1, required=True, metavar="PLAN...")
@options.checked_tools
@options.variables
@options.syntax
@click.option("--no-tools", is_flag=True, help="Do not check tools and their arguments.")
@click.option("--strict", is_flag=True, help="Report loose spellings as errors.")
@options.as_json
def check(
    plans: tuple[str, ...],
    setup: Setup,
    variables: tuple[str, ...],
    syntax: Syntax | None,
    no_tools: bool,
    strict: bool,
    as_json: bool,
) -> int:
    """Report errors in each PLAN, a file or - for standard input.

    The exit status is 2 if there is an error, and 3 if the only errors are tools of MCP servers that are not
    trusted.

    \b
    Examples:
      callsheet check plan.ltp --tools tools.py
      callsheet check plans/*.ltp --no-tools
    """
    inputs = parse_variables(variables)
    texts = [try_read_plan(name, syntax=syntax, strict=strict, variables=inputs) for name in plans]
    declared, asks_servers = None if no_tools else DeclaredTools(setup), bool(setup.mcp_configs)
    results = [check_text(text, declared, inputs, asks_servers=asks_servers) for text in texts]
    if as_json:
        _print_json(results)
    else:
        for checked in results:
            if checked.diagnostics:
                click.echo(format_diagnostics(checked.diagnostics, checked.text.source))
            click.echo(_verdict(checked))
    return exit_for_diagnostics(d for checked in results for d in checked.diagnostics)


def _verdict(checked: Checked) -> str:
    name, message = preview(checked.text.source.name, 1_000), count_by_severity(checked.diagnostics)
    if checked.text.plan is None or not checked.ok:
        return f"{name}: {message}"
    steps = len(checked.text.plan.steps)
    return f"{name}: ok, {steps} step{'s' if steps != 1 else ''}" + (f", {message}" if message else "")


def _print_json(results: list[Checked]) -> None:
    plans = [{"plan": checked.text.source.name, **checked.row()} for checked in results]
    rows = [row for checked in results for row in json_rows(checked.diagnostics, checked.text.source)]
    print_json({"ok": all(checked.ok for checked in results), "plans": plans, "diagnostics": rows})
