"""`callsheet tools` and `doctor`: the tools that a plan can call, and whether all that is needed is there."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from callsheet.apps.cli import journals, options
from callsheet.apps.cli.exit_status import Exit
from callsheet.apps.cli.output import print_diagnostics, print_json, to_stderr
from callsheet.apps.operations.tools import first_line, specs_of, tools_json
from callsheet.apps.rendering.values import preview

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
        tool = toolbox.registry.require(name)
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
