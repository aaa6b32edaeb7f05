"""`callsheet stubs`: a package of typed Python stubs of the tools, for plans in Python."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from callsheet.apps.cli import options
from callsheet.apps.cli.exit_status import Exit
from callsheet.apps.cli.output import print_diagnostics, print_json, to_stderr
from callsheet.diagnostics import CallsheetError, to_json

if TYPE_CHECKING:
    from callsheet.apps.setup import Setup


@click.command()
@options.tool_sources
@click.option(
    "-o",
    "--output",
    "folder",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("tools"),
    show_default=True,
    metavar="DIR",
    help="The folder of the package.",
)
@click.option("--check", "only_check", is_flag=True, help="Write nothing; exit 1 if a file would change.")
@options.as_json
def stubs(setup: Setup, folder: Path, only_check: bool, as_json: bool) -> int:
    """Write a package of Python stubs of all tools: a module for each MCP server, and one for local tools.

    A plan in Python imports its tools from it, so that editors and type checkers know them. The package needs
    nothing installed. Tools that are not trusted are left out. Servers that are not in callsheet.lock are
    started to list their tools; the exit status is 1 if one could not be started.

    \b
    Examples:
      callsheet stubs -o tools
      callsheet stubs -o tools --check
    """
    from callsheet.apps.cli.event_loop import run_async  # noqa: PLC0415 - imports asyncio, not for --help
    from callsheet.apps.cli.tools import open_tools  # noqa: PLC0415 - as above
    from callsheet.apps.operations.tools import specs_of  # noqa: PLC0415 - as above
    from callsheet.views.stubs import stub_package  # noqa: PLC0415 - as above

    toolbox = run_async(open_tools(setup))
    specs = {name: spec for name, spec in specs_of(toolbox).items() if spec.refusal is None}
    files = stub_package(specs)
    changed, gone = _difference(folder, files)
    if not only_check:
        _write(folder, files, changed, gone)
    failed = any(d.is_error for d in toolbox.diagnostics)
    if as_json:
        rows = to_json(toolbox.diagnostics)
        print_json({"folder": str(folder), "changed": [*changed, *gone], "diagnostics": rows})
    else:
        print_diagnostics(toolbox.diagnostics, None)
        did = "up to date" if not (changed or gone) else "would change" if only_check else "written"
        to_stderr(f"{folder}: {did}, {len(files) - 2} modules")
        for name in (*changed, *gone) if only_check else gone:
            to_stderr(f"  {name}" + ("" if only_check else " is removed: it has no tools any more"))
    return Exit.FAILED if failed or (only_check and (changed or gone)) else Exit.OK


def _difference(folder: Path, files: dict[str, str]) -> tuple[list[str], list[str]]:
    """The files that would change, and those of earlier stubs that would go.

    Raises CallsheetError (CFG014) if the folder has Python files that are no stubs.
    """
    from callsheet.views.stubs import HEAD  # noqa: PLC0415 - not for --help

    there: dict[str, str] = {}
    try:
        for path in sorted(folder.glob("*.py")):
            there[path.name] = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise _unwritable(folder, str(error)) from error
    foreign = [name for name, text in there.items() if HEAD not in text and text.strip()]
    if foreign:
        raise _unwritable(folder, f"{foreign[0]} in it was not written by `callsheet stubs`")
    there |= {"py.typed": ""} if (folder / "py.typed").is_file() else {}
    changed = [name for name, text in files.items() if there.get(name) != text]
    return changed, [name for name in there if name not in files]


def _write(folder: Path, files: dict[str, str], changed: list[str], gone: list[str]) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name in changed:
            (folder / name).write_text(files[name], encoding="utf-8")
        for name in gone:
            (folder / name).unlink()
    except OSError as error:
        raise _unwritable(folder, error.strerror or str(error)) from error


def _unwritable(folder: Path, why: str) -> CallsheetError:
    return CallsheetError.single(
        "CFG014", f"{folder} cannot be written: {why}", help="name another folder with -o DIR"
    )
