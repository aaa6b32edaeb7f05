"""What holds for every plan: order of arrival, crash points and the window change nothing."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.machine.laws import assert_slicing_changes_nothing
from tests.plans import FACTS, INPUTS, LIMITS, plan_of, plan_texts, simulation_of

from callsheet.machine import (
    Awaited,
    CallModel,
    CallTool,
    Cancelled,
    Finish,
    Limits,
    Machine,
    Result,
    RunAgent,
    Started,
    Status,
    compile_plan,
)
from callsheet.machine.keys import parse_key

SEEDS = st.integers(0, 2**32 - 1)
Called = Counter[tuple[str, str, str]]


def machine_of(text: str, limits: Limits = LIMITS) -> Machine:
    return Machine(compile_plan(plan_of(text), FACTS), limits)


def simulate(text: str, world: int, schedule: int, limits: Limits = LIMITS) -> tuple[Result, Called]:
    run = simulation_of(machine_of(text, limits), world, schedule)
    result = run.run(INPUTS)
    return result, Counter(
        (c.key, c.tool, repr(c.args))
        for _, c in run.launched
        if isinstance(c, CallTool | CallModel | RunAgent)
    )


def is_diverted(text: str, key: str) -> bool:
    """Whether the call is an item of a FOREACH whose ON_FAIL leads away from it."""
    step = plan_of(text).step(parse_key(key).step)
    return (
        step is not None
        and step.foreach is not None
        and step.on_fail is not None
        and step.on_fail.then is not None
    )


@given(plan_texts(), SEEDS, SEEDS, SEEDS)
@settings(max_examples=200, deadline=None)
def test_arrival_order_changes_no_result(text: str, world: int, first: int, second: int) -> None:
    """Confluence: on any two schedules a run has the same result.

    It makes the same calls as well, but for items that a FOREACH with ON_FAIL GOTO or TERMINATE
    had already started, or had not yet, when one of them failed.
    """
    one, calls = simulate(text, world, first)
    other, other_calls = simulate(text, world, second)
    assert one == other
    differing = (calls - other_calls) + (other_calls - calls)
    assert all(is_diverted(text, key) for key, _, _ in differing)
    assert set(calls.values()) <= {1}


@given(plan_texts(), SEEDS, SEEDS, st.integers(1, 20))
@settings(max_examples=200, deadline=None)
def test_window_changes_no_result(text: str, world: int, schedule: int, window: int) -> None:
    """Parallel items are equivalent to sequential ones; sequential execution makes the fewest calls."""
    alone, fewest = simulate(text, world, schedule, replace(LIMITS, window=1))
    result, calls = simulate(text, world, schedule, replace(LIMITS, window=window))
    assert result == alone
    assert fewest <= calls
    assert all(is_diverted(text, key) for key, _, _ in calls - fewest)


@given(plan_texts(), SEEDS, SEEDS)
@settings(max_examples=80, deadline=None)
def test_fold_of_any_prefix_leads_to_same_end(text: str, world: int, schedule: int) -> None:
    """Crash points: the same commands are open, and carrying them out gives the same result."""
    run = simulation_of(machine_of(text), world, schedule)
    result = run.run(INPUTS)
    for length in range(1, len(run.events) + 1):
        machine = machine_of(text)
        waiting: dict[str, Awaited] = {}
        for event in run.events[:length]:
            waiting.pop(getattr(event, "key", ""), None)
            for command in machine.feed(event):
                if not isinstance(command, Finish):
                    waiting[command.key] = command
        assert set(machine.open_keys()) == (set(waiting) if machine.result is None else set())
        later = simulation_of(machine, world, schedule + length)
        ended = machine.result or later.go_on(list(waiting.values()))
        assert ended == result


@given(plan_texts(), SEEDS, SEEDS)
@settings(max_examples=80, deadline=None)
def test_same_events_give_same_commands(text: str, world: int, schedule: int) -> None:
    """Determinism: a second machine fed the same events issues the same commands, event by event."""
    run = simulation_of(machine_of(text), world, schedule)
    run.run(INPUTS)
    one, other = (machine_of(text) for _ in range(2))
    for event in run.events:
        assert one.feed(event) == other.feed(event)
        assert one.variables() == other.variables()
        assert one.open_keys() == other.open_keys()


@given(plan_texts(), SEEDS, SEEDS, st.integers(1, 4))
@settings(max_examples=80, deadline=None)
def test_slicing_changes_no_command(text: str, world: int, schedule: int, units: int) -> None:
    run = simulation_of(machine_of(text), world, schedule)
    run.run(INPUTS)
    assert_slicing_changes_nothing(lambda: machine_of(text), run.events, units)


@given(plan_texts(), SEEDS, SEEDS, st.data())
@settings(max_examples=80, deadline=None)
def test_repeated_events_change_nothing(text: str, world: int, schedule: int, data: st.DataObject) -> None:
    """Every event except a decision may be delivered any number of times."""
    run = simulation_of(machine_of(text), world, schedule)
    result = run.run(INPUTS)
    machine = machine_of(text)
    for number, event in enumerate(run.events):
        machine.feed(event)
        again = run.events[data.draw(st.integers(0, number))]
        assert machine.feed(again) == []
    assert machine.result == result


@given(plan_texts(), SEEDS, SEEDS)
@settings(max_examples=80, deadline=None)
def test_run_ends_within_budget(text: str, world: int, schedule: int) -> None:
    """Whatever the jumps, the executed steps never exceed the limit."""
    result, _ = simulate(text, world, schedule)
    assert result.steps_executed <= LIMITS.max_steps


@given(plan_texts(), SEEDS, SEEDS, st.integers(0, 30))
@settings(max_examples=80, deadline=None)
def test_cancelling_at_any_moment_ends_run(text: str, world: int, schedule: int, moment: int) -> None:
    """After Cancelled nothing is open, and the variables are those of that moment."""
    run = simulation_of(machine_of(text), world, schedule)
    run.run(INPUTS)
    machine = machine_of(text)
    for event in run.events[: moment + 1]:
        machine.feed(event)
    if machine.result is not None:
        return
    variables = machine.variables()
    machine.feed(Cancelled("enough"))
    assert machine.result is not None
    assert machine.result.status is Status.CANCELLED
    assert machine.result.variables == variables
    assert machine.open_keys() == ()


def test_machine_starts_only_with_start_event() -> None:
    machine = Machine(compile_plan(plan_of("S1: @READ (1)"), FACTS))
    assert machine.open_keys() == ()
    assert len(machine.feed(Started({}))) == 1
