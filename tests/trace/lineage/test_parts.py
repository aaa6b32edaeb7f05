"""Lineage from the last part of a run, or from where two runs differ, equals that from all events."""

from __future__ import annotations

from typing import Any
from zlib import crc32

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.plans import FACTS, INPUTS, outcome, plan_of, plan_texts, value_or_error
from tests.trace.projection.runs import ports_of, tell

from callsheet.ir import Plan
from callsheet.machine import Compile, PlanCompiled, ToolFacts
from callsheet.ports.calls import ToolFailed
from callsheet.runtime import recording
from callsheet.store import Journal, RunInfo
from callsheet.store.snapshots import SnapshotIntervals
from callsheet.trace import comparing
from callsheet.trace.alignment import Pair, RunDiff, diff_runs
from callsheet.trace.comparing import compare_runs
from callsheet.trace.lineage import record
from callsheet.trace.lineage.lineage import NONE, Lineage, Visit
from callsheet.trace.lineage.record import lineage_of, lineages_in
from callsheet.trace.lineage.slices import (
    Graph,
    Node,
    backward,
    forward,
    is_complete_slice,
    reached_by,
)

SEEDS = st.integers(0, 2**32 - 1)
_QUIET = (HealthCheck.function_scoped_fixture, HealthCheck.too_slow)


@pytest.fixture(autouse=True)
def frequent_snapshots(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recording, "INTERVALS", SnapshotIntervals(first=1, every=3, event_bytes=1 << 60))
    monkeypatch.setattr(comparing, "_FIRST_PART", 1)
    monkeypatch.setattr(comparing, "_GROWTH", 2)
    monkeypatch.setattr(comparing, "_LEAST_SKIPPED", 1)
    monkeypatch.setattr(record, "_FIRST_STAGE", 1)
    monkeypatch.setattr(record, "_GROWTH", 1)


def run_of(journal: Journal, plan: Plan, world: int, other: int = 0, share: int = 0) -> RunInfo:
    """A run in the world of a seed; for `share` in 16 calls the outcome is that of another world."""

    def seed(key: str) -> int:
        return other if crc32(key.encode()) % 16 < share else world

    def answer(name: str, key: str, _args: dict[str, Any]) -> Any:
        succeeds, value = value_or_error(seed(key), name, key)
        if not succeeds:
            raise ToolFailed(str(value))
        return value

    def replan(command: Compile) -> tuple[Plan, dict[str, ToolFacts]]:
        event = outcome(world, command)
        if not isinstance(event, PlanCompiled):
            raise ToolFailed("no plan")
        return event.plan, dict(event.facts)

    told = tell(journal, plan, ports_of(answer, replan), INPUTS, FACTS)
    return journal.find_run(told.rows[0].run_id)


def whole(journal: Journal, info: RunInfo) -> Lineage:
    plan = journal.plan_of(info.plan_hash)
    return lineage_of(plan, journal.entries(info.run_id), journal.plan_of)


def said(lineage: Lineage, graph: Graph) -> set[Any]:
    """A slice in words that are independent of the start of its lineage."""

    def node_of(node: Node) -> Any:
        if node.write == NONE:
            return None
        write = lineage.writes[node.write]
        by = None if write.visit == NONE else place(lineage, lineage.visits[write.visit])
        return write.name, node.path, repr(lineage.value_at(node)), write.seq, write.made, write.is_odd, by

    return {
        (node_of(node), *((f.role, f.argument, f.item, f.name, node_of(f.node)) for f in flows))
        for node, flows in graph.items()
    }


def place(lineage: Lineage, visit: Visit | None) -> Any:
    if visit is None:
        return None
    return visit.program, lineage.label(visit), tuple(lineage.keys_of(visit))


@given(plan_texts(), SEEDS)
@settings(max_examples=20, deadline=None, suppress_health_check=_QUIET)
def test_slice_of_last_part_equals_slice_of_run(journal: Journal, text: str, world: int) -> None:
    info = run_of(journal, plan_of(text), world)
    *parts, full = lineages_in(journal, info)
    assert full.begins == 1
    for part in parts:
        assert part.visited == len(full.visits)
        assert {n: repr(part.writes[w].value) for n, w in part.current.items()} == {
            n: repr(full.writes[w].value) for n, w in full.current.items()
        }
        for name in [*part.current, "answer"]:
            start = Node(part.write_named(name), ())
            if start.write == NONE:
                continue
            for way in (backward, forward):
                graph = way(part, start)
                if is_complete_slice(part, graph, start, is_forward=way is forward):
                    again = way(full, Node(full.write_named(name), ()))
                    assert said(part, graph) == said(full, again)


@given(plan_texts(), SEEDS)
@settings(max_examples=10, deadline=None, suppress_health_check=_QUIET)
def test_slice_up_to_last_write_equals_slice_of_run(journal: Journal, text: str, world: int) -> None:
    info = run_of(journal, plan_of(text), world)
    full = whole(journal, info)
    for name in full.current:
        again = said(full, backward(full, Node(full.write_named(name), ())))
        for part in lineages_in(journal, info, name):
            start = Node(part.write_named(name), ())
            graph = backward(part, start)
            if is_complete_slice(part, graph, start, is_forward=False):
                assert said(part, graph) == again


