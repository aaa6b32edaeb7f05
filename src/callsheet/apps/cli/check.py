"""`callsheet check`: all that is wrong with plans, with carets; nothing is run.

Servers are reached only if their configuration is named: else a tool that is neither built in
nor in a Python file is looked for nowhere.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import click

from callsheet.api.checking import check_plan, check_readable
from callsheet.apps.cli import options
from callsheet.apps.cli.exits import status_of
from callsheet.apps.cli.output import count_of, json_rows, print_json
from callsheet.apps.cli.reading import PlanText, read_plan
from callsheet.diagnostics import CallsheetError, Diagnostic, Source, render_all
from callsheet.ir import Plan, plan_hash
from callsheet.ports.tools import Registry

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
    inputs = options.parse_variables(variables)
    texts = [_read(argument, syntax, strict, inputs) for argument in plans]
    shelf = None if no_tools else _Shelf(setup, asks_servers=bool(setup.mcp_configs))
    found: list[tuple[PlanText, tuple[Diagnostic, ...]]] = []
    for text in texts:
        more = (
            _examine_readable(text, shelf) if text.plan is None else _examine(text.plan, shelf, set(inputs))
        )
        found.append((text, (*text.diagnostics, *more)))
    if as_json:
        _print_json(found)
    else:
        for text, diagnostics in found:
            if diagnostics:
                click.echo(render_all(diagnostics, text.source))
            click.echo(_verdict(text, diagnostics))
    return status_of(d for _, diagnostics in found for d in diagnostics)


def _read(argument: str, syntax: Syntax | None, strict: bool, inputs: Iterable[str]) -> PlanText:
    """The plan's text; one that cannot be read is a finding among those of the others."""
    try:
        return read_plan(argument, syntax=syntax, strict=strict, variables=inputs)
    except CallsheetError as error:
        return PlanText(None, Source(argument, ""), None, error.diagnostics)


def _examine(plan: Plan, shelf: _Shelf | None, inputs: set[str]) -> tuple[Diagnostic, ...]:
    if shelf is None:
        return check_plan(plan, None, inputs)
    registry, before, not_asked = shelf.tools_for(plan)
    found = check_plan(plan, registry, inputs, not_asked=not_asked, means=shelf.means)
    return (*before, *found, *shelf.wrong_tools(plan, registry, not_asked))


def _examine_readable(text: PlanText, shelf: _Shelf | None) -> tuple[Diagnostic, ...]:
    """What is wrong with the steps that could be read, so that one look shows all errors."""
    if text.partial is None or not text.partial.steps:
        return ()
    if shelf is None:
        return check_readable(text.partial, text.lost, None)
    registry, _, not_asked = shelf.tools_for(text.partial)
    return check_readable(text.partial, text.lost, registry, not_asked=not_asked)


class _Shelf:
    """The tools that plans are checked against; servers are asked only where a configuration is named."""

    def __init__(self, setup: Setup, *, asks_servers: bool) -> None:
        from callsheet.apps.shelf import Shelf  # noqa: PLC0415 - not for --no-tools

        self.means = setup.means
        self._shelf = Shelf(setup)
        self._asks_servers = asks_servers

    def wrong_tools(self, plan: Plan, registry: Registry, not_asked: str | None) -> Iterable[Diagnostic]:
        """As `Shelf.wrong_tools`."""
        return self._shelf.wrong_tools(plan, registry, not_asked)

    def tools_for(self, plan: Plan) -> tuple[Registry, tuple[Diagnostic, ...], str | None]:
        """As `Shelf.tools_for`."""
        return self._shelf.tools_for(plan, asks_servers=self._asks_servers)


def _verdict(text: PlanText, diagnostics: tuple[Diagnostic, ...]) -> str:
    said = count_of(diagnostics)
    if text.plan is None or any(d.is_error for d in diagnostics):
        return f"{text.source.name}: {said}"
    steps = len(text.plan.steps)
    return f"{text.source.name}: ok, {steps} step{'s' if steps != 1 else ''}" + (f", {said}" if said else "")


def _print_json(found: list[tuple[PlanText, tuple[Diagnostic, ...]]]) -> None:
    plans: list[dict[str, object]] = []
    for text, diagnostics in found:
        ok = text.plan is not None and not any(d.is_error for d in diagnostics)
        row: dict[str, object] = {"plan": text.source.name, "ok": ok}
        if text.plan is not None:
            row |= {"steps": len(text.plan.steps), "plan_hash": plan_hash(text.plan)}
        plans.append(row)
    rows = [row for text, diagnostics in found for row in json_rows(diagnostics, text.source)]
    print_json({"ok": all(p["ok"] for p in plans), "plans": plans, "diagnostics": rows})
