"""`callsheet mcp`: callsheet as an MCP server, over standard input and output or streamable HTTP."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from callsheet.apps.cli import options
from callsheet.apps.cli.exits import Exit

if TYPE_CHECKING:
    from callsheet.apps.session import Setup


@click.command()
@options.tool_sources
@options.policy_if_any
@options.plans_folder
def mcp(setup: Setup, policy: str, plans_folder: Path | None) -> int:
    """Serve callsheet's tools, plans and runs to an MCP client."""
    from callsheet.apps.cli.loop import run_to_end  # noqa: PLC0415 - brings asyncio, as all below
    from callsheet.apps.mcp.bench import Bench  # noqa: PLC0415
    from callsheet.apps.mcp.server import make_server  # noqa: PLC0415
    from callsheet.apps.mcp.serving import serve_stdio  # noqa: PLC0415
    from callsheet.store.library import PlanLibrary  # noqa: PLC0415

    held = options.policy_named(policy, setup)
    bench = Bench(setup=setup, library=PlanLibrary(plans_folder), policy=held)
    run_to_end(serve_stdio(make_server(bench)))
    return Exit.OK
