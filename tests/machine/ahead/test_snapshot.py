"""A machine restored with early calls in flight continues like the original."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.machine.ahead.plans import AHEAD, FACTS, busy_plans, machine_of
from tests.machine.driving import Bench
from tests.plans import INPUTS, simulation_of

from callsheet.machine import Awaited, Cut, Finish, Machine, Spent, Succeeded
from callsheet.machine.snapshots import state_from_json, state_to_json

SEEDS = st.integers(0, 2**32 - 1)


def through_json(machine: Machine) -> Machine | None:
    """The machine restored from its state as JSON text; None if it has no state at this point."""
    state = machine.state()
    data = None if state is None else state_to_json(state)
    if state is None or data is None:
        return None
    return Machine.at(state_from_json(state.program, json.loads(json.dumps(data))))


@given(busy_plans(), SEEDS, SEEDS, st.sampled_from([2, 6]))
@settings(max_examples=100, deadline=None)
def test_restored_state_continues_with_same_commands(text: str, world: int, schedule: int, most: int) -> None:
    limits = replace(AHEAD, max_concurrency=most)
    run = simulation_of(machine_of(text, limits), world, schedule)
    result = run.run(INPUTS)
    whole, waiting = machine_of(text, limits), dict[str, Awaited]()
    for number, event in enumerate(run.events):
        waiting.pop(getattr(event, "key", ""), None)
        waiting |= {c.key: c for c in whole.feed(event) if not isinstance(c, Finish)}
        other = through_json(whole)
        if other is None:
            continue
        assert other.open_commands() == waiting
        reference = machine_of(text, limits)
        for past in run.events[: number + 1]:
            reference.feed(past)
        for later in run.events[number + 1 :]:
            assert other.feed(later) == reference.feed(later)
        assert other.result == reference.result == result
        assert other.usage() == reference.usage()


def bench() -> Bench:
    return Bench("S1: @WRITE (1)\nS2: @PURE (2) > $a\nS3: @PURE ($a)", limits=AHEAD, facts=FACTS)


def test_pending_outcome_survives_snapshot_with_usage() -> None:
    run = bench()
    run.feed(Succeeded("S2.0.1", "two", (), Spent(1, 2, 0.5)))
    restored: Any = through_json(run.machine)
    assert {key: command.args for key, command in restored.open_commands().items()} == {
        "S1.0.1": {"x": 1},
        "S3.0.1": {"x": "two"},
    }
    restored.feed(Succeeded("S1.0.1", None))
    assert (restored.variables(), restored.usage().tokens) == ({"a": "two"}, 3)


def test_outcome_with_remarks_waits_for_its_turn() -> None:
    run = bench()
    run.feed(Succeeded("S2.0.1", "two", (Cut("the page", 1, 2, "bytes"),)))
    assert through_json(run.machine) is None
    run.ok("S1.0.1")
    assert through_json(run.machine) is not None
