"""A graph that was done before is run in a better order: what took long starts first."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.runtime.test_graphs import FACTS, plan_of

from callsheet.ir import Plan, plan_hash
from callsheet.machine import Limits
from callsheet.ports.calls import CallContext, ToolFailed
from callsheet.runtime.gateway import Ports, Route
from callsheet.runtime.launch import Launch
from callsheet.runtime.runs import RunOutcome, resume_run, start_run
from callsheet.store import Durability, EventType, Journal

LAUNCH = Launch(facts=FACTS, limits=Limits(max_concurrency=2))
PLAN = plan_of("1:", "2:", "3:", "4:", "5:")


class World:
    """A tool that takes long for step 5, fails for some, and what was asked of it."""

    def __init__(self, *failing: str) -> None:
        self.failing = set(failing)
        self.calls: list[str] = []

    def ports(self) -> Ports:
        async def tool(args: dict[str, Any], context: CallContext) -> Any:
            self.calls.append(args["n"])
            await asyncio.sleep(0.05 if args["n"] == "5" else 0.001)
            if args["n"] in self.failing:
                raise ToolFailed("no")
            return args["n"]

        return Ports(lambda name: Route(tool))


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Journal]:
    with Journal.open(tmp_path / "journal.db", Durability.OFF) as opened:
        yield opened


async def run(journal: Journal, name: str, world: World, launch: Launch = LAUNCH) -> RunOutcome:
    return await start_run(PLAN, world.ports(), launch, journal, name)


def ranks_of_run(journal: Journal, name: str) -> dict[str, int]:
    start = next(journal.events(name))
    return (start.body or {}).get("ranks", {})


async def test_the_second_run_starts_the_long_step_first(journal: Journal) -> None:
    first, second = World(), World()
    await run(journal, "first", first)
    assert first.calls[:2] == ["1", "2"]
    assert ranks_of_run(journal, "first") == {}
    outcome = await run(journal, "second", second)
    assert second.calls[0] == "5"
    assert ranks_of_run(journal, "second")["5"] == 5
    assert outcome.result is not None
    assert outcome.result.variables == {f"v{n}": str(n) for n in range(1, 6)}


async def test_a_run_that_failed_tells_nothing_and_one_that_is_taken_up_keeps_its_order(
    journal: Journal,
) -> None:
    await run(journal, "first", World("1"))
    assert journal.step_seconds(plan_hash(PLAN)) == {}
    await run(journal, "second", World())
    await run(journal, "third", World("2"))
    repaired = World()

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


async def test_with_room_for_all_nothing_is_looked_up(journal: Journal) -> None:
    await run(journal, "first", World())
    await run(journal, "second", World(), Launch(facts=FACTS, limits=Limits(max_concurrency=5)))
    assert ranks_of_run(journal, "second") == {}


async def test_times_are_told_by_step(journal: Journal) -> None:
    await run(journal, "first", World())
    took = journal.step_seconds(plan_hash(PLAN))
    assert set(took) == {"1", "2", "3", "4", "5"}
    assert took["5"] >= 0.04
    assert journal.step_seconds("0" * 64) == {}
