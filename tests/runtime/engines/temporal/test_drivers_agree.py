"""Temporal, virtual time and the local driver agree on plans, call by call; a sample of conformance cases.

All of them: `python tests/conformance/run.py AREA FILE.jsonl --on temporal`.
More generated plans: CALLSHEET_EXAMPLES=300 in the environment.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.conformance import dag_there, ltp_there
from tests.conformance.dag_form import DagCase, read_dag_cases
from tests.conformance.form import Case, read_cases
from tests.plans import INPUTS
from tests.runtime.test_drivers_agree import FACTS, LIMITS, PLANS, ports_of, simulation
from tests.temporal.fleet import Fleet, fleet

from callsheet.ir import JSON, Effect, Plan
from callsheet.machine import Limits, Machine, ToolFacts, compile_plan
from callsheet.ports.calls import CallContext
from callsheet.runtime.engines.temporal.wire import command_to_json
from callsheet.runtime.gateway import Ports, Route
from callsheet.runtime.launch import Launch
from callsheet.runtime.runs import run_unrecorded

CASES = Path(dag_there.__file__).with_name("cases")
LTP = ("flow-01", "foreach-01", "group-02", "failure-05", "replan-01", "agent-01")
DAG = ("replan-a18",)
SEEDS = st.integers(0, 2**32 - 1)
EXAMPLES = int(os.environ.get("CALLSHEET_EXAMPLES", "5"))
IN_TURN = Limits(max_steps=25, window=1, retry_delay=0.0, schedule="sequential")


@pytest.fixture(scope="module")
def carried(server: str) -> Iterator[Fleet]:
    with fleet(server) as found:
        yield found


@pytest.mark.parametrize(
    "case", [c for c in read_cases(CASES / "ltp.jsonl") if c.id in LTP], ids=lambda c: c.id
)
def test_text_case_is_met(case: Case, carried: Fleet) -> None:
    assert ltp_there.differences(case, carried) == []


@pytest.mark.parametrize(
    "case", [c for c in read_dag_cases(CASES / "dag.jsonl") if c.id in DAG], ids=lambda c: c.id
)
def test_graph_case_is_met(case: DagCase, carried: Fleet) -> None:
    assert dag_there.differences(case, carried) == []


class Made(NamedTuple):
    """A call as it reached a port: its key, what was called, and its arguments as JSON."""

    key: str
    what: str
    args: str


def heard(ports: Ports, made: list[Made]) -> Ports:
    """The ports, which add each call to `made`."""

    def route(name: str) -> Route | None:
        inner = ports.route(name)
        if inner is None:
            return None

        async def call(args: dict[str, Any], context: CallContext) -> JSON:
            made.append(Made(context.key, name, json.dumps(args)))
            return await inner.handler(args, context)

        return Route(call)

    def told(port: Any) -> Any:
        async def call(command: Any, context: CallContext) -> Any:
            data = command_to_json(command)
            made.append(Made(context.key, type(command).__name__, json.dumps(data)))
            return await port(command, context)

        return None if port is None else call

    return Ports(route, told(ports.model), told(ports.agent), told(ports.compiler))


def _keys_of_unsafe(made: list[Made]) -> list[Made]:
    """The calls that must not be repeated, in the order of their keys."""
    return sorted(call for call in made if not FACTS.get(call.what, ToolFacts(Effect.READ)).effect.may_rerun)


@pytest.mark.parametrize("is_in_turn", [True, False], ids=["one at a time", "ahead and side by side"])
@given(plan=PLANS, world=SEEDS)
@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_plan_makes_the_calls_of_the_local_driver_and_ends_like_it(
    carried: Fleet, plan: Plan, world: int, *, is_in_turn: bool
) -> None:
    """The same calls under the same keys with the same arguments, and the end of the simulation.

    Where calls are made ahead or side by side, how many of those that may be repeated are made and not used
    depends on which answer comes first.
    """
    limits = IN_TURN if is_in_turn else LIMITS
    launch = Launch(facts=FACTS, inputs=INPUTS, limits=limits)
    here: list[Made] = []
    there: list[Made] = []
    local = asyncio.run(run_unrecorded(plan, heard(ports_of(world), here), launch))
    ended = carried.there(carried.run(plan, heard(ports_of(world), there), launch)).result
    if is_in_turn:
        assert sorted(there) == sorted(here)
    else:
        assert _keys_of_unsafe(there) == _keys_of_unsafe(here)
        args = {call.key: call for call in here}
        assert {call for call in there if call.key in args} <= set(here)
    virtual = simulation(Machine(compile_plan(plan, FACTS), limits), world).run(INPUTS)
    assert ended == local == virtual
