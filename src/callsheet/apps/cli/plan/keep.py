"""`callsheet plan save`, `rename` and `delete`: what is in the plan library, and under which ids."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from callsheet.apps.cli import options
from callsheet.apps.cli.exits import Exit
from callsheet.apps.cli.output import print_diagnostics, print_json
from callsheet.apps.cli.plan.library import as_json, open_library, the_id
from callsheet.apps.cli.reading import PlanText

if TYPE_CHECKING:
    from callsheet.ir import Plan


@click.command()
@options.plan
@click.option("--id", "plan_id", metavar="ID", help="The plan's id; default: its own, else of its title.")
@click.option("--replace", "replaces", is_flag=True, help="Take the place of a plan of this id.")
@options.plans_folder
@options.as_json
def save(
    plan: options.NamedPlan,
    plan_id: str | None,
    replaces: bool,
    plans_folder: Path | None,
    as_json: bool,
) -> int:
    """Put PLAN, a file or - for standard input, into the plan library.

    Of LTP text and Micro-CLI the text is kept as it is; a JSON plan is kept in its canonical form. On
    standard input a JSON plan may have prose around it, as models answer.
    """
    text = plan.read()
    found = _plan_in(text)
    name = plan_id
    if name is None and found.id is None and text.path is not None and not (found.title or found.goal):
        from callsheet.store.library import new_plan_id  # noqa: PLC0415 - not for --help

        name = new_plan_id(text.path.stem)
    is_text = text.plan is not None and not text.is_json
    stored = open_library(plans_folder).save(
        found,
        name,
        text=text.source.text if is_text else None,
        syntax=text.syntax,
        replaces=replaces,
    )
    if as_json:
        print_json(_as_json(stored))
    else:
        print_diagnostics(text.diagnostics if text.plan is not None else (), text.source)
        click.echo(f"{stored.id}  {stored.path}")
    return Exit.OK


_as_json = as_json


def _plan_in(text: PlanText) -> Plan:
    """The plan of a text, or the one in a model's answer."""
    if text.plan is None and text.path is None and "{" in text.source.text:
        from callsheet.authoring.planner import read_graph_answer  # noqa: PLC0415 - only for answers

        found = read_graph_answer(text.source.text, text.source.name)
        if found.plan is not None:
            return found.plan
    return text.require()


@click.command()
@the_id
@click.argument("new", metavar="NEW")
@options.plans_folder
@options.as_json
def rename(plan_id: str, new: str, plans_folder: Path | None, as_json: bool) -> int:
    """Give the plan ID, or the one that begins so, the id NEW; its runs keep the old one."""
    stored = open_library(plans_folder).rename(plan_id, new)
    if as_json:
        print_json({"id": stored.id, "path": str(stored.path)})
    else:
        click.echo(f"{stored.id}  {stored.path}")
    return Exit.OK


@click.command()
@click.argument("plan_ids", metavar="ID...", nargs=-1, required=True)
@options.plans_folder
@options.as_json
def delete(plan_ids: tuple[str, ...], plans_folder: Path | None, as_json: bool) -> int:
    """Remove each plan ID, or the one that begins so, from the library. Their runs stay in the journal."""
    library = open_library(plans_folder)
    names = list(dict.fromkeys(library.find(plan_id) for plan_id in plan_ids))
    for name in names:
        library.delete(name)
    if as_json:
        print_json({"deleted": names})
    else:
        click.echo("\n".join(f"deleted {name}" for name in names))
    return Exit.OK
