"""Runs that branch off: with nothing changed they end as their parents did, wherever they branch off."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.plans import FACTS, INPUTS, plan_of, plan_texts
from tests.runtime.test_drivers_agree import LIMITS, SEEDS, ports_of, simulation

from callsheet.ir import Plan
from callsheet.machine import Limits, Result
from callsheet.runtime.doubt import RunOutcome
from callsheet.runtime.forking import fork, rerun
from callsheet.runtime.gateway import Ports
from callsheet.runtime.runs import Launch, resume_run, start_run
from callsheet.store import Durability, Journal
from callsheet.store.records import Start
from callsheet.store.replay import Folded

SAME = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Journal]:
    with Journal.open(tmp_path / "journal.db", Durability.OFF) as opened:
        yield opened


def ran(journal: Journal, plan: Plan, world: int, limits: Limits = LIMITS) -> tuple[str, Result]:
    run_id = f"run-{len(journal.runs())}"
    launch = Launch(facts=FACTS, inputs=INPUTS, limits=limits)
    ended = asyncio.run(start_run(plan, ports_of(world), launch, journal, run_id)).result
    assert ended is not None
    return run_id, ended


def resumed(journal: Journal, run_id: str, world: int) -> RunOutcome:
    @asynccontextmanager
    async def ports_for(start: Start, plan: Plan) -> AsyncGenerator[Ports]:
        yield ports_of(world)

    return asyncio.run(resume_run(journal, run_id, ports_for))


def carried_on(folded: Folded, world: int) -> Result:
    return folded.machine.result or simulation(folded.machine, world).go_on(list(folded.waiting.values()))


@given(plan_texts(), SEEDS, st.sampled_from(["sequential", "auto"]))
@SAME
def test_a_fork_with_nothing_changed_ends_as_its_parent(
    journal: Journal, text: str, world: int, schedule: Any
) -> None:
    """At every event: mid-block, mid-loop, between two attempts; and nothing is in doubt."""
    run_id, ended = ran(journal, plan_of(text), world, replace(LIMITS, schedule=schedule))
    for at in range(1, journal.find_run(run_id).events + 1):
        made = fork(journal, run_id, at)
        assert made.folded.in_doubt() == {}
        assert carried_on(made.folded, world) == ended


@given(plan_texts(), SEEDS, st.integers(1, 10_000))
@SAME
def test_a_fork_in_the_journal_is_whole_and_is_carried_on(
    journal: Journal, text: str, world: int, at: int
) -> None:
    """The local driver takes it up; its chain verifies, and its events say what the parent's did."""
    run_id, ended = ran(journal, plan_of(text), world)
    at = 1 + at % journal.find_run(run_id).events
    child = f"{run_id}-fork"
    fork(journal, run_id, at).write(journal, child)
    assert journal.verify(child) is None
    outcome = resumed(journal, child, world)
    assert outcome.result == ended
    assert journal.verify(child) is None
    before, after = (list(journal.events(name)) for name in (run_id, child))
    told = [(e.type, e.key, e.step, e.body, e.ts) for e in before[1:at]]
    assert [(e.type, e.key, e.step, e.body, e.ts) for e in after[1:at]] == told
    info = journal.find_run(child)
    assert (info.parent_run, info.forked_at, [c.run_id for c in journal.children(run_id)]) == (
        run_id,
        at,
        [child],
    )


@given(plan_texts(), SEEDS, st.sampled_from(["sequential", "auto"]))
@SAME
def test_a_rerun_from_any_visit_ends_as_its_parent(
    journal: Journal, text: str, world: int, schedule: Any
) -> None:
    run_id, ended = ran(journal, plan_of(text), world, replace(LIMITS, schedule=schedule))
    machine = fork(journal, run_id, journal.find_run(run_id).events).folded.machine
    for code, visits in zip(machine.program.steps, machine.visits, strict=True):
        for visit in range(1, visits + 1):
            made = rerun(journal, run_id, f"{machine.generation}{code.id}@{visit}")
            assert carried_on(made.folded, world) == ended
