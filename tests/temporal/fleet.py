"""Runs on Temporal as a client: an event loop in a thread, with a worker for the ports of all runs.

In: a plan, ports and a launch, as for a local run. Out: how it ended and what happened. Waits of plans are
recorded and cut short, since tests of meaning need no time.
"""

from __future__ import annotations

import asyncio
import re
import tempfile
import threading
from collections.abc import Awaitable, Callable, Coroutine, Generator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, TypeVar
from unittest.mock import patch

from temporalio import workflow
from tests.temporal.server import serving

from callsheet.ir import JSON, Plan
from callsheet.machine import Event, Machine, Result
from callsheet.machine.machine import Observer
from callsheet.ports.calls import CallContext, ToolFailed
from callsheet.runtime.engines.temporal import client, pending
from callsheet.runtime.engines.temporal.connection import TemporalConnection, reach
from callsheet.runtime.engines.temporal.settings import TemporalSettings
from callsheet.runtime.engines.temporal.wire import Row, RunOrder
from callsheet.runtime.engines.temporal.worker import Duties, serve
from callsheet.runtime.gateway import Ports, Route
from callsheet.runtime.launch import Launch, Watch
from callsheet.store import Durability, EventType, Journal, new_run_id
from callsheet.store.events import Event as JournalEvent
from callsheet.store.records import recorded_event
from callsheet.store.replay import fold
from callsheet.store.start import Start

_T = TypeVar("_T")
_PATIENCE = 600.0
_TOGETHER = 0.1
"""Seconds within which calls that were asked for together have come."""
_NEEDS_MODEL = ("asks a language model", "needs a language model")
_IN_TURN = 100
"""Calls of a run that wait for one another; scripts are shorter."""


@dataclass(slots=True)
class Switchboard:
    """The ports of many runs as those of one worker: a call is routed to the ports of its run."""

    by_run: dict[str, Ports] = field(default_factory=dict[str, Ports])
    arrived: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    """The keys of calls that have come and not begun, by run."""
    begun: dict[str, int] = field(default_factory=dict[str, int])
    """How many calls have come, by run."""

    def ports(self) -> Ports:
        """Ports for a worker."""
        return Ports(
            lambda tool: Route(partial(self._call, tool)),
            partial(self._other, "model"),
            partial(self._other, "agent"),
            partial(self._other, "compiler"),
            partial(self._other, "turn"),
        )

    async def _call(self, tool: str, args: dict[str, Any], context: CallContext) -> JSON:
        await self._in_turn(context)
        route = self.by_run[context.run_id].route(tool)
        if route is None:
            raise ToolFailed(f"no tool is called @{tool}")
        return await route.handler(args, context)

    async def _other(self, name: str, command: Any, context: CallContext) -> Any:
        await self._in_turn(context)
        port = getattr(self.by_run[context.run_id], name)
        if port is None:
            what = "RE-PLAN" if name == "compiler" else f"@{command.tool}"
            needs = "needs an agent" if name == "agent" else _NEEDS_MODEL[name == "compiler"]
            raise ToolFailed(f"{what} {needs}, and this run was given none")
        return await port(command, context)

    async def _in_turn(self, context: CallContext) -> None:
        """Let concurrent calls start in the order of their keys, as scripts expect."""
        waiting = self.arrived.setdefault(context.run_id, [])
        waiting.append(context.key)
        count = self.begun[context.run_id] = self.begun.get(context.run_id, 0) + 1
        await asyncio.sleep(_TOGETHER if count <= _IN_TURN else 0)
        while min(waiting, key=_order_of) != context.key:  # noqa: ASYNC110 - a moment
            await asyncio.sleep(0)
        waiting.remove(context.key)


def _order_of(key: str) -> list[int]:
    """The position of a call among those that leave together, from the numbers in its key."""
    return [int(number) for number in re.findall(r"\d+", key)]


@dataclass(slots=True)
class Ended:
    """The end of a run, its events, and the lengths of its waits in seconds."""

    run_id: str
    result: Result
    rows: list[Row]

    @property
    def waited(self) -> list[float]:
        """The seconds of each wait of the plan."""
        return [row["body"]["due"] - row["at"] for row in self.rows if row["type"] == EventType.TIMER]


class LookedBack(NamedTuple):
    """A machine after all events, and the events, from the journal."""

    machine: Machine
    rows: list[JournalEvent]
    events: list[Event]


