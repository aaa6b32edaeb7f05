"""What holds for every plan with agents: order of arrival, crash points, snapshots and limits."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from zlib import crc32

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.machine.laws import assert_usage_is_within
from tests.machine.test_laws import SEEDS
from tests.machine.test_snapshots import feed, through_json
from tests.plans import FACTS as TOOLS
from tests.plans import INPUTS, LIMITS, duration, outcome, plan_of, plan_texts

from callsheet.ir import JSON, Effect
from callsheet.machine import (
    AgentTurn,
    Answered,
    Approval,
    Ask,
    Awaited,
    CallModel,
    CallTool,
    Command,
    Event,
    Failed,
    Finish,
    Limits,
    Loop,
    Machine,
    Result,
    Succeeded,
    ToolFacts,
    Verdict,
    compile_plan,
)
from callsheet.machine.keys import parse_key
from callsheet.machine.limits import AUTO
from callsheet.machine.notes import Note, NoteKind
from callsheet.runtime.simulated import Simulation

MAY_CALL = ("READ", "KEEP", "WRITE", "FAULTY")
FACTS = {
    **TOOLS,
    "AGENT_SOLVE": ToolFacts(Effect.LLM, loop=Loop(MAY_CALL)),
    "SELF_REFINE": ToolFacts(Effect.LLM, loop=Loop()),
}
_MAY_BE_AN_AGENT = re.compile(r"@FAULTY \((.*?)\)(?= >| ON_FAIL|$)", re.MULTILINE)


def with_agents(text: str) -> str:
    """The plan with agents instead of calls of a faulty tool, and rounds instead of extraction."""
    text = _MAY_BE_AN_AGENT.sub(r"@AGENT_SOLVE (\1, parallel=2, max_turns=6)", text)
    return text.replace("LLM_EXTRACT", "SELF_REFINE").replace('target="t"', "rounds=3")


plans = plan_texts().map(with_agents).filter(lambda text: "AGENT_SOLVE" in text or "rounds" in text)


def answer(world: int, key: str) -> JSON:
    """The answer of the model of this world to the request with this key."""
    dice = crc32(f"{world}?{key}".encode())
    kind, dice = dice % 10, dice // 10
    if kind < 3:
        return {"finish": [1, "x", None, {"k": "v"}][dice % 4]}
    if kind == 3:
        return ["no action", {"tool": 7}, {}][dice % 3]
    calls: list[JSON] = []
    for _ in range(1 + dice % 2):
        dice = dice // 2
        tool = (*MAY_CALL, "NONE")[dice % 5]
        calls.append({"tool": tool.lower(), "args": {"x": dice // 5 % 3}})
    return {"calls": calls}


def responded(world: int, command: Awaited) -> Event:
    """The outcome of a command in this world."""
    if isinstance(command, AgentTurn):
        if crc32(f"{world}!{command.key}".encode()) % 12 == 0:
            return Failed(command.key, "the model is gone")
        doubt = "a person has to review it" if crc32(f"{world}~{command.key}".encode()) % 3 == 0 else ""
        return Succeeded(command.key, answer(world, command.key), review=doubt)
    if isinstance(command, Ask):
        assert isinstance(command.asked, Approval)
        assert command.asked.answer
        verdict = (Verdict.APPROVE, Verdict.DENY)[crc32(f"{world}%{command.key}".encode()) % 2]
        return Answered(command.key, command.asked.digest, verdict)
    return outcome(world, command)


def machine_of(text: str, limits: Limits = LIMITS, notes: list[Note] | None = None) -> Machine:
    return Machine(compile_plan(plan_of(text), FACTS), limits, None if notes is None else notes.append)


def driven(machine: Machine, world: int, schedule: int) -> Simulation:
    def respond(command: Command) -> tuple[float, Event]:
        assert not isinstance(command, Finish)
        return duration(schedule, command.key), responded(world, command)

    return Simulation(machine, respond)


def simulated(text: str, world: int, schedule: int, limits: Limits = LIMITS) -> tuple[Result, Counter[str]]:
    run = driven(machine_of(text, limits), world, schedule)
    result = run.run(INPUTS)
    calls = (c for _, c in run.launched if isinstance(c, CallTool | CallModel | AgentTurn))
    return result, Counter(f"{c.key} {c.tool} {c.args!r}" for c in calls)


def is_diverted(text: str, said: str) -> bool:
    """Whether it belongs to an item of a FOREACH with a diverting ON_FAIL: it may or may not have started."""
    step = plan_of(text).step(parse_key(said.partition(" ")[0]).step)
    return step is not None and step.foreach is not None and step.on_fail is not None


@given(plans, SEEDS, SEEDS, SEEDS)
@settings(max_examples=150, deadline=None)
def test_arrival_order_changes_no_result(text: str, world: int, first: int, second: int) -> None:
    one, calls = simulated(text, world, first)
    other, other_calls = simulated(text, world, second)
    assert one == other
    assert all(is_diverted(text, said) for said in (calls - other_calls) + (other_calls - calls))
    assert set(calls.values()) <= {1}, "each call has a name of its own"


@given(plans, SEEDS, SEEDS)
@settings(max_examples=60, deadline=None)
def test_fold_of_any_prefix_leads_to_same_end(text: str, world: int, schedule: int) -> None:
    run = driven(machine_of(text), world, schedule)
    result = run.run(INPUTS)
    for length in range(1, len(run.events) + 1):
        machine, waiting = machine_of(text), dict[str, Awaited]()
        for event in run.events[:length]:
            feed(machine, event, waiting)
        assert set(machine.open_keys()) == (set(waiting) if machine.result is None else set())
        if machine.result is None:
            assert machine.open_commands() == waiting
        ended = machine.result or driven(machine, world, schedule + length).go_on(list(waiting.values()))
        assert ended == result


@given(plans, SEEDS, SEEDS)
@settings(max_examples=60, deadline=None)
def test_restored_state_continues_with_same_commands(text: str, world: int, schedule: int) -> None:
    run = driven(machine_of(text), world, schedule)
    result = run.run(INPUTS)
    whole, waiting = machine_of(text), dict[str, Awaited]()
    for number, event in enumerate(run.events):
        feed(whole, event, waiting)
        other = through_json(whole)
        if other is None:
            continue
        assert other.open_commands() == waiting
        assert list(other.open_keys()) == list(whole.open_keys())
        reference = machine_of(text)
        for past in run.events[: number + 1]:
            reference.feed(past)
        for later in run.events[number + 1 :]:
            assert other.feed(later) == reference.feed(later)
        assert other.result == reference.result == result


@given(plans, SEEDS, SEEDS)
@settings(max_examples=40, deadline=None)
def test_restoring_at_every_event_leads_to_same_end(text: str, world: int, schedule: int) -> None:
    run = driven(machine_of(text), world, schedule)
    result = run.run(INPUTS)
    machine = machine_of(text)
    for event in run.events:
        machine = through_json(machine) or machine
        machine.feed(event)
    assert machine.result == result


tight = st.builds(
    Limits,
    max_steps=st.integers(1, 30),
    max_calls=st.none() | st.integers(0, 12),
    max_calls_by_tool=st.dictionaries(st.sampled_from(["READ", "WRITE", "AGENT_SOLVE"]), st.integers(0, 4)),
    max_model_calls=st.none() | st.integers(0, 5),
    max_bytes=st.none() | st.integers(0, 200),
    retry_delay=st.just(0.0),
)


@given(plans, SEEDS, SEEDS, tight)
@settings(max_examples=150, deadline=None)
def test_limits_are_never_exceeded(text: str, world: int, schedule: int, limits: Limits) -> None:
    run = driven(machine_of(text, limits), world, schedule)
    usage = run.run(INPUTS).usage
    calls = [c for _, c in run.launched if isinstance(c, CallTool | CallModel | AgentTurn)]
    assert_usage_is_within(usage, limits, len(calls))


@given(plans, SEEDS, SEEDS)
@settings(max_examples=100, deadline=None)
def test_early_starts_do_not_affect_agents(text: str, world: int, schedule: int) -> None:
    told: list[list[tuple[NoteKind, str, str]]] = []
    called: list[set[str]] = []
    results: list[Result] = []
    for limits in (LIMITS, replace(LIMITS, schedule=AUTO)):
        notes: list[Note] = []
        run = driven(machine_of(text, limits, notes), world, schedule)
        results.append(run.run(INPUTS))
        told.append(sorted((n.kind, n.step, n.detail) for n in notes if n.kind is not NoteKind.EARLY))
        called.append({c.key for _, c in run.launched if not isinstance(c, Finish)})
    one, early = results
    assert (one.status, one.response, one.variables) == (early.status, early.response, early.variables)
    assert told[0] == told[1]
    assert called[0] == called[1] or early.usage.unused or one.refusal is not None
