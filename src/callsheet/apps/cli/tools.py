"""`callsheet tools`, `doctor` and `stubs`: the tools that a plan can call, their needs, typed stubs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from callsheet.apps.cli import journals, options
from callsheet.apps.cli.exit_status import Exit
from callsheet.apps.cli.output import print_diagnostics, print_json, to_stderr, writing
from callsheet.apps.operations.tools import first_line, specs_of, tools_json
from callsheet.apps.rendering.values import preview
from callsheet.diagnostics import CallsheetError, to_json

if TYPE_CHECKING:
    from callsheet.apps.health_checks import CheckResult
    from callsheet.apps.setup import Setup
    from callsheet.apps.toolbox import Toolbox
    from callsheet.ports.tools import ToolSpec


@click.command()
@click.argument("names", metavar="[TOOL]...", nargs=-1)
@options.tool_sources
@click.option("--refresh", is_flag=True, help="Ask the servers, also for tools that callsheet.lock has.")
@options.as_json
def tools(names: tuple[str, ...], setup: Setup, refresh: bool, as_json: bool) -> int:
    """List the tools that plans can call: built-in ones, those of Python files and of MCP servers.

    With names of tools, show the signature, the result and the effect of each, and who says so. Configured
    servers that are not in callsheet.lock are started to list their tools; the exit status is 1 if one could
    not be started.

    \b
    Examples:
      callsheet tools
      callsheet tools list_issues github/add_label
    """
    from callsheet.apps.cli.event_loop import run_async  # noqa: PLC0415 - imports asyncio

    toolbox = run_async(open_tools(replace(setup, lock=None) if refresh else setup))
    if names:
        toolbox = _only(toolbox, names)
    if as_json:
        print_json(tools_json(toolbox))
    elif names:
        _print_details(toolbox)
    else:
        _print_tools(toolbox)
    return Exit.FAILED if any(d.is_error for d in toolbox.diagnostics) else Exit.OK


async def open_tools(setup: Setup) -> Toolbox:
    """All tools of a setup, as they are listed; none can be called afterwards."""
    from callsheet.apps.toolbox import open_toolbox  # noqa: PLC0415 - imports the tools

    async with open_toolbox(setup, calls=False) as toolbox:
        return toolbox


def _only(toolbox: Toolbox, names: tuple[str, ...]) -> Toolbox:
    """The toolbox with these tools alone; raises CallsheetError (TOL001, TOL003) for an absent one."""
    from callsheet.ports.tools import Registry  # noqa: PLC0415 - not for --help

    registry = Registry()
    for name in dict.fromkeys(map(plan_name_of, names)):
        tool = toolbox.registry.get(name)
        if tool is None:  # perhaps it is a tool of a server that could not be opened
            failures = [d for d in toolbox.diagnostics if d.is_error]
            raise CallsheetError([*failures, toolbox.registry.missing(name)])
        own, *aliases = toolbox.registry.names_of(name)
        if registry.get(own) is None:
            registry.add(replace(tool, spec=replace(tool.spec, name=own)), aliases[0] if aliases else None)
    return replace(toolbox, registry=registry)


def plan_name_of(name: str) -> str:
    """The name in plans of a tool that a person names, such as `list_issues` or `github/list_issues`."""
    from callsheet.ir import canonical_tool_name  # noqa: PLC0415 - not for --help

    server, slash, tool = name.partition("/")
    if not slash:
        return canonical_tool_name(name)
    from callsheet.ports.mcp.declarations import qualified_name  # noqa: PLC0415 - only for a server's tool

    return qualified_name(server, tool)


def _print_details(toolbox: Toolbox) -> None:
    from callsheet.views.stubs import tool_details  # noqa: PLC0415 - not for --help

    for name, spec in specs_of(toolbox).items():
        _, *aliases = toolbox.registry.names_of(name)
        click.echo(f"@{name}" + (f" (also @{aliases[0]})" if aliases else ""))
        for line in tool_details(name, spec):
            click.echo(f"  {line}".rstrip())
    print_diagnostics(toolbox.diagnostics, None)


def _print_tools(toolbox: Toolbox) -> None:
    specs = specs_of(toolbox)
    for origin in dict.fromkeys(spec.origin for spec in specs.values()):
        click.echo(f"{origin}")
        for name, spec in specs.items():
            if spec.origin == origin:
                refused = "" if spec.refusal is None else f"  not trusted ({spec.refusal.code})"
                claimed = "" if spec.hint in (None, spec.effect) else f"; the server says {spec.hint}"
                click.echo(f"  @{name} ({_arguments(spec)})  [{spec.effect}{claimed}]{refused}")
                if spec.description:
                    click.echo(f"      {preview(first_line(spec), 110)}")
    for server in toolbox.servers:
        protocol = f", protocol {server.protocol}" if server.protocol else ""
        known = "" if server.is_open else " (as callsheet.lock says)"
        to_stderr(f"MCP server {server.name}: {server.tools} tools{protocol}{known}")
    print_diagnostics(toolbox.diagnostics, None)


def _arguments(spec: ToolSpec) -> str:
    """The names of the arguments; optional ones have a question mark."""
    required = set(spec.parameters.get("required", ()))
    return ", ".join(name if name in required else f"{name}?" for name in spec.parameter_names)


_MARKS = {"ok": "✓", "note": "·", "bad": "✗"}


@click.command()
@options.mcp_configs
@options.model
@journals.journal_path
@options.as_json
def doctor(mcp_configs: tuple[Path, ...], model: str, journal: Path | None, as_json: bool) -> int:
    """Check the installation; the exit status is 1 if something is broken.

    MCP servers are started only if --mcp-config is given, or the project names them. A configured model is
    sent a short request.
    """
    from callsheet.apps.cli.event_loop import run_async  # noqa: PLC0415 - imports asyncio
    from callsheet.apps.health_checks import run_checks  # noqa: PLC0415 - imports the whole program

    items = run_async(run_checks(options.setup_from(mcp_configs=mcp_configs, model=model), journal))
    broken = any(item.state == "bad" for item in items)
    if as_json:
        print_json({"ok": not broken, "items": [_json(item) for item in items]})
    else:
        for item in items:
            _print_doctor(item)
    return Exit.FAILED if broken else Exit.OK


def _print_doctor(item: CheckResult) -> None:
    click.echo(f"{_MARKS[item.state]} {item.name:<14} {item.detail}")
    if item.help:
        click.echo(f"  {'':<14} {item.help}")


def _json(item: CheckResult) -> dict[str, Any]:
    return {"name": item.name, "state": item.state, "found": item.detail, "help": item.help}


@click.command()
@options.tool_sources
@options.output(
    "The folder of the package.",
    "--output",
    "folder",
    kind=options.FOLDER,
    default=Path("tools"),
    show_default=True,
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
        to_stderr(f"{folder}: {did}, {len(files) - 2} module{'' if len(files) == 3 else 's'}")
        for name in (*changed, *gone) if only_check else gone:
            to_stderr(f"  {name}" + ("" if only_check else " is removed: it has no tools any more"))
    return Exit.FAILED if failed or (only_check and (changed or gone)) else Exit.OK


def _difference(folder: Path, files: dict[str, str]) -> tuple[list[str], list[str]]:
    """The files that would change, and those of earlier stubs that would go.

    Raises CallsheetError (CFG014) if the folder has Python files that are no stubs, or is new and would be
    imported instead of the file beside it.
    """
    from callsheet.views.stubs import HEAD  # noqa: PLC0415 - not for --help

    module = folder.parent / f"{folder.name}.py"
    if module.is_file() and not folder.exists():
        raise _unwritable(folder, f"{module} stands beside it, and Python would import the folder instead")
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


_OTHER_FOLDER = "name another folder with -o DIR"


def _write(folder: Path, files: dict[str, str], changed: list[str], gone: list[str]) -> None:
    with writing(folder, _OTHER_FOLDER):
        folder.mkdir(parents=True, exist_ok=True)
        for name in changed:
            (folder / name).write_text(files[name], encoding="utf-8")
        for name in gone:
            (folder / name).unlink()


def _unwritable(folder: Path, why: str) -> CallsheetError:
    return CallsheetError.single("CFG014", f"{folder} cannot be written: {why}", help=_OTHER_FOLDER)
