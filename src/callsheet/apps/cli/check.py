"""`callsheet check`: reports all errors in plans, with carets; nothing is run.

Servers are reached only if their configuration is named: else a tool that is neither built in
nor in a Python file is looked for nowhere.
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
from callsheet.apps.tool_declarations import DeclaredTools
from callsheet.apps.wording.values import preview

if TYPE_CHECKING:
    from callsheet.apps.session import Setup
    from callsheet.frontends.spelling import Syntax


@click.command()
@click.argument("plans", nargs=-1, required=True, metavar="PLAN...")
@options.checked_tools
@options.variables
@options.syntax
@click.option("--no-tools", is_flag=True, help="Look at the plans alone: no tool is unknown.")
@click.option("--strict", is_flag=True, help="Loose spellings are errors.")
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
    """Say what is wrong with each PLAN, a file or - for standard input; exit 2 if there is an error.

    Exit 3 if all that is wrong are tools of servers that are not trusted.
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
