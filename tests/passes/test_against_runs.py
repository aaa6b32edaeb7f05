"""Findings of the checks hold in every run of a plan, as compared with the machine."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.plans import FACTS, LIMITS, duration, outcome, plan_of, plan_texts

from callsheet.ir import Plan
from callsheet.ir.flow import Place, uses_of
from callsheet.machine import Command, Compile, Event, Failed, Finish, Machine, compile_plan
from callsheet.machine.notes import Note, NoteKind
from callsheet.passes import findings
from callsheet.runtime.simulated import Simulation

Started = tuple[int, frozenset[str]]


def started_steps(plan: Plan, world: int) -> list[Started]:
    """The steps that a run starts, each with the variables that were set at that moment.

    No new plan can be compiled, so that every step is one of this plan.
    """
    numbers = {step.id: number for number, step in enumerate(plan.steps)}
    seen: list[Started] = []

    def note(said: Note) -> None:
        if said.kind is NoteKind.STARTED:
            seen.append((numbers[said.step], frozenset(machine.variables())))

    def respond(command: Command) -> tuple[float, Event]:
        assert not isinstance(command, Finish)
        answer = Failed(command.key, "no plan") if isinstance(command, Compile) else outcome(world, command)
        return duration(world, command.key), answer

    machine = Machine(compile_plan(plan, FACTS), LIMITS, note)
    Simulation(machine, respond).run({})
    return seen


@given(plan_texts(), st.integers(0, 2**32 - 1))
@settings(max_examples=150, deadline=None)
def test_unreachable_steps_are_never_run(text: str, world: int) -> None:
    """A step with CHK010 is never started."""
    plan = plan_of(text)
    never = {id_ for f in findings(plan) if f.code == "CHK010" for id_ in f.names}

    assert never.isdisjoint(plan.steps[number].id for number, _ in started_steps(plan, world))


@given(plan_texts(), st.integers(0, 2**32 - 1))
@settings(max_examples=150, deadline=None)
def test_variable_findings_agree_with_runs(text: str, world: int) -> None:
    """At each start: CHK001 and CHK002 name unset variables, and other variables are set."""
    plan = plan_of(text)
    said = {
        (f.step, f.names[0]): f.code
        for f in findings(plan)
        if f.code in ("CHK001", "CHK002", "CHK003") and f.place is not Place.FAILURE
    }
    for number, known in started_steps(plan, world):
        for use in uses_of(plan.steps[number], number):
            if use.place is not Place.FAILURE:
                code = said.get((number, use.ref.name))
                is_set = use.ref.name in known
                asks = use.place is Place.CONDITION and f"EMPTY(${use.ref.name}" in text
                assert code == "CHK003" or asks or is_set is (code is None), (
                    plan.steps[number].id,
                    use,
                    code,
                )


@given(plan_texts(), st.integers(0, 2**32 - 1))
@settings(max_examples=150, deadline=None)
def test_run_in_endless_loop_uses_up_its_budget(text: str, world: int) -> None:
    """Once a step with CHK013 or CHK014 has started, the run starts steps up to the limit."""
    plan = plan_of(text)
    endless = {id_ for f in findings(plan) if f.code in ("CHK013", "CHK014") for id_ in f.names}
    started = started_steps(plan, world)

    if any(plan.steps[number].id in endless for number, _ in started):
        assert len(started) == LIMITS.max_steps
