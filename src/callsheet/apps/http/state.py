"""The state that all endpoints share: host, plan library, keys, limits of requests, viewer documents, herald.

The herald tells people of the runs that webhooks start, as the scheduler does of those of schedules.
"""

from __future__ import annotations

import asyncio
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from callsheet.apps.hosting import Host, RunState
from callsheet.apps.http.clients import Keys, Network, Rate, Rates
from callsheet.apps.http.people import Person
from callsheet.apps.http.problems import problem_json, status_of
from callsheet.apps.scheduling.notices import Audience, Event, Notice, send
from callsheet.apps.scheduling.scheduler import Schedule
from callsheet.apps.scheduling.webhooks import Webhook
from callsheet.apps.table.operation import Context, DoubtCache, Face
from callsheet.diagnostics import CallsheetError
from callsheet.runtime.doubt import DoubtfulCall
from callsheet.store.library import PlanLibrary
from callsheet.store.listing import RunQuery, listed_runs
from callsheet.store.runs import RunFilter
from callsheet.views.report.document import Print, changes, name_of, print_of
from callsheet.views.report.values import Numbers

WEBHOOK = "webhook"
"""The tag of the runs that a webhook has started, with its name."""
_MOST = 1_000
"""So many runs of an earlier server are taken up at most, the newest."""


class _Followed(NamedTuple):
    """A run of a webhook, with the name of its plan."""

    webhook: str
    plan: str
    run_id: str


