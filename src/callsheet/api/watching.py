"""`Runtime.runs`, `tail` and `search`: list recorded runs, follow the journal of one, search in them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from callsheet.api.explaining import Explaining
from callsheet.api.session import Session
from callsheet.diagnostics.wrong_type import wanted
from callsheet.store import RunStatus

if TYPE_CHECKING:
    from callsheet.store import Journal
    from callsheet.store.listing import RunQuery
    from callsheet.store.run_filter import RunFilter

_PAUSE = 0.1
"""Seconds between polls for further events."""


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
    """The first step that failed."""
    waits_for: str | None = None
    cost: float | None = None
    tokens: int | None = None
    tags: Mapping[str, str] = field(default_factory=dict[str, str])


class Watching(Explaining):
    """The part of `Runtime` that lists, follows and searches recorded runs."""

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
        from callsheet.store.listing import RunQuery  # noqa: PLC0415 - brings sqlite3
        from callsheet.store.run_filter import INTERRUPTED, RunFilter, RunSort  # noqa: PLC0415 - as above

        self._require_journal()
        statuses = (*map(str, RunStatus), INTERRUPTED)
        if status is not None and status not in statuses:
            raise ValueError(f"there is no status {status!r}; there are {', '.join(statuses)}")
        if limit is not None:
            wanted("limit", limit, int, "a number")
        given = where or RunFilter()
        if status is not None:
            given = replace(given, status=status)
        order = RunSort(sort)
        async with self._opened() as session:

            def listed() -> list[RecordedRun]:
                assert session.journal is not None
                before = None if after is None else session.journal.find_run(after)
                most = None if limit is None else max(limit, 0)
                return _listed(session.journal, RunQuery(given, order, rises, most, before))

            return await asyncio.to_thread(listed)

    def runs_sync(
        self,
        *,
        status: str | None = None,
        limit: int | None = None,
        where: RunFilter | None = None,
        sort: str = "created",
        rises: bool = False,
        after: str | None = None,
    ) -> list[RecordedRun]:
        """As `runs`, for programs without an event loop."""
        runs = self.runs(status=status, limit=limit, where=where, sort=sort, rises=rises, after=after)
        return self._run_sync(runs, "runs")

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

    def search_sync(
        self, text: str, run_id: str | None = None, *, ignore_case: bool = False, limit: int | None = None
    ) -> list[SearchMatch]:
        """Like `search`, for programs without an event loop."""
        return self._run_sync(self.search(text, run_id, ignore_case=ignore_case, limit=limit), "search")


def _listed(journal: Journal, query: RunQuery) -> list[RecordedRun]:
    from callsheet.store.listing import listed_runs, plan_name  # noqa: PLC0415 - few programs need it
    from callsheet.store.run_index import tags_in  # noqa: PLC0415 - as above

    return [
        RecordedRun(
            info.run_id,
            shown,
            plan_name(journal, info),
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
            tags_in(info.tags),
        )
        for info, shown in listed_runs(journal, query)
    ]


def _is_carried_on(session: Session, run_id: str) -> bool:
    """Whether a process is running it, so that more events may come."""
    from callsheet.store.journal_paths import (  # noqa: PLC0415 - as above
        is_owned,
        place_of,
    )

    assert session.journal is not None
    info = session.journal.find_run(run_id)
    return not info.status.is_final and is_owned(place_of(session.journal.path), run_id)


def _events(session: Session, run_id: str, after: int) -> list[JournalEvent]:
    assert session.journal is not None
    return [
        JournalEvent(run_id, row.seq, row.ts, str(row.type), row.key, row.step, row.body)
        for row in session.journal.events(run_id, after, lenient=True)
    ]


def _search_matches(
    session: Session, text: str, run_id: str | None, ignore_case: bool, limit: int | None
) -> list[SearchMatch]:
    from callsheet.trace.search import (  # noqa: PLC0415 - as above
        finder,
        search,
    )

    journal = session.journal
    assert journal is not None
    find = finder(text, ignore_case=ignore_case)
    matches: list[SearchMatch] = []
    for info in journal.runs() if run_id is None else [journal.find_run(run_id)]:
        plan = journal.plan_of(info.plan_hash)
        for m in search(plan, journal.events(info.run_id), journal.plan_of, find):
            if limit is not None and len(matches) >= limit:
                return matches
            around = m.before, m.text, m.after
            matches.append(
                SearchMatch(info.run_id, m.seq, m.step, m.key, m.what, m.variable, m.path, *around)
            )
    return matches
