"""Tells people of the runs that webhooks start, as the scheduler does of those of schedules.

In: the runs that deliveries have started, and those of an earlier server that have not ended. Out: a notice
for each question, for calls in doubt, and for the end of each run.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from callsheet.apps.hosting import Host, RunState
from callsheet.apps.scheduling.notices import Audience, Event, Notice, send
from callsheet.diagnostics import CallsheetError
from callsheet.store.listing import RunQuery, listed_runs
from callsheet.store.runs import RunFilter

if TYPE_CHECKING:
    from callsheet.apps.http.state import OpenWebhook

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
