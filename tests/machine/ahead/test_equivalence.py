"""The schedule `auto` gives the same result as `sequential`, only sooner."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.machine.ahead.plans import AHEAD, FACTS, Ran, busy_plans, machine_of, ran
from tests.machine.laws import assert_slicing_changes_nothing, assert_usage_is_within
from tests.plans import INPUTS, LIMITS, duration, outcome, plan_texts, simulation_of

from callsheet.ir import Effect
from callsheet.machine import Awaited, CallTool, Command, Event, Finish, Limits, Result, RunAgent, Succeeded
from callsheet.machine.limits import AUTO
from callsheet.runtime.simulated import Simulation

SEEDS = st.integers(0, 2**32 - 1)
PLANS = busy_plans() | plan_texts()
_ROUNDING = 1e-6


def hold(one: Ran, early: Ran) -> None:
    """The same variables, answer and status, the same writes in order, the same notes, not slower."""
    assert early.result == one.result
    assert early.writes == one.writes
    assert early.story == one.story
    assert early.seconds <= one.seconds + _ROUNDING


@given(PLANS, SEEDS, SEEDS, st.sampled_from([2, 4, 50]))
@settings(max_examples=300, deadline=None)
def test_auto_equals_sequential(text: str, world: int, schedule: int, most: int) -> None:
    """Random plans, effects, outcomes and durations: only the time differs."""
    one = ran(text, world, schedule, LIMITS)
    early = ran(text, world, schedule, replace(AHEAD, max_concurrency=most))
    hold(one, early)
    assert early.result.usage.unused == 0 or one.result.refusal is not None


def reads_of_changing_world(text: str, world: int, schedule: int, limits: Limits) -> Result:
    """A run in a world that writes change: reads report how many writes had started and ended."""
    ends: list[float] = []

    def respond(command: Command) -> tuple[float, Event]:
        assert not isinstance(command, Finish)
        seconds, event = duration(schedule, command.key), outcome(world, command)
        if isinstance(command, CallTool) and FACTS[command.tool].effect is Effect.READ:
            seen = f"{len(ends)} begun, {sum(end <= run.now for end in ends)} ended"
            if isinstance(event, Succeeded):
                return seconds, event._replace(value=[event.value, seen])
        elif isinstance(command, RunAgent) or (
            isinstance(command, CallTool) and not FACTS[command.tool].effect.only_reads
        ):
            ends.append(run.now + seconds)
        return seconds, event

    run = Simulation(machine_of(text, limits), respond)
    return run.run(INPUTS)


@given(busy_plans().filter(lambda text: "@PARALLEL" not in text), SEEDS, SEEDS)
@settings(max_examples=200, deadline=None)
def test_early_reads_see_exactly_earlier_writes(text: str, world: int, schedule: int) -> None:
    """Except in groups, whose members may see each other's writes on any schedule."""
    one = reads_of_changing_world(text, world, schedule, LIMITS)
    assert reads_of_changing_world(text, world, schedule, replace(AHEAD, max_concurrency=50)) == one


tight = st.builds(
    Limits,
    max_steps=st.integers(1, 30),
    max_calls=st.none() | st.integers(0, 20),
    max_calls_by_tool=st.dictionaries(st.sampled_from(["READ", "LLM_EXTRACT", "WRITE"]), st.integers(0, 5)),
    max_model_calls=st.none() | st.integers(0, 5),
    max_bytes=st.none() | st.integers(0, 200),
    max_items=st.none() | st.integers(0, 6),
    max_repeats=st.none() | st.integers(0, 2),
    max_waiting=st.none() | st.sampled_from([0.0, 2.0]),
    window=st.just(1),
    max_concurrency=st.sampled_from([2, 8]),
    schedule=st.just("sequential"),
)


@given(busy_plans().filter(lambda text: "@PARALLEL" not in text), SEEDS, SEEDS, tight)
@settings(max_examples=200, deadline=None)
def test_no_step_is_refused_because_of_later_step(
    text: str, world: int, schedule: int, limits: Limits
) -> None:
    """Under every limit the run ends as the sequential one does.

    Of the members of a group, which one meets the limit depends on whose answer comes first, on any schedule.
    """
    hold(ran(text, world, schedule, limits), ran(text, world, schedule, replace(limits, schedule=AUTO)))


@given(busy_plans(), SEEDS, SEEDS, tight)
@settings(max_examples=200, deadline=None)
def test_limits_are_never_exceeded(text: str, world: int, schedule: int, limits: Limits) -> None:
    early = ran(text, world, schedule, replace(limits, schedule=AUTO))
    assert_usage_is_within(early.result.usage, limits, len(early.calls))


@given(PLANS, SEEDS, SEEDS)
@settings(max_examples=60, deadline=None)
def test_fold_at_any_event_leads_to_same_end(text: str, world: int, schedule: int) -> None:
    """Crash points: the same calls are open, including early ones, and the end is the same."""
    run = simulation_of(machine_of(text, AHEAD), world, schedule)
    result = run.run(INPUTS)
    for length in range(1, len(run.events) + 1):
        machine = machine_of(text, AHEAD)
        waiting: dict[str, Awaited] = {}
        for event in run.events[:length]:
            waiting.pop(getattr(event, "key", ""), None)
            for command in machine.feed(event):
                if not isinstance(command, Finish):
                    assert command.key not in waiting
                    waiting[command.key] = command
            assert all(machine.is_open(key) or key in machine.open_keys() for key in waiting)
        assert set(machine.open_keys()) == (set(waiting) if machine.result is None else set())
        ended = machine.result or simulation_of(machine, world, schedule + length).go_on(
            list(waiting.values())
        )
        assert ended == result


@given(PLANS, SEEDS, SEEDS, st.integers(1, 4))
@settings(max_examples=60, deadline=None)
def test_slicing_does_not_change_calls(text: str, world: int, schedule: int, units: int) -> None:
    run = simulation_of(machine_of(text, AHEAD), world, schedule)
    run.run(INPUTS)
    assert_slicing_changes_nothing(lambda: machine_of(text, AHEAD), run.events, units)


@given(PLANS, SEEDS, SEEDS, st.data())
@settings(max_examples=60, deadline=None)
def test_repeated_events_change_nothing(text: str, world: int, schedule: int, data: st.DataObject) -> None:
    run = simulation_of(machine_of(text, AHEAD), world, schedule)
    result = run.run(INPUTS)
    machine = machine_of(text, AHEAD)
    for number, event in enumerate(run.events):
        machine.feed(event)
        assert machine.feed(run.events[data.draw(st.integers(0, number))]) == []
    assert machine.result == result
