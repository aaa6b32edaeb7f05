"""`callsheet runs`: lists the runs of a journal, filtered, sorted and counted."""

from __future__ import annotations

from dataclasses import replace
from importlib import import_module
from pathlib import Path
from time import time
from typing import TYPE_CHECKING, Any

import click

from callsheet.apps.cli import journals, options
from callsheet.apps.cli.options import DECISIONS, FiniteRange
from callsheet.apps.cli.output import ignoring_broken_pipe, print_json, to_stderr
from callsheet.apps.operations.runs import INTERRUPTED, STATUSES, RunRow, plan_name, run_row, shown_status
from callsheet.apps.rendering.values import preview, utc, without_controls
from callsheet.lazy import dataclass

if TYPE_CHECKING:
    from callsheet.store.runs import RunFilter

__all__ = ["INTERRUPTED", "plan_name", "runs", "shown_status"]


class _Runs(click.Group):
    """The list of runs, with subcommands that are imported on demand."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names of the subcommands."""
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The subcommand of this name, imported now."""
        place = _COMMANDS.get(cmd_name)
        return None if place is None else getattr(import_module(place[0]), place[1])


_PACKAGE = "callsheet.apps.cli"
_COMMANDS = {
    "verify": (f"{_PACKAGE}.maintenance", "verify"),
    "heads": (f"{_PACKAGE}.maintenance", "heads"),
    "prune": (f"{_PACKAGE}.maintenance", "prune"),
    "export": (f"{_PACKAGE}.maintenance", "export_runs"),
    "import": (f"{_PACKAGE}.maintenance", "import_runs"),
    "salvage": (f"{_PACKAGE}.maintenance", "salvage"),
    "backup": (f"{_PACKAGE}.maintenance", "backup"),
    "restore": (f"{_PACKAGE}.maintenance", "restore"),
    "cancel": (f"{_PACKAGE}.bulk", "cancel_runs"),
    "pause": (f"{_PACKAGE}.bulk", "pause_runs"),
    "resume": (f"{_PACKAGE}.bulk", "resume_runs"),
    "rerun": (f"{_PACKAGE}.bulk", "rerun_runs"),
    "delete": (f"{_PACKAGE}.bulk", "delete_runs"),
    "diff": (f"{_PACKAGE}.inspection", "diff_of_runs"),
}


class _Moment(click.ParamType[float]):
    """A time: a date, or an age before now. Its value is in seconds since 1970."""

    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """The time; fails for a text that is none."""
        from callsheet.store.runs import moment_of  # noqa: PLC0415 - imports the store

        try:
            return moment_of(value, time())
        except ValueError as error:
            self.fail(str(error), param, ctx)


def _filter(**given: Any) -> RunFilter:
    from callsheet.store.runs import RunFilter  # noqa: PLC0415 - imports the store

    return RunFilter(**given)


def _time(name: str, what: str) -> options.Decorator:
    return click.option(name, type=_Moment(), metavar="TIME", help=what)


def _text(name: str, parameter: str, metavar: str, what: str) -> options.Decorator:
    return click.option(name, parameter, default="", metavar=metavar, help=what)


conditions = options.grouped(
    "wanted",
    _filter,
    status=click.option("--status", type=click.Choice(STATUSES), help="Only runs with this status."),
    text=_text("--text", "text", "TEXT", "A part of the id, the plan's name or goal, a tag or the status."),
    plan=_text("--plan", "plan", "TEXT", "A part of the plan's name."),
    goal=_text("--goal", "goal", "TEXT", "A part of the plan's goal."),
    plan_hash=_text(
        "--plan-hash", "plan_hash", "HASH", "The version of the plan: its hash, or its beginning."
    ),
    failed_step=_text(
        "--failed-step", "failed_step", "STEP", "The step it failed at, or the first that failed."
    ),
    waits_for=_text("--waits-for", "waits_for", "TEXT", "A part of what the run waits for, as a tool."),
    tags=click.option(
        "--tag",
        "tags",
        multiple=True,
        metavar="NAME[=TEXT]",
        help="Only runs with this tag; repeatable.",
    ),
    since=_time(
        "--since", "Started at this time or later: 2026-01-31T15:00 (UTC), an age as 2d, or yesterday."
    ),
    until=_time("--until", "Started before this time."),
    ended_since=_time("--ended-since", "Ended at this time or later."),
    ended_until=_time("--ended-until", "Ended before this time."),
    least_cost=click.option("--least-cost", type=FiniteRange(min=0), metavar="N", help="The least cost."),
    most_cost=click.option("--most-cost", type=FiniteRange(min=0), metavar="N", help="The highest cost."),
    least_tokens=click.option(
        "--least-tokens", type=click.IntRange(0), metavar="N", help="The least tokens."
    ),
    most_tokens=click.option("--most-tokens", type=click.IntRange(0), metavar="N", help="The most tokens."),
)
"""The options that say which runs are meant, each of them a field of `RunFilter`, as `wanted`."""


@dataclass(frozen=True, slots=True)
class Listing:
    """The options that say how the runs are listed."""

    sort: str
    rises: bool
    after: str | None
    counts: bool
    limit: int


_listing = options.grouped(
    "listing",
    Listing,
    sort=click.option(
        "--sort",
        type=click.Choice(["created", "ended", "duration", "cost", "tokens"]),
        default="created",
        show_default=True,
        help="What the list is sorted by, the highest or latest first.",
    ),
    rises=click.option("--rising", "rises", is_flag=True, help="The lowest or earliest first."),
    after=click.option(
        "--after", metavar="RUN", help="The next page: only runs that come after this one in the list."
    ),
    counts=click.option("--count", "counts", is_flag=True, help="Print how many runs there are, by outcome."),
    limit=click.option(
        "--limit", type=click.IntRange(1), default=20, show_default=True, help="The maximum number of runs."
    ),
)


@click.group(cls=_Runs, invoke_without_command=True)
@conditions
@_listing
@journals.journal_path
@click.option("--json", "as_json", is_flag=True, help="Print a JSON list of objects.")
def runs(wanted: RunFilter, listing: Listing, journal: Path | None, as_json: bool) -> None:
    """List runs, newest first. A run whose process has ended is shown as interrupted.

    Subcommands cancel, rerun and delete all runs that fit, and verify, compare, prune, export, import,
    salvage, back up and restore runs.

    \b
    Examples:
      callsheet runs --status failed --since 1d --plan invoices
      callsheet runs --tag env=prod --sort cost
      callsheet runs --waits-for SEND --count
    """
    from callsheet.store.runs import ALL_RUNS, RunSort  # noqa: PLC0415 - the store

    subcommand = click.get_current_context().invoked_subcommand
    if subcommand is not None:
        if wanted != ALL_RUNS:  # it has its own, and would not know these
            raise click.UsageError(f"write the conditions after it: callsheet runs {subcommand} --status …")
        return
    from callsheet.apps.cli.engines.temporal_runs import refresh_copies  # noqa: PLC0415 - not for --help
    from callsheet.store.journal_paths import default_journal_path, is_absent  # noqa: PLC0415 - as above

    refresh_copies(journal)
    if journal is None and is_absent(default_journal_path()):
        if listing.counts:
            _print_counts({}, as_json=as_json)
        else:
            _print([], wanted, "", as_json=as_json)
        return
    from callsheet.store.listing import RunQuery, listed_runs, run_counts  # noqa: PLC0415 - as above

    with journals.open_to_read(journal) as opened, ignoring_broken_pipe():
        if listing.counts:
            _print_counts(run_counts(opened, wanted), as_json=as_json)
            return
        query = RunQuery(
            wanted=wanted,
            sort=RunSort(listing.sort),
            rises=listing.rises,
            limit=listing.limit + 1,
            before=None if listing.after is None else opened.find_run(listing.after),
        )
        found = listed_runs(opened, query)
        under_way = None
        if any(shown == "running" for _, shown in found):
            from callsheet.apps.operations.live_calls import UnderWay  # noqa: PLC0415 - brings the machine

            under_way = UnderWay(opened)
        rows = [run_row(opened, info, shown, under_way) for info, shown in found[: listing.limit]]
        _print(rows, wanted, journals.journal_hint(journal), as_json=as_json)
        if len(found) > listing.limit and not as_json:
            to_stderr(f"there are more: add --after {rows[-1]['run_id']}, or --limit N")


def _print_counts(counts: dict[str, int], *, as_json: bool) -> None:
    if as_json:
        print_json(counts)
        return
    for outcome, count in counts.items():
        click.echo(f"{count:>8,} {outcome.replace('_', ' ')}")
    click.echo(f"{sum(counts.values()):>8,} in all")


def _print(rows: list[RunRow], wanted: RunFilter, hint: str, *, as_json: bool) -> None:
    if as_json:
        print_json(rows)
    elif not rows:
        click.echo(f"no runs{_which(wanted)} in this journal")
    else:
        for row in rows:
            _print_row(row, hint)


def _which(wanted: RunFilter) -> str:
    from callsheet.store.runs import ALL_RUNS  # noqa: PLC0415 - as above

    if wanted == ALL_RUNS:
        return ""
    by_status = replace(ALL_RUNS, status=wanted.status)
    return f" with status {wanted.status}" if wanted == by_status else " that fit"


def _print_row(row: RunRow, hint: str) -> None:
    outcome = row["outcome"].replace("_", " ")
    head = f"{row['run_id']:<22} {outcome:<18} {utc(row['created'])}"
    origin = f"  (from {row['parent']} at event {row['forked_at']})" if row["parent"] else ""
    more = [f"{name}={value}" for name, value in row["tags"].items()]
    if row["failed_step"] is not None:
        more.append(f"failed at {row['failed_step']}")
    if row["waits_for"] is not None and row["outcome"] in ("waiting", "in_doubt"):
        more.append(f"waits for {row['waits_for']}")
    if row["pause"] is not None:
        more.append(row["pause"]["words"])
    if under_way := row.get("under_way"):
        more.append(under_way)
    if row["tokens"]:
        more.append(f"{row['tokens']:,} tokens")
    if row["cost"]:
        more.append(f"cost {row['cost']:.4g}")
    beside = f"  · {' · '.join(map(without_controls, more))}" if more else ""
    click.echo(f"{head}  {preview(row['plan'], 50)}{origin}{beside}")
    for call in row.get("in_doubt", []):
        args = ", ".join(f"{name}={preview(value, 40)}" for name, value in call["args"].items())
        click.echo(f"  in doubt since {call['since']}: {call['key']}  @{call['tool']} ({args})")
    if row.get("in_doubt", []):
        click.echo(f"  decide: callsheet decide {row['run_id']} KEY {DECISIONS}{hint}")
