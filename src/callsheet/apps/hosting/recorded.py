"""The current outcome of a run that this process does not enqueue, from its journal.

In: a journal and a run's id. Out: its outcome, with placeholders for secrets.
"""

from __future__ import annotations

from dataclasses import replace

from callsheet.runtime.doubt import RunOutcome, doubtful_calls, fold_run, unanswered_calls, unfinished
from callsheet.runtime.inbox import asks_of
from callsheet.store import Journal


def recorded_outcome(journal: Journal, run_id: str) -> RunOutcome:
    """The outcome of a run that is not running.

    Raises JournalError: JRN002 for an unknown run, JRN012, JRN015 or JRN020 if its events cannot be read.
    """
    folded = fold_run(journal, run_id, journal.plan(journal.find_run(run_id).plan_hash)[0])
    result = folded.machine.result
    if result is not None:
        usage = folded.usage()
        return RunOutcome(run_id, replace(result, usage=usage), doubtful_calls(folded), usage=usage)
    waiting = tuple(ask for ask in asks_of(journal, run_id) if not ask.is_answered)
    return unfinished(run_id, folded, doubtful_calls(folded), waiting, unanswered_calls(folded))
