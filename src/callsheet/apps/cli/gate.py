"""`callsheet gate`: an MCP server between an agent's client and its MCP servers, and its installation."""

from __future__ import annotations

import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import click

from callsheet.apps.cli import journals, options, run_options
from callsheet.apps.cli.exit_status import Exit
from callsheet.apps.cli.output import print_text, to_stderr

if TYPE_CHECKING:
    from callsheet.apps.setup import Setup
    from callsheet.machine.limits import Limits


@click.group(invoke_without_command=True)
@options.mcp_transport
@click.option(
    "--expose",
    type=click.Choice(["program", "tools", "both"]),
    default="both",
    show_default=True,
    help="What clients see: the tools for programs, the tools of the servers, or both.",
)
@click.option(
    "--observe",
    is_flag=True,
    help="Record everything and block nothing; with --policy also what it would have refused or asked.",
)
@click.option(
    "--unproved",
    type=click.Choice(["refuse", "ask"]),
    default="refuse",
    show_default=True,
    help="What happens to a program that no plan can say, so that it cannot be proved: it is refused, or run "
    "if a person agrees, with each of its calls judged when it is made (needs the extra `python`).",
)
@options.tool_sources
@options.policy_if_any
@run_options.limits
@options.plans_folder
@options.plan_tools
@journals.recording_of_sessions
@click.pass_context
def gate(  # noqa: PLR0913 - an argument for each group of options
    ctx: click.Context,
    *,
    transport: options.McpTransport,
    expose: str,
    observe: bool,
    unproved: str,
    setup: Setup,
    policy: str,
    limits: Limits,
    plans_folder: Path | None,
    plan_tools: tuple[str, ...],
    recording: journals.Recording,
) -> int:
    """Stand between an agent and its MCP servers: record each call, enforce a policy, run programs.

    The agent's client starts this command in place of the servers in --mcp-config, and sees their tools
    unchanged. Its session is one run: `callsheet show`, `runs` and `inbox` work on it. `callsheet gate
    install` changes the configuration of a client accordingly.
    """
    if ctx.invoked_subcommand is not None:
        return Exit.OK
    from dataclasses import replace  # noqa: PLC0415 - only for a gate, as all below

    from callsheet.apps.cli.event_loop import run_async  # noqa: PLC0415 - imports asyncio
    from callsheet.apps.gate.serving import serve  # noqa: PLC0415
    from callsheet.apps.mcp.transports import ServerConfig  # noqa: PLC0415
    from callsheet.store.library import open_library  # noqa: PLC0415

    asks_unproved = unproved == "ask"
    if asks_unproved and expose == "tools":
        raise click.UsageError("--unproved ask needs --expose program or both: only programs are asked about")
    if plan_tools and expose == "tools":
        raise click.UsageError("--plan-tool needs --expose program or both: plans are tools of the gate")
    if asks_unproved:
        from callsheet.ports.python_code.interpreter import interpreter_version  # noqa: PLC0415

        interpreter_version()
    web = transport.opened()
    setup = replace(setup, is_lenient=True)  # as its client does: one server's fault is not that of all
    if observe:
        setup = replace(setup, settings=replace(setup.settings, approve=()))
    judged = options.resolve_policy(policy, setup)
    if observe and judged is not None:
        judged = replace(judged, observes=True)
    journal = recording.open(setup.settings.secrets.shapes)
    assert journal is not None
    served = ServerConfig(
        setup=setup,
        limits=limits,
        policy=judged,
        library=open_library(plans_folder),
        journal=journal,
        hint=journals.journal_hint(recording.journal),
    )
    with journal, suppress(KeyboardInterrupt):  # Ctrl-C stops the gate
        run_async(serve(served, web, expose, to_stderr, plan_tools, asks_unproved=asks_unproved))
    return Exit.OK


@gate.command()
@click.argument("client", type=click.Choice(["claude-code", "claude-desktop", "cursor", "vscode"]))
@click.option("--project", is_flag=True, help="Change the project's own file instead of the user's.")
@click.option("--undo", is_flag=True, help="Put the servers back as they were.")
@click.option("--policy", default="", metavar="POLICY", help="Start the gate with this policy.")
@click.option("--observe", is_flag=True, help="Start the gate so that it blocks nothing.")
def install(client: str, project: bool, undo: bool, policy: str, observe: bool) -> int:
    """Put the gate in front of the servers that a client has configured; a backup is kept."""
    from callsheet.apps.gate.clients import Client, install_gate, undo_gate  # noqa: PLC0415 - as above

    if policy and not undo:
        from callsheet.api.policies import load_policy  # noqa: PLC0415 - only under a policy

        load_policy(policy)  # its faults are told here: the client would only say that the gate has ended
    if Path(policy).is_file():
        policy = str(Path(policy).resolve())  # the client starts the gate in a folder of its own choice
    more = [*(["--policy", policy] if policy else []), *(["--observe"] if observe else [])]
    named = Client(client)
    lines = undo_gate(named, project=project) if undo else install_gate(named, more, project=project)
    print_text("\n".join(lines))
    return Exit.OK


@gate.command()
def said() -> int:
    """Pass what the user has said to the gate: a hook of the client, with its JSON on standard input.

    In Claude Code it is a hook for UserPromptSubmit. What the user has said word for word does not count as
    made from what the session has read.
    """
    from callsheet.apps.gate.spoken_words import note_words  # noqa: PLC0415 - as above

    note_words(sys.stdin.read())
    return Exit.OK