class Herald:
    """Follows runs of a host for an audience; `say` hears of those who could not be told."""

    def __init__(self, host: Host, audience: Audience, say: Callable[[str], None]) -> None:
        self._host = host
        self._audience = audience
        self._say = say
        self._tasks: set[asyncio.Task[None]] = set()

    def follow(self, webhook: str, plan: str, run_id: str) -> None:
        """Tell the audience what becomes of a run; nothing happens if there is nobody to tell."""
        if self._audience.notify:
            task = asyncio.get_running_loop().create_task(self._follow(_Followed(webhook, plan, run_id)))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def take_up(self, webhooks: Mapping[str, OpenWebhook]) -> None:
        """Follow the runs of an earlier server that have not ended."""
        host = self._host
        for name, webhook in webhooks.items() if self._audience.notify else ():
            query = RunQuery(wanted=RunFilter(tags=(f"{WEBHOOK}={name}",)), limit=_MOST)
            for info, _ in await host.beside(lambda query=query: listed_runs(host.journal, query)):
                if not info.status.is_final:
                    self.follow(name, webhook.settings.plan, info.run_id)

    async def close(self) -> None:
        """Follow no further run."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _follow(self, run: _Followed) -> None:
        told: set[str] = set()
        with suppress(CallsheetError):  # a run that was deleted is followed no more
            async for state in self._host.watch(run.run_id):
                if not isinstance(state, RunState):
                    continue
                if state.status == "waiting":
                    asked = {ask.digest for ask in await self._host.asks(run.run_id)}
                    if asked - told:
                        await self._tell(run, "asks", "asks: callsheet inbox")
                    told |= asked
                elif state.status == "in_doubt":
                    text = "does not know whether a call was made: callsheet show"
                    await self._tell(run, "in_doubt", f"{text} {run.run_id}")
                elif state.status == "done":
                    await self._tell(run, "done", f"is done: callsheet show {run.run_id}")
                elif state.is_final:
                    text = f"is {state.status}: callsheet blame {run.run_id}"
                    await self._tell(run, "failed", text)

    async def _tell(self, run: _Followed, event: Event, text: str) -> None:
        notice = Notice(event, run.webhook, run.run_id, f"{run.run_id} ({run.plan}) {text}")
        for failed in await asyncio.to_thread(send, self._audience, notice):
            self._say(f"warning {failed}")


_MOST_RUNS = 16
_MOST_PRINTS = 8


class _CachedRun:
    """The cached prints of a run by name, and the numbers of its values; `mutex` serializes its documents."""

    def __init__(self) -> None:
        self.mutex = threading.Lock()
        self.prints: OrderedDict[str, Print] = OrderedDict()
        self.numbers: Numbers = {}


class DocumentCache:
    """The prints of the last viewed runs; thread-safe."""

    def __init__(self) -> None:
        self._runs: OrderedDict[tuple[str, str | None], _CachedRun] = OrderedDict()
        self._mutex = threading.Lock()

    def changes_since(
        self, run: tuple[str, str | None], base: str | None, make: Callable[[Numbers], dict[str, Any]]
    ) -> tuple[str, dict[str, Any]]:
        """The name of a run's document, and its changes since the document `base`, or all of it.

        `run` is the id of the run and of the one with which it is compared.
        """
        watched = self._watched(run)
        with watched.mutex:
            document = make(watched.numbers)
            made = print_of(document)
            name, before = name_of(made), None if base is None else watched.prints.get(base)
            watched.prints[name] = made
            watched.prints.move_to_end(name)
            while len(watched.prints) > _MOST_PRINTS:
                watched.prints.popitem(last=False)
        if before is None:
            return name, document
        return name, {"base": base, **changes(before, made, document)}

    def _watched(self, run: tuple[str, str | None]) -> _CachedRun:
        with self._mutex:
            found = self._runs.setdefault(run, _CachedRun())
            self._runs.move_to_end(run)
            while len(self._runs) > _MOST_RUNS:
                self._runs.popitem(last=False)
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestLimits:
    """The limits of requests.

    Maximum bytes of a body, seconds to receive it, open event streams, seconds between keep-alive comments.
    """

    most_body: int = 4 * 1024 * 1024
    body_seconds: float = 10.0
    most_streams: int = 64
    heartbeat: float = 15.0


@dataclass(frozen=True, slots=True)
class OpenWebhook:
    """A webhook of the project that this server serves: its settings, the keys of its senders, its rate.

    `folder` is the project's, to which the path of its plan is relative.
    """

    settings: Webhook
    keys: tuple[bytes, ...]
    rates: Rates
    folder: Path

    @classmethod
    def of(cls, settings: Webhook, folder: Path) -> OpenWebhook:
        """A webhook to be served; raises CallsheetError (CFG016) if its secret cannot be used."""
        rate = Rate(settings.per_minute / 60, settings.per_minute)
        return cls(settings, settings.keys(), Rates(rate), folder)


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """The state of a server.

    `hosts` are the accepted `Host` values, with or without a port.
    """

    host: Host
    keys: Keys
    rates: Rates
    hosts: frozenset[str]
    proxies: tuple[Network, ...] = ()
    """The networks of trusted proxies."""
    library: Callable[[], PlanLibrary] = PlanLibrary
    webhooks: Mapping[str, OpenWebhook] = field(default_factory=dict[str, OpenWebhook])
    schedules: Mapping[str, Schedule] = field(default_factory=dict[str, Schedule])
    herald: Herald
    """Tells people of the runs of webhooks."""
    request_limits: RequestLimits = field(default_factory=RequestLimits)
    guesses: Rates = field(default_factory=lambda: Rates(Rate(1.0, 20)))
    """The rate limit of failed authentications."""
    stopping: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when the server is shutting down; event streams end then."""
    documents: DocumentCache = field(default_factory=DocumentCache)
    """The latest viewer documents."""
    doubts: DoubtCache = field(default_factory=dict[tuple[str, int], tuple[DoubtfulCall, ...]])
    """The calls in doubt found last, by run and its number of events."""
    streams: set[object] = field(default_factory=set[object])
    """The open event streams."""

    def context_for(self, person: Person) -> Context:
        """What operations work on that this person asks for."""
        return Context(
            host=self.host,
            library=self.library,
            face=Face.HTTP,
            by=person.name,
            roles=person.roles,
            doubts=self.doubts,
            problem=lambda error: problem_json(error, status_of(error)),
        )
