"""`callsheet lsp`: the language server for plans and policies in editors."""

from __future__ import annotations

import signal
import sys
from typing import TYPE_CHECKING

import click

from callsheet.apps.cli import options
from callsheet.apps.cli.assignments import parse_variables
from callsheet.diagnostics import CallsheetError

if TYPE_CHECKING:
    from callsheet.apps.setup import Setup


@click.command()
@click.option("--stdio", is_flag=True, help="Communicate over standard input and output; the default.")
@click.option(
    "--tcp",
    "port",
    type=click.IntRange(0, 65_535),
    metavar="PORT",
    help="Listen on this port of 127.0.0.1 instead; 0 selects a free port, which is printed.",
)
@options.policy_if_any
@options.checked_tools
@options.variables
def lsp(stdio: bool, port: int | None, policy: str, setup: Setup, variables: tuple[str, ...]) -> None:
    """Start the language server: diagnostics, completion, hover, rename and formatting of plans and policies.

    Servers are asked for their tools only if --mcp-config is given, once at the start. Nothing is executed.
    """
    if stdio and port is not None:
        raise click.UsageError("--stdio and --tcp cannot be combined")
    if port is None:
        if sys.stdin is None or sys.stdout is None:
            raise click.UsageError(
                "standard input or output is closed: an editor must start this command, or use --tcp"
            )
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # the blocking read would not be interrupted by Ctrl-C
    inputs = parse_variables(variables)
    try:
        from callsheet.apps.lsp.server import reserve_stdout, serve_stdio, serve_tcp  # noqa: PLC0415 - not for --help
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in ("pygls", "lsprotocol"):
            raise
        raise CallsheetError.single(
            "LSP001",
            "the language server needs pygls, which is not installed",
            help="pip install 'callsheet[lsp]'",
        ) from error
    from callsheet.apps.cli.event_loop import run_async  # noqa: PLC0415 - as above
    from callsheet.apps.cli.output import to_stderr  # noqa: PLC0415 - as above
    from callsheet.apps.lsp.documents import AnalysisContext, local_tools_of  # noqa: PLC0415 - as above
    from callsheet.apps.lsp.server import make_server  # noqa: PLC0415 - as above

    out = reserve_stdout() if port is None else None
    context = AnalysisContext(
        setup, local_tools_of(setup), options.resolve_policy(policy, setup), tuple(inputs), setup.providers
    )
    if out is not None:
        serve_stdio(make_server(context), out)
    else:
        run_async(
            serve_tcp(
                lambda: make_server(context), port or 0, lambda n: to_stderr(f"listening on 127.0.0.1:{n}")
            )
        )
