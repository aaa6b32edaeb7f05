"""Inspecting a run with secrets follows the path of the run and discloses no secret."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.plans import FACTS, INPUTS, plan_of, plan_texts
from tests.runtime.test_drivers_agree import LIMITS, SEEDS, ports_of
from tests.runtime.test_forking import graphs

from callsheet.ir import Plan
from callsheet.machine.notes import Note, NoteKind
from callsheet.runtime.launch import Launch
from callsheet.runtime.runs import start_run
from callsheet.sealing.sealer import LABEL, Sealer
from callsheet.store import Durability, EventType, Journal
from callsheet.store.folded import Folded
from callsheet.store.replay import fold
from callsheet.store.seal_keys import KeyStore
from callsheet.trace.lineage.record import lineage_of

SAME = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
_seal = Sealer.sealed


def seal_outcomes(sealer: Sealer, kind: str, body: Any, data: bytes, secret: Any = None) -> Any:
    """Every result and every error is sealed completely."""
    every: Any = {("value",): LABEL, ("error",): LABEL} if kind in (EventType.OK, EventType.ERR) else secret
    return _seal(sealer, kind, body, data, every)


@pytest.fixture
def journal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Journal]:
    monkeypatch.setattr(Sealer, "sealed", seal_outcomes)
    with Journal.open(tmp_path / "journal.db", Durability.OFF, keys=KeyStore(tmp_path / "key", {})) as opened:
        yield opened


def ran(journal: Journal, plan: Plan, world: int, schedule: Any = "sequential") -> str:
    run_id = f"run-{len(journal.runs())}"
    launch = Launch(
        facts=FACTS, inputs=INPUTS, limits=replace(LIMITS, schedule=schedule), secret=frozenset(INPUTS)
    )
    asyncio.run(start_run(plan, ports_of(world), launch, journal, run_id))
    return run_id


def told(journal: Journal, run_id: str, *, opened: bool) -> tuple[Folded, list[Note]]:
    notes = list[Note]()
    rows = journal.events(run_id)
    rows = journal.opener(run_id).events(rows) if opened else rows
    plan = journal.plan(journal.find_run(run_id).plan_hash)[0]
    return fold(plan, rows, journal.plan_of, notes.append), notes


def check_way(journal: Journal, run_id: str) -> None:
    """The inspected run follows its path: the same steps skipped, failed and repeated, to the same end."""
    (there, before), (seen, notes) = (told(journal, run_id, opened=opened) for opened in (True, False))
    assert [(n.kind, n.step, n.var) for n in notes] == [(n.kind, n.step, n.var) for n in before]
    assert not seen.has_diverged
    result, other = there.machine.result, seen.machine.result
    assert result is not None
    assert other is not None
    assert (other.status, other.ended_at, other.usage) == (result.status, result.ended_at, result.usage)
    plan = journal.plan(journal.find_run(run_id).plan_hash)[0]
    lineage = lineage_of(plan, journal.entries(run_id), journal.plan_of)
    skipped = [note.step for note in before if note.kind is NoteKind.SKIPPED]
    visits = [lineage.programs[v.program].steps[v.number].id for v in lineage.visits if v.skipped]
    assert visits == skipped


@given(plan_texts(), SEEDS, st.sampled_from(["sequential", "auto"]))
@SAME
def test_fully_sealed_run_is_explained_along_its_path(
    journal: Journal, text: str, world: int, schedule: Any
) -> None:
    run_id = ran(journal, plan_of(text), world, schedule)
    check_way(journal, run_id)


@given(graphs(), SEEDS)
@SAME
def test_fully_sealed_graph_is_explained_along_its_path(journal: Journal, graph: Plan, world: int) -> None:
    check_way(journal, ran(journal, graph, world))
