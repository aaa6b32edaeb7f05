"""A call that is not judged again because another looked the same is judged as it would have been."""

from __future__ import annotations

import json

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.machine.monitor.test_laws import keys_of, told
from tests.plans import FACTS, INPUTS, LIMITS, duration, outcome, plan_of, plan_texts

from callsheet.ir.labels import LITERAL, read_label
from callsheet.machine import (
    Answered,
    Ask,
    Command,
    Event,
    Finish,
    Machine,
    PlanCompiled,
    Verdict,
    compile_plan,
)
from callsheet.machine.monitor.enforcement import Enforcement
from callsheet.machine.snapshots import state_from_json, state_to_json
from callsheet.policy.calls import CallView, Judgement
from callsheet.policy.judge import Judge
from callsheet.policy.model import Implicit, Policy, ReplanRule, ToolRule, When
from callsheet.runtime.simulated import Simulation

SEEDS = st.integers(0, 2**32 - 1)
LABELS = st.sampled_from(
    [read_label(text) for text in ("T/pub", "U/pub", "T/pub", "U/pub", "U/priv", "T/secret")]
)
TOOLS = st.builds(
    ToolRule,
    egress=st.booleans(),
    control=st.sampled_from([(), (), ("x",), ("y",)]),
    audience_arg=st.sampled_from([None, None, "y"]),
    trusted_audience=st.sampled_from([(), ("x",)]),
    destructive=st.sampled_from([False, False, False, True]),
    idempotent=st.booleans(),
    key_arg=st.sampled_from(["idempotency_key", "y"]),
    approval=st.sampled_from([When.NEVER, When.NEVER, When.IF_UNTRUSTED_OR_OUTSIDE]),
    returns=LABELS,
    no_echo=st.booleans(),
)
STEPS = st.frozensets(st.sampled_from(["S1", "S2", "S3"]), max_size=1)
POLICIES = st.builds(
    Policy,
    tools=st.fixed_dictionaries(dict.fromkeys(FACTS, TOOLS)),
    implicit=st.sampled_from(Implicit),
    planner=st.sampled_from([LITERAL, LITERAL, LITERAL, read_label("U/pub")]),
    inputs=LABELS,
    approved=STEPS,
    declassify=STEPS,
    forbidden=st.sampled_from([(), (), ("ok-[0-4]",)]),
    max_retries=st.sampled_from([None, 1]),
    replan=st.just(ReplanRule(context="any")),
)


def machine_of(text: str, rules: Enforcement) -> Machine:
    return Machine(compile_plan(plan_of(text), FACTS), LIMITS, enforcement=rules)


def driven(machine: Machine, world: int, schedule: int) -> Simulation:
    def respond(command: Command) -> tuple[float, Event]:
        assert not isinstance(command, Finish)
        if isinstance(command, Ask):
            return duration(schedule, command.key), Answered(
                command.key, command.asked.digest, Verdict.APPROVE
            )
        event = outcome(world, command)
        if isinstance(event, PlanCompiled):
            event = event._replace(context=LITERAL)
        return duration(schedule, command.key), event

    return Simulation(machine, respond)


def each(policy: Policy) -> Enforcement:
    """The rules of a policy, by which every call is judged in full."""
    return Enforcement(policy, Judge(policy).judge, {}, policy.inputs)


@given(plan_texts(), POLICIES, SEEDS, SEEDS)
@settings(max_examples=150, deadline=None)
def test_a_run_goes_the_same_way_whether_each_call_is_judged_in_full_or_not(
    text: str, policy: Policy, world: int, schedule: int
) -> None:
    quick, full = machine_of(text, Enforcement.under(policy)), machine_of(text, each(policy))
    one, other = driven(quick, world, schedule), driven(full, world, schedule)
    assert one.run(INPUTS) == other.run(INPUTS)
    assert keys_of(one) == keys_of(other)
    assert told(quick) == told(full)


@given(plan_texts(), POLICIES, SEEDS, SEEDS)
@settings(max_examples=60, deadline=None)
def test_restored_at_any_event_the_run_goes_on_as_if_nothing_had_been(
    text: str, policy: Policy, world: int, schedule: int
) -> None:
    rules = Enforcement.under(policy)
    run = driven(machine_of(text, rules), world, schedule)
    run.run(INPUTS)
    whole, restored, full = machine_of(text, rules), machine_of(text, rules), machine_of(text, each(policy))
    for event in run.events:
        assert restored.feed(event) == whole.feed(event) == full.feed(event)
        assert told(restored) == told(whole)
        state, other = whole.state(), full.state()
        data = None if state is None else state_to_json(state)
        assert data == (None if other is None else state_to_json(other))
        if state is not None and data is not None:
            read = state_from_json(state.program, json.loads(json.dumps(data)), enforcement=rules)
            restored = Machine.at(read)
            assert restored.open_commands() == whole.open_commands()
