"""Deletes a run that has ended: its events, the values that only it used, its labels.

In: a journal and a run. Out: nothing; or CallsheetError (API030) for a run that is still needed.
"""

from __future__ import annotations

from callsheet.diagnostics import CallsheetError
from callsheet.store import Journal, retention
from callsheet.store.journal_paths import is_owned, place_of
from callsheet.store.label_transfer import forget_notes
from callsheet.store.runs import RunInfo


def delete_run(journal: Journal, run: RunInfo) -> None:
    """Delete a run for good, as `callsheet runs prune` does with old ones.

    Raises CallsheetError: API030 for a run that has not ended, or that another run depends on; JRN017 if the
    journal cannot be written.
    """
    why = _needed(journal, run)
    if why:
        hint = "end it first (cancel), then delete it" if not run.status.is_final else None
        raise CallsheetError.single("API030", f"run {run.run_id} cannot be deleted: {why}", help=hint)
    if not retention.delete(journal.parts, run):
        raise CallsheetError.single(
            "API030", f"run {run.run_id} cannot be deleted: a process has resumed it meanwhile"
        )
    forget_notes(journal.path, run.run_id)


def _needed(journal: Journal, run: RunInfo) -> str:
    if not run.status.is_final:
        return f"it has not ended ({run.status})"
    if is_owned(place_of(journal.path), run.run_id):
        return "a process is running it"
    dependent = [child.run_id for child in journal.children(run.run_id) if child.forked_at is None]
    return f"run {dependent[0]} depends on its events" if dependent else ""
