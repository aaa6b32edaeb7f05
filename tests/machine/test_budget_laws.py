"""What holds for every plan under every limit, on every schedule and after a crash at any event."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.machine.test_laws import SEEDS
from tests.plans import FACTS, INPUTS, LIMITS, duration, outcome, plan_of, plan_texts, simulation_of

from callsheet.machine import (
    Awaited,
    CallModel,
    CallTool,
    Command,
    Compile,
    Event,
    Failed,
    Finish,
    Limits,
    Machine,
    PlanCompiled,
    Result,
    RunAgent,
    Spent,
    Status,
    Succeeded,
    compile_plan,
)
from callsheet.machine.usage import size_of
from callsheet.runtime.simulated import Simulation

TOOLS = ("READ", "KEEP", "WRITE", "FAULTY", "LLM_EXTRACT", "RE-PLAN")
Keys = dict[str, str]
"""What was called, by the keys of the calls."""


class World:
    """Executes calls, and independently counts them and their usage."""

    def __init__(self, seed: int, schedule: int, *, repairs: bool = False) -> None:
        self._repairs = repairs
        self.called: Keys = {}
        self.spent: dict[str, Spent] = {}
        self.sizes: dict[str, int] = {}
        self._seed = seed
        self._schedule = schedule

    def respond(self, command: Command) -> tuple[float, Event]:
        assert isinstance(command, CallTool | CallModel | RunAgent | Compile)
        key = command.key
        self.called[key] = "RE-PLAN" if isinstance(command, Compile) else command.tool
        event = outcome(self._seed, command)
        assert isinstance(event, Succeeded | Failed | PlanCompiled)
        if not isinstance(command, CallTool):
            repairs = int(self._repairs and isinstance(command, Compile) and command.repairs)
            self.spent[key] = Spent(len(key), 3, 0.5, repairs=repairs)
            event = event._replace(spent=self.spent[key])
        if isinstance(event, Failed):
            self.sizes[key] = len(event.error.encode())
        elif isinstance(event, Succeeded):
            self.sizes[key] = size_of(event.value) if isinstance(event.value, str | list | dict) else 0
        return duration(self._schedule, key), event

    def tools(self) -> Counter[str]:
        """The calls by tool; the repair of a new plan is one more."""
        repairs = sum(spent.repairs for spent in self.spent.values())
        return Counter(self.called.values()) + Counter({"RE-PLAN": repairs})


limits = st.builds(
    Limits,
    max_steps=st.integers(1, 30),
    max_calls=st.none() | st.integers(0, 8),
    max_calls_by_tool=st.dictionaries(st.sampled_from(TOOLS), st.integers(0, 3), max_size=2),
    max_model_calls=st.none() | st.integers(0, 3),
    max_tokens=st.none() | st.integers(0, 40),
    max_cost=st.none() | st.sampled_from([0.0, 0.5, 1.0]),
    max_bytes=st.none() | st.integers(0, 200),
    max_items=st.none() | st.integers(0, 4),
    max_repeats=st.none() | st.integers(0, 2),
    max_waiting=st.none() | st.sampled_from([0.0, 2.0]),
    max_seconds=st.none() | st.floats(0, 60),
    max_replans=st.integers(0, 3),
    window=st.sampled_from([1, 3, 16]),
    retry_delay=st.sampled_from([0.0, 1.0]),
)


def machine_of(text: str, bounds: Limits) -> Machine:
    return Machine(compile_plan(plan_of(text), FACTS), bounds)


def crashing_run(text: str, bounds: Limits, world: World, crashes: list[int]) -> Result:
    """A run that dies after this many events each time, is folded from its events and resumed."""
    events: list[Event] = []
    run = Simulation(machine_of(text, bounds), world.respond)
    run.start(INPUTS)
    for moment in crashes:
        for _ in range(moment):
            if run.machine.result is not None or not run.step():
                break
        events += run.events
        if run.machine.result is not None:
            return run.machine.result
        machine, waiting = machine_of(text, bounds), dict[str, Awaited]()
        for event in events:
            waiting.pop(getattr(event, "key", ""), None)
            for command in machine.feed(event):
                assert not isinstance(command, Finish)
                waiting[command.key] = command
        run = Simulation(machine, world.respond, run.seconds)
        run.launch(list(waiting.values()))
    return run.go_on([])


def hold(result: Result, world: World, bounds: Limits) -> None:
    """No limit is exceeded, and the reported usage equals the counts of the world."""
    usage, tools = result.usage, world.tools()
    assert usage.calls_by_tool == tools
    assert usage.calls == tools.total()
    assert bounds.max_calls is None or usage.calls <= bounds.max_calls
    for tool, most in bounds.max_calls_by_tool.items():
        assert tools[tool] <= most
    assert usage.model_calls == tools["LLM_EXTRACT"] + tools["RE-PLAN"]
    assert bounds.max_model_calls is None or usage.model_calls <= bounds.max_model_calls
    assert usage.steps == result.steps_executed <= bounds.max_steps
    assert usage.replans <= bounds.max_replans
    assert bounds.max_waiting is None or usage.waited <= bounds.max_waiting
    if result.refusal is not None:
        assert (result.status, result.error) == (Status.FAILED, result.refusal.describe())


@given(plan_texts(), SEEDS, SEEDS, limits, st.lists(st.integers(0, 8), max_size=3))
@settings(max_examples=400, deadline=None)
def test_schedules_and_crashes_exceed_no_limit(
    text: str, seed: int, schedule: int, bounds: Limits, crashes: list[int]
) -> None:
    """Random plans, limits, schedules and crashes: only reserved calls are made."""
    world = World(seed, schedule)
    hold(crashing_run(text, bounds, world, crashes), world, bounds)


members = st.lists(
    st.sampled_from(
        [
            'RE-PLAN ("new")',
            'RE-PLAN ("new") ON_FAIL @RETRY(2)',
            '@LLM_EXTRACT ("x") ON_FAIL @RETRY(1)',
            "@READ (x=1)",
            "@FAULTY (x=1) ON_FAIL @RETRY(2)",
            '?FOREACH ($i IN [1, 2, 3]) THEN @LLM_EXTRACT ("$i")',
        ]
    ),
    min_size=2,
    max_size=4,
)


@given(members, SEEDS, SEEDS, limits, st.lists(st.integers(0, 4), max_size=2))
@settings(max_examples=200, deadline=None)
def test_repairs_beside_concurrent_calls_keep_limits(
    said: list[str], seed: int, schedule: int, bounds: Limits, crashes: list[int]
) -> None:
    bounds = replace(
        bounds, max_seconds=None
    )  # what a run that is broken off was about to hear counts nowhere
    lines = [f"  S{number}: {step}" for number, step in enumerate(said, 2)]
    text = "\n".join(["@PARALLEL {", *lines, "}", "S9: @READ (x=2)"])
    world = World(seed, schedule, repairs=True)
    hold(crashing_run(text, bounds, world, crashes), world, bounds)


@given(plan_texts(), SEEDS, SEEDS, st.sampled_from([1, 3, 16]))
@settings(max_examples=200, deadline=None)
def test_limit_of_two_calls_allows_no_third(text: str, seed: int, schedule: int, window: int) -> None:
    """At any concurrency; the run fails with the missing limit in the message."""
    world = World(seed, schedule)
    bounds = replace(LIMITS, max_calls=2, window=window)
    result = Simulation(machine_of(text, bounds), world.respond).run(INPUTS)
    assert len(world.called) <= 2
    hold(result, world, bounds)
    if result.refusal is not None and result.refusal.budget == "max_calls":
        assert result.refusal[1:3] == (2, 2)
        assert len(world.called) == 2


@given(plan_texts(), SEEDS, SEEDS, st.lists(st.integers(0, 8), max_size=3))
@settings(max_examples=200, deadline=None)
def test_usage_equals_sum_of_outcomes(text: str, seed: int, schedule: int, crashes: list[int]) -> None:
    """Tokens, cost, bytes and repairs equal those of the outcomes, also after crashes."""
    world = World(seed, schedule, repairs=True)
    result = crashing_run(text, LIMITS, world, crashes)
    hold(result, world, LIMITS)
    usage = result.usage
    assert usage.output_tokens == 3 * len(world.spent)
    assert usage.cost == 0.5 * len(world.spent)
    assert usage.input_tokens == sum(spent.input_tokens for spent in world.spent.values())
    assert usage.bytes == sum(world.sizes.values())


@given(plan_texts(), SEEDS, SEEDS)
@settings(max_examples=100, deadline=None)
def test_unreached_limit_changes_nothing(text: str, seed: int, schedule: int) -> None:
    """A run with exactly the limits that it needs is unchanged."""
    free = simulation_of(machine_of(text, LIMITS), seed, schedule).run(INPUTS)
    used = free.usage
    bounds = replace(
        LIMITS,
        max_calls=used.calls,
        max_calls_by_tool=used.calls_by_tool,
        max_model_calls=used.model_calls,
        max_bytes=used.bytes,
        max_waiting=used.waited,
        max_seconds=None,
        max_steps=max(1, used.steps) if free.refusal is None else LIMITS.max_steps,
    )
    again = simulation_of(machine_of(text, bounds), seed, schedule).run(INPUTS)
    assert again == free
    assert again.usage == used
