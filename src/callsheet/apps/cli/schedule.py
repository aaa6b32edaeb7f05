"""`callsheet schedule`: the schedules of the project, and the process that runs them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from callsheet.apps.cli import journals, options
from callsheet.apps.cli.exit_status import Exit
from callsheet.apps.cli.output import print_json, print_text, to_stderr

if TYPE_CHECKING:
    from callsheet.apps.scheduling.scheduler import ScheduledProject


@click.group(invoke_without_command=True)
@click.pass_context
@journals.journal_path
@options.as_json
def schedule(ctx: click.Context, journal: Path | None, as_json: bool) -> None:
    """Run plans by the clock: list the schedules of the project, or run them.

    A schedule is a table of callsheet.toml. `callsheet schedule run` runs them all until it is stopped;
    without a subcommand each is listed with its next time and its last run.

    \b
    Example:
      [schedules.nightly]
      plan = "plans/report.ltp"
      cron = "0 3 * * 1-5"
      timezone = "Europe/Oslo"
    """
    if ctx.invoked_subcommand is not None:
        return
    from datetime import UTC, datetime  # noqa: PLC0415 - not for --help
    from zoneinfo import ZoneInfo  # noqa: PLC0415 - as above

    from callsheet.apps.scheduling.scheduler import recorded  # noqa: PLC0415 - imports the store
    from callsheet.store.journal_paths import default_journal_path  # noqa: PLC0415 - as above

    _, settings = project_with("schedules")
    schedules = settings.schedules
    runs = recorded(journal or default_journal_path(), list(schedules))
    now = datetime.now(UTC)
    rows = [
        {
            "schedule": name,
            "plan": each.plan,
            "cron": each.cron,
            "timezone": each.timezone,
            "next": next(each.after(now)).astimezone(ZoneInfo(each.timezone)).isoformat(),
            "last": {"run_id": runs[name][0].id, "status": runs[name][0].status} if runs[name] else None,
        }
        for name, each in schedules.items()
    ]
    if as_json:
        print_json(rows)
        return
    for row in rows:
        last = row["last"]
        told = (
            f"{last['run_id']}, {last['status'].replace('_', ' ')}" if isinstance(last, dict) else "none yet"
        )
        print_text(f"{row['schedule']}: {row['plan']} at {row['cron']} {row['timezone']}")
        print_text(f"  next {row['next']}  last {told}")


@schedule.command("run")
@click.option(
    "--token-file",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="The token of `callsheet serve`, which signs the links in mails; default: $CALLSHEET_TOKEN.",
)
@journals.journal_path
def run_schedules(token_file: Path | None, journal: Path | None) -> None:
    """Run the schedules of the project until this process is stopped.

    Each time that comes starts `callsheet run` in a process of its own, in the project's folder. After a
    crash, start this command again: it resumes the runs that have not ended, and treats the times that have
    passed as the schedules say (`missed`). Stop it with Ctrl-C or SIGTERM: the runs under way can be resumed.
    """
    from callsheet.apps.cli.event_loop import run_async  # noqa: PLC0415 - imports asyncio
    from callsheet.apps.scheduling.scheduler import Scheduler  # noqa: PLC0415 - imports the store
    from callsheet.store.journal_paths import default_journal_path  # noqa: PLC0415 - as above

    folder, settings = project_with("schedules")
    place = (journal or default_journal_path()).absolute()
    token = _token(token_file) if settings.mail is not None and settings.mail.link else None
    scheduler = Scheduler(
        settings.schedules,
        settings.audience(token, place),
        folder=folder,
        journal=place,
        tell=to_stderr,
        hint=journals.journal_hint(journal),
    )
    to_stderr(f"running {', '.join(settings.schedules)}; stop with Ctrl-C")
    run_async(scheduler.run())


def _token(path: Path | None) -> str | None:
    """The token of `callsheet serve`, of a file or the environment; None, with a remark, without one."""
    from callsheet.apps.http.serving import chosen_token  # noqa: PLC0415 - imports the server

    token, is_new = chosen_token(path)
    if not is_new:
        return token
    to_stderr(
        "mails have links that do not sign in: give the server's token, --token-file or $CALLSHEET_TOKEN"
    )
    return None


def project_with(table: str) -> tuple[Path, ScheduledProject]:
    """The project's folder and settings; ends the command, with the way out, if it has no such table."""
    from callsheet.apps.projects import NAME, project_of, settings_in  # noqa: PLC0415 - not for --help
    from callsheet.apps.scheduling.scheduler import ScheduledProject  # noqa: PLC0415 - imports the store

    found = project_of(Path.cwd())
    if found.file is not None and not found.is_trusted:
        to_stderr(f"{found.file} is not trusted: read it, then `callsheet trust project`")
        raise click.exceptions.Exit(Exit.WRONG)
    if found.file is None or not getattr(found.settings, table):
        to_stderr(f"the project in {found.folder} has no {table}: add [{table}.NAME] to its {NAME}")
        raise click.exceptions.Exit(Exit.WRONG)
    return found.folder, settings_in(found.file, ScheduledProject)
