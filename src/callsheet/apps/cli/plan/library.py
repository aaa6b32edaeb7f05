"""`callsheet plan create|save|rename|delete|list|show|export|import`: the plan library."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from callsheet.apps.cli import options
from callsheet.apps.cli.arguments import NamedPlan, open_library
from callsheet.apps.cli.exit_status import Exit
from callsheet.apps.cli.output import (
    columns,
    ignoring_broken_pipe,
    is_coloured,
    print_diagnostics,
    print_json,
    print_text,
    to_stderr,
    writing,
)
from callsheet.apps.cli.resume import execute_resume, resume_options
from callsheet.apps.cli.run import RunArguments, execute_run, run_options
from callsheet.apps.operations.library import listed_json, stored_json, text_of_stored
from callsheet.apps.operations.reading import PlanText
from callsheet.apps.rendering.values import escape_terminal_text, preview, utc
from callsheet.diagnostics import CallsheetError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from callsheet.apps.setup import Setup
    from callsheet.diagnostics import Diagnostic
    from callsheet.ir import Plan
    from callsheet.ports.tools import ToolSpec
    from callsheet.store.library import Param, PlanLibrary, StoredPlan
if TYPE_CHECKING:
    from callsheet.store.journal import Journal
    from callsheet.store.runs import RunInfo

plan_id_argument = click.argument("plan_id", metavar="ID")


@dataclass(frozen=True, slots=True)
class LibraryPlan(NamedPlan):
    """A plan named by its id, or a unique prefix of it, in a library."""

    def read(self, variables: Iterable[str] = ()) -> PlanText:
        """The text with its plan, which has the id of the library."""
        return text_of_stored(open_library(self.plans_folder).load(self.plan), variables)


def library_plan(plan_id: str, plans_folder: Path | None) -> LibraryPlan:
    """The plan that ID and `--plans` name."""
    return LibraryPlan(plan_id, None, plans_folder)


@click.command()
@click.argument("goal", metavar="GOAL")
@options.planning_tools
@click.option("--context", default="", metavar="TEXT", help="Additional data about the goal for the model.")
@click.option("--id", "plan_id", metavar="ID", help="The id of the plan; default: derived from its title.")
@click.option("--replace", "replaces", is_flag=True, help="Replace an existing plan of this id.")
@click.option("--prompt", "only_prompt", is_flag=True, help="Print the prompt for the model and stop.")
@options.plans_folder
@options.as_json
def create(
    goal: str,
    setup: Setup,
    context: str,
    plan_id: str | None,
    replaces: bool,
    only_prompt: bool,
    plans_folder: Path | None,
    as_json: bool,
) -> int:
    """Compile GOAL into a plan with a model, check it, and save it in the plan library. Nothing is executed.

    The model is asked once, with all reachable tools.
    """
    from callsheet.apps.cli.event_loop import run_async  # noqa: PLC0415 - imports asyncio
    from callsheet.store.library import check_plan_id  # noqa: PLC0415 - not for --help

    if plan_id is not None:
        check_plan_id(plan_id)
    if only_prompt:
        return _print_prompt(goal, context, setup, as_json=as_json)
    from callsheet.apps.operations.compiling import plan_for  # noqa: PLC0415 - as above

    result = run_async(plan_for(goal, context, setup))
    stored = result.saved(open_library(plans_folder), plan_id, replaces=replaces)
    if as_json:
        print_json({**stored_json(stored), "goal": goal, "usage": result.used.to_json()})
        return Exit.OK
    from callsheet.views.terminal import terminal_graph  # noqa: PLC0415 - not for JSON

    print_diagnostics(result.doubts, None)
    click.echo(f"{stored.id}  {preview(result.plan.title or '')}".rstrip())
    click.echo(f"\n{terminal_graph(stored.require()).rstrip()}")
    to_stderr(f"used {result.used.describe()}")
    to_stderr(f"saved in {stored.place}; run it with: callsheet plan run {stored.id}")
    return Exit.OK


def _print_prompt(goal: str, context: str, setup: Setup, *, as_json: bool) -> Exit:
    from callsheet.apps.cli.event_loop import run_async  # noqa: PLC0415 - as above
    from callsheet.authoring.planner import plan_prompt  # noqa: PLC0415

    prompt = plan_prompt(goal, run_async(_specs(setup)), context)
    if as_json:
        print_json({"messages": prompt.messages})
    else:
        print_text("\n\n".join(message["content"] for message in prompt.messages))
        to_stderr("save the answer with: callsheet plan save -")
    return Exit.OK


async def _specs(setup: Setup) -> list[ToolSpec]:
    from callsheet.apps.toolbox import open_toolbox  # noqa: PLC0415 - as above

    async with open_toolbox(setup, calls=False) as toolbox:
        return [tool.spec for tool in toolbox.registry]


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
    from callsheet.apps.toolbox import DeclaredTools  # noqa: PLC0415
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


_STDIN = "-"


@click.command()
@click.argument("plan_ids", metavar="ID...", nargs=-1, required=True)
@options.output(
    "The file to write; default: standard output.", "--output", "--out", "output", kind=options.PATH
)
@options.plans_folder
def export(plan_ids: tuple[str, ...], output: Path | None, plans_folder: Path | None) -> int:
    """Export the plans ID…, each with all its versions, to one self-contained file."""
    from callsheet.store.library.library import export_plans  # noqa: PLC0415 - not for --help

    library = open_library(plans_folder)
    names = list(dict.fromkeys(library.find(plan_id) for plan_id in plan_ids))
    text = export_plans(library, names)
    if output is None:
        click.echo(escape_terminal_text(text).encode("utf-8"), nl=False)
        return Exit.OK
    with writing(output, "name another file"):
        output.write_text(text, encoding="utf-8")
    to_stderr(f"{len(names)} plan{'s' if len(names) != 1 else ''} in {output}")
    return Exit.OK


@click.command("import")
@click.argument("file", metavar="FILE")
@click.option("--as", "name", metavar="ID", help="The id of the imported plan, if the file has one plan.")
@options.plans_folder
@options.as_json
def import_(file: str, name: str | None, plans_folder: Path | None, as_json: bool) -> int:
    """Import the plans of FILE, or of - for standard input: all of them or none.

    An existing plan gets the versions that it lacks. A different plan with the same id is not overwritten.
    """
    from callsheet.api.texts import read_text, unreadable  # noqa: PLC0415 - not for --help
    from callsheet.store.library.library import import_plans  # noqa: PLC0415 - as above

    help_text = "give a file written by `callsheet plan export`, or - for standard input"
    try:
        if file == _STDIN:
            text = read_text(sys.stdin.buffer, "standard input", help_text)
        else:
            with Path(file).open("rb") as opened:
                text = read_text(opened, file, help_text)
    except OSError as error:
        raise unreadable(file, error.strerror or str(error), help_text) from error
    imported = import_plans(open_library(plans_folder), text, file, as_id=name)
    if as_json:
        print_json({"plans": [entry._asdict() for entry in imported]})
        return Exit.OK
    for entry in imported:
        new = (
            f"{entry.added} new version{'s' if entry.added != 1 else ''}"
            if entry.added
            else "no new versions"
        )
        click.echo(f"{entry.id}  {new}, {entry.versions} in all")
    return Exit.OK


@click.command()
@plan_id_argument
@options.plans_folder
@run_options
def run(plan_id: str, plans_folder: Path | None, **arguments: Any) -> int:
    """Check the plan ID, or the one with this unique prefix, and run it.

    The options are those of `callsheet run`.
    """
    return execute_run(RunArguments(plan=library_plan(plan_id, plans_folder), **arguments))


@click.command()
@plan_id_argument
@options.plans_folder
@click.option(
    "--accept-changed-plan",
    is_flag=True,
    help="Continue with the original plan although the stored plan has changed.",
)
@resume_options
def resume(plan_id: str, plans_folder: Path | None, accept_changed_plan: bool, **arguments: Any) -> int:
    """Continue the newest run of the plan ID, or of the one with this unique prefix.

    The run continues with the plan it was started with, as by `callsheet resume`. If the stored plan has
    changed since then, --accept-changed-plan is required. For a completed run the result is printed again.
    """
    name = _find(plan_id, plans_folder)
    arguments["as_recorded"] = is_accepted = accept_changed_plan or arguments["as_recorded"]

    def find(journal: Journal) -> RunInfo:
        info = _newest(journal, name)
        from callsheet.store.runs import RunStatus  # noqa: PLC0415 - imports the journal

        if not is_accepted and info.status is not RunStatus.DONE:
            from callsheet.api.plan_sources import check_unchanged  # noqa: PLC0415 - only for runs that continue

            check_unchanged(open_library(plans_folder), name, journal.plan_of(info.plan_hash))
        return info

    return execute_resume(find, **arguments)


def _find(plan_id: str, plans_folder: Path | None) -> str:
    """The id of a plan; an id that is no longer in the library is returned unchanged."""
    try:
        return open_library(plans_folder).find(plan_id)
    except CallsheetError as error:
        if error.diagnostics[0].code != "PLN002":
            raise
        return plan_id


def _newest(journal: Journal, plan_id: str) -> RunInfo:
    newest = next((info for info in journal.runs_older() if info.plan_id == plan_id), None)
    if newest is None:
        raise CallsheetError.single(
            "PLN002",
            f"this journal has no run of a plan {plan_id}",
            help=f"start one: callsheet plan run {plan_id}; `callsheet runs` lists the runs",
        )
    return newest
