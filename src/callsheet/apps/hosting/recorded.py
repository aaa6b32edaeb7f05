"""Recorded runs of a host: streamed, read as an outcome, deleted, whichever process runs them.

In: a journal, a run's id. Out: events in order, each once; the state of the run; its outcome.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice
from typing import NamedTuple

from callsheet.apps.hosting.live_calls import CallReport
from callsheet.apps.hosting.run_queue import HostedRun
from callsheet.diagnostics import CallsheetError
from callsheet.ir.labels import UNKNOWN, Label, join
from callsheet.runtime.doubt import RunOutcome, doubtful_calls, fold_run, unanswered_calls, unfinished
from callsheet.runtime.event_loop import Offload
from callsheet.runtime.inbox import asks_of
from callsheet.store import Journal, retention
from callsheet.store.events import Event
from callsheet.store.journal_paths import is_owned, place_of
from callsheet.store.label_transfer import forget_notes
from callsheet.store.runs import RunInfo


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


_PAGE = 200
"""The number of events read at a time."""
_POLL = 0.5
"""Seconds between polls of a run in another process."""
_REST = 0.02
"""Seconds to wait for further events, so that they are read together."""


def label_of_run(journal: Journal, run_id: str) -> Label:
    """The label of all that a run has read and made of it, for whoever is told its answer.

    Without a policy nothing was labelled, so it is private and from strangers. Raises JournalError as
    `recorded_outcome` does.
    """
    folded = fold_run(journal, run_id, journal.plan(journal.find_run(run_id).plan_hash)[0])
    monitor = folded.machine.monitor
    if monitor is None:
        return UNKNOWN
    if folded.machine.tree is not None:
        from callsheet.machine.monitor.trees import TreeMonitor  # noqa: PLC0415 - only for version 2

        assert isinstance(monitor, TreeMonitor)
        return monitor.all_read()
    seen = [label for label, _ in monitor.variables().values()]
    open_calls = monitor.open_calls
    seen += [label for label, _ in (*open_calls.results.values(), *open_calls.talks.values())]
    return join((monitor.variable_labels.last[0], monitor.implicit_flows.base, *seen))


class RunState(NamedTuple):
    """The state of a run: its status as shown to people, the number of its events, whether it has ended."""

    status: str
    events: int
    is_final: bool


class CallReports(NamedTuple):
    """What the tools of a run report about their open calls; it replaces what was reported before."""

    calls: Sequence[CallReport]


Watched = Event | RunState | CallReports
"""What `follow` yields."""


class RunSource(NamedTuple):
    """What `follow` needs to observe the runs of a host."""

    journal: Journal
    beside: Offload
    hosted: Callable[[str], HostedRun | None]
    state: Callable[[str], RunState]


async def follow(source: RunSource, run_id: str, after: int = 0) -> AsyncGenerator[Watched]:
    """The events of a run after the number `after`, then new ones, until the run has ended.

    `run_id` is the complete id. The state of the run comes first, and again after the events that changed it.
    What its tools report comes as it changes, if the run is here.
    A run that has stopped (waiting for people, interrupted) is still followed, because any process may resume
    it. Raises JournalError as `Journal.events` does.
    """
    last_status: str | None = None
    told = 0
    while True:
        run = source.hosted(run_id)
        change = None if run is None else run.changed.next()
        state = await source.beside(lambda: source.state(run_id))
        if last_status is None:
            yield state
            last_status = state.status
        while page := await source.beside(partial(_page, source.journal, run_id, after)):
            for event in page:
                yield event
            after = page[-1].seq
        if state.status != last_status:
            yield state
            last_status = state.status
        if state.is_final and after >= state.events:
            return
        if run is not None and run.calls.version != told:
            told = run.calls.version
            yield CallReports(run.calls.reports())
        await _wait(change)


def _page(journal: Journal, run_id: str, after: int) -> list[Event]:
    return list(islice(journal.events(run_id, after, lenient=True), _PAGE))


async def _wait(change: asyncio.Event | None) -> None:
    """Wait until something is written, or until the next poll."""
    if change is None:
        await asyncio.sleep(_POLL)
        return
    try:
        async with asyncio.timeout(_POLL):
            await change.wait()
    except TimeoutError:
        return
    await asyncio.sleep(_REST)


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
