"""Plans of dependencies: steps start when their own dependencies are done, and fail alone."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from callsheet.diagnostics import CallsheetError
from callsheet.frontends.dag import parse_dag
from callsheet.ir import Plan
from callsheet.machine import (
    CallTool,
    Command,
    Failed,
    Finish,
    Limits,
    LimitsChanged,
    Machine,
    Reopened,
    Result,
    Started,
    Status,
    Succeeded,
    compile_plan,
)
from callsheet.runtime.simulated import Simulation


def step(index: int | str, *after: int | str, tool: str = "t", var: str | None = None, **more: Any) -> Any:
    named = {} if var is None else {"result_variable": var}
    waits = [str(name) for name in after]
    return {"index": str(index), "title": "x", "tool": tool, "args": {}, "depends_on": waits} | named | more


def plan_of(*steps: Any, **variables: Any) -> Plan:
    import json

    return parse_dag(json.dumps({"title": "p", "variables": variables, "steps": steps})).require()


class Bench:
    """A machine of a graph, and the keys of its open commands."""

    def __init__(self, *steps: Any, limits: Limits | None = None, **variables: Any) -> None:
        self.machine = Machine(compile_plan(plan_of(*steps, **variables)), limits)
        self.open: dict[str, Command] = {}
        self.asked: list[str] = []
        self.take(self.machine.feed(Started({})))

    def take(self, commands: list[Command]) -> None:
        for command in commands:
            if not isinstance(command, Finish):
                self.open[command.key] = command
                self.asked.append(command.key)

    def ok(self, key: str, value: Any = None) -> None:
        del self.open[key]
        self.take(self.machine.feed(Succeeded(key, value)))

    def fail(self, key: str) -> None:
        del self.open[key]
        self.take(self.machine.feed(Failed(key, "no")))

    @property
    def result(self) -> Result:
        assert self.machine.result is not None
        return self.machine.result


def test_step_starts_when_its_dependencies_are_done() -> None:
    bench = Bench(step(1), step(2), step(3, 1), step(4, 2, 3))
    assert list(bench.open) == ["1.0.1", "2.0.1"]
    bench.ok("1.0.1")
    assert list(bench.open) == ["2.0.1", "3.0.1"]
    bench.ok("3.0.1")
    assert list(bench.open) == ["2.0.1"]
    bench.ok("2.0.1")
    bench.ok("4.0.1")
    assert bench.result.status is Status.DONE


def test_longest_path_starts_first_under_limit() -> None:
    bench = Bench(step(1), step(2), step(3), step(4, 3), limits=Limits(max_concurrency=1))
    order: list[str] = []
    while bench.open:
        (key,) = bench.open
        order.append(key.split(".")[0])
        bench.ok(key)
    assert order == ["3", "1", "2", "4"]


def test_steps_independent_of_failure_finish() -> None:
    bench = Bench(step(1), step(2), step(3, 1), step(4, 3), step(5, 2))
    bench.fail("1.0.1")
    bench.ok("2.0.1")
    bench.ok("5.0.1")
    assert bench.asked == ["1.0.1", "2.0.1", "5.0.1"]
    assert bench.result.status is Status.FAILED
    assert bench.result.error == "step 1 failed: no"
    assert bench.result.ended_at == "1"


def test_failed_run_resumes_failed_steps() -> None:
    bench = Bench(step(1), step(2, 1), step(3), step(4, 2, 3, var="v"))
    bench.ok("1.0.1")
    bench.ok("3.0.1")
    bench.fail("2.0.1")
    assert bench.machine.may_reopen
    bench.take(bench.machine.feed(Reopened()))
    assert list(bench.open) == ["2@2.0.1"]
    bench.ok("2@2.0.1")
    bench.ok("4.0.1", "end")
    assert (bench.result.status, bench.result.response) == (Status.DONE, "end")
    assert not bench.machine.may_reopen
    assert bench.machine.feed(Reopened()) == []


def test_text_plan_is_not_reopened() -> None:
    from tests.machine.driving import Bench as TextBench

    bench = TextBench("S1: GOTO S9")
    assert bench.machine.feed(Reopened()) == []


@pytest.mark.parametrize(
    ("text", "names"), [("${nope}", "nope"), ("a ${nope}", "nope"), ("${d.x.y}", "d.x.y")]
)
def test_reference_to_nothing_fails_step_before_call(text: str, names: str) -> None:
    bench = Bench(step(1, args={"x": text}), d={"x": 1})
    assert bench.asked == []
    assert bench.result.error == f"step 1 failed: ${{{names}}} has no value"


def test_variable_of_skipped_step_has_no_value() -> None:
    """Only a step that cannot be skipped has certainly set its variable when its dependents start."""
    bench = Bench(
        step(1, var="flag"),
        step(2, 1, var="x", when="$flag == 'yes'"),
        step(3, 2, args={"of": "${x}", "with": "${flag}"}),
    )
    bench.ok("1.0.1", "no")
    assert bench.result.error == "step 3 failed: ${x} has no value"


def test_lowered_limits_apply_to_next_step_of_chain() -> None:
    """A single ready step starts only within the concurrency limit."""
    bench = Bench(step(1), step(2), step(3, 1), step(4, 3))
    bench.take(bench.machine.feed(LimitsChanged(Limits(max_concurrency=1))))
    bench.ok("1.0.1")
    assert list(bench.open) == ["2.0.1"]
    bench.ok("2.0.1")
    bench.ok("3.0.1")
    bench.ok("4.0.1")
    assert bench.result.status is Status.DONE


def test_values_within_text_are_json() -> None:
    bench = Bench(step(1, args={"x": "d=${d} t=${t} n=${n}"}), d={"y": 2}, t=True, n=None)
    (command,) = bench.open.values()
    assert isinstance(command, CallTool)
    assert command.args == {"x": 'd={"y": 2} t=true n=null'}


def test_step_with_false_condition_does_not_block_others() -> None:
    bench = Bench(step(1, when="$n > 5"), step(2, 1), n=1)
    assert list(bench.open) == ["2.0.1"]


def test_terminating_failure_waits_for_calls_in_flight() -> None:
    bench = Bench(step(1, on_fail={"terminate": "stop"}), step(2), step(3, 2))
    bench.fail("1.0.1")
    assert bench.machine.result is None
    bench.ok("2.0.1")
    assert (bench.result.status, bench.result.response, bench.result.terminated) == (
        Status.FAILED,
        "stop",
        True,
    )
    assert sorted(bench.asked) == ["1.0.1", "2.0.1"]


def test_exhausted_budget_fails_calling_steps() -> None:
    bench = Bench(*(step(n) for n in range(1, 7)), limits=Limits(max_calls=2, max_concurrency=6))
    for key in list(bench.open):
        bench.ok(key)
    assert len(bench.asked) == 2
    assert bench.result.status is Status.FAILED
    assert "max_calls" in (bench.result.error or "")


@pytest.mark.parametrize(
    ("steps", "why"),
    [
        ((step(1, 2), step(2, 1)), "cycle"),
        ((step(1, 1),), "cycle"),
        ((step(1, 9),), "waits for 9"),
    ],
)
def test_unschedulable_graph_is_refused(steps: Any, why: str) -> None:
    with pytest.raises(CallsheetError, match=rf"RUN001.*{why}"):
        compile_plan(plan_of(*steps))


@st.composite
def graphs(draw: st.DrawFn) -> list[list[int]]:
    count = draw(st.integers(1, 14))
    return [
        sorted(draw(st.sets(st.integers(1, n - 1), max_size=3))) if n > 1 else [] for n in range(1, count + 1)
    ]


@given(graphs(), st.integers(1, 5), st.integers(0, 2**32 - 1), st.floats(0, 0.4))
def test_every_answer_order_leads_to_same_end(
    graph: list[list[int]], most: int, seed: int, share: float
) -> None:
    """Each step at most once, none before its dependencies, never too many, and one result."""
    chance = random.Random(seed)
    failing = {n for n in range(1, len(graph) + 1) if chance.random() < share}
    results: list[tuple[Any, ...]] = []
    for _ in range(2):
        bench = Bench(
            *(step(n + 1, *after, var=f"v{n}") for n, after in enumerate(graph)),
            limits=Limits(max_concurrency=most),
        )
        done: set[int] = set()
        while bench.open:
            assert len(bench.open) <= most
            key = chance.choice(sorted(bench.open))
            number = int(key.split(".")[0])
            assert set(graph[number - 1]) <= done
            if number in failing:
                bench.fail(key)
            else:
                done.add(number)
                bench.ok(key, number)
        assert len(set(bench.asked)) == len(bench.asked)
        results.append((bench.result, done))
    assert results[0] == results[1]
    reached = {n for n in range(1, len(graph) + 1) if not _behind(graph, n, failing)}
    assert results[0][1] == reached


def _behind(graph: list[list[int]], number: int, failing: set[int]) -> bool:
    return number in failing or any(_behind(graph, before, failing) for before in graph[number - 1])


@given(graphs(), st.lists(st.floats(0.1, 9), min_size=14, max_size=14))
def test_unlimited_makespan_is_critical_path(graph: list[list[int]], times: list[float]) -> None:
    machine = Machine(
        compile_plan(plan_of(*(step(n + 1, *after) for n, after in enumerate(graph)))),
        Limits(max_concurrency=99),
    )

    def answer(command: Command) -> Any:
        assert isinstance(command, CallTool)
        return times[int(command.step) - 1], Succeeded(command.key, None)

    simulation = Simulation(machine, answer)
    simulation.run({})
    ends: list[float] = []
    for number, after in enumerate(graph):
        ends.append(times[number] + max((ends[before - 1] for before in after), default=0.0))
    assert simulation.now == pytest.approx(max(ends))
