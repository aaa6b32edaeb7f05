"""`callsheet trust approve|revoke`: approves or revokes declarations of tools."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import Any

import click

from callsheet.apps.cli import options
from callsheet.apps.cli.exit_status import Exit
from callsheet.apps.cli.output import print_diagnostics, print_json, to_stderr
from callsheet.apps.cli.terminal import is_terminal
from callsheet.apps.cli.trust.status import compare_servers, print_server
from callsheet.diagnostics import CallsheetError, to_json

_targets = click.argument("targets", metavar="SERVER[/TOOL]...", nargs=-1, required=True)


@click.command()
@_targets
@options.mcp_configs
@click.option("--yes", "assume_yes", is_flag=True, help="Approve without asking.")
@options.as_json
def approve(targets: tuple[str, ...], mcp_configs: tuple[Any, ...], assume_yes: bool, as_json: bool) -> int:
    """Show the declarations of tools of each SERVER, and approve them.

    Without /TOOL all tools of the server are approved. The declarations that were shown are stored. The exit
    status is 1 if a server could not be asked, or if you decline.

    \b
    Example:
      callsheet trust approve wiki wiki-staging/search
    """
    from callsheet.apps.tool_pins import pin_file  # noqa: PLC0415 - not for --help
    from callsheet.apps.tool_trust import approve as store_approval  # noqa: PLC0415 - as above
    from callsheet.ports.mcp.trust.checking import now  # noqa: PLC0415 - as above

    if not assume_yes and (as_json or not _is_interactive()):
        raise click.UsageError(
            "no terminal for a confirmation: check with `callsheet trust diff`, then add --yes"
        )
    setup = options.setup_from(mcp_configs=mcp_configs)
    servers, diagnostics = compare_servers(setup, targets)
    if any(d.is_error for d in diagnostics):
        raise CallsheetError(diagnostics)
    unapproved = [
        replace(server, tools=open_ones)
        for server in servers
        if (open_ones := tuple(t for t in server.tools if not t.is_approved)) or server.is_renamed
    ]
    if not as_json:
        for server in unapproved:
            print_server(server, hides_settled=False)
        print_diagnostics(diagnostics, None)
    names = [f"{server.identity.name}/{tool.name}" for server in unapproved for tool in server.tools]
    if (
        unapproved
        and not assume_yes
        and not click.confirm(f"Approve {', '.join(names) or 'the server'}?", err=True)
    ):
        to_stderr("nothing was approved")
        return Exit.FAILED
    file = pin_file(setup.settings)
    _write(lambda: store_approval(file, servers, now()), str(file.path))
    if as_json:
        print_json({"approved": names, "path": str(file.path), "diagnostics": to_json(diagnostics)})
    else:
        to_stderr(
            f"approved: {', '.join(names)}" if names else "nothing to approve: no declaration has changed"
        )
    return Exit.OK


@click.command()
@_targets
@click.option("--forget", "forgets", is_flag=True, help="Remove the server: its tools are treated as new.")
@options.as_json
def revoke(targets: tuple[str, ...], forgets: bool, as_json: bool) -> int:
    """Revoke the approval of tools, or of all tools of a server.

    They are not called until they are approved again. No server is started.
    """
    from callsheet.apps.settings import load_settings  # noqa: PLC0415 - as above
    from callsheet.apps.tool_pins import pin_file  # noqa: PLC0415 - not for --help
    from callsheet.apps.tool_trust import revoke as revoke_tools  # noqa: PLC0415 - as above

    file = pin_file(load_settings())
    revoked: tuple[str, ...] = ()

    def apply_change() -> None:
        nonlocal revoked
        revoked = revoke_tools(file, targets, forgets=forgets)

    _write(apply_change, str(file.path))
    if as_json:
        print_json({"revoked": list(revoked), "path": str(file.path)})
    else:
        to_stderr(f"revoked: {', '.join(revoked)}" if revoked else "no approved tool matches")
    return Exit.OK


def _is_interactive() -> bool:
    return is_terminal(sys.stdin)


def _write(work: Any, path: str) -> None:
    try:
        work()
    except OSError as error:
        raise CallsheetError.single(
            "CFG114",
            f"the file of trusted tools {path} cannot be written: {error.strerror or error}",
            help="free space, make the file writable, or name another file in CALLSHEET_PINS",
        ) from error
