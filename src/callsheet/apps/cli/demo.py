"""`callsheet demo`: the whole way on real MCP servers, with the commands that a user would type."""

from __future__ import annotations

import shlex
from contextlib import suppress
from pathlib import Path

import click

from callsheet.apps.cli import options
from callsheet.apps.cli.exits import Exit


@click.command()
@click.option(
    "--dir",
    "folder",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Where the sample is made; default: the user's data folder.",
)
@click.option("--prepare", is_flag=True, help="Make the sample and print the commands, but run nothing.")
@options.journal_path
@click.pass_context
def demo(context: click.Context, folder: Path | None, prepare: bool, journal: Path | None) -> int:
    """Run a plan on three real MCP servers, with a sample repository and database.

    Needs git, no key, and the network only once, to install the servers.
    """
    from platformdirs import user_cache_path  # noqa: PLC0415 - only here

    from callsheet.api.reach import default_data  # noqa: PLC0415 - as above
    from callsheet.apps.demo.sample import make_sample  # noqa: PLC0415 - brings sqlite3 and subprocess
    from callsheet.apps.demo.servers import install_servers  # noqa: PLC0415 - as above

    folder = (folder or default_data() / "demo").absolute()
    servers = install_servers(user_cache_path("callsheet", appauthor=False) / "servers", _say)
    sample = make_sample(folder, servers)
    _know_anew(sample.config)
    _say(f"made a repository, a database and a list of offices in {sample.workspace}")
    tools = ["--mcp-config", str(sample.config)]
    values = ["--var", f"repo={sample.repository}"]
    record = [] if journal is None else ["--journal", str(journal)]
    plan = str(sample.plan)
    lines = [
        ["graph", plan],
        ["check", plan, *tools, *values],
        ["run", plan, *tools, *values, "--workspace", str(sample.workspace), *record],
        ["show", "last", *record],
    ]
    if prepare:
        for line in lines:
            click.echo(f"callsheet {shlex.join(line)}")
        return Exit.OK
    for line in lines:
        status = _carry_out(context, line)
        if status:
            return status
    _say(f"\nthe plan is {sample.plan}, the report {sample.workspace / 'report.md'}")
    _say(f"the journal is {_journal_path(journal)}; `callsheet runs` lists what is in it")
    return Exit.OK


def _know_anew(config: Path) -> None:
    """Forget what is kept of the demonstration's servers: it has just installed them itself."""
    from callsheet.apps.session import pin_file  # noqa: PLC0415 - as above
    from callsheet.apps.settings import load_settings  # noqa: PLC0415 - as above
    from callsheet.ports.mcp import load_config  # noqa: PLC0415 - as above
    from callsheet.ports.mcp.trust import Pins, identity_of  # noqa: PLC0415 - as above

    servers = [identity_of(server) for server in load_config(config).servers]

    def forget(pins: Pins) -> Pins:
        for known in map(pins.find, servers):
            pins = pins if known is None else pins.without(known)
        return pins

    with suppress(OSError):  # nothing can be kept there, so nothing is
        pin_file(load_settings()).change(forget)


def _say(text: str) -> None:
    click.echo(text, err=True)


def _journal_path(given: Path | None) -> Path:
    from callsheet.store.place import default_journal_path  # noqa: PLC0415 - brings sqlite3

    return given or default_journal_path()


def _carry_out(context: click.Context, line: list[str]) -> int:
    """Carry out a command line as if it had been typed, and show it first."""
    click.secho(f"\n$ callsheet {shlex.join(line)}", bold=True, err=True)
    parent = context.parent
    assert parent is not None
    assert isinstance(parent.command, click.Group)
    command = parent.command.get_command(parent, line[0])
    assert command is not None
    with command.make_context(line[0], line[1:], parent=parent) as made:
        return command.invoke(made) or Exit.OK
