"""Cancels a run from outside: directly if no process owns it, else by a message to its owner.

In: a journal and a run's id. Out: how the run ended, or that its owner has been asked. The owner polls for
the message; if it dies first, the next resumption finds the message.
"""

from __future__ import annotations

import asyncio
import time

from callsheet.machine import Cancelled
from callsheet.runtime.doubt import RunOutcome, close_run, doubtful_calls, verified_state
from callsheet.runtime.inbox import Opening
from callsheet.runtime.recording import CANCEL, JournalRecorder
from callsheet.store import Journal, JournalError
from callsheet.store.listing import check_here

PATIENCE = 10.0
"""Seconds to wait for an owner that was asked, including the time for its calls to end."""
_PAUSE = 0.05


def cancel_asked(journal: Journal, run_id: str) -> Cancelled | None:
    """The event of a cancellation requested by message, None if there is none."""
    if all(message.topic != CANCEL for message in journal.mailbox.unread(run_id)):
        return None
    for message in Opening(journal, run_id)():
        if message.topic == CANCEL:
            return Cancelled(str(message.payload.get("reason") or "cancelled"))
    return None


def cancel_now(journal: Journal, run_id: str, reason: str) -> RunOutcome | None:
    """End a run for good; None if another process owns it, which has then been asked to.

    No tool is called. `in_doubt` of the outcome are the calls that had left and may have taken place. A run
    that has already ended stays unchanged, and its outcome is returned. Raises JournalError: JRN002 for an
    unknown run, JRN012 if its journal is damaged.
    """
    try:
        writer = journal.claim(run_id)
    except JournalError as error:
        if error.diagnostics[0].code != "JRN004":
            raise
        journal.mailbox.post(run_id, CANCEL, CANCEL, {"reason": reason})
        return None
    with writer:
        folded = verified_state(journal, writer, journal.plan(journal.find_run(run_id).plan_hash)[0])
        if folded.machine.result is None:
            cancellation = cancel_asked(journal, run_id) or Cancelled(reason)
            folded.feed(JournalRecorder(writer, journal.durability, folded=folded).event(cancellation))
        result = close_run(journal, writer, folded)
        return RunOutcome(run_id, result, doubtful_calls(folded), usage=folded.usage())


async def cancel_run(
    journal: Journal, run_id: str, reason: str = "cancelled", patience: float = PATIENCE
) -> RunOutcome | None:
    """As `cancel_now`, but wait up to `patience` seconds for a process that owns the run.

    None if it has not ended by then; the message stays for the next owner. Raises JournalError, besides what
    `cancel_now` raises: TMP007 for a run that another engine executes, JRN032 for one that had ended already.
    """
    check_here(journal, run_id)  # its copy may be out of date, or being updated
    info = journal.find_run(run_id)
    if info.status.is_final:
        raise has_ended(run_id, str(info.status), "cancel")
    deadline = time.monotonic() + patience
    outcome = await asyncio.to_thread(cancel_now, journal, run_id, reason)
    while outcome is None and time.monotonic() < deadline:
        await asyncio.sleep(_PAUSE)
        outcome = await asyncio.to_thread(cancel_now, journal, run_id, reason)
    return outcome


def has_ended(run_id: str, status: str, verb: str) -> JournalError:
    """The error for cancelling or pausing (`verb`) a run that has ended (JRN032)."""
    return JournalError(
        "JRN032",
        f"run {run_id} has ended ({status}); there is nothing to {verb}",
        hint=f"`callsheet show {run_id}` shows how it ended",
    )
