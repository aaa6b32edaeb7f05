"""`callsheet lock`: write the catalogue of the project's MCP servers to a file that is committed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from callsheet.apps.cli import options
from callsheet.apps.cli.exit_status import Exit
from callsheet.apps.cli.output import print_diagnostics, print_json, to_stderr
from callsheet.diagnostics import to_json

if TYPE_CHECKING:
    from callsheet.apps.locking import UpdatedLock


def _targets(name: str, text: str) -> Any:
    return click.option(f"--{name}", name, multiple=True, metavar="SERVER[/TOOL]", help=text)


@click.command()
@click.argument("servers", metavar="[SERVER]...", nargs=-1)
@options.mcp_configs
@click.option(
    "--refresh", is_flag=True, help="Start the servers, or each SERVER, and take in what they declare."
)
@_targets("accept", "Accept what a server says of its tools: that they only read, or may be repeated.")
@_targets("reject", "Accept that no more.")
@click.option("--check", "only_check", is_flag=True, help="Write nothing; exit 1 if the file would change.")
@click.option("--new", "is_new", is_flag=True, help="Start over, also if the file cannot be read.")
@options.as_json
def lock(
    servers: tuple[str, ...],
    mcp_configs: tuple[Path, ...],
    refresh: bool,
    accept: tuple[str, ...],
    reject: tuple[str, ...],
    only_check: bool,
    is_new: bool,
    as_json: bool,
) -> int:
    """Write callsheet.lock: the tools of the configured MCP servers, to check plans without starting them.

    Servers that are not in the file yet are started to list their tools; others only with --refresh. Commit
    the file. Commands then know its tools offline, a run starts only the servers that it calls, and refuses
    tools that are declared differently. The exit status is 1 if a server could not be asked.

    \b
    Examples:
      callsheet lock
      callsheet lock --accept github
      callsheet lock --refresh github
    """
    from callsheet.apps.cli.event_loop import run_async  # noqa: PLC0415 - imports asyncio
    from callsheet.apps.locking import LockRequest, lock_file, update_lock  # noqa: PLC0415 - as above
    from callsheet.apps.projects import is_trusted, trust  # noqa: PLC0415 - not for --help

    if servers and not refresh:
        raise click.UsageError("name a SERVER together with --refresh; without it all new servers are asked")
    setup = options.setup_from(mcp_configs=mcp_configs)
    wanted = (servers or None) if refresh else ()
    request = LockRequest(refresh=wanted, accept=accept, reject=reject, is_new=is_new)
    updated = run_async(update_lock(setup, request))
    if not only_check and updated.is_changed:
        is_own = is_new or is_trusted(updated.path)
        lock_file(setup).write(updated.after)
        if is_own:  # what others have written into it stays for a person to read: `callsheet trust project`
            trust([updated.path])
    if as_json:
        print_json(_json(updated, is_written=not only_check and updated.is_changed))
    else:
        _print(updated, only_check=only_check)
    failed = any(d.is_error for d in updated.diagnostics)
    return Exit.FAILED if failed or (only_check and updated.is_changed) else Exit.OK


def _print(updated: UpdatedLock, *, only_check: bool) -> None:
    from callsheet.apps.cli.trust import print_server  # noqa: PLC0415 - not for --help
    from callsheet.apps.locking import summary, unaccepted  # noqa: PLC0415 - as above

    for server in updated.asked:
        print_server(server, hides_settled=True)
    for name in updated.removed:
        click.echo(f"- {name}: no longer configured")
    for change in updated.effect_changes():
        click.echo(f"  {change.server}/{change.tool}: {change.before} → {change.after} ({change.source})")
    print_diagnostics(updated.diagnostics, None)
    did = "is up to date" if not updated.is_changed else "would change" if only_check else "written"
    to_stderr(f"{updated.path.name} {did}: {summary(updated.after)}")
    for name, reads, repeats in unaccepted(updated.after):
        said = [f"{reads} say that they only read"] if reads else []
        said += [f"{repeats} {'' if reads else 'say '}that they may be repeated"] if repeats else []
        count = len(updated.after.servers[name].tools)
        to_stderr(
            f"{name}: {count} tools, {' and '.join(said)}; accept that with `callsheet lock --accept {name}`"
        )


def _json(updated: UpdatedLock, *, is_written: bool) -> dict[str, Any]:
    from callsheet.apps.cli.trust import server_json  # noqa: PLC0415 - not for --help

    return {
        "path": str(updated.path),
        "changed": updated.is_changed,
        "written": is_written,
        "servers": {
            name: {tool: str(each.terms.effect) for tool, each in server.tools.items()}
            for name, server in updated.after.servers.items()
        },
        "removed": list(updated.removed),
        "asked": [server_json(server) for server in updated.asked],
        "diagnostics": to_json(updated.diagnostics),
    }
