"""Temporal, virtual time and the local driver agree on plans; a sample of the conformance cases.

All of them: `python tests/conformance/run.py AREA FILE.jsonl --on temporal`.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.conformance import dag_there, ltp_there
from tests.conformance.dag_form import DagCase, read_dag_cases
from tests.conformance.form import Case, read_cases
from tests.plans import FACTS, INPUTS, plan_of, plan_texts
from tests.runtime.test_drivers_agree import LIMITS, ports_of, simulated
from tests.temporal.fleet import Fleet, fleet

from callsheet.runtime.launch import Launch

CASES = Path(dag_there.__file__).with_name("cases")
LTP = ("flow-01", "foreach-01", "group-02", "failure-05", "replan-01", "agent-01")
DAG = ("replan-a18",)
SEEDS = st.integers(0, 2**32 - 1)


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


@given(plan_texts(), SEEDS)
@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_plan_ends_like_simulation(carried: Fleet, text: str, world: int) -> None:
    plan = plan_of(text)
    launch = Launch(facts=FACTS, inputs=INPUTS, limits=LIMITS)
    assert carried.there(carried.run(plan, ports_of(world), launch)).result == simulated(plan, world)