@given(plan_texts(), SEEDS)
@settings(max_examples=10, deadline=None, suppress_health_check=_QUIET)
def test_forward_lineage_in_last_part_equals_that_of_run(journal: Journal, text: str, world: int) -> None:
    info = run_of(journal, plan_of(text), world)
    full = whole(journal, info)
    for name in full.current:
        again = said(full, forward(full, Node(full.write_named(name), ())))
        for part in lineages_in(journal, info, name, is_forward=True):
            start = Node(part.write_named(name), ())
            if start.write == NONE:
                continue
            graph = forward(part, start)
            if is_complete_slice(part, graph, start, is_forward=True):
                assert said(part, graph) == again


@given(plan_texts(), SEEDS, st.sampled_from([0, 1, None]))
@settings(max_examples=20, deadline=None, suppress_health_check=_QUIET)
def test_forward_lineage_ends_early_only_if_complete(
    journal: Journal, text: str, world: int, depth: int | None
) -> None:
    info = run_of(journal, plan_of(text), world)
    full = whole(journal, info)
    for name in full.current:
        slice_of = forward(full, start := Node(full.write_named(name), ()), None, depth)
        again = said(full, slice_of), calls(full, slice_of)
        *stages, last = early_slices(journal, info, name, depth)
        assert last == again
        assert all(told in (None, again) for told in stages), start


def test_unread_value_is_reported_early(journal: Journal) -> None:
    text = "\n".join(f"S{n}: @LOOK (x=$v{n - 1}) > $v{n}" for n in range(1, 21))
    info = run_of(journal, plan_of(text), 1)
    full = whole(journal, info)
    start = Node(full.write_named("v3"), ())
    assert said(full, forward(full, start, None, 2)) in [
        told[0] for told in early_slices(journal, info, "v3", 2)[:-1] if told is not None
    ]


def early_slices(journal: Journal, info: RunInfo, name: str, depth: int | None) -> list[Any]:
    """The output of each stage: None if it may be incomplete."""
    found: list[Any] = []
    for part in lineages_in(journal, info, name, is_forward=True, ends_early=True):
        start = Node(part.write_named(name), ())
        graph = {} if start.write == NONE else forward(part, start, None, depth)
        is_all = start.write != NONE and is_complete_slice(part, graph, start, is_forward=True)
        found.append((said(part, graph), calls(part, graph)) if is_all else None)
    return found


def calls(lineage: Lineage, graph: Graph) -> Any:
    return [
        (c.key, c.tool, c.effect, c.role, c.argument, lineage.left.get(c.key), lineage.outcomes.get(c.key))
        for c in reached_by(lineage, graph)
    ]


def words(pairs: list[tuple[Pair, Lineage, Lineage]]) -> Any:
    return [
        (
            (p.old and (p.old.program, old.label(p.old)), p.new and (p.new.program, new.label(p.new))),
            p.what,
            p.follows,
        )
        for p, old, new in pairs
    ]


def whole_diff(
    journal: Journal, a: RunInfo, b: RunInfo
) -> tuple[RunDiff, list[tuple[Pair, Lineage, Lineage]]]:
    one, two = whole(journal, a), whole(journal, b)
    diff = diff_runs(one, two)
    return diff, [(pair, one, two) for pair in diff.differing]


@given(plan_texts(), SEEDS, SEEDS, st.integers(0, 6))
@settings(max_examples=20, deadline=None, suppress_health_check=_QUIET)
def test_comparison_from_divergence_equals_full_comparison(
    journal: Journal, text: str, world: int, other: int, share: int
) -> None:
    plan = plan_of(text)
    a, b = run_of(journal, plan, world), run_of(journal, plan, world, other, share)
    compared = compare_runs(journal, a, b)
    diff, pairs = whole_diff(journal, a, b)
    assert words([*compared.differences]) == words(pairs)
    assert (repr(compared.inputs), compared.alike) == (repr(diff.inputs), diff.alike)
    assert compared.upto is None


@given(plan_texts(), SEEDS, SEEDS, st.integers(1, 8))
@settings(max_examples=20, deadline=None, suppress_health_check=_QUIET)
def test_early_comparison_has_first_difference(
    journal: Journal, text: str, world: int, other: int, share: int
) -> None:
    plan = plan_of(text)
    a, b = run_of(journal, plan, world), run_of(journal, plan, world, other, share)
    compared = compare_runs(journal, a, b, most=1)
    diff, pairs = whole_diff(journal, a, b)
    assert words([*compared.differences[:1]]) == words(pairs[:1])
    if compared.upto is None:
        assert (words([*compared.differences]), compared.alike) == (words(pairs), diff.alike)
    else:
        assert len(compared.differences) > 1
