"""`callsheet mcp`: starts the MCP server, over standard input and output or streamable HTTP."""

from __future__ import annotations

import sys
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from callsheet.apps.cli import journals, limit_options, options
from callsheet.apps.cli.exit_status import Exit
from callsheet.apps.cli.output import to_stderr
from callsheet.apps.cli.terminal import is_terminal
from callsheet.diagnostics import CallsheetError

if TYPE_CHECKING:
    from callsheet.apps.mcp.transports import HttpEndpoint
    from callsheet.apps.setup import Setup
    from callsheet.machine.limits import Limits


@click.command()
@click.option(
    "--http",
    metavar="[HOST:]PORT",
    help="Serve streamable HTTP instead of standard input and output; port 0 selects a free port.",
)
@click.option(
    "--token-file",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="With --http: a file with the token of clients; default: $CALLSHEET_TOKEN, otherwise a new token, "
    "which is printed.",
)
@options.tool_sources
@options.policy_if_any
@click.option(
    "--approve",
    multiple=True,
    metavar="TOOL",
    help="Require approval of each call of this tool; may be repeated.",
)
@click.option(
    "--client-answers",
    is_flag=True,
    help="Offer answer_run to clients that cannot ask a person: their model can then approve calls.",
)
@limit_options.limits
@options.plans_folder
@journals.recording_in_journal
def mcp(  # noqa: PLR0913 - an argument for each group of options
    *,
    http: str | None,
    token_file: Path | None,
    setup: Setup,
    policy: str,
    approve: tuple[str, ...],
    client_answers: bool,
    limits: Limits,
    plans_folder: Path | None,
    recording: journals.Recording,
) -> int:
    """Serve plans, runs and the tools of callsheet to MCP clients.

    Without --http, the client starts this command and communicates over standard input and output. Policy,
    limits, tools and servers apply to every plan that a client runs, and no client can widen them. Runs that
    are interrupted at the end are recorded: `callsheet resume` continues them.
    """
    from callsheet.apps.cli.event_loop import run_async  # noqa: PLC0415 - imports asyncio, as all below
    from callsheet.apps.mcp.transports import ServerConfig, serve  # noqa: PLC0415
    from callsheet.store.library import open_library  # noqa: PLC0415

    if token_file is not None and http is None:
        raise click.UsageError("--token-file needs --http")
    if http is None and (sys.stdin is None or sys.stdout is None):
        message = "standard input or output is closed"
        help_text = "let an MCP client start this command, or write --http 8321"
        raise CallsheetError.single("CFG010", message, help=help_text)
    web = None if http is None else _web(http, token_file)
    settings = replace(setup.settings, approve=(*setup.settings.approve, *approve))
    setup = replace(setup, settings=settings)
    if http is None and is_terminal(sys.stdin):
        to_stderr(
            "this command is meant to be started by an MCP client; Ctrl-D stops it (callsheet mcp --help)"
        )
    resolved_policy = options.resolve_policy(policy, setup)
    journal = recording.open(setup.settings.secrets.shapes)
    assert journal is not None
    served = ServerConfig(
        setup=setup,
        limits=limits,
        policy=resolved_policy,
        library=open_library(plans_folder),
        journal=journal,
        clients_may_answer=client_answers,
        hint=journals.journal_hint(recording.journal),
    )
    with journal, suppress(KeyboardInterrupt):  # Ctrl-C stops the server
        run_async(serve(served, web, to_stderr))
    return Exit.OK


def _web(http: str, token_file: Path | None) -> HttpEndpoint:
    from callsheet.apps.http.serving import chosen_token  # noqa: PLC0415 - as above
    from callsheet.apps.mcp.transports import (  # noqa: PLC0415 - as above
        HttpEndpoint,
        listen,
        read_address,
    )

    address = read_address(http)
    token, is_new = chosen_token(token_file)
    bound, address = listen(address)
    return HttpEndpoint(bound, address, token, is_new)
