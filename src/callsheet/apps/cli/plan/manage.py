"""`callsheet plan save`, `rename` and `delete`: change the plan library."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from callsheet.apps.cli import options
from callsheet.apps.cli.exit_status import Exit
from callsheet.apps.cli.output import print_diagnostics, print_json, to_stderr
from callsheet.apps.cli.plan.library_plan import plan_id_argument
from callsheet.apps.cli.plan_argument import NamedPlan, open_library
from callsheet.apps.operations.reading import PlanText

if TYPE_CHECKING:
    from collections.abc import Mapping

    from callsheet.apps.setup import Setup
    from callsheet.diagnostics import Diagnostic
    from callsheet.ir import Plan
    from callsheet.store.library import Param, PlanLibrary, StoredPlan


@click.command()
@options.plan_file
@click.option("--as", "name", metavar="ID", help="The id of the plan; an existing plan gets a new version.")
@click.option("--id", "plan_id", metavar="ID", help="As --as, but fail if the id exists.")
@click.option("--replace", "replaces", is_flag=True, help="With --id: add a new version to an existing plan.")
@click.option(
    "--params",
    multiple=True,
    metavar="NAME[:KIND][=DEFAULT],…",
    help="The parameters of the plan, as 'repo,count:integer=5'; default: those of the previous version.",
)
@click.option("--goal", metavar="TEXT", help="The goal of the plan; default: the goal in its text.")
@options.checked_tools
@options.plans_folder
@options.as_json
def save(  # noqa: PLR0913 - an argument for each option
    *,
    plan: NamedPlan,
    name: str | None,
    plan_id: str | None,
    replaces: bool,
    params: tuple[str, ...],
    goal: str | None,
    setup: Setup,
    plans_folder: Path | None,
    as_json: bool,
) -> int:
    """Save PLAN, a file or - for standard input, in the plan library, as a new version if it exists.

    LTP text and Micro-CLI are stored unchanged, JSON plans in canonical form. On standard input a JSON plan
    may be surrounded by prose, as in the answer of a model. The hashes of the declarations of the called
    tools are stored with the plan; servers are started for this if needed.

    \b
    Example:
      callsheet save plan.ltp --as weekly-report --params 'repo,days:integer=7'
    """
    from callsheet.store.library import free_variables, read_params  # noqa: PLC0415 - not for --help

    if name is not None and plan_id is not None:
        raise click.UsageError("--as and --id cannot be combined")
    library, new_params = open_library(plans_folder), read_params(params) if params else None
    params_known = new_params if new_params is not None else _known_params(library, name or plan_id)
    text = plan.read([param.name for param in params_known])
    plan_found = _plan_in(text)
    is_text = text.plan is not None and not text.is_json
    tools, tool_findings = _tools_of(plan_found, setup)
    stored = library.save(
        plan_found,
        name or plan_id or _id_from_path(text, plan_found),
        text=text.source.text if is_text else None,
        syntax=text.syntax,
        replaces=replaces or name is not None,
        params=new_params,
        tools=tools,
        goal=goal,
    )
    if as_json:
        from callsheet.apps.operations.library import stored_json  # noqa: PLC0415 - not for --help

        print_json(stored_json(stored))
        return Exit.OK
    print_diagnostics((*(text.diagnostics if text.plan is not None else ()), *tool_findings), text.source)
    inputs = [one.name for one in plan_found.tree.inputs] if plan_found.tree else stored.params
    params_of = f"  ({', '.join(map(str, inputs))})" if inputs else ""
    click.echo(f"{stored.name}  {stored.place}{params_of}")
    _print_missing(stored, tools, () if plan_found.tree else free_variables(plan_found))
    return Exit.OK


def _id_from_path(text: PlanText, plan: Plan) -> str | None:
    """An id from the name of a plan's file, for a plan that has no name of its own; None otherwise."""
    if text.path is None or plan.id is not None or plan.title or plan.goal:
        return None
    from callsheet.store.library import new_plan_id  # noqa: PLC0415 - not for --help

    return new_plan_id(text.path.stem)


def _known_params(library: PlanLibrary, name: str | None) -> tuple[Param, ...]:
    """The parameters of the plan that gets a new version."""
    return library.load(name).params if name is not None and name in library.ids() else ()


def _tools_of(plan: Plan, setup: Setup) -> tuple[dict[str, str | None], tuple[Diagnostic, ...]]:
    """The hashes of the declarations of the tools that a plan calls, and warnings about them."""
    from dataclasses import replace  # noqa: PLC0415 - not for --help

    from callsheet.api.requirements import pins_for_library  # noqa: PLC0415 - as above
    from callsheet.apps.tool_declarations import DeclaredTools  # noqa: PLC0415
    from callsheet.diagnostics import Severity  # noqa: PLC0415

    registry, diagnostics, _ = DeclaredTools(setup).tools_for(plan, asks_servers=True)
    findings = tuple(
        replace(diagnostic, severity=Severity.WARNING) if diagnostic.is_error else diagnostic
        for diagnostic in diagnostics
    )
    return pins_for_library(plan, registry), findings


def _print_missing(stored: StoredPlan, tools: Mapping[str, str | None], free: tuple[str, ...]) -> None:
    """Print the unknown tools, and the variables that neither the plan nor a parameter sets."""
    absent = [f"@{name}" for name, pin in tools.items() if pin is None]
    if absent:
        to_stderr(f"unknown tools, which are not reachable here: {', '.join(absent)}")
    unnamed = [name for name in free if all(param.name != name for param in stored.params)]
    if unnamed:
        names = ",".join(unnamed)
        to_stderr(f"the plan reads unset variables: save it with --params {names}, or run it with --var")


def _plan_in(text: PlanText) -> Plan:
    """The plan of a text, or of the answer of a model."""
    if text.plan is None and text.path is None and "{" in text.source.text:
        from callsheet.authoring.planner import read_graph_answer  # noqa: PLC0415 - only for answers

        answer = read_graph_answer(text.source.text, text.source.name)
        if answer.plan is not None:
            return answer.plan
    return text.require()


@click.command()
@plan_id_argument
@click.argument("new", metavar="NEW")
@options.plans_folder
@options.as_json
def rename(plan_id: str, new: str, plans_folder: Path | None, as_json: bool) -> int:
    """Rename the plan ID, or the one with this unique prefix, to NEW; its runs keep the old id."""
    stored = open_library(plans_folder).rename(plan_id, new)
    if as_json:
        print_json({"id": stored.id, "path": stored.place})
    else:
        click.echo(f"{stored.id}  {stored.place}")
    return Exit.OK


@click.command()
@click.argument("plan_ids", metavar="ID...", nargs=-1, required=True)
@options.plans_folder
@options.as_json
def delete(plan_ids: tuple[str, ...], plans_folder: Path | None, as_json: bool) -> int:
    """Delete each plan ID, or the one with this unique prefix, from the library. Runs stay in the journal."""
    library = open_library(plans_folder)
    names = list(dict.fromkeys(library.find(plan_id) for plan_id in plan_ids))
    for name in names:
        library.delete(name)
    if as_json:
        print_json({"deleted": names})
    else:
        click.echo("\n".join(f"deleted {name}" for name in names))
    return Exit.OK
