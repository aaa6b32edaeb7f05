"""A machine restored from its state continues like the one that processed all events."""

from __future__ import annotations

import json
from inspect import isdatadescriptor
from typing import Any

import pytest
from hypothesis import given, settings
from tests.machine.driving import FACTS, Bench, plan_of
from tests.machine.test_laws import SEEDS, machine_of
from tests.plans import INPUTS, plan_texts, simulation_of

from callsheet.machine import Awaited, Decision, Event, Finish, Limits, Machine, compile_plan
from callsheet.machine.notes import Note, NoteKind
from callsheet.machine.run import Run
from callsheet.machine.snapshots import NotRestorable, state_from_json, state_to_json


def through_json(machine: Machine) -> Machine | None:
    """The machine restored from its state as JSON text; None if it has no state at this point."""
    state = machine.state()
    data = None if state is None else state_to_json(state)
    if state is None or data is None:
        return None
    read = state_from_json(state.program, json.loads(json.dumps(data)))
    return Machine.at(read)


def feed(machine: Machine, event: Event, waiting: dict[str, Awaited]) -> list[Any]:
    waiting.pop(getattr(event, "key", ""), None)
    commands = machine.feed(event)
    waiting |= {c.key: c for c in commands if not isinstance(c, Finish)}
    return list(commands)


@given(plan_texts(), SEEDS, SEEDS)
@settings(max_examples=150, deadline=None)
def test_restored_run_continues_like_full_replay(text: str, world: int, schedule: int) -> None:
    """For every prefix of the events: the same open commands, and then the same commands one by one."""
    run = simulation_of(machine_of(text), world, schedule)
    result = run.run(INPUTS)
    whole, waiting, restored = machine_of(text), dict[str, Awaited](), 0
    for number, event in enumerate(run.events):
        feed(whole, event, waiting)
        other = through_json(whole)
        if other is None:
            continue
        restored += 1
        assert other.open_commands() == waiting
        assert list(other.open_keys()) == list(whole.open_keys())
        reference = machine_of(text)
        for past in run.events[: number + 1]:
            reference.feed(past)
        for later in run.events[number + 1 :]:
            assert other.feed(later) == reference.feed(later)
            assert list(other.variables().items()) == list(reference.variables().items())
        assert other.result == reference.result == result
    assert restored or len(run.events) <= 2


@given(plan_texts(), SEEDS, SEEDS)
@settings(max_examples=60, deadline=None)
def test_restoring_at_every_event_leads_to_same_end(text: str, world: int, schedule: int) -> None:
    run = simulation_of(machine_of(text), world, schedule)
    result = run.run(INPUTS)
    machine = machine_of(text)
    for event in run.events:
        machine = through_json(machine) or machine
        machine.feed(event)
    assert machine.result == result


def test_failed_steps_survive_snapshot() -> None:
    bench = Bench("S1: @WRITE (1)\nS2: @WRITE (2)\nS3: @WRITE (3)")
    bench.fail("S1.0.1")
    bench.machine = through_json(bench.machine) or pytest.fail("nothing to restore")
    bench.ok("S2.0.1")
    bench.fail("S3.0.1")
    assert bench.result.failed_steps == ("S1", "S3")


def test_wait_doubt_and_decision_survive_snapshot() -> None:
    bench = Bench('S1: @WRITE (1) > $a ON_FAIL @RETRY(2, delay=2)\nS2: @RESPOND ("$a")')
    bench.fail("S1.0.1")
    bench.machine = through_json(bench.machine) or pytest.fail("nothing to restore")
    assert bench.machine.open_commands() == bench.waiting
    bench.fire("S1.0.2")
    bench.machine = through_json(bench.machine) or pytest.fail("nothing to restore")
    bench.decide("S1.0.2", Decision.RETRY)
    assert bench.machine.open_commands() == bench.waiting
    bench.ok("S1.0.2", "x")
    assert bench.result.response == "x"


