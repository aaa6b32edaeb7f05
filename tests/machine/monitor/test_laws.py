"""Laws of runs under a policy: labels follow from the events, and no marked value is unlabelled."""

from __future__ import annotations

import json

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.machine.monitor.guarding import PRIVATE
from tests.plans import FACTS, INPUTS, LIMITS, duration, outcome, plan_of, plan_texts

from callsheet.ir.control import control_of
from callsheet.ir.flow import flow_of
from callsheet.ir.labels import LITERAL, join
from callsheet.machine import CallTool, Command, Event, Finish, Machine, PlanCompiled, Succeeded, compile_plan
from callsheet.machine.monitor.enforcement import Enforcement
from callsheet.machine.monitor.judgement_cache import ImplicitFlows
from callsheet.machine.monitor.reads import ReadsCache
from callsheet.machine.monitor.snapshot import monitor_to_json
from callsheet.machine.snapshots import state_from_json, state_to_json
from callsheet.policy.calls import CallView, Judgement, Objection, Rule
from callsheet.policy.model import Policy
from callsheet.runtime.simulated import Simulation

SEEDS = st.integers(0, 2**32 - 1)
MARK = "§"


def _lenient(call: CallView) -> Judgement:
    given = join(argument.label for argument in call.arguments)
    return Judgement(result=given.join(PRIVATE if call.tool == "READ" else LITERAL))


def _strict(call: CallView) -> Judgement:
    judged = _lenient(call)
    if call.tool == "WRITE" and not judged.result.join(call.pc).is_public:
        return Judgement((Objection(Rule.FLOW, "private data would be written"),))
    return judged


def machine_of(text: str, *, strict: bool) -> Machine:
    rules = Enforcement(Policy(), _strict if strict else _lenient)
    return Machine(compile_plan(plan_of(text), FACTS), LIMITS, enforcement=rules)


def driven(machine: Machine, world: int, schedule: int, *, marks: bool = False) -> Simulation:
    def respond(command: Command) -> tuple[float, Event]:
        assert not isinstance(command, Finish)
        event = outcome(world, command)
        if isinstance(event, PlanCompiled):
            event = event._replace(context=LITERAL)
        if marks and isinstance(event, Succeeded) and isinstance(command, CallTool):
            if command.tool == "READ":
                event = event._replace(value=[MARK, event.value])
            elif command.tool == "KEEP":
                event = event._replace(value=command.args)
        return duration(schedule, command.key), event

    return Simulation(machine, respond)


def told(machine: Machine) -> object:
    assert machine.monitor is not None
    return monitor_to_json(machine.monitor)


def keys_of(run: Simulation) -> list[str]:
    return [launched.command.key for launched in run.launched if not isinstance(launched.command, Finish)]


@given(plan_texts(), SEEDS, SEEDS, st.booleans())
@settings(max_examples=60, deadline=None)
def test_labels_and_decisions_are_same_after_fold_or_restore(
    text: str, world: int, schedule: int, strict: bool
) -> None:
    run = driven(machine_of(text, strict=strict), world, schedule)
    result = run.run(INPUTS)
    whole, restored = machine_of(text, strict=strict), machine_of(text, strict=strict)
    rules = Enforcement(Policy(), _strict if strict else _lenient)
    for event in run.events:
        assert restored.feed(event) == whole.feed(event)
        assert told(restored) == told(whole)
        state = restored.state()
        data = None if state is None else state_to_json(state)
        if state is not None and data is not None:
            read = state_from_json(state.program, json.loads(json.dumps(data)), enforcement=rules)
            restored = Machine.at(read)
            assert told(restored) == told(whole)
            assert restored.open_commands() == whole.open_commands()
    assert whole.result == restored.result == result


@given(plan_texts(), SEEDS, SEEDS)
@settings(max_examples=150, deadline=None)
def test_values_with_marked_part_are_never_public(text: str, world: int, schedule: int) -> None:
    machine = machine_of(text, strict=False)
    run = driven(machine, world, schedule, marks=True)
    run.run(INPUTS)
    for launched in run.launched:
        call = launched.command
        if isinstance(call, CallTool) and MARK in repr(call.args):
            assert call.label is not None
            assert not call.label.is_public
    assert machine.monitor is not None
    labels = machine.monitor.variables()
    for name, value in machine.variables().items():
        assert MARK not in repr(value) or not labels[name][0].is_public


@given(plan_texts(), SEEDS, SEEDS)
@settings(max_examples=60, deadline=None)
def test_permissive_policy_changes_no_result(text: str, world: int, schedule: int) -> None:
    free = driven(Machine(compile_plan(plan_of(text), FACTS), LIMITS), world, schedule)
    bound = driven(machine_of(text, strict=False), world, schedule)
    assert free.run(INPUTS) == bound.run(INPUTS)
    assert keys_of(free) == keys_of(bound)


@given(plan_texts())
@settings(max_examples=60, deadline=None)
def test_fast_read_labels_equal_full_ones(text: str) -> None:
    program = compile_plan(plan_of(text), FACTS)
    quick, full = (ReadsCache(program, LITERAL) for _ in range(2))
    control, slot_of = control_of(flow_of(program.plan)), program.slot_of
    for code in program.steps:
        assert set(quick.slots(code)) == set(full.reads(code).slots)
        told, _ = ImplicitFlows(program, LITERAL, counts_bits=False).note(code, PRIVATE)
        assert set(told) == {slot_of[name] for name in control.variables(code.number)}
