"""`callsheet trust` and `lock`: the trusted declarations of MCP server tools, of a user and of a project."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import click

from callsheet.apps.cli import options
from callsheet.apps.cli.exit_status import Exit
from callsheet.apps.cli.group import CommandEntry, LazyCommands
from callsheet.apps.cli.output import is_terminal, print_diagnostics, print_json, to_stderr
from callsheet.diagnostics import CallsheetError, to_json

if TYPE_CHECKING:
    from callsheet.apps.operations.printed_rows import (
        ApprovedTools,
        ComparedServerRow,
        ComparedServers,
        LockedServers,
        ReportedServerRow,
        RevokedTools,
        TrustedFiles,
    )
    from callsheet.apps.operations.schema import DiagnosticRow
    from callsheet.apps.setup import Setup
    from callsheet.apps.tool_trust import ServerTrust, UpdatedLock
    from callsheet.diagnostics import Diagnostic
    from callsheet.ports.mcp.trust import Reported


_SIGNS = {"same": "=", "changed": "~", "new": "+", "gone": "-"}
_WORDS = {"same": "", "changed": "  changed", "new": "  new", "gone": "  no longer offered"}


@click.command("list")
@click.argument("servers", metavar="[SERVER]...", nargs=-1)
@options.as_json
def list_trusted(servers: tuple[str, ...], as_json: bool) -> int:
    """List the known servers and tools; ✓ marks approved tools.

    No server is started: the list is that of the file.
    """
    from callsheet.apps.settings import load_settings, pin_file  # noqa: PLC0415 - not for --help
    from callsheet.apps.tool_trust import targets_of  # noqa: PLC0415 - as above
    from callsheet.ports.mcp.trust import RecordReason  # noqa: PLC0415 - as above
    from callsheet.ports.mcp.trust.judging import visible  # noqa: PLC0415 - as above

    file = pin_file(load_settings())
    pins = file.read()
    if servers:
        selected = {t.server for t in targets_of(servers, (s.identity.name for s in pins.servers))}
        pins = type(pins)(tuple(s for s in pins.servers if s.identity.name in selected))
    if as_json:
        print_json({"path": str(file.path), **pins.to_json()})
        return Exit.OK
    for server in pins.servers:
        click.echo(
            f"{visible(server.identity.name)}  {visible(server.identity.place)}"
            f"  (reports the name {visible(str(server.reported))[:80]})"
        )
        for name, tool in server.tools.items():
            mark = "✓" if tool.reason is RecordReason.APPROVED else "·"
            click.echo(f"  {mark} {visible(name)}  {tool.reason} {tool.since}  {tool.pin}")
    if not pins.servers and not servers:
        to_stderr("no MCP server has been asked for its tools yet")
    to_stderr(f"file: {file.path}")
    return Exit.OK


@click.command()
@click.argument("targets", metavar="[SERVER[/TOOL]]...", nargs=-1)
@options.mcp_configs
@options.as_json
def diff(targets: tuple[str, ...], mcp_configs: tuple[Any, ...], as_json: bool) -> int:
    """Compare the stored declarations of tools with the current ones; the exit status is 1 if any differ.

    The servers are started for this. Invisible characters are shown as escapes.
    """
    setup = options.setup_from(mcp_configs=mcp_configs)
    servers, diagnostics = compare_servers(setup, targets)
    if as_json:
        compared: ComparedServers = {
            "servers": [server_json(server) for server in servers],
            "diagnostics": cast("list[DiagnosticRow]", to_json(diagnostics)),
        }
        print_json(compared)
    else:
        for server in servers:
            print_server(server, hides_settled=True)
        print_diagnostics(diagnostics, None)
    differs = any(server.is_renamed or any(t.state != "same" for t in server.tools) for server in servers)
    return Exit.FAILED if differs or any(d.is_error for d in diagnostics) else Exit.OK


def compare_servers(
    setup: Setup, targets: tuple[str, ...]
) -> tuple[tuple[ServerTrust, ...], tuple[Diagnostic, ...]]:
    """The selected servers with their current declarations, and diagnostics of servers that failed."""
    from callsheet.apps.cli.event_loop import run_async  # noqa: PLC0415 - imports asyncio
    from callsheet.apps.tool_trust import compare_with_pins  # noqa: PLC0415 - as above

    return run_async(compare_with_pins(setup, targets))


def print_server(server: ServerTrust, *, hides_settled: bool) -> None:
    """Print the differences of a server, and the number of unchanged tools."""
    from callsheet.ports.mcp.trust.judging import visible  # noqa: PLC0415 - not for --help

    name = visible(server.identity.name)
    click.echo(f"{name}  {visible(server.identity.place)}")
    if server.is_renamed:
        reported, before = visible(str(server.seen.reported)), visible(str(server.reported_before))
        click.echo(f"  ~ reports the name {reported[:80]}, was {before[:80]}")
    elif (
        server.reported_before is not None and server.reported_before.version != server.seen.reported.version
    ):
        now = visible(server.seen.reported.version)[:40]
        click.echo(f"    version {now}, was {visible(server.reported_before.version)[:40]}")
    same = 0
    for tool in server.tools:
        if tool.state == "same" and hides_settled:
            same += 1
            continue
        click.echo(f"  {_SIGNS[tool.state]} {visible(tool.name)}{_WORDS[tool.state]}")
        for line in tool.lines:
            click.echo(f"      {line}")
    if same:
        click.echo(f"  {same} unchanged")


def server_json(server: ServerTrust) -> ComparedServerRow:
    """The differences of a server as data."""
    before = server.reported_before
    return {
        "name": server.identity.name,
        "place": server.identity.place,
        "reported": _reported(server.seen.reported),
        "reported_before": None if before is None else _reported(before),
        "tools": [
            {
                "name": tool.name,
                "state": tool.state,
                "standing": None if tool.pinned is None else str(tool.pinned.reason),
                "lines": list(tool.lines),
            }
            for tool in server.tools
        ],
    }


def _reported(name: Reported) -> ReportedServerRow:
    return {"name": name.name, "version": name.version}


_target_arguments = click.argument("targets", metavar="SERVER[/TOOL]...", nargs=-1, required=True)


@click.command()
@_target_arguments
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
    from callsheet.apps.settings import pin_file  # noqa: PLC0415 - not for --help
    from callsheet.apps.tool_trust import approve as store_approval  # noqa: PLC0415 - as above
    from callsheet.ports.mcp.trust.judging import now  # noqa: PLC0415 - as above

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
        done: ApprovedTools = {
            "approved": names,
            "path": str(file.path),
            "diagnostics": cast("list[DiagnosticRow]", to_json(diagnostics)),
        }
        print_json(done)
    else:
        to_stderr(
            f"approved: {', '.join(names)}" if names else "nothing to approve: no declaration has changed"
        )
    return Exit.OK


@click.command()
@_target_arguments
@click.option("--forget", "forgets", is_flag=True, help="Remove the server: its tools are treated as new.")
@options.as_json
def revoke(targets: tuple[str, ...], forgets: bool, as_json: bool) -> int:
    """Revoke the approval of tools, or of all tools of a server.

    They are not called until they are approved again; what a lock file has is called without `pinned` all the
    same. No server is started.
    """
    from callsheet.apps.settings import load_settings, pin_file  # noqa: PLC0415 - not for --help
    from callsheet.apps.tool_trust import revoke as revoke_tools  # noqa: PLC0415 - as above

    settings = load_settings()
    file = pin_file(settings)
    revoked: tuple[str, ...] = ()

    def apply_change() -> None:
        nonlocal revoked
        revoked = revoke_tools(file, targets, forgets=forgets)

    _write(apply_change, str(file.path))
    if as_json:
        done: RevokedTools = {"revoked": list(revoked), "path": str(file.path)}
        print_json(done)
    else:
        to_stderr(f"revoked: {', '.join(revoked)}" if revoked else "no approved tool matches")
    if settings.trust != "pinned":
        _tell_locked(revoked)
    return Exit.OK


def _tell_locked(revoked: Iterable[str]) -> None:
    """Say which of the revoked tools, or servers, the lock file of this folder has, which precedes pins."""
    from callsheet.apps.projects import project_of  # noqa: PLC0415 - not for --help
    from callsheet.apps.setup import lock_path  # noqa: PLC0415 - as above
    from callsheet.ports.mcp.trust.lock import LockFile  # noqa: PLC0415 - as above

    path = lock_path(project_of(Path.cwd()).folder)
    try:
        lock = None if path is None else LockFile(path).read()
    except CallsheetError:  # it counts for nothing
        return
    if path is None or lock is None:
        return
    servers = lock.servers
    known = {*servers, *(f"{name}/{tool}" for name, server in servers.items() for tool in server.tools)}
    locked = [name for name in revoked if name in known]
    if locked:
        why = "where it counts, they are called all the same without `pinned`"
        to_stderr(f"{path.name} has {', '.join(locked)}: {why}")


@click.command()
@click.option("--revoke", "revokes", is_flag=True, help="Trust it no more.")
@options.as_json
def project(revokes: bool, as_json: bool) -> int:
    """Trust the project of this folder: its configuration, and its callsheet.lock for all MCP servers.

    The configuration is printed, and the effects that the lock file gives to tools. What they say then
    counts, until they change: which tools and servers plans have, which policy and limits apply, which model
    is asked, what the tools do. Read them first.
    """
    from callsheet.apps.projects import distrust, project_files, project_of  # noqa: PLC0415 - not for --help
    from callsheet.apps.projects import trust as trust_files  # noqa: PLC0415 - as above
    from callsheet.ports.mcp.trust.judging import visible  # noqa: PLC0415 - as above

    found = project_of(Path.cwd())
    files = [path for path in project_files(found) if path.is_file()]
    if not files:
        raise CallsheetError.single(
            "CFG011",
            f"there is no project in {Path.cwd()}",
            help="a project has a callsheet.toml, or a callsheet.lock, which `callsheet lock` writes",
        )
    if not revokes and found.file is not None and not as_json:
        click.echo(visible(found.file.read_text(encoding="utf-8", errors="replace"), keeps_lines=True))
    for path in files if not (revokes or as_json) else ():
        if path != found.file:
            _print_effects(path)
    (distrust if revokes else trust_files)(files)
    names = [str(path) for path in files]
    if as_json:
        done: TrustedFiles = {"trusted": not revokes, "files": names}
        print_json(done)
    else:
        to_stderr(f"{'no longer trusted' if revokes else 'trusted as they are now'}: {', '.join(names)}")
    return Exit.OK


def _print_effects(path: Path) -> None:
    """Print which tools of a lock file are not `unsafe`, and who says so; raises CallsheetError (CFG115)."""
    from callsheet.ir import Effect  # noqa: PLC0415 - not for --help
    from callsheet.ports.mcp.trust import LockFile  # noqa: PLC0415 - as above
    from callsheet.ports.mcp.trust.judging import visible  # noqa: PLC0415 - as above

    lock = LockFile(path).read()
    click.echo(f"{path.name}:")
    if lock is None:
        return
    for name, server in lock.servers.items():
        click.echo(f"  {visible(name)} ({visible(server.place)}): {len(server.tools)} tools")
        for tool, each in server.tools.items():
            if each.terms.effect is not Effect.UNSAFE:
                click.echo(f"    {visible(tool)}: {each.terms.effect} ({each.terms.source})")


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


_PACKAGE = "callsheet.apps.cli.trust"
_SECTION = "Commands"

COMMANDS: dict[str, CommandEntry] = {
    "list": CommandEntry(f"{_PACKAGE}:list_trusted", "List the known servers and tools.", _SECTION),
    "diff": CommandEntry(
        f"{_PACKAGE}:diff", "Compare the stored declarations with the current ones.", _SECTION
    ),
    "approve": CommandEntry(f"{_PACKAGE}:approve", "Approve the current declarations of tools.", _SECTION),
    "project": CommandEntry(f"{_PACKAGE}:project", "Trust the project in this folder.", _SECTION),
    "revoke": CommandEntry(f"{_PACKAGE}:revoke", "Revoke the approval of tools.", _SECTION),
}


@click.group("trust", cls=LazyCommands, entries=COMMANDS, epilog=None)
def trust() -> None:
    """Manage which tools of MCP servers may be called, by their declarations."""


def _target_option(name: str, text: str) -> Any:
    return click.option(f"--{name}", name, multiple=True, metavar="SERVER[/TOOL]", help=text)


@click.command()
@click.argument("servers", metavar="[SERVER]...", nargs=-1)
@options.mcp_configs
@click.option(
    "--refresh", is_flag=True, help="Start the servers, or each SERVER, and take in what they declare."
)
@_target_option("accept", "Accept what a server says of its tools: that they only read, or may be repeated.")
@_target_option("reject", "Accept that no more.")
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
    from callsheet.apps.projects import is_trusted, trust  # noqa: PLC0415 - not for --help
    from callsheet.apps.tool_trust import LockRequest, lock_file, update_lock  # noqa: PLC0415 - as above

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
    from callsheet.apps.tool_trust import summary, unaccepted  # noqa: PLC0415 - as above
    from callsheet.ports.mcp.trust import hints_text  # noqa: PLC0415 - as above

    for server in updated.asked:
        print_server(server, hides_settled=True)
    for name in updated.removed:
        click.echo(f"- {name}: no longer configured")
    for change in updated.effect_changes():
        click.echo(f"  {change.server}/{change.tool}: {change.before} → {change.after} ({change.source})")
    print_diagnostics(updated.diagnostics, None)
    unchanged = "is not written" if updated.before is None else "is up to date"
    did = unchanged if not updated.is_changed else "would change" if only_check else "written"
    to_stderr(f"{updated.path.name} {did}: {summary(updated.after)}")
    for name, reads, repeats in unaccepted(updated.after):
        count = len(updated.after.servers[name].tools)
        to_stderr(
            f"{name}: {count} tool{'' if count == 1 else 's'}, {hints_text(reads, repeats)};"
            f" accept that with `callsheet lock --accept {name}`"
        )


def _json(updated: UpdatedLock, *, is_written: bool) -> LockedServers:
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
        "diagnostics": cast("list[DiagnosticRow]", to_json(updated.diagnostics)),
    }