class Fleet:
    """A server, a worker and a journal, for runs that any thread may start."""

    def __init__(
        self, reached: TemporalConnection, journal: Journal, loop: asyncio.AbstractEventLoop
    ) -> None:
        self.reached = reached
        self.journal = journal
        self.board = Switchboard()
        self._loop = loop
        self._worker: asyncio.Task[None] | None = None

    def there(self, work: Coroutine[Any, Any, _T]) -> _T:
        """The result of work on the loop of the fleet, for another thread."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(_PATIENCE)

    async def employ(self) -> None:
        """Start a worker if there is none; returns when it is working."""
        if self._worker is not None and not self._worker.done():
            return
        up = asyncio.Event()
        duties = Duties(self.reached.settings.queue, drain=0.0)
        work = serve(self.reached.client, self.board.ports(), self.reached.claims, duties, up.set)
        self._worker = asyncio.create_task(work)
        waiting = asyncio.create_task(up.wait())
        await asyncio.wait({self._worker, waiting}, return_when=asyncio.FIRST_COMPLETED)
        if self._worker.done():
            await self._worker

    async def dismiss(self) -> None:
        """Let the worker abandon its calls in flight."""
        if self._worker is not None:
            self._worker.cancel()
            await asyncio.gather(self._worker, return_exceptions=True)

    async def start(self, plan: Plan, ports: Ports, launch: Launch) -> str:
        """Start a run; on the loop of the fleet."""
        run_id, settings = new_run_id(), self.reached.settings
        self.board.by_run[run_id] = ports
        begun = Start(
            dict(launch.inputs), dict(launch.facts), launch.limits, {}, {}, launch.approve, {}, {},
            launch.policy,
        )  # fmt: skip
        order = RunOrder(run_id, plan, launch.source, begun, settings.queue, settings.heartbeat)
        await client.start(self.reached, self.journal, order)
        return run_id

    def temporal_run(self, run_id: str) -> client.TemporalRun:
        """A run of this fleet."""
        return client.TemporalRun(self.reached, self.journal, run_id)

    async def ended(self, run_id: str) -> Ended:
        """Wait for the end of a run; on the loop of the fleet."""
        run = self.temporal_run(run_id)
        await run.handle.result()
        outcome = await client.bring_up_to_date(run)
        assert outcome.result is not None
        rows = [
            {"at": e.ts, "type": e.type, "key": e.key, "body": e.body} for e in self.journal.events(run_id)
        ]
        return Ended(run_id, outcome.result, rows[1:])

    async def run(self, plan: Plan, ports: Ports, launch: Launch) -> Ended:
        """Run a plan to its end; on the loop of the fleet."""
        return await self.ended(await self.start(plan, ports, launch))

    def stand_in(self, waited: list[float]) -> Callable[..., Awaitable[Result]]:
        """Replaces `run_unrecorded` here; the seconds of waits are added to `waited`."""

        async def carried(plan: Plan, ports: Ports, launch: Launch, watch: Watch, *more: object) -> Result:
            del more  # an id, and who answers questions: runs here have their own
            ended = await asyncio.to_thread(lambda: self.there(self.run(plan, ports, launch)))
            waited.extend(ended.waited)
            if watch.observer is not None and watch.after_batch is not None:
                self.there(self.looked_back(plan, ended.run_id, watch.observer))
                await watch.after_batch()
            return ended.result

        return carried

    async def looked_back(self, plan: Plan, run_id: str, observer: Observer) -> LookedBack:
        """A run folded from its journal, with an observer; on the loop of the fleet."""

        def plan_of(name: str) -> Plan:
            return self.journal.plan_of(name)

        rows = list(self.journal.events(run_id))
        events = [event for row in rows[1:] if (event := recorded_event(row, plan_of)) is not None]
        return LookedBack(fold(plan, rows, plan_of, observer).machine, rows, events)


async def _short(seconds: float, **more: Any) -> None:
    await workflow.sleep(min(seconds, 0.001), **more)


@contextmanager
def fleet(server: str | None = None) -> Generator[Fleet]:
    """A fleet on a server, by default its own, in its own thread; waits of plans are shortened."""
    with tempfile.TemporaryDirectory() as made, ExitStack() as stack:
        address = server or stack.enter_context(serving(Path(made)))
        loop = asyncio.new_event_loop()
        thread = threading.Thread(target=loop.run_forever, daemon=True)
        thread.start()

        settings = TemporalSettings(
            address=address, queue=f"fleet-{Path(made).name}", blobs=str(Path(made) / "blobs")
        )

        async def opened() -> Fleet:
            journal = Journal.open(Path(made) / "journal.db", Durability.OFF)
            return Fleet(await reach(settings), journal, loop)

        async def closed(fleet: Fleet) -> None:
            await fleet.dismiss()
            fleet.journal.close()

        with patch.object(pending, "nap", _short):
            found = asyncio.run_coroutine_threadsafe(opened(), loop).result(_PATIENCE)
            try:
                found.there(found.employ())
                yield found
            finally:
                found.there(closed(found))
                loop.call_soon_threadsafe(loop.stop)
                thread.join()
                loop.close()
