"""Shared by `rerun` and `fork`: asks for confirmation, then records and executes the new run.

Input: a journal and a run that branches off in it. Output: the exit status of the new run.
"""

from __future__ import annotations

import getpass
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, redirect_stdout
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from callsheet.apps.cli import journals
from callsheet.apps.cli.exit_status import Exit
from callsheet.apps.cli.output import to_stderr
from callsheet.apps.cli.resume import execute_resume
from callsheet.apps.cli.time_travel.confirmation import is_confirmed

if TYPE_CHECKING:
    from callsheet.api.admission import Equipment
    from callsheet.api.run_service import BranchRules, Fork, Rerun
    from callsheet.apps.cli.moved import Moved
    from callsheet.runtime.forking import Draft
    from callsheet.store.journal import Journal

run_id = click.option(
    "--run-id", "new_id", metavar="ID", help="The id of the new run; default: a generated one."
)
by = click.option(
    "--by", metavar="NAME", help="The name that is recorded as the author; default: the current user."
)


def actor_name(option: str | None) -> str:
    """The name of the person who branches a run off."""
    if option is not None:
        return option
    try:
        return getpass.getuser()
    except OSError:
        return ""


def start_branch(
    run: str,
    what: Rerun | Fork,
    *,
    new_id: str | None,
    assume_yes: bool,
    journal: Path | None,
    as_json: bool,
    is_strict: bool,
    **arguments: Any,
) -> int:
    """Record a branch of `run`, after confirmation, and execute it. Returns the exit status."""
    from callsheet.api.run_service import branch_off, record_branch  # noqa: PLC0415 - imports the runtime
    from callsheet.apps.cli.event_loop import run_async  # noqa: PLC0415 - as above
    from callsheet.apps.masking import Masker  # noqa: PLC0415 - as above
    from callsheet.apps.settings import load_settings  # noqa: PLC0415 - as above
    from callsheet.store.ids import check_run_id, new_run_id  # noqa: PLC0415 - imports the store

    name = new_run_id() if new_id is None else check_run_id(new_id)
    with journals.open_journal(journal) as opened:
        run_id = opened.find_run(run).run_id
        rules = _rules(opened, run_id, arguments["as_recorded"], arguments["model"], arguments["moved"])
        with redirect_stdout(sys.stderr):  # what the tools of an edited plan print
            made = run_async(branch_off(opened, run_id, what, rules))
        masker = Masker(load_settings().secrets.shapes)
        masker.add_secrets(made.known)
        if not is_confirmed(made, masker, assume_yes=assume_yes, as_json=as_json):
            return Exit.UNDECIDED
        ended = run_async(record_branch(opened, made, name, consent=True, hint="--yes"))
        if not as_json:
            to_stderr(f"run {name}, branched off run {made.parent.run_id}")
        if ended is not None:
            from callsheet.apps.cli.outcome import report  # noqa: PLC0415 - as above

            hint = journals.journal_hint(journal)
            return report(ended, opened.path, as_json=as_json, hint=hint, is_strict=is_strict)
    return execute_resume(
        lambda opened: opened.find_run(name),
        journal=journal,
        as_json=as_json,
        is_strict=is_strict,
        **arguments,
    )


def _rules(journal: Journal, run_id: str, as_recorded: bool, model: str, moved: Moved) -> BranchRules:
    """The rules of a branch: an edited plan is checked with the tools of the run, at their new places.

    `model` is the model that the run continues with, empty for the original one.
    """
    from callsheet.api.run_service import BranchRules  # noqa: PLC0415 - as above
    from callsheet.apps.credentials import credentials_for  # noqa: PLC0415 - as above
    from callsheet.apps.equipment import equip, needs_of_recorded  # noqa: PLC0415 - as above
    from callsheet.apps.toolbox import open_toolbox  # noqa: PLC0415 - as above

    @asynccontextmanager
    async def opened(draft: Draft) -> AsyncGenerator[Equipment]:
        start = draft.start
        needs = needs_of_recorded(moved.setup(start), draft.plan, start.limits, to_stderr, model)
        async with open_toolbox(needs.setup, needs.plan, needs.agents) as toolbox:
            yield equip(needs, toolbox, journal.path).equipment

    known = partial(credentials_for, journal, run_id)
    return BranchRules(as_recorded=as_recorded, open_for=opened, known=known)
