"""`callsheet tools`: what a plan can call, and which servers could not be opened."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from callsheet.apps.cli import options
from callsheet.apps.cli.exits import Exit
from callsheet.apps.cli.output import preview, print_diagnostics, print_json, say
from callsheet.diagnostics import to_json

if TYPE_CHECKING:
    from callsheet.apps.session import Setup, Toolbox
    from callsheet.ports.tools import ToolSpec


@click.command()
@options.tool_sources
@options.as_json
def tools(setup: Setup, as_json: bool) -> int:
    """List the tools that a plan can call: built in, from Python files, on MCP servers.

    All configured servers are started to ask them; exit 1 if one could not be.
    """
    from callsheet.apps.cli.loop import run_to_end  # noqa: PLC0415 - brings asyncio

    toolbox = run_to_end(_look(setup))
    if as_json:
        print_json(tools_json(toolbox))
    else:
        _print(toolbox)
    return Exit.FAILED if any(d.is_error for d in toolbox.diagnostics) else Exit.OK


async def _look(setup: Setup) -> Toolbox:
    from callsheet.apps.session import open_toolbox  # noqa: PLC0415 - brings the tools

    async with open_toolbox(setup) as toolbox:
        return toolbox


def _print(toolbox: Toolbox) -> None:
    specs = _specs(toolbox)
    for origin in dict.fromkeys(spec.origin for spec in specs.values()):
        click.echo(f"{origin}")
        for name, spec in specs.items():
            if spec.origin == origin:
                refused = "" if spec.refusal is None else f"  not trusted ({spec.refusal.code})"
                click.echo(f"  @{name} ({_arguments(spec)})  [{spec.effect}]{refused}")
                if spec.description:
                    click.echo(f"      {preview(_first_line(spec), 110)}")
    for server in toolbox.servers:
        protocol = f", protocol {server.protocol}" if server.protocol else ""
        say(f"MCP server {server.name}: {server.tools} tools{protocol}")
    print_diagnostics(toolbox.diagnostics, None)


def _specs(toolbox: Toolbox) -> dict[str, ToolSpec]:
    """The declarations by the names under which plans call them."""
    return {name: tool.spec for name, tool in zip(toolbox.registry.names(), toolbox.registry, strict=True)}


def _arguments(spec: ToolSpec) -> str:
    """The names of the arguments, a question mark after those that may be left out."""
    required = set(spec.parameters.get("required", ()))
    return ", ".join(name if name in required else f"{name}?" for name in spec.parameter_names)


def _first_line(spec: ToolSpec) -> str:
    return spec.description.strip().partition("\n")[0]


def tools_json(toolbox: Toolbox) -> dict[str, Any]:
    """The tools, the servers and what is doubtful about them, as a JSON object."""
    return {
        "tools": [
            {
                "name": name,
                "executor": spec.executor,
                "origin": spec.origin,
                "effect": str(spec.effect),
                "description": _first_line(spec),
                "arguments": list(spec.parameter_names),
                "parameters": dict(spec.parameters),
                "pin": spec.pin,
                "refusal": None if spec.refusal is None else spec.refusal.code,
            }
            for name, spec in _specs(toolbox).items()
        ],
        "servers": [{"name": s.name, "protocol": s.protocol, "tools": s.tools} for s in toolbox.servers],
        "configs": [str(path) for path in toolbox.configs],
        "diagnostics": to_json(toolbox.diagnostics),
    }
