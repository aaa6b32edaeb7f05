"""`callsheet login|logout`: logs a person in to an MCP server, and out."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

from callsheet.apps.cli import options
from callsheet.apps.cli.exit_status import Exit
from callsheet.apps.cli.output import print_json, to_stderr
from callsheet.apps.wording.values import without_controls

if TYPE_CHECKING:
    from callsheet.ports.mcp.oauth.authorize import PendingLogin
    from callsheet.ports.mcp.oauth.records import Login

_MAX_CHARACTERS = 20_000


@click.command()
@click.argument("server", required=False)
@options.mcp_configs
@click.option(
    "--browser/--no-browser",
    "opens",
    default=None,
    help="Open the address in a browser; or, for a browser on another machine, take the address that it was "
    "sent back to. Default: print the address and wait.",
)
@click.option("--scope", default="", metavar="SCOPE", help="Ask for this in place of what the server says.")
@options.as_json
def login(
    server: str | None, mcp_configs: tuple[Any, ...], opens: bool | None, scope: str, as_json: bool
) -> int:
    """Log in to an MCP server that asks for it; without SERVER, list the logins that are kept.

    The tokens are kept sealed, beside the seal key and outside of every journal; runs use and renew them. A
    run never logs in by itself.
    """
    if server is None:
        return _list(as_json)
    import asyncio  # noqa: PLC0415 - not for --help

    from callsheet.apps.cli.event_loop import run_async  # noqa: PLC0415 - as above
    from callsheet.apps.login import log_in  # noqa: PLC0415 - brings the SDK

    def show(pending: PendingLogin) -> None:
        to_stderr(f"log in to {server} at {without_controls(pending.issuer)}: open this address in a browser")
        click.echo(f"\n  {pending.address}\n", err=True)
        if opens:
            click.launch(pending.address)
        if opens is not False:
            to_stderr("waiting for the browser to come back (Ctrl-C ends it)")

    async def ask(_begun: PendingLogin) -> str:
        to_stderr(
            "then paste here the whole address that the browser was sent to; the page itself need not load:"
        )
        return await asyncio.to_thread(sys.stdin.readline, _MAX_CHARACTERS)  # Ctrl-C is heard meanwhile

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
    """Forget the login with an MCP server, and tell its authorization server so; exit 1 if there is none."""
    from callsheet.apps.cli.event_loop import run_async  # noqa: PLC0415 - brings asyncio
    from callsheet.apps.login import log_out  # noqa: PLC0415 - brings the SDK

    done = run_async(log_out(options.setup_from(mcp_configs=mcp_configs), server))
    if as_json:
        print_json({"server": server, "forgotten": done.was_there, "revoked": done.is_revoked})
    elif not done.was_there:
        to_stderr(f"there is no login with {server}")
    else:
        ended = "its authorization server has ended it" if done.is_revoked else "its tokens end by themselves"
        to_stderr(f"the login with {server} is forgotten; {ended}")
    return Exit.OK if done.was_there else Exit.FAILED


def _list(as_json: bool) -> int:
    from callsheet.apps.login import kept  # noqa: PLC0415 - brings the SDK

    file, logins = kept()
    if as_json:
        print_json({"path": str(file.path), "logins": [_json(login) for login in logins]})
        return Exit.OK
    for record in logins:
        scope = f"  {record.tokens.scope}" if record.tokens.scope else ""
        click.echo(
            without_controls(f"{record.server}  {record.url}  by {record.issuer}{scope}{_expiry(record)}")
        )
    to_stderr(f"the file is {file.path}")
    return Exit.OK


def _expiry(login: Login) -> str:
    """Until when a login counts, as far as anybody knows."""
    if login.tokens.refresh:
        return ", renewed by itself"
    if login.tokens.ends is None:
        return ""
    return f", until {datetime.fromtimestamp(login.tokens.ends, UTC).astimezone():%Y-%m-%d %H:%M}"


def _json(login: Login) -> dict[str, Any]:
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
