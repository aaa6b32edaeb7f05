"""Virtual time, asyncio, and the replay of a journal agree."""

from __future__ import annotations

import asyncio
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.plans import FACTS as OF_TOOLS
from tests.plans import INPUTS, duration, outcome, plan_of, plan_texts, value_or_error
from tests.structured_crashes import without_waits
from tests.structured_plans import programs

from callsheet.ir import JSON, Plan
from callsheet.machine import (
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
    ToolFacts,
    compile_plan,
)
from callsheet.machine.tree.compiling import OWN_FACTS
from callsheet.ports.calls import CallContext, ToolFailed
from callsheet.runtime.gateway import Ports, Route
from callsheet.runtime.launch import Launch
from callsheet.runtime.runs import run_unrecorded, start_run
from callsheet.runtime.simulated import Simulation
from callsheet.store import EventType, Journal
from callsheet.store.replay import fold

LIMITS = Limits(max_steps=25, window=3, retry_delay=0.0)
SEEDS = st.integers(0, 2**32 - 1)
FACTS = {**OF_TOOLS, **OWN_FACTS}
PLANS = plan_texts().map(plan_of) | programs().map(without_waits)
"""Plans of both versions of the language."""


def simulation(machine: Machine, world: int) -> Simulation:
    def respond(command: Command) -> tuple[float, Event]:
        assert not isinstance(command, Finish)
        return duration(world, command.key), outcome(world, command)

    return Simulation(machine, respond)


def simulated(plan: Plan, world: int) -> Result:
    return simulation(Machine(compile_plan(plan, FACTS), LIMITS), world).run(INPUTS)


def ports_of(world: int) -> Ports:
    """Tools of the same world on a real loop; some answer a few turns later than others."""

    async def answer(tool: str, key: str) -> JSON:
        for _ in range(int(duration(world + 1, key)) % 4):
            await asyncio.sleep(0)
        succeeds, value = value_or_error(world, tool, key)
        if not succeeds:
            raise ToolFailed(str(value))
        return value

    def route(name: str) -> Route:
        async def call(args: dict[str, Any], context: CallContext) -> JSON:
            return await answer(name, context.key)

        return Route(call)

    async def model(command: CallModel, _context: CallContext) -> JSON:
        return await answer(command.tool, command.key)

    async def compiler(command: Compile, _context: CallContext) -> tuple[Plan, dict[str, ToolFacts]]:
        event = outcome(world, command)
        if isinstance(event, Failed):
            raise ToolFailed(event.error)
        assert isinstance(event, PlanCompiled)
        return event.plan, dict(event.facts)

    return Ports(route, model, None, compiler)


@given(PLANS, SEEDS)
@settings(max_examples=80, deadline=None)
def test_local_driver_ends_like_simulation(plan: Plan, world: int) -> None:
    """Local and simulated driver: the same status, answer, variables and count of steps."""
    launch = Launch(facts=FACTS, inputs=INPUTS, limits=LIMITS)
    assert asyncio.run(run_unrecorded(plan, ports_of(world), launch)) == simulated(plan, world)


@given(PLANS, SEEDS)
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_fold_of_journal_equals_run_state(journal: Journal, plan: Plan, world: int) -> None:
    """A journaled run ends like an unrecorded one, and folding its events gives the same end."""
    run_id = f"run-{len(journal.runs())}"
    launch = Launch(facts=FACTS, inputs=INPUTS, limits=LIMITS)
    ended = asyncio.run(start_run(plan, ports_of(world), launch, journal, run_id)).result
    folded = fold(plan, journal.events(run_id), journal.plan_of)
    assert ended == simulated(plan, world)
    assert folded.machine.result == ended
    assert (folded.ended, folded.waiting) == (True, {})
    assert journal.verify(run_id) is None


@given(PLANS, SEEDS)
@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_truncated_journal_leads_to_same_end(journal: Journal, plan: Plan, world: int) -> None:
    """Whatever a crash leaves of the events: the fold waits for what is missing and goes on to the same end.

    What left without an outcome and may not be repeated is in doubt, and nothing else is.
    """
    run_id = f"run-{len(journal.runs())}"
    launch = Launch(facts=FACTS, inputs=INPUTS, limits=LIMITS)
    ended = asyncio.run(start_run(plan, ports_of(world), launch, journal, run_id)).result
    rows = list(journal.events(run_id))
    for length in range(1, len(rows) + 1):
        folded = fold(plan, rows[:length], journal.plan_of)
        left = {row.key for row in rows[:length] if row.type is EventType.INTENT}
        settled = {row.key for row in rows[:length] if row.type is not EventType.INTENT}
        calls = [c for c in folded.waiting.values() if isinstance(c, CallTool) and c.tool == "WRITE"]
        assert set(folded.in_doubt()) == {c.key for c in calls if c.key in left - settled}
        machine = folded.machine
        assert (machine.result or simulation(machine, world).go_on(list(folded.waiting.values()))) == ended


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters()),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4),
    max_leaves=10,
)


@given(VALUES)
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_values_round_trip_through_journal(journal: Journal, value: JSON) -> None:
    """Type, text and order of keys are those that the run had."""

    async def give(args: dict[str, Any], context: CallContext) -> JSON:
        return value

    plan = plan_of('S1: @READ ($in) > $a\nS2: @RESPOND ("<$a> $in")')
    run_id = f"run-{len(journal.runs())}"
    launch = Launch(facts=FACTS, inputs={"in": value})
    ended = asyncio.run(start_run(plan, Ports(lambda name: Route(give)), launch, journal, run_id)).result
    folded = fold(plan, journal.events(run_id), journal.plan_of).machine.result
    assert ended is not None
    assert folded is not None
    assert (folded.response, repr(folded.variables)) == (ended.response, repr(ended.variables))
