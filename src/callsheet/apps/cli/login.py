"""`callsheet login` and `callsheet logout`: log in to an MCP server with OAuth, and out."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

from callsheet.apps.cli import options
from callsheet.apps.cli.exit_status import Exit
from callsheet.apps.cli.output import print_json, to_stderr
from callsheet.apps.rendering.values import without_controls

if TYPE_CHECKING:
    from callsheet.apps.operations.printed_service_rows import LoginRow
    from callsheet.ports.mcp.oauth.authorize import PendingLogin
    from callsheet.ports.mcp.oauth.file import Login

_MAX_CHARACTERS = 20_000


@click.command()
@click.argument("server", required=False)
@options.mcp_configs
@click.option(
    "--browser/--no-browser",
    "opens",
    default=None,
    help="Open the address in a browser, or (--no-browser) read the address that a browser on another "
    "machine was redirected to. Default: print the address and wait.",
)
@click.option(
    "--scope",
    default="",
    metavar="SCOPE",
    help="Request this scope instead of the one that the server names.",
)
@options.as_json
def login(
    server: str | None, mcp_configs: tuple[Any, ...], opens: bool | None, scope: str, as_json: bool
) -> int:
    """Log in to an MCP server that requires it; without SERVER, list the stored logins.

    The tokens are stored encrypted, outside of all journals. Runs use and renew them. A run never logs in by
    itself.
    """
    if server is None:
        return _list(as_json)
    import asyncio  # noqa: PLC0415 - not for --help

    from callsheet.apps.cli.event_loop import run_async  # noqa: PLC0415 - as above
    from callsheet.apps.login import log_in  # noqa: PLC0415 - imports the SDK

    def show(pending: PendingLogin) -> None:
        to_stderr(f"log in to {server} at {without_controls(pending.issuer)}: open this address in a browser")
        click.echo(f"\n  {pending.address}\n", err=True)
        if opens:
            click.launch(pending.address)
        if opens is not False:
            to_stderr("waiting for the login in the browser (Ctrl-C cancels)")

    async def ask(_begun: PendingLogin) -> str:
        to_stderr(
            "then paste here the full address that the browser was redirected to; the page need not load:"
        )
        return await asyncio.to_thread(
            sys.stdin.readline, _MAX_CHARACTERS
        )  # in a thread, so that Ctrl-C still works

    setup = options.setup_from(mcp_configs=mcp_configs)
    record = run_async(log_in(setup, server, show, ask if opens is False else None, scope=scope))
    if as_json:
        print_json(_json(record))
    else:
        to_stderr(f"logged in to {server}{_expiry(record)}")
    return Exit.OK


@click.command()
@click.argument("server")
@options.mcp_configs
@options.as_json
def logout(server: str, mcp_configs: tuple[Any, ...], as_json: bool) -> int:
    """Remove the login of SERVER and revoke its tokens; the exit status is 1 if there is none."""
    from callsheet.apps.cli.event_loop import run_async  # noqa: PLC0415 - imports asyncio
    from callsheet.apps.login import log_out  # noqa: PLC0415 - imports the SDK

    done = run_async(log_out(options.setup_from(mcp_configs=mcp_configs), server))
    if as_json:
        print_json({"server": server, "forgotten": done.existed, "revoked": done.is_revoked})
    elif not done.existed:
        to_stderr(f"there is no login for {server}")
    else:
        ended = "its tokens were revoked" if done.is_revoked else "its tokens expire by themselves"
        to_stderr(f"removed the login for {server}; {ended}")
    return Exit.OK if done.existed else Exit.FAILED


def _list(as_json: bool) -> int:
    from callsheet.apps.login import stored_logins  # noqa: PLC0415 - imports the SDK

    file, logins = stored_logins()
    if as_json:
        print_json({"path": str(file.path), "logins": [_json(login) for login in logins]})
        return Exit.OK
    for record in logins:
        scope = f"  {record.tokens.scope}" if record.tokens.scope else ""
        click.echo(
            without_controls(f"{record.server}  {record.url}  by {record.issuer}{scope}{_expiry(record)}")
        )
    if not logins:
        to_stderr("there is no login")
    to_stderr(f"file: {file.path}")
    return Exit.OK


def _expiry(login: Login) -> str:
    """How long a login is valid, as far as known."""
    if login.tokens.refresh:
        return ", renewed automatically"
    if login.tokens.ends is None:
        return ""
    return f", until {datetime.fromtimestamp(login.tokens.ends, UTC):%Y-%m-%d %H:%M} UTC"


def _json(login: Login) -> LoginRow:
    tokens = login.tokens
    return {
        "server": login.server,
        "url": login.url,
        "issuer": login.issuer,
        "resource": login.resource,
        "scope": tokens.scope,
        "renews_itself": bool(tokens.refresh),
        "ends": None if tokens.ends is None else datetime.fromtimestamp(tokens.ends, UTC).isoformat(),
    }
