"""`callsheet demo`: runs a complete example on real MCP servers, and prints each command before it runs.

The plan is part of the sample, or with `--goal` compiled by a model.
"""

from __future__ import annotations

import shlex
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import click

from callsheet.apps.cli import journals, options
from callsheet.apps.cli.exit_status import Exit
from callsheet.files import user_folder

if TYPE_CHECKING:
    from callsheet.apps.demo.sample import Sample

GOAL = "List the tables of the database, get the time in Asia/Tokyo and tell me both."
"""The goal of `--goal` without a text: short enough for a small model."""
_WHAT_TO_EXPECT = (
    "a model compiles the plan. Large models mostly succeed; small ones call the right tools for most goals"
    " of one to three parts and fail at longer ones. A plan that runs without errors can still be wrong"
)


@click.command()
@click.option(
    "--dir",
    "folder",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="The folder of the sample; default: in the user's data folder.",
)
@click.option("--prepare", is_flag=True, help="Create the sample and print the commands, but run nothing.")
@click.option(
    "--goal",
    is_flag=False,
    flag_value=GOAL,
    metavar="[TEXT]",
    help="Compile the plan with a model, for TEXT or for a goal that fits the sample.",
)
@options.model
@journals.journal_path
@click.pass_context
def demo(
    context: click.Context,
    folder: Path | None,
    prepare: bool,
    goal: str | None,
    model: str,
    journal: Path | None,
) -> int:
    """Run a plan on three real MCP servers, with a sample repository and database.

    This needs git, no API key, and the network only the first time, to install the servers. With --goal a
    model compiles the plan: the configured one, otherwise a downloaded local one.
    """
    from callsheet.apps.cli.event_loop import run_async  # noqa: PLC0415 - imports asyncio
    from callsheet.apps.demo.sample import create_sample, install_servers  # noqa: PLC0415 - imports sqlite3 and subprocess

    chosen_model = "" if goal is None else _choose_model(model)
    folder = (folder or user_folder("data") / "demo").absolute()
    cache = user_folder("cache") / "servers"
    servers = run_async(install_servers(cache, _print))
    sample = create_sample(folder, servers)
    _forget_pins(sample.config)
    _print(f"created a repository, a database and a list of offices in {sample.workspace}")
    record = [] if journal is None else ["--journal", str(journal)]
    lines = (
        _plan_commands(sample, record) if goal is None else _goal_commands(goal, chosen_model, sample, record)
    )
    if prepare:
        for line in lines:
            click.echo(f"callsheet {shlex.join(line)}")
        return Exit.OK
    if goal is not None:
        _print(_WHAT_TO_EXPECT)
    for line in lines:
        status = _invoke(context, line)
        if status:
            return status
    if goal is None:
        _print(f"\nthe plan is {sample.plan}, the report {sample.workspace / 'report.md'}")
    _print(f"the journal is {_journal_path(journal)}; `callsheet runs` lists its runs")
    return Exit.OK


def _plan_commands(sample: Sample, record: list[str]) -> list[list[str]]:
    """The commands that draw, check, run and show the plan of the sample."""
    tools = ["--mcp-config", str(sample.config)]
    values = ["--var", f"repo={sample.repository}"]
    plan = str(sample.plan)
    return [
        ["graph", plan],
        ["check", plan, *tools, *values],
        ["run", plan, *tools, *values, "--workspace", str(sample.workspace), *record],
        ["show", "last", *record],
    ]


def _goal_commands(goal: str, model: str, sample: Sample, record: list[str]) -> list[list[str]]:
    """The commands that compile a plan for a goal, and draw, run and show it."""
    tools = ["--mcp-config", str(sample.config), "--model", model]
    plan = str(sample.plan.with_name("goal.ltp"))
    about = ["--context", sample.about]
    return [
        ["compile", goal, *about, *tools, "--out", plan],
        ["graph", plan],
        ["run", plan, *tools, "--workspace", str(sample.workspace), *record],
        ["show", "last", *record],
    ]


def _choose_model(option: str) -> str:
    """The model that compiles the plan: the named or configured one, otherwise a downloaded local one.

    Raises CallsheetError (CMP001) if there is none.
    """
    from callsheet.apps.compiling import no_model  # noqa: PLC0415 - imports the compiler
    from callsheet.apps.settings import load_settings  # noqa: PLC0415 - only with --goal
    from callsheet.ports.models.local import detect  # noqa: PLC0415 - as above

    configured = options.resolve_model(option) or load_settings().model.spec
    if configured:
        return configured
    local = detect().default
    if local is None:
        raise no_model()
    _print(f"no model is configured; using {local}, which is on this machine")
    return local


def _forget_pins(config: Path) -> None:
    """Remove the pins of the servers of the demo, which were just installed."""
    from callsheet.apps.settings import load_settings, pin_file  # noqa: PLC0415 - as above
    from callsheet.ports.mcp import load_config  # noqa: PLC0415 - as above
    from callsheet.ports.mcp.trust import Pins, identity_of  # noqa: PLC0415 - as above

    servers = [identity_of(server) for server in load_config(config).servers]

    def forget(pins: Pins) -> Pins:
        for known in map(pins.find, servers):
            pins = pins if known is None else pins.without(known)
        return pins

    with suppress(OSError):  # if the file cannot be written, it has no pins
        pin_file(load_settings()).change(forget)


def _print(text: str) -> None:
    click.echo(text, err=True)


def _journal_path(option: Path | None) -> Path:
    from callsheet.store.journal_paths import default_journal_path  # noqa: PLC0415 - imports sqlite3

    return option or default_journal_path()


def _invoke(context: click.Context, line: list[str]) -> int:
    """Print a command line and execute it."""
    click.secho(f"\n$ callsheet {shlex.join(line)}", bold=True, err=True)
    parent = context.parent
    assert parent is not None
    assert isinstance(parent.command, click.Group)
    command = parent.command.get_command(parent, line[0])
    assert command is not None
    with command.make_context(line[0], line[1:], parent=parent) as command_context:
        return command.invoke(command_context) or Exit.OK
