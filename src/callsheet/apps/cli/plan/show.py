"""`callsheet plan list` and `callsheet plan show`: print the plan library."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from callsheet.apps.cli import options
from callsheet.apps.cli.exit_status import Exit
from callsheet.apps.cli.output import ignoring_broken_pipe, print_json, print_text, to_stderr
from callsheet.apps.cli.plan.library_plan import plan_id_argument
from callsheet.apps.cli.plan_argument import open_library
from callsheet.apps.cli.terminal import columns, is_coloured
from callsheet.apps.operations.library import listed_json, stored_json
from callsheet.apps.rendering.values import preview, utc

if TYPE_CHECKING:
    from callsheet.store.library import PlanLibrary, StoredPlan

_MAX_TITLE = 60


@click.command("list")
@options.plans_folder
@click.option("--versions", "with_versions", is_flag=True, help="List every version, newest last.")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON list of objects.")
def list_plans(plans_folder: Path | None, with_versions: bool, as_json: bool) -> int:
    """List the plans of the library: id, syntax, number of steps, title or goal, parameters."""
    library = open_library(plans_folder)
    plans = library.list()
    with ignoring_broken_pipe():
        if with_versions:
            _list_versions(library, [plan.id for plan in plans], as_json=as_json)
            return Exit.OK
        if as_json:
            print_json([listed_json(plan) for plan in plans])
            return Exit.OK
        width = max((len(plan.id) for plan in plans), default=0)
        for plan in plans:
            steps = "errors" if plan.steps is None else str(plan.steps)
            goal = preview(plan.title or plan.goal or "", _MAX_TITLE)
            params = ", ".join(map(str, plan.params))
            goal = f"{goal}  ({params})" if params else goal
            click.echo(f"{plan.id.ljust(width)}  {plan.syntax!s:<5}  {steps:>6}  {goal}".rstrip())
    if not plans:
        to_stderr(f"no plans in {library.address}; save one with: callsheet plan save FILE")
    return Exit.OK


def _list_versions(library: PlanLibrary, ids: list[str], *, as_json: bool) -> None:
    records = [record for plan_id in ids for record in library.versions(plan_id)]
    if as_json:
        print_json([record.to_json() for record in records])
        return
    names = [f"{record.id}@{record.version}" for record in records]
    width = max(map(len, names), default=0)
    for name, record in zip(names, records, strict=True):
        params = f"  ({', '.join(map(str, record.params))})" if record.params else ""
        by_hand = "  changed by hand" if record.is_by_hand else ""
        goal = preview(record.goal or "", _MAX_TITLE)
        line = f"{name.ljust(width)}  {utc(record.saved)}  {record.plan_hash[:12]}  {goal}{params}{by_hand}"
        print_text(line.rstrip())


@click.command()
@plan_id_argument
@click.option("--text", "as_text", is_flag=True, help="Print the stored text.")
@options.plans_folder
@options.as_json
def show(plan_id: str, as_text: bool, plans_folder: Path | None, as_json: bool) -> int:
    """Draw the plan ID, or the one with this unique prefix, or version N (ID@N); --text prints its text."""
    from callsheet.views.terminal import terminal_graph  # noqa: PLC0415 - not for --help

    stored = open_library(plans_folder).load(plan_id)
    with ignoring_broken_pipe():
        if as_json:
            print_json(stored_json(stored))
        elif as_text:
            print_text(stored.text, nl=False)
        else:
            plan = stored.require()
            drawn = terminal_graph(plan, ansi=is_coloured(), columns=columns())
            print_text(f"{stored.name}  {preview(plan.title or plan.goal or '', _MAX_TITLE)}".rstrip())
            _print_metadata(stored)
            click.echo(f"\n{drawn.rstrip()}")
            reference = plan_id if "@" in plan_id else stored.id
            variables = "".join(f" --var {p.name}=…" for p in stored.params if not p.has_default)
            to_stderr(f"run it with: callsheet plan run {reference}{variables}")
    return Exit.OK


def _print_metadata(stored: StoredPlan) -> None:
    """Print the goal, the parameters and the tools of a stored plan."""
    if stored.goal:
        print_text(f"goal     {preview(stored.goal, 100)}")
    if stored.params:
        print_text(f"params   {', '.join(map(str, stored.params))}")
    for name, pin in stored.tools.items():
        status = "not reachable when it was saved" if pin is None else preview(pin, 24) or "without a hash"
        print_text(f"tool     @{name}  {status}")
    if stored.is_edited:
        print_text(f"edited   its file has changed since version {stored.version}")
