"""The simulated driver: virtual time, in which any schedule can be tried."""

from __future__ import annotations

import pytest
from tests.runtime.tools import FACTS, plan_of

from callsheet.machine import CallTool, Command, Event, Machine, Started, Succeeded, compile_plan
from callsheet.runtime.simulated import Launch, Simulation


def simulation(text: str, seconds: dict[str, float]) -> Simulation:
    def respond(command: Command) -> tuple[float, Event]:
        assert isinstance(command, CallTool)
        return seconds.get(command.tool, 1.0), Succeeded(command.key, command.tool)

    return Simulation(Machine(compile_plan(plan_of(text), FACTS)), respond)


def test_steps_take_sum_of_durations_and_groups_maximum() -> None:
    run = simulation("S1: @A ()\n@PARALLEL {\n S2: @B ()\n S3: @C ()\n}", {"A": 2, "B": 5, "C": 3})
    run.run()
    assert run.now == 7.0


def test_events_happen_in_time_order() -> None:
    run = simulation("@PARALLEL {\n S1: @A ()\n S2: @B ()\n}", {"A": 5, "B": 3})
    run.run({"x": 1})
    assert run.events == [Started({"x": 1}), Succeeded("S2.0.1", "B"), Succeeded("S1.0.1", "A")]


def test_simultaneous_events_happen_in_launch_order() -> None:
    run = simulation("@PARALLEL {\n S1: @A ()\n S2: @B ()\n}", {})
    run.run()
    assert [getattr(event, "key", "") for event in run.events] == ["", "S1.0.1", "S2.0.1"]


def test_launches_are_reported_with_time() -> None:
    run = simulation("S1: @A (x=1)\nS2: @B ()", {"A": 2})
    run.run()
    assert run.launched[:2] == [
        Launch(0.0, CallTool("S1.0.1", "S1", "A", {"x": 1})),
        Launch(2.0, CallTool("S2.0.1", "S2", "B", {})),
    ]


def test_machine_waiting_for_nothing_is_test_error() -> None:
    run = simulation("S1: @A ()", {})
    machine = Machine(compile_plan(plan_of("S1: @A ()"), FACTS))
    machine.feed(Started({}))
    with pytest.raises(RuntimeError, match="never started"):
        Simulation(machine, run._respond).go_on([])