def test_machine_has_no_state_before_start_and_after_end() -> None:
    machine = Machine(compile_plan(plan_of("S1: @READ (1)"), FACTS))
    assert machine.state() is None
    bench = Bench("S1: @RESPOND (1)")
    assert bench.machine.state() is None


def test_values_are_exported_individually() -> None:
    bench = Bench('S1: @READ (1) > $a\nS2: ?FOREACH ($i IN $a) THEN @READ ($i) > $b\nS3: @READ ("$b")')
    bench.ok("S1.0.1", ["large", "values"])
    bench.ok("S2.0.1", "one")
    state = bench.machine.state()
    assert state is not None
    seen: list[Any] = []

    def keep(value: Any) -> int:
        seen.append(value)
        return len(seen) - 1

    data = state_to_json(state, keep)
    assert "large" not in json.dumps(data)
    assert ["large", "values"] in seen
    machine = Machine.at(state_from_json(state.program, data or {}, lambda n: seen[n]))
    assert machine.open_commands() == bench.waiting


def test_observer_receives_executed_steps_after_restore() -> None:
    bench = Bench("S1: @READ (1) > $a\nS2: @READ (2) > $b\nS3: @READ (3) > $c")
    bench.ok("S1.0.1", 1)
    state, notes = bench.machine.state(), list[Note]()
    assert state is not None
    Machine.at(state, notes.append)
    assert [(n.kind, n.step) for n in notes] == [(NoteKind.BEFORE, "S1"), (NoteKind.BEFORE, "S2")]


def state_data(text: str = "S1: @READ (1) > $a\nS2: @READ (2) > $b") -> dict[str, Any]:
    state = Bench(text).machine.state()
    assert state is not None
    data = state_to_json(state)
    assert data is not None
    return data


@pytest.mark.parametrize(
    "change",
    [
        {"format": 1},
        {"program": "another"},
        {"slots": [None]},
        {"visits": [1, 1]},
        {"frames": []},
        {"frames": [[9, "", False, None, [], 0, 1, False, True, [], [None], None]]},
        {"asking": [[7, 0, 1, "S1.0.1", {}, [], None, "digest"]]},
        {"counts": 3},
        {"last": None},
        {"group": 3},
    ],
)
def test_invalid_data_is_refused(change: dict[str, Any]) -> None:
    program = compile_plan(plan_of("S1: @READ (1) > $a\nS2: @READ (2) > $b"), FACTS)
    state_from_json(program, state_data())
    with pytest.raises(NotRestorable):
        state_from_json(program, state_data() | change)
    with pytest.raises(NotRestorable):
        state_from_json(program, {})


def test_state_of_different_plan_is_refused() -> None:
    program = compile_plan(plan_of("S1: @READ (1) > $b\nS2: @READ (2) > $a"), FACTS)
    with pytest.raises(NotRestorable):
        state_from_json(program, state_data())


def test_state_contains_every_field_of_machine() -> None:
    """What a run takes over from another one; a new field has to be taken, or to be named here.

    Those that are named belong to the driver, say what the last event did, follow from the program and the
    rules, or have no value while there is a state.
    """
    fields = {name for name, found in vars(Run).items() if isdatadescriptor(found)}
    follows = {
        "observer",
        "limits",
        "program",
        "gated",
        "result",
        "units_left",
        "is_paused",
        "unfilled",
        "held",
        "withdrawn",
        "told",
    }
    bench = Bench("S1: @READ (1)")
    other = Machine(bench.machine.program)
    before = {name: getattr(other, name) for name in fields}
    other.take_over(bench.machine)
    taken = {name for name in fields if getattr(other, name) is getattr(bench.machine, name)}
    taken |= {"asking"} if other.asking.open() is not before["asking"].open() else set()
    assert fields - follows <= taken


def test_limits_survive_snapshot() -> None:
    bench = Bench("S1: @READ (1) > $a\nS2: GOTO S1", limits=Limits(max_steps=4))
    bench.ok("S1.0.1", 1)
    bench.machine = through_json(bench.machine) or pytest.fail("nothing to restore")
    bench.ok("S1@2.0.1", 1)
    assert "max_steps" in (bench.result.error or "")
