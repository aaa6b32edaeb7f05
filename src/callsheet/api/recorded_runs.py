"""The methods of `Runtime` on recorded runs: list, follow, search, explain and export them.

In: a journal and runs of it. Out: typed values, files, OpenTelemetry data, W3C PROV, LCTL. Nothing is run.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, Callable, Mapping
from dataclasses import field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from callsheet.api.inspecting import Inspecting
from callsheet.api.loops import blocking
from callsheet.api.remote import RunOrServer
from callsheet.api.session import Session
from callsheet.diagnostics.wrong_type import wanted, wanted_names, wanted_number, wanted_path
from callsheet.ir import canonical_tool_name
from callsheet.lazy import dataclass, deferred
from callsheet.store import Journal, RunStatus
from callsheet.views.report.values import MOST_BYTES

if TYPE_CHECKING:
    from callsheet.api import explaining, run_differences
    from callsheet.api.explaining import Explanation, FailureReport, RunMoment
    from callsheet.api.run_differences import RunDifference
    from callsheet.machine import keys
    from callsheet.runtime import reporting
    from callsheet.runtime.telemetry import live, sending, target
    from callsheet.store import journal_paths, listing, pauses, run_index
    from callsheet.store import runs as run_filter
    from callsheet.store.pauses import RunPause
    from callsheet.store.runs import RunFilter
    from callsheet.trace import search as searching
    from callsheet.trace.lctl.model import DebugDocument, Handoff
    from callsheet.views.report import build
else:
    build = deferred("callsheet.views.report.build")
    explaining = deferred("callsheet.api.explaining")
    journal_paths = deferred("callsheet.store.journal_paths")
    keys = deferred("callsheet.machine.keys")
    listing = deferred("callsheet.store.listing")
    pauses = deferred("callsheet.store.pauses")
    run_filter = deferred("callsheet.store.runs")
    run_index = deferred("callsheet.store.run_index")
    live = deferred("callsheet.runtime.telemetry.live")
    reporting = deferred("callsheet.runtime.reporting")
    run_differences = deferred("callsheet.api.run_differences")
    searching = deferred("callsheet.trace.search")
    sending = deferred("callsheet.runtime.telemetry.sending")
    target = deferred("callsheet.runtime.telemetry.target")

_Value = TypeVar("_Value")
_PAUSE = 0.1
"""Seconds between polls for further events."""
_MOST = 1_000


@dataclass(frozen=True, slots=True)
class JournalEvent:
    """An event in the journal of a run.

    `seq` counts from 1; `time` is in seconds since 1970; `type` is `start`, `intent`, `ok`, `err`, `end` or
    another. `key` and `step` identify the call that it is about, if any. `body` is its data, in which
    secrets stay encrypted.
    """

    run_id: str
    seq: int
    time: float
    type: str
    key: str | None
    step: str | None
    body: dict[str, Any] | None


@dataclass(frozen=True, slots=True)
class SearchMatch:
    """A place in a run where a text was found.

    `seq` is the number of the event; `what` is the kind of value: `given`, `argument`, `result`, `error`,
    `answer` and others. `path` is the path within that value; `variable` is the variable that got the result
    or was given. `before` and `after` are the context around the matched `text`.
    """

    run_id: str
    seq: int
    step: str | None
    key: str | None
    what: str
    variable: str | None
    path: tuple[str | int, ...]
    before: str
    text: str
    after: str


@dataclass(frozen=True, slots=True)
class RecordedRun:
    """A run of the journal as a list shows it.

    `status` is a RunStatus as text, or `interrupted`: not finished, and no process carries it on. `plan` is
    what its plan is called; `created` and `updated` are in seconds since 1970. `parent` is the run that it
    was forked from, at its event `forked_at`.
    """

    run_id: str
    status: str
    plan: str
    plan_hash: str
    created: float
    updated: float
    events: int
    parent: str | None = None
    forked_at: int | None = None
    goal: str | None = None
    ended: float | None = None
    failed_step: str | None = None
    """The step that it failed at, else the first that failed and that it went past."""
    waits_for: str | None = None
    cost: float | None = None
    tokens: int | None = None
    tags: Mapping[str, str] = field(default_factory=dict[str, str])
    pause: RunPause | None = None
    """Who has paused it, since when and why, if it is paused."""


@dataclass(frozen=True, slots=True)
class TraceExport:
    """How much of a run was sent to a collector.

    `trace_id` identifies the trace there. `not_taken` maps each signal that the collector does not accept
    (`metrics`, `logs`) to its answer, `rejected` each signal of which it rejected a part to the number of
    those spans, log events or histograms.
    """

    run_id: str
    trace_id: str
    spans: int
    logs: int
    metrics: int
    not_taken: Mapping[str, str] = field(default_factory=dict[str, str])
    rejected: Mapping[str, int] = field(default_factory=dict[str, int])


class RecordedRuns(Inspecting):
    """The part of `Runtime` for recorded runs, which are ids, prefixes of ids, or `last`."""

    # ------------------------------------------------------------ listed and followed

    async def runs(
        self,
        *,
        status: str | None = None,
        limit: int | None = None,
        where: RunFilter | None = None,
        sort: str = "created",
        rises: bool = False,
        after: str | None = None,
    ) -> list[RecordedRun]:
        """The runs of the journal, the newest first, at most `limit`, of one `status` if given.

        `status="interrupted"` gives those that a program which has started anew may resume. `where` are more
        conditions, as `RunFilter(tags=("env=prod",), failed_step="S3")`. The list may be sorted by `ended`,
        `duration`, `cost` or `tokens` instead, and it falls unless it `rises`. With `after` it begins after
        that run, which gives the next page. Raises ValueError for a status or order that there is not, or a
        runtime without a journal; CallsheetError (JRN002) for an unknown run.
        """
        self._require_journal()
        statuses = (*map(str, RunStatus), run_filter.INTERRUPTED)
        if status is not None and status not in statuses:
            raise ValueError(f"there is no status {status!r}; there are {', '.join(statuses)}")
        if limit is not None:
            wanted("limit", limit, int, "a number")
        given = where or run_filter.RunFilter()
        if status is not None:
            given = replace(given, status=status)
        order = run_filter.RunSort(sort)
        async with self._opened() as session:

            def listed() -> list[RecordedRun]:
                before = None if after is None else session.recorded.find_run(after)
                most = None if limit is None else max(limit, 0)
                return _listed(session.recorded, listing.RunQuery(given, order, rises, most, before))

            return await asyncio.to_thread(listed)

    runs_sync = blocking(runs)

    async def tail(
        self, run_id: str, *, follow: bool = False, after: int = 0
    ) -> AsyncGenerator[JournalEvent]:
        """Yield the journal events of a run that come after the number `after`.

        `run_id` is an id, a prefix of one, or `last`. With `follow`, new events are yielded as they come,
        also from a run in another process, until the run ends, waits for people or a decision, or its process
        is gone. A run that this runtime has just started is waited for until it is recorded.

        Raises CallsheetError: JRN002 for an unknown run, JRN012 if its events cannot be read; ValueError for
        a runtime without a journal.
        """
        self._require_journal()
        wanted("after", after, int, "the number of an event")
        async with self._opened() as session:
            while self._starts(run_id) and not session.has(run_id):  # noqa: ASYNC110 - a database has no event
                await asyncio.sleep(_PAUSE)
            name = session.find(run_id)
            while True:
                was_carried_on = await asyncio.to_thread(_is_carried_on, session, name)
                for event in await asyncio.to_thread(_events, session, name, after):
                    after = event.seq
                    yield event
                if not follow or not was_carried_on:
                    return
                await asyncio.sleep(_PAUSE)

    def tail_sync(self, run_id: str, *, after: int = 0) -> list[JournalEvent]:
        """The events that a run has now, for programs without an event loop; raises as `tail` does."""

        async def listed() -> list[JournalEvent]:
            return [event async for event in self.tail(run_id, after=after)]

        return self._run_sync(listed(), "tail")

    async def search(
        self, text: str, run_id: str | None = None, *, ignore_case: bool = False, limit: int | None = None
    ) -> list[SearchMatch]:
        """Find a text, or an RE2 pattern written between slashes such as `/[0-9]+ EUR/`, in recorded runs.

        `run_id` is an id, a prefix of one, or `last`; without it all runs are searched, newest first. Inputs,
        arguments, results, errors, answers of people and edits are searched. Returns at most `limit` matches.
        Raises CallsheetError: JRN002 for an unknown run, JRN012, JRN015 or JRN020 if its events cannot be
        read, JRN085 for a pattern that RE2 does not support; ValueError for an empty text, or a runtime
        without a journal.
        """
        self._require_journal()
        wanted("text", text, str, "a text or a pattern between slashes")
        async with self._opened() as session:
            return await asyncio.to_thread(_search_matches, session, text, run_id, ignore_case, limit)

    search_sync = blocking(search)

    # ------------------------------------------------------------ explained

    async def why(
        self, run_id: str, variable: str, *, forward: bool = False, most: int = _MOST
    ) -> Explanation:
        """Explain where a value of a run came from, or with `forward` what came of it.

        `variable` is a variable with its last value, or `answer`, with an optional path: `rows.0.amount`. At
        most `most` places are given, the nearest first. Raises CallsheetError: JRN002 for an unknown run,
        JRN040 for an unknown variable or path; ValueError for a runtime without a journal.
        """
        wanted("variable", variable, str, "the name of a variable")
        wanted("most", most, int, "a number of places")

        def read(journal: Journal) -> Explanation:
            return explaining.explain_value(journal, run_id, variable, forward=forward, most=most)

        return await self._read(read)

    why_sync = blocking(why)

    @RunOrServer
    async def at(self, run_id: str, event: int | None = None) -> RunMoment:
        """The state of a run after one of its events, by default the last: variables, pending calls, usage.

        The loops under way have the results of their items so far.

        Raises CallsheetError: JRN002 for an unknown run, JRN041 for an event that it does not have;
        ValueError for a runtime without a journal.
        """
        if event is not None:
            wanted("event", event, int, "the number of an event")
        return await self._read(lambda journal: explaining.run_at(journal, run_id, event))

    at_sync = blocking(at.of_run)

    async def blame(self, run_id: str) -> FailureReport:
        """Where a run failed, and the likely causes.

        Raises CallsheetError: JRN002 for an unknown run, JRN042 for one that has not failed; ValueError for a
        runtime without a journal.
        """
        return await self._read(lambda journal: explaining.blame_run(journal, run_id))

    blame_sync = blocking(blame)

    async def diff(self, a: str, b: str, *, most: int | None = None) -> RunDifference:
        """How two runs differ: where they first diverge, and what follows from it.

        The comparison stops once more than `most` differences are found. Raises CallsheetError: JRN002 for an
        unknown run; ValueError for a runtime without a journal.
        """
        return await self._read(lambda journal: run_differences.diff_runs(journal, a, b, most))

    diff_sync = blocking(diff)

    async def _read(self, read: Callable[[Journal], _Value]) -> _Value:
        self._require_journal()
        async with self._opened() as session:
            return await asyncio.to_thread(read, session.recorded)

    # ------------------------------------------------------------ exported

    async def report(
        self,
        run_id: str,
        path: str | os.PathLike[str],
        *,
        diff: str | None = None,
        max_value: int = MOST_BYTES,
        redact: bool = False,
    ) -> Path:
        """Write a recorded run as a single HTML file, and return its path.

        `run_id`, and `diff` for a run to compare it with, are ids, prefixes of ids, or `last`. Values of more
        than `max_value` bytes are shortened; with `redact` all values are left out. Raises CallsheetError:
        JRN002 for an unknown run, JRN012, JRN015 or JRN020 if its events cannot be read; OSError if the file
        cannot be written; ValueError for a runtime without a journal.
        """
        self._require_journal()
        place = wanted_path("path", path)
        wanted("max_value", max_value, int, "a number of bytes")
        wanted("redact", redact, bool, "True or False")
        if diff is not None:
            wanted("diff", diff, str, "the id of a run")
        async with self._opened() as session:
            showing = build.Showing(max_value, redact)
            name = session.find(run_id)
            document = reporting.report_document(session.recorded, name, showing=showing, other=diff)
        return reporting.save_page(place, reporting.report_page(document))

    report_sync = blocking(report)

    async def lctl(
        self,
        run_id: str,
        at: str | int | None = None,
        *,
        debug: bool | None = None,
        items: bool = False,
        confidence: Mapping[str, float] | None = None,
    ) -> Handoff | DebugDocument:
        """A recorded run as an LCTL document; `callsheet.lctl.write` gives its text.

        `run_id` is an id, a prefix of one, or `last`. `at` is a step, one of its visits such as `S3@2`, or
        the number of an event: the document then describes the run after it, by default its latest state.
        `items` lists the results of each FOREACH one by one. `debug` selects the post-mortem (True) or the
        hand-off (False); by default a failed run gives a post-mortem. `confidence` maps tools to how certain
        their results are, from 0 to 1. Raises CallsheetError: JRN002 for an unknown run, JRN012, JRN015 or
        JRN020 if its events cannot be read, RUN060 for a step that the run has not done, JRN041 for an event
        that it does not have; ValueError for a confidence outside 0 to 1, or a runtime without a journal.
        """
        self._require_journal()
        given = wanted_names("confidence", confidence)
        by_tool = {
            canonical_tool_name(tool): wanted_number(f"confidence[{tool!r}]", value)
            for tool, value in given.items()
        }
        if not all(0 <= value <= 1 for value in by_tool.values()):
            raise ValueError("confidence is a number from 0 to 1")
        async with self._opened() as session:
            run = session.find(run_id)
            return reporting.lctl_of(
                session.recorded, run, at, debug=debug, with_items=items, by_tool=by_tool
            )

    lctl_sync = blocking(lctl)

    async def export_trace(
        self,
        run_id: str,
        otlp: str,
        *,
        headers: Mapping[str, str] | None = None,
        content: bool = False,
        is_running: bool = False,
    ) -> TraceExport:
        """Send a recorded run to an OpenTelemetry collector; sending it twice adds nothing.

        `run_id` is an id, a prefix of one, or `last`; `otlp` is the collector's OTLP/HTTP address, such as
        `http://localhost:4318`. Each value of `headers` has the form `env:VARIABLE`. With `content`,
        arguments, results and error texts are sent as well. `is_running` says that the run is still going
        on; calls in progress are then left out. Raises CallsheetError: TRC001 if the collector cannot be
        reached, TRC002 if it refuses, TRC003 or TRC004 for an invalid address or header, TRC005 if
        `callsheet[otel]` is needed and missing, JRN002 for an unknown run, JRN012, JRN015 or JRN020 if its
        events cannot be read; ValueError for a runtime without a journal.
        """
        self._require_journal()
        wanted("otlp", otlp, str, "the address of a collector")
        collector = target.target_of(otlp, wanted_names("headers", headers))
        async with self._opened() as session:
            name = session.find(run_id)
            exported = await asyncio.to_thread(
                live.telemetry_of, session.recorded, name, content=content, goes_on=is_running
            )
        with sending.Sender(collector, name) as sender:
            await asyncio.to_thread(sender.send, exported)
        sent = sender.sent
        not_taken = {str(signal): why for signal, why in sent.not_taken.items()}
        rejected = {str(signal): found.items for signal, found in sent.rejected.items()}
        trace = keys.trace_id(name)
        return TraceExport(name, trace, sent.spans, sent.logs, sent.metrics, not_taken, rejected)

    export_trace_sync = blocking(export_trace)

    async def provenance(self, run_id: str, *, content: bool = False) -> dict[str, Any]:
        """Where each value of a run came from, as PROV-JSON data; with `content` also the values.

        `run_id` is an id, a prefix of one, or `last`. Raises CallsheetError: JRN002 for an unknown run,
        JRN012, JRN015 or JRN020 if its events cannot be read; ValueError for a runtime without a journal.
        """
        self._require_journal()
        async with self._opened() as session:
            return live.provenance_of(session.recorded, session.find(run_id), content=content)

    provenance_sync = blocking(provenance)


def _listed(journal: Journal, query: listing.RunQuery) -> list[RecordedRun]:
    return [
        RecordedRun(
            info.run_id,
            shown,
            listing.plan_name(journal, info),
            info.plan_hash,
            info.created,
            info.updated,
            info.events,
            None if info.forked_at is None else info.parent_run,
            info.forked_at,
            info.goal,
            info.ended,
            info.failed_step,
            info.waits_for,
            info.cost,
            info.tokens,
            run_index.tags_in(info.tags),
            pauses.pause_of(journal, info),
        )
        for info, shown in listing.listed_runs(journal, query)
    ]


def _is_carried_on(session: Session, run_id: str) -> bool:
    """Whether a process is running it, so that more events may come."""
    info = session.recorded.find_run(run_id)
    place = journal_paths.place_of(session.recorded.path)
    return not info.status.is_final and journal_paths.is_owned(place, run_id)


def _events(session: Session, run_id: str, after: int) -> list[JournalEvent]:
    return [
        JournalEvent(run_id, row.seq, row.ts, str(row.type), row.key, row.step, row.body)
        for row in session.recorded.events(run_id, after, lenient=True)
    ]


def _search_matches(
    session: Session, text: str, run_id: str | None, ignore_case: bool, limit: int | None
) -> list[SearchMatch]:
    journal = session.recorded
    find = searching.finder(text, ignore_case=ignore_case)
    matches: list[SearchMatch] = []
    for info in journal.runs() if run_id is None else [journal.find_run(run_id)]:
        plan = journal.plan_of(info.plan_hash)
        for m in searching.search(plan, journal.events(info.run_id), journal.plan_of, find):
            if limit is not None and len(matches) >= limit:
                return matches
            around = m.before, m.text, m.after
            matches.append(
                SearchMatch(info.run_id, m.seq, m.step, m.key, m.what, m.variable, m.path, *around)
            )
    return matches
