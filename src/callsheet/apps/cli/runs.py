"""`callsheet runs`: the runs of a journal, the newest first."""

from __future__ import annotations

from datetime import datetime
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from callsheet.apps.cli import options
from callsheet.apps.cli.doubts import DECISIONS, doubt_json
from callsheet.apps.cli.moments import iso
from callsheet.apps.cli.output import may_stay_unread, preview, print_json

if TYPE_CHECKING:
    from callsheet.runtime.doubt import DoubtfulCall
    from callsheet.store.journal import Journal
    from callsheet.store.reader import RunInfo

_STATUSES = [
    "running",
    "interrupted",
    "waiting",
    "in_doubt",
    "done",
    "failed",
    "refused",
    "cancelled",
    "corrupt",
]
INTERRUPTED = "interrupted"
"""The status shown for a run that is not finished and that no process carries on."""


class _Runs(click.Group):
    """The list of runs, and commands on them that are imported when they are invoked."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names of the commands."""
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of this name, imported now."""
        place = _COMMANDS.get(cmd_name)
        return None if place is None else getattr(import_module(place[0]), place[1])


_HERE = "callsheet.apps.cli"
_COMMANDS = {
    "verify": (f"{_HERE}.upkeep", "verify"),
    "heads": (f"{_HERE}.upkeep", "heads"),
    "prune": (f"{_HERE}.upkeep", "prune"),
    "export": (f"{_HERE}.transfer", "export_runs"),
    "import": (f"{_HERE}.transfer", "import_runs"),
    "salvage": (f"{_HERE}.transfer", "salvage"),
    "diff": (f"{_HERE}.asking.diff", "diff_of_runs"),
}


@click.group(cls=_Runs, invoke_without_command=True)
@click.pass_context
@click.option("--limit", type=click.IntRange(1), default=20, show_default=True, help="At most so many.")
@click.option("--status", type=click.Choice(_STATUSES), help="Only runs of this status.")
@options.journal_path
@click.option("--json", "as_json", is_flag=True, help="Print a JSON list of objects.")
def runs(ctx: click.Context, limit: int, status: str | None, journal: Path | None, as_json: bool) -> None:
    """List the runs, the newest first. A run whose process is gone is shown as interrupted.

    The commands below verify runs, let old ones go, and carry them from journal to journal.
    """
    if ctx.invoked_subcommand is None:
        with may_stay_unread():
            _print(_rows(journal, status, limit), status, options.journal_hint(journal), as_json=as_json)


def _rows(path: Path | None, status: str | None, limit: int) -> list[dict[str, Any]]:
    """The runs as JSON objects; none where the default journal has not been made yet."""
    from callsheet.store.place import default_journal_path  # noqa: PLC0415 - brings the store

    if path is None and not default_journal_path().exists():
        return []
    with options.open_to_read(path) as opened:
        return [
            {
                "run_id": info.run_id,
                "status": shown,
                "plan": plan_name(opened, info),
                "plan_hash": info.plan_hash,
                "created": iso(info.created),
                "updated": iso(info.updated),
                "events": info.events,
                "parent": None if info.forked_at is None else info.parent_run,
                "forked_at": info.forked_at,
                "in_doubt": [doubt_json(call) for call in _doubts(opened, info, shown)],
            }
            for info, shown in _found(opened, status, limit)
        ]


def _print(rows: list[dict[str, Any]], status: str | None, hint: str, *, as_json: bool) -> None:
    if as_json:
        print_json(rows)
    elif not rows:
        click.echo("there are no runs" + (f" with status {status}" if status else "") + " in this journal")
    else:
        for row in rows:
            created = datetime.fromisoformat(row["created"]).astimezone()
            head = f"{row['run_id']:<22} {row['status']:<12} {created:%Y-%m-%d %H:%M:%S}"
            origin = f"  (from {row['parent']} at event {row['forked_at']})" if row["parent"] else ""
            click.echo(f"{head}  {preview(row['plan'], 50)}{origin}")
            for call in row["in_doubt"]:
                args = ", ".join(f"{name}={preview(value, 40)}" for name, value in call["args"].items())
                click.echo(f"  in doubt since {call['since']}: {call['key']}  @{call['tool']} ({args})")
            if row["in_doubt"]:
                command = f"callsheet decide {row['run_id']} KEY"
                click.echo(f"  decide: {command} {DECISIONS}{hint}")


def _doubts(journal: Journal, info: RunInfo, shown: str) -> tuple[DoubtfulCall, ...]:
    """The calls in doubt of a run that no process carries on; none where its events cannot be read."""
    if shown not in (INTERRUPTED, "in_doubt"):
        return ()
    from callsheet.runtime.doubt import doubtful_calls, fold_run  # noqa: PLC0415 - only for such runs
    from callsheet.store.errors import JournalError  # noqa: PLC0415 - as above

    try:
        return doubtful_calls(fold_run(journal, info.run_id, journal.plan(info.plan_hash)[0]))
    except JournalError:
        return ()  # `show` tells what is wrong with them


def shown_status(journal: Journal, info: RunInfo) -> str:
    """The status of a run as people are told it."""
    from callsheet.store.owned import is_owned  # noqa: PLC0415 - as the whole store
    from callsheet.store.place import place_of  # noqa: PLC0415 - as above

    if str(info.status) == "running" and not is_owned(place_of(journal.path), info.run_id):
        return INTERRUPTED
    return str(info.status)


def plan_name(journal: Journal, info: RunInfo) -> str:
    """What a run's plan is called: its title or id, else the file it was read from."""
    return info.title or info.plan_id or _launched(journal, info).get("plan") or info.plan_hash[:12]


def _launched(journal: Journal, info: RunInfo) -> dict[str, Any]:
    """What the face that started the run noted."""
    start = next(iter(journal.events(info.run_id, lenient=True)), None)
    return {} if start is None or start.body is None else dict(start.body.get("launch") or {})


def _found(journal: Journal, status: str | None, limit: int) -> list[tuple[RunInfo, str]]:
    from callsheet.store.writer import RunStatus  # noqa: PLC0415 - brings sqlite3

    if status not in ("running", INTERRUPTED):
        wanted = None if status is None else RunStatus(status)
        return [(info, shown_status(journal, info)) for info in journal.runs(limit, wanted)]
    found = ((info, shown_status(journal, info)) for info in journal.runs(None, RunStatus.RUNNING))
    return [(info, shown) for info, shown in found if shown == status][:limit]
