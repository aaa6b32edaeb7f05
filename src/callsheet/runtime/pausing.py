"""Pauses a run from outside until a person lets it go on: directly if no process owns it, else by message.

In: a journal and a run's id. Out: the pause that is recorded, or that the run's owner has been asked. A
paused run has no owner, and whatever resumes runs by itself leaves it as it is (`runs.resume_run`).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable

from callsheet.lazy import NamedTuple
from callsheet.runtime.cancelling import PATIENCE, has_ended
from callsheet.runtime.doubt import close_run, verified_state
from callsheet.runtime.inbox import Opening
from callsheet.store import EventType, Journal, JournalError, RunStatus, RunWriter
from callsheet.store.folded import Folded
from callsheet.store.listing import check_here
from callsheet.store.pauses import PAUSE, RunPause, pause_of
from callsheet.store.run_index import facts_of_rest

_BETWEEN_LOOKS = 0.05


class PauseAsked(NamedTuple):
    """Who wants a run to be paused, and why; `messages` are the ids of those that say so."""

    by: str
    reason: str = ""
    messages: tuple[str, ...] = ()


def pause_asked(journal: Journal, run_id: str) -> PauseAsked | None:
    """The pause requested by messages, None if there are none."""
    if all(message.topic != PAUSE for message in journal.mailbox.unread(run_id)):
        return None
    found = [message for message in Opening(journal, run_id)() if message.topic == PAUSE]
    if not found:
        return None
    first = found[0].payload
    by, reason = str(first.get("by") or ""), str(first.get("reason") or "")
    return PauseAsked(by, reason, tuple(message.msg_id for message in found))


def record_pause(
    writer: RunWriter, folded: Folded, asked: PauseAsked, unsent: Iterable[str] = ()
) -> RunPause:
    """Record that a run is paused; the writer has to be closed then.

    `unsent` are keys of commands that did not leave: those of calls whose intents are recorded are noted, so
    that they are not in doubt.
    """
    withheld = [key for key in unsent if folded.launched.pop(key, None) is not None]
    body = {"by": asked.by, "reason": asked.reason, **({"unsent": withheld} if withheld else {})}
    writer.append(EventType.PAUSE, body=body)
    for message in asked.messages:
        writer.take_message(message)
    writer.set_status(RunStatus.PAUSED, facts=facts_of_rest(folded))
    writer.commit()
    return RunPause(asked.by, writer.last_ts, asked.reason)


def record_unpause(writer: RunWriter, by: str, asked: PauseAsked | None) -> None:
    """Record that a run goes on, with its next batch; a pause that is `asked` for is void."""
    writer.append(EventType.UNPAUSE, body={"by": by})
    for message in () if asked is None else asked.messages:
        writer.take_message(message)


def pause_now(journal: Journal, run_id: str, by: str, reason: str = "") -> RunPause | None:
    """Pause a run; None if another process owns it, which is then to be asked.

    A run that is paused already stays as it is. Raises JournalError: JRN002 for an unknown run, JRN012 if its
    journal is damaged, JRN032 if it has ended.
    """
    try:
        writer = journal.claim(run_id)
    except JournalError as error:
        if error.diagnostics[0].code != "JRN004":
            raise
        return None
    with writer:
        info = journal.find_run(run_id)
        if info.status.is_final:
            raise has_ended(run_id, str(info.status), "pause")
        paused = pause_of(journal, info)
        if paused is not None:
            return paused
        folded = verified_state(journal, writer, journal.plan(info.plan_hash)[0])
        if folded.machine.result is not None:
            raise has_ended(run_id, str(close_run(journal, writer, folded).status), "pause")
        return record_pause(writer, folded, pause_asked(journal, run_id) or PauseAsked(by, reason))


def ask_to_pause(journal: Journal, run_id: str, by: str, reason: str = "") -> None:
    """Leave a message for the owner of a run; raises JournalError as `Mailbox.post` does."""
    name = f"{PAUSE}:{journal.find_run(run_id).events}"  # each pause adds an event
    journal.mailbox.post(run_id, PAUSE, name, {"by": by, "reason": reason})


async def pause_run(
    journal: Journal,
    run_id: str,
    by: str,
    reason: str = "",
    patience: float = PATIENCE,
    on_asked: Callable[[], None] | None = None,
) -> RunPause | None:
    """As `pause_now`, but ask a process that owns the run, and wait up to `patience` seconds for it.

    It sends no further call, and pauses the run when those under way have ended; None if that takes longer.
    The message stays for the next owner. `on_asked` is called once the owner is asked. Raises what
    `pause_now` raises, and TMP007 for a run that another engine executes.
    """
    deadline = time.monotonic() + patience
    await asyncio.to_thread(check_here, journal, run_id)  # its copy may be out of date, or being updated
    paused = await asyncio.to_thread(pause_now, journal, run_id, by, reason)
    if paused is None:
        await asyncio.to_thread(ask_to_pause, journal, run_id, by, reason)
        if on_asked is not None:
            on_asked()
    while paused is None and time.monotonic() < deadline:
        await asyncio.sleep(_BETWEEN_LOOKS)
        paused = await asyncio.to_thread(pause_now, journal, run_id, by, reason)
    return paused
