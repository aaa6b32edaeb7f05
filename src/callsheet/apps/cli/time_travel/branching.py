"""Shared by `rerun` and `fork`: asks for confirmation, then records and executes the new run.

Input: a journal and a run that branches off in it. Output: the exit status of the new run.
"""

from __future__ import annotations

import getpass
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from callsheet.apps.cli import journals
from callsheet.apps.cli.exit_status import Exit
from callsheet.apps.cli.output import to_stderr
from callsheet.apps.cli.resume import execute_resume
from callsheet.apps.cli.time_travel.confirmation import is_confirmed

if TYPE_CHECKING:
    from callsheet.runtime.forking import Forking
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
    make: Callable[[Journal], Forking],
    *,
    new_id: str | None,
    assume_yes: bool,
    journal: Path | None,
    as_json: bool,
    is_strict: bool,
    **arguments: Any,
) -> int:
    """Record the branch of `run` that `make` returns, after confirmation, and execute it.

    Returns the exit status.
    """
    from callsheet.api.plan_changes import check_file  # noqa: PLC0415 - imports the runtime
    from callsheet.apps.masking import Masker  # noqa: PLC0415 - imports the runtime
    from callsheet.apps.settings import load_settings  # noqa: PLC0415 - as above
    from callsheet.store.journal_paths import check_run_id, new_run_id  # noqa: PLC0415 - imports the store

    name = new_run_id() if new_id is None else check_run_id(new_id)
    with journals.open_journal(journal) as opened:
        if not arguments["as_recorded"]:
            check_file(opened, opened.find_run(run).run_id)
        forking = make(opened)
        masker = Masker(load_settings().secrets.shapes)
        masker.add_secrets(forking.known)
        if not is_confirmed(forking, masker, assume_yes=assume_yes, as_json=as_json):
            return Exit.UNDECIDED
        forking.write(opened, name)
        if not as_json:
            to_stderr(f"run {name}, branched off run {forking.parent.run_id}")
        if forking.folded.machine.result is not None:
            hint = journals.journal_hint(journal)
            return _report(opened, name, hint=hint, as_json=as_json, is_strict=is_strict)
    return execute_resume(
        lambda opened: opened.find_run(name),
        journal=journal,
        as_json=as_json,
        is_strict=is_strict,
        **arguments,
    )


def _report(journal: Journal, name: str, *, hint: str, as_json: bool, is_strict: bool) -> Exit:
    """Print the outcome of a branch that is already complete."""
    from callsheet.apps.cli.outcome import report  # noqa: PLC0415 - imports the runtime
    from callsheet.runtime.forking import conclude  # noqa: PLC0415 - as above

    return report(conclude(journal, name), journal.path, as_json=as_json, hint=hint, is_strict=is_strict)
