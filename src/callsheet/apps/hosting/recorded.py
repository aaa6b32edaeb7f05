"""Recorded runs of a host: streamed, read as an outcome, deleted, whichever process runs them.

In: a journal, a run's id. Out: events in order, each once; the state of the run; its outcome.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Generator, Sequence
from contextlib import aclosing, contextmanager
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any, NamedTuple, TypeVar

from callsheet.apps.hosting.run_queue import HostedRun
from callsheet.apps.operations.live_calls import CallReport, shared_reports
from callsheet.diagnostics import CallsheetError
from callsheet.ir.labels import UNKNOWN, Label, join
from callsheet.runtime.doubt import RunOutcome, doubtful_calls, fold_run, unanswered_calls, unfinished
from callsheet.runtime.event_loop import Offload
from callsheet.runtime.inbox import asks_of
from callsheet.store import Journal, RunStatus, retention
from callsheet.store.events import Event
from callsheet.store.journal_paths import is_owned, place_of
from callsheet.store.label_transfer import forget_notes
from callsheet.store.pauses import pause_of
from callsheet.store.runs import RunInfo


def recorded_outcome(journal: Journal, run_id: str) -> RunOutcome:
    """The outcome of a run that is not running; what is computed from sealed values is as it is shown.

    Raises JournalError: JRN002 for an unknown run, JRN012, JRN015 or JRN020 if its events cannot be read.
    """
    info = journal.find_run(run_id)
    folded = fold_run(journal, run_id, journal.plan(info.plan_hash)[0])
    result = folded.machine.result
    if result is not None:
        usage, shown = folded.usage(), folded.variables_to_show()
        told = replace(
            result,
            usage=usage,
            response=folded.response_to_show,
            answer=folded.answer_to_show,
            variables={name: shown.get(name, value) for name, value in result.variables.items()},
        )
        return RunOutcome(run_id, told, doubtful_calls(folded), usage=usage)
    waiting = tuple(ask for ask in asks_of(journal, run_id) if not ask.is_answered)
    open_run = unfinished(run_id, folded, doubtful_calls(folded), waiting, unanswered_calls(folded))
    return replace(open_run, pause=pause_of(journal, info))


_PAGE = 200
"""The number of events read at a time."""
_POLL = 0.5
"""Seconds between polls of a run in another process."""
_REST = 0.02
"""Seconds to wait for further events, so that they are read together."""
_EACH = 0.0005
"""The same for each follower of the run, since each takes processor time for what it is told."""


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


_T = TypeVar("_T")


class RunState(NamedTuple):
    """The state of a run: its status as shown to people, the number of its events, whether it has ended."""

    status: str
    events: int
    is_final: bool


class CallReports(NamedTuple):
    """What the tools of a run report about their open calls; it replaces what was reported before."""

    calls: Sequence[CallReport]


@dataclass(frozen=True, slots=True)
class EventPage:
    """Events that were read together, for all followers of a run."""

    events: Sequence[Event]
    _made: dict[object, Any] = field(default_factory=dict[object, Any])

    def made(self, make: Callable[[Sequence[Event]], _T]) -> _T:
        """What a function makes of them, once for all followers."""
        if make not in self._made:
            self._made[make] = make(self.events)
        return self._made[make]


Followed = EventPage | RunState | CallReports
"""What `follow` yields."""
Watched = Event | RunState | CallReports
"""The same, with each event by itself."""


async def each_event(followed: AsyncGenerator[Followed]) -> AsyncGenerator[Watched]:
    """What `follow` yields, with each event by itself."""
    async with aclosing(followed):
        async for one in followed:
            for each in one.events if isinstance(one, EventPage) else (one,):
                yield each


@dataclass(slots=True)
class _Round:
    """What was read of a run from a moment on, by name; the next write here sets `change`."""

    change: asyncio.Event | None
    begun: float
    readings: dict[object, asyncio.Future[Any]] = field(default_factory=dict[object, "asyncio.Future[Any]"])


@dataclass(slots=True)
class SharedReadings:
    """What the followers of a run read of it: once for all that ask for the same.

    A reading is given again until something is written here, and for `fresh` seconds, since other processes
    write too.
    """

    journal: Journal
    beside: Offload
    read_state: Callable[[str], RunState]
    fresh: float = _POLL / 2
    _rounds: dict[str, _Round] = field(default_factory=dict[str, _Round])
    _followers: Counter[str] = field(default_factory=Counter[str])

    @contextmanager
    def of(self, run_id: str) -> Generator[Callable[[], int]]:
        """Keep what is read of a run during the context, whose value gives the number of its followers."""
        self._followers[run_id] += 1
        try:
            yield lambda: self._followers[run_id]
        finally:
            self._followers[run_id] -= 1
            if not self._followers[run_id]:
                del self._followers[run_id]
                self._rounds.pop(run_id, None)

    async def state(self, run_id: str, change: asyncio.Event | None) -> RunState:
        """The state of a run; what was written later than this sets `change`."""
        return await self._read(run_id, change, "state", lambda: self.read_state(run_id))

    async def page(self, run_id: str, change: asyncio.Event | None, after: int, state: RunState) -> EventPage:
        """The first events after a number, read later than a state: all that it counts are among them.

        Raises JournalError as `Journal.events` does.
        """
        name = after, state.events
        return await self._read(run_id, change, name, lambda: EventPage(_page(self.journal, run_id, after)))

    async def reports(self, run_id: str, state: RunState) -> list[CallReport]:
        """What the tools of a run report that another process executes."""
        if state.status != RunStatus.RUNNING:
            return []
        return await self._read(run_id, None, "reports", lambda: shared_reports(self.journal.path, run_id))

    async def _read(
        self, run_id: str, change: asyncio.Event | None, name: object, read: Callable[[], _T]
    ) -> _T:
        now, current = asyncio.get_running_loop().time(), self._rounds.get(run_id)
        is_late = change is not None and change.is_set()  # who is late reads again in any case
        if (
            current is None
            or now - current.begun > self.fresh
            or (current.change is not change and not is_late)
        ):
            current = self._rounds[run_id] = _Round(change, now)
        reading = current.readings.get(name)
        if reading is None:
            reading = current.readings[name] = asyncio.ensure_future(self.beside(read))
            reading.add_done_callback(lambda done: done.cancelled() or done.exception())
        return await asyncio.shield(reading)


class RunSource(NamedTuple):
    """What `follow` needs to observe the runs of a host."""

    readings: SharedReadings
    hosted: Callable[[str], HostedRun | None]


async def follow(source: RunSource, run_id: str, after: int = 0) -> AsyncGenerator[Followed]:
    """The events of a run after the number `after`, then new ones, until the run has ended.

    `run_id` is the complete id. The state of the run comes first, and again after the events that changed it.
    What its tools report comes as it changes, here or in another process.
    A run that has stopped (waiting for people, interrupted) is still followed, because any process may resume
    it. Raises JournalError as `Journal.events` does.
    """
    last_status: str | None = None
    told = 0
    elsewhere: list[CallReport] = []
    readings = source.readings
    with readings.of(run_id) as followers:
        while True:
            run = source.hosted(run_id)
            change = None if run is None else run.changed.next()
            state = await readings.state(run_id, change)
            if last_status is None:
                yield state
                last_status = state.status
            while (page := await readings.page(run_id, change, after, state)).events:
                yield page
                after = page.events[-1].seq
                if len(page.events) < _PAGE:
                    break
            if state.status != last_status:
                yield state
                last_status = state.status
            if state.is_final and after >= state.events:
                return
            if run is not None and run.calls.version != told:
                told = run.calls.version
                yield CallReports(run.calls.reports())
            elif run is None and (found := await readings.reports(run_id, state)) != elsewhere:
                elsewhere = found
                yield CallReports(found)
            await _wait(change, followers())


def _page(journal: Journal, run_id: str, after: int) -> list[Event]:
    return list(islice(journal.events(run_id, after, lenient=True), _PAGE))


async def _wait(change: asyncio.Event | None, followers: int) -> None:
    """Wait until something is written, or until the next poll; the longer, the more follow the run."""
    more = _EACH * (followers - 1)
    if change is None:
        await asyncio.sleep(_POLL + more)
        return
    try:
        async with asyncio.timeout(_POLL + more):
            await change.wait()
    except TimeoutError:
        return
    await asyncio.sleep(_REST + more)


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
