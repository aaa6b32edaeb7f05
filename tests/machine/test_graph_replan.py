"""A failed graph is replanned once, by events that replay from any prefix of the journal."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.dag_plans import dag_plans
from tests.machine.test_graph import plan_of, step

from callsheet.ir import Order, Plan
from callsheet.machine import (
    Cancelled,
    Command,
    Compile,
    Event,
    Fact,
    Failed,
    Finish,
    Limits,
    Machine,
    PlanCompiled,
    Reopened,
    Result,
    Spent,
    Started,
    Status,
    Succeeded,
    compile_plan,
)
from callsheet.machine.notes import Note, NoteKind
from callsheet.machine.progress import Progress, with_own_ids, without_past
from callsheet.machine.snapshots import state_from_json, state_to_json

FIRST = (step(1, tool="a", var="va"), step(2, 1, tool="bad"), step(3, 2, tool="c"))
TWICE = Limits(replans_on_failure=2)


class Run:
    """A machine of a graph that is fed by hand; every event is kept."""

    def __init__(self, *steps: Any, limits: Limits = TWICE, **variables: Any) -> None:
        self.plan = plan_of(*steps, **variables)
        self.limits = limits
        self.notes: list[Note] = []
        self.machine = Machine(compile_plan(self.plan), limits, self.notes.append)
        self.events: list[Event] = []
        self.open: dict[str, Command] = {}
        self.feed(Started({}))

    def feed(self, event: Event) -> None:
        self.events.append(event)
        self.open.pop(getattr(event, "key", ""), None)
        for command in self.machine.feed(event):
            if not isinstance(command, Finish):
                self.open[command.key] = command

    def fail(self, tool: str, error: str = "boom") -> None:
        """Let every open call succeed, except those of a tool, until the planner is asked or the run ends."""
        while self.machine.result is None and self.asked is None:
            command = next(iter(self.open.values()))
            is_bad = getattr(command, "tool", "") == tool.upper()
            self.feed(Failed(command.key, error) if is_bad else Succeeded(command.key, f"of {command.key}"))

    @property
    def asked(self) -> Compile | None:
        """The open planner request."""
        return next((c for c in self.open.values() if isinstance(c, Compile)), None)

    def answer(self, *steps: Any, **variables: Any) -> None:
        """Let the planner return these steps, as the gateway passes them on."""
        asked = self.asked
        assert asked is not None
        assert asked.progress is not None
        plan = with_own_ids(without_past(plan_of(*steps, **variables), asked.progress), self.plan, 1)
        self.feed(PlanCompiled(asked.key, plan, {}))

    def refuse(self, error: str) -> None:
        """Let the planner fail."""
        assert self.asked is not None
        self.feed(Failed(self.asked.key, error))

    @property
    def result(self) -> Result:
        assert self.machine.result is not None
        return self.machine.result


def test_planner_is_asked_only_where_allowed() -> None:
    run = Run(*FIRST, limits=Limits())
    run.fail("bad")
    assert (run.result.status, run.result.error) == (Status.FAILED, "step 2 failed: boom")


def test_planner_receives_done_failed_and_remaining_steps() -> None:
    run = Run(*FIRST)
    run.fail("bad")
    assert run.asked is not None
    progress = run.asked.progress
    assert progress is not None
    assert [s.id for s in progress.completed] == ["1"]
    assert [(s.id, error) for s, error in progress.failed] == [("2", "boom")]
    assert [s.id for s in progress.remaining] == ["3"]
    assert run.asked.variables == {"va": "of 1.0.1"}
    assert run.asked.step == "2"


def test_new_steps_use_variables_and_have_unique_names() -> None:
    run = Run(*FIRST)
    run.fail("bad")
    run.answer(step(1, tool="alt", var="w", args={"x": "${va}"}), step(2, 1, tool="c", args={"y": "${w}"}))
    (call,) = run.open.values()
    assert (call.key, getattr(call, "args", None)) == ("r1/r1-1.0.1", {"x": "of 1.0.1"})
    run.fail("none")
    assert run.result.status is Status.DONE
    assert run.result.variables == {"va": "of 1.0.1", "w": "of r1/r1-1.0.1"}
    assert run.machine.usage().replans == 1
    finished = [note.step for note in run.notes if note.kind is NoteKind.FINISHED]
    assert finished == ["1", "r1-1", "r1-2"]


def test_failed_new_steps_are_not_replanned() -> None:
    run = Run(*FIRST)
    run.fail("bad")
    run.answer(step(1, tool="alt"))
    run.fail("alt", "also down")
    assert (run.result.status, run.result.error) == (Status.FAILED, "step r1-1 failed: also down")
    assert run.asked is None


def test_planner_without_plan_is_asked_once_more_with_reason() -> None:
    run = Run(*FIRST)
    run.fail("bad")
    run.refuse("no tool is called @GHOST")
    assert run.asked is not None
    assert run.asked.key == "RE-PLAN.0.2"
    assert run.asked.progress is not None
    assert run.asked.progress.refused == "no tool is called @GHOST"
    run.refuse("still none")
    assert run.result.error == "step 2 failed: boom; no new plan: still none"
    assert run.machine.usage().replans == 0


@pytest.mark.parametrize(
    "plan",
    [
        Plan((), Order.DAG),
        Plan(plan_of(step(1)).steps),
        plan_of(step(1)),
        plan_of(step("x", "y"), step("y", "x")),
        plan_of(step("x", "nowhere")),
    ],
    ids=["no steps", "text order", "used index", "cycle", "unknown dependency"],
)
def test_impossible_plan_is_refused_like_missing_one(plan: Plan) -> None:
    run = Run(*FIRST)
    run.fail("bad")
    assert run.asked is not None
    run.feed(PlanCompiled(run.asked.key, plan, {}))
    assert run.asked is not None
    assert run.asked.key == "RE-PLAN.0.2"
    assert run.machine.usage().replans == 0


def test_new_steps_may_depend_on_done_steps() -> None:
    run = Run(*FIRST)
    run.fail("bad")
    run.answer(step("n", 1, tool="alt", args={"x": "${va}"}))
    assert list(run.open) == ["r1/r1-n.0.1"]


def test_terminating_step_is_not_replanned() -> None:
    run = Run(step(1, tool="bad", on_fail={"terminate": "enough"}))
    run.fail("bad")
    assert (run.result.response, run.result.terminated) == ("enough", True)


def test_independent_steps_finish_before_replan() -> None:
    run = Run(step(1, tool="bad"), step(2, tool="slow"), step(3, 2, tool="after"), step(4, 1, tool="lost"))
    run.feed(Failed("1.0.1", "boom"))
    assert run.asked is None
    run.fail("none")
    assert run.asked is not None
    assert run.asked.progress is not None
    assert [s.id for s in run.asked.progress.completed] == ["2", "3"]
    assert [s.id for s in run.asked.progress.remaining] == ["4"]


def test_run_is_cancelled_during_planning() -> None:
    run = Run(*FIRST)
    run.fail("bad")
    assert run.asked is not None
    key = run.asked.key
    run.feed(Cancelled("stop"))
    assert run.result.status is Status.CANCELLED
    assert run.machine.feed(PlanCompiled(key, plan_of(step("n")), {})) == []
    assert run.machine.open_keys() == ()


def test_planner_calls_and_usage_count_against_budget() -> None:
    run = Run(*FIRST, limits=Limits(replans_on_failure=5, max_tokens=100))
    run.fail("bad")
    assert run.asked is not None
    run.feed(Failed(run.asked.key, "prose", (Fact("prompt", "revision/1"),), Spent(90, 20)))
    assert run.result.error == "step 2 failed: boom; no new plan: prose"
    assert (run.machine.usage().model_calls, run.machine.usage().input_tokens) == (1, 90)
    repaired = Run(*FIRST, limits=Limits(replans_on_failure=1, max_model_calls=2))
    repaired.fail("bad")
    assert repaired.asked is not None
    assert repaired.asked.repairs
    repaired.feed(Failed(repaired.asked.key, "prose", (), Spent(90, 20, repairs=1)))
    assert repaired.machine.usage().model_calls == 2
    spent = Run(*FIRST, limits=Limits(replans_on_failure=1, max_calls=2))
    spent.fail("bad")
    assert spent.result.error == "step 2 failed: boom"


def test_failed_new_steps_are_retried_on_reopening() -> None:
    run = Run(*FIRST)
    run.fail("bad")
    run.answer(step(1, tool="alt", var="w"), step(2, 1, tool="bad"))
    run.fail("bad")
    run.feed(Reopened())
    assert list(run.open) == ["r1/r1-2@2.0.1"]
    run.fail("none")
    assert run.result.status is Status.DONE


def test_step_index_equal_to_planner_key_is_unambiguous() -> None:
    run = Run(step("RE-PLAN", tool="a"), step("bad", "RE-PLAN", tool="bad"))
    run.fail("bad")
    assert run.asked is not None
    assert run.asked.key == "RE-PLAN+.0.1"


def test_repeated_or_late_answer_changes_nothing() -> None:
    run = Run(*FIRST)
    run.fail("bad")
    assert run.asked is not None
    asked = run.asked
    run.answer(step(1, tool="alt"))
    before = run.machine.open_keys()
    assert run.machine.feed(PlanCompiled(asked.key, plan_of(step("n")), {})) == []
    assert run.machine.feed(Failed(asked.key, "late")) == []
    assert run.machine.open_keys() == before


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(dag_plans(3), dag_plans(3), st.integers(1, 9))
def test_indexes_of_new_steps_are_unique_with_their_dependencies(old: Plan, new: Plan, number: int) -> None:
    made = with_own_ids(new, old, number)
    ids = [s.id for s in (*old.steps, *made.steps)]
    assert len(set(ids)) == len(ids)
    name = {before.id: after.id for before, after in zip(new.steps, made.steps, strict=True)}
    for before, after in zip(new.steps, made.steps, strict=True):
        assert after.depends_on == tuple(name[other] for other in before.depends_on or ())
        assert json.dumps(after.id)  # an index that any plan may have
    compile_plan(made)


def test_long_or_used_names_are_made_unique() -> None:
    old = plan_of(step("r1-1"), step("r1-2"), step("x" * 64))
    new = plan_of(step("1"), step("2", "1"), step("x" * 64, "2"), step("x" * 63, "2"))
    made = with_own_ids(new, old, 1)
    assert len({s.id for s in (*old.steps, *made.steps)}) == 7
    assert all(len(s.id) <= 64 for s in made.steps)


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_every_prefix_and_snapshot_leads_to_same_run(data: st.DataObject) -> None:
    steps = data.draw(st.integers(1, 5), "steps")
    graph = [
        step(
            n,
            *data.draw(st.sets(st.integers(1, n - 1)) if n > 1 else st.just(set())),
            tool=f"t{n}",
            var=f"v{n}",
        )
        for n in range(1, steps + 1)
    ]
    run = Run(*graph, limits=Limits(replans_on_failure=2, max_concurrency=data.draw(st.integers(1, 3))))
    while run.machine.result is None:
        command = run.open[data.draw(st.sampled_from(sorted(run.open)))]
        what = data.draw(st.sampled_from(["ok", "ok", "fail"]))
        if not isinstance(command, Compile):
            run.feed(Succeeded(command.key, 1) if what == "ok" else Failed(command.key, "no"))
        elif what == "ok":
            run.answer(step(1, tool="n1", var="w"), step(2, 1, tool="n2"))
        else:
            run.refuse("no plan")
    for upto in range(len(run.events)):
        again = Machine(compile_plan(run.plan), run.limits)
        for event in run.events[:upto]:
            again.feed(event)
        assert again.result is None
        machines = [again]
        state = again.state()
        saved = None if state is None else state_to_json(state)
        if saved is not None:
            assert state is not None
            other = Machine.at(state_from_json(state.program, json.loads(json.dumps(saved))))
            assert other.open_commands() == again.open_commands()
            machines.append(other)
        for machine in machines:
            for event in run.events[upto:]:
                machine.feed(event)
            assert machine.result == run.result
            assert machine.usage() == run.machine.usage()


def test_progress_of_graph_is_in_plan_order() -> None:
    plan = plan_of(step(1), step(2), step(3))
    progress = Progress(plan, plan.steps[:1], ((plan.steps[1], "no"),), plan.steps[2:])
    assert without_past(plan_of(step("n", 1, 2)), progress).steps[0].depends_on == ("2",)
