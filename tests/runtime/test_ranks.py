"""A graph that ran before gets a better order: long steps start first."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from tests.runtime.conftest import Clock
from tests.runtime.test_graphs import FACTS, plan_of

from callsheet.ir import Plan, plan_hash
from callsheet.machine import Limits
from callsheet.ports.calls import CallContext, ToolFailed
from callsheet.runtime.gateway import Ports, Route
from callsheet.runtime.launch import Launch
from callsheet.runtime.runs import RunOutcome, resume_run, start_run
from callsheet.store import Durability, EventType, Journal

LAUNCH = Launch(facts=FACTS, limits=Limits(max_concurrency=2))
ENDS = EventType.OK, EventType.ERR
PLAN = plan_of("1:", "2:", "3:", "4:", "5:")


class World:
    """A tool that is slow for step 5, fails for some, and records its calls."""

    def __init__(self, journal: Journal, clock: Clock, *failing: str) -> None:
        self.failing = set(failing)
        self.calls: list[str] = []
        self._journal = journal
        self._clock = clock

    def ports(self) -> Ports:
        async def tool(args: dict[str, Any], context: CallContext) -> Any:
            self.calls.append(args["n"])
            await asyncio.sleep(0.001)
            if args["n"] == "5":
                await self._others_have_ended(context.run_id)
                self._clock.go_on(10)
            if args["n"] in self.failing:
                raise ToolFailed("no")
            return args["n"]

        return Ports(lambda name: Route(tool))

    async def _others_have_ended(self, run_id: str) -> None:
        """So that the time of step 5 is not attributed to others."""
        async with asyncio.timeout(60):
            while len([e for e in self._journal.events(run_id) if e.type in ENDS]) < 4:  # noqa: ASYNC110 - as it is written
                await asyncio.sleep(0.001)


@pytest.fixture
def journal(tmp_path: Path, clock: Clock) -> Iterator[Journal]:
    with Journal.open(tmp_path / "journal.db", Durability.OFF, clock=clock.now) as opened:
        yield opened


Worlds = Callable[..., World]


@pytest.fixture
def world(journal: Journal, clock: Clock) -> Worlds:
    return partial(World, journal, clock)


async def run(journal: Journal, name: str, world: World, launch: Launch = LAUNCH) -> RunOutcome:
    return await start_run(PLAN, world.ports(), launch, journal, name)


def ranks_of_run(journal: Journal, name: str) -> dict[str, int]:
    start = next(journal.events(name))
    return (start.body or {}).get("ranks", {})


async def test_second_run_starts_longest_step_first(journal: Journal, world: Worlds) -> None:
    first, second = world(), world()
    await run(journal, "first", first)
    assert first.calls[:2] == ["1", "2"]
    assert ranks_of_run(journal, "first") == {}
    outcome = await run(journal, "second", second)
    assert second.calls[0] == "5"
    assert ranks_of_run(journal, "second")["5"] == 5
    assert outcome.result is not None
    assert outcome.result.variables == {f"v{n}": str(n) for n in range(1, 6)}


async def test_failed_run_records_no_durations_and_resumed_run_keeps_order(
    journal: Journal, world: Worlds
) -> None:
    await run(journal, "first", world("1"))
    assert journal.step_seconds(plan_hash(PLAN)) == {}
    await run(journal, "second", world())
    await run(journal, "third", world("2"))
    repaired = world()

    @asynccontextmanager
    async def ports_for(start: Any, plan: Plan) -> AsyncGenerator[Ports]:
        yield repaired.ports()

    done = await resume_run(journal, "third", ports_for)
    assert done.result is not None
    assert done.result.error is None
    assert repaired.calls == ["2"]
    assert journal.verify("third") is None
    kinds = [event.type for event in journal.events("third")]
    assert kinds.count(EventType.REOPEN) == 1


async def test_durations_are_not_loaded_without_limit(journal: Journal, world: Worlds) -> None:
    await run(journal, "first", world())
    await run(journal, "second", world(), Launch(facts=FACTS, limits=Limits(max_concurrency=5)))
    assert ranks_of_run(journal, "second") == {}


async def test_durations_are_per_step(journal: Journal, world: Worlds) -> None:
    await run(journal, "first", world())
    took = journal.step_seconds(plan_hash(PLAN))
    assert set(took) == {"1", "2", "3", "4", "5"}
    assert took["5"] >= 10
    assert max(took[step] for step in "1234") < 10
    assert journal.step_seconds("0" * 64) == {}
