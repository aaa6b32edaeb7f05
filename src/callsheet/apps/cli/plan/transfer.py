"""`callsheet plan export` and `callsheet plan import`: plans with all their versions in one file."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from callsheet.apps.cli import options
from callsheet.apps.cli.exit_status import Exit
from callsheet.apps.cli.output import print_json, to_stderr
from callsheet.apps.cli.plan_argument import open_library
from callsheet.apps.rendering.values import escape_terminal_text
from callsheet.diagnostics import CallsheetError

_STDIN = "-"


@click.command()
@click.argument("plan_ids", metavar="ID...", nargs=-1, required=True)
@click.option(
    "-o",
    "--output",
    "--out",
    "output",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="The file to write; default: standard output.",
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
    try:
        output.write_text(text, encoding="utf-8")
    except OSError as error:
        message = f"{output} cannot be written: {error.strerror or error}"
        raise CallsheetError.single("CFG014", message, help="name another file") from error
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
