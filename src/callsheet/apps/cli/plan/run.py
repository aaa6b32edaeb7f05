"""`callsheet plan run` and `callsheet plan resume`: run plans of the library."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from callsheet.apps.cli import options
from callsheet.apps.cli.arguments import open_library
from callsheet.apps.cli.plan.library import library_plan, plan_id_argument
from callsheet.apps.cli.resume import execute_resume, resume_options
from callsheet.apps.cli.run import RunArguments, execute_run, run_options
from callsheet.diagnostics import CallsheetError

if TYPE_CHECKING:
    from callsheet.store.journal import Journal
    from callsheet.store.runs import RunInfo


@click.command()
@plan_id_argument
@options.plans_folder
@run_options
def run(plan_id: str, plans_folder: Path | None, **arguments: Any) -> int:
    """Check the plan ID, or the one with this unique prefix, and run it.

    The options are those of `callsheet run`.
    """
    return execute_run(RunArguments(plan=library_plan(plan_id, plans_folder), **arguments))


@click.command()
@plan_id_argument
@options.plans_folder
@click.option(
    "--accept-changed-plan",
    is_flag=True,
    help="Continue with the original plan although the stored plan has changed.",
)
@resume_options
def resume(plan_id: str, plans_folder: Path | None, accept_changed_plan: bool, **arguments: Any) -> int:
    """Continue the newest run of the plan ID, or of the one with this unique prefix.

    The run continues with the plan it was started with, as by `callsheet resume`. If the stored plan has
    changed since then, --accept-changed-plan is required. For a completed run the result is printed again.
    """
    name = _find(plan_id, plans_folder)
    arguments["as_recorded"] = is_accepted = accept_changed_plan or arguments["as_recorded"]

    def find(journal: Journal) -> RunInfo:
        info = _newest(journal, name)
        from callsheet.store.runs import RunStatus  # noqa: PLC0415 - imports the journal

        if not is_accepted and info.status is not RunStatus.DONE:
            from callsheet.api.plan_sources import check_unchanged  # noqa: PLC0415 - only for runs that continue

            check_unchanged(open_library(plans_folder), name, journal.plan_of(info.plan_hash))
        return info

    return execute_resume(find, **arguments)


def _find(plan_id: str, plans_folder: Path | None) -> str:
    """The id of a plan; an id that is no longer in the library is returned unchanged."""
    try:
        return open_library(plans_folder).find(plan_id)
    except CallsheetError as error:
        if error.diagnostics[0].code != "PLN002":
            raise
        return plan_id


def _newest(journal: Journal, plan_id: str) -> RunInfo:
    newest = next((info for info in journal.runs_older() if info.plan_id == plan_id), None)
    if newest is None:
        raise CallsheetError.single(
            "PLN002",
            f"this journal has no run of a plan {plan_id}",
            help=f"start one: callsheet plan run {plan_id}; `callsheet runs` lists the runs",
        )
    return newest
