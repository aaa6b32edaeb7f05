"""The loop of an agent: its model requests, its calls, and the result of its step."""

from __future__ import annotations

import json

import pytest
from tests.machine.agent_loops.solving import FACTS, act, acts, agent, done, question
from tests.machine.driving import Bench

from callsheet.frontends.structured import read_structured
from callsheet.ir import JSON
from callsheet.machine import (
    AgentTurn,
    CallTool,
    Failed,
    Limits,
    Loop,
    Machine,
    RunAgent,
    Sleep,
    Spent,
    Status,
    Succeeded,
    compile_plan,
)
from callsheet.machine.agents.actions import CallOutcome, ObservedCall, Turn
from callsheet.machine.notes import NoteKind
from callsheet.machine.snapshots import state_from_json, state_to_json


def test_turns_are_commands_and_answer_leads_to_call() -> None:
    bench = agent()
    assert bench.keys == ["S1.0.1/t1"]
    asked = question(bench)
    assert (asked.args, asked.inputs, asked.turns) == ({"goal": "find it"}, [], ())
    assert asked.allowed.tools == ("READ", "WRITE", "KEEP")
    assert asked.allowed.turns == 10
    bench.ok("S1.0.1/t1", act("read", x=1))
    assert bench.waiting == {"S1.0.1/t1c1": CallTool("S1.0.1/t1c1", "S1", "READ", {"x": 1})}
    bench.ok("S1.0.1/t1c1", "seen")
    assert bench.keys == ["S1.0.1/t2"]
    seen = ObservedCall("READ", {"x": 1}, "seen", CallOutcome.OK, "S1.0.1/t1c1")
    assert question(bench).turns == (Turn(act("read", x=1), (seen,)),)
    bench.ok("S1.0.1/t2", done({"n": 3}))
    assert bench.result.variables["a"] == {"n": 3}
    assert bench.result.response == '{"n":3}'


def test_agent_without_loop_fact_is_executed_as_whole() -> None:
    bench = Bench('S1: @AGENT_SOLVE ("g", max_turns=3) > $a')
    assert bench.waiting == {"S1.0.1": RunAgent("S1.0.1", "S1", "AGENT_SOLVE", ["g"], {"max_turns": 3})}


def test_answer_may_be_action_text() -> None:
    bench = agent()
    bench.ok("S1.0.1/t1", ' {"tool": "@Read", "args": "{\\"x\\": 2}"} ')
    assert bench.args == [{"x": 2}]
    bench.ok("S1.0.1/t1c1", None)
    bench.ok("S1.0.1/t2", '{"finish": "done"}')
    assert bench.result.response == "done"


@pytest.mark.parametrize(
    "answer",
    [
        "I would read.",
        "[1]",
        {},
        {"tool": 3},
        {"tool": "read", "args": [1]},
        {"tool": "read", "finish": 1},
        {"calls": []},
    ],
)
def test_invalid_action_is_reported_once_and_counts_as_turn(answer: JSON) -> None:
    bench = agent()
    bench.ok("S1.0.1/t1", answer)
    assert bench.keys == ["S1.0.1/t2"]
    (turn,) = question(bench).turns
    assert turn.answer == answer
    assert turn.fault
    bench.ok("S1.0.1/t2", answer)
    assert bench.result.status is Status.DONE
    assert "the model's answer is no action, twice" in bench.result.response


def test_valid_action_resets_invalid_answer_count() -> None:
    bench = agent()
    bench.ok("S1.0.1/t1", "hm")
    bench.ok("S1.0.1/t2", act("read"))
    bench.ok("S1.0.1/t2c1", 1)
    bench.ok("S1.0.1/t3", "hm")
    assert bench.keys == ["S1.0.1/t4"]


@pytest.mark.parametrize("tool", ["delete_all", "pay", "look", "agent_solve"])
def test_unnamed_tool_is_never_called(tool: str) -> None:
    bench = agent()
    bench.ok("S1.0.1/t1", act(tool, x=1))
    assert bench.keys == ["S1.0.1/t2"]
    (seen,) = question(bench).turns[0].seen
    assert (seen.outcome, seen.key) == (CallOutcome.REFUSED, "")
    assert tool in str(seen.value)
    assert bench.machine.usage().calls_by_tool == {"AGENT_SOLVE": 2}


def test_step_without_tools_gets_loop_tools() -> None:
    assert question(agent('S1: @AGENT_SOLVE ("g") > $a')).allowed.tools == ("READ", "LOOK")


def test_step_cannot_add_tools_to_loop_maximum() -> None:
    facts = {**FACTS, "AGENT_SOLVE": FACTS["AGENT_SOLVE"]._replace(loop=Loop(("READ",), is_most=True))}
    bench = Bench('S1: @AGENT_SOLVE ("g", tools=["read", "write"]) > $a', facts=facts)
    assert question(bench).allowed.tools == ("READ",)


def test_data_cannot_name_tools() -> None:
    bench = agent('S1: @AGENT_SOLVE ("g", tools=$t) > $a', inputs={"t": ["write"]})
    assert question(bench).allowed.tools == ()
    assert "are written in the plan" in question(bench).allowed.fault


def test_last_turn_makes_no_call() -> None:
    bench = agent('S1: @AGENT_SOLVE ("g", max_turns=2, tools=["write"]) > $a')
    bench.ok("S1.0.1/t1", act("write", x=1))
    bench.ok("S1.0.1/t1c1", 1)
    bench.ok("S1.0.1/t2", act("write", x=2))
    assert bench.result.response == "@AGENT_SOLVE: no answer within 2 turns"
    assert bench.machine.usage().calls_by_tool == {"AGENT_SOLVE": 2, "WRITE": 1}


def test_failed_call_is_reported_to_model_and_step_continues() -> None:
    bench = agent()
    bench.ok("S1.0.1/t1", act("read", x=1))
    bench.fail("S1.0.1/t1c1", "not there")
    (seen,) = question(bench).turns[0].seen
    assert (seen.outcome, seen.value) == (CallOutcome.FAILED, "not there")


def test_same_call_is_not_repeated_without_change() -> None:
    bench = agent()
    bench.ok("S1.0.1/t1", act("read", x=1))
    bench.ok("S1.0.1/t1c1", 5)
    bench.ok("S1.0.1/t2", act("READ", x=1))
    assert bench.keys == ["S1.0.1/t3"]
    assert "in turn 1" in str(question(bench).turns[1].seen[0].value)
    bench.ok("S1.0.1/t3", act("write", x=2))
    bench.ok("S1.0.1/t3c1", None)
    bench.ok("S1.0.1/t4", act("read", x=1))
    assert bench.keys == ["S1.0.1/t4c1"]


def test_same_write_is_not_made_twice_in_a_row() -> None:
    bench = agent()
    bench.ok("S1.0.1/t1", act("write", x=1))
    bench.ok("S1.0.1/t1c1", 5)
    bench.ok("S1.0.1/t2", act("write", x=1))
    assert bench.keys == ["S1.0.1/t3"]


def test_failed_call_may_be_repeated_once() -> None:
    bench = agent()
    for turn, key in ((1, "S1.0.1/t1c1"), (2, "S1.0.1/t2c1")):
        bench.ok(f"S1.0.1/t{turn}", act("read", x=1))
        bench.fail(key)
    bench.ok("S1.0.1/t3", act("read", x=1))
    assert bench.keys == ["S1.0.1/t4"]
    assert "has failed 2 times" in str(question(bench).turns[2].seen[0].value)


def test_calls_of_turn_are_concurrent_where_allowed() -> None:
    plan = 'S1: @AGENT_SOLVE ("g", tools=["read", "write", "keep"], parallel=3) > $a'
    bench = agent(plan)
    bench.ok("S1.0.1/t1", acts(act("read", x=1), act("keep", x=2), act("read", x=3)))
    assert bench.keys == ["S1.0.1/t1c1", "S1.0.1/t1c2", "S1.0.1/t1c3"]
    for key in reversed(bench.keys):
        bench.ok(key, key)
    assert [seen.args["x"] for seen in question(bench).turns[0].seen] == [1, 2, 3]
    bench.ok("S1.0.1/t2", acts(act("write", x=1), act("read", x=1), act("write", x=2)))
    assert bench.keys == ["S1.0.1/t2c1"]
    bench.ok("S1.0.1/t2c1")
    assert bench.keys == ["S1.0.1/t2c2"]
    bench.ok("S1.0.1/t2c2")
    assert bench.keys == ["S1.0.1/t2c3"]


def test_turn_with_too_many_calls_is_refused() -> None:
    bench = agent()
    bench.ok("S1.0.1/t1", acts(act("read", x=1), act("read", x=2)))
    assert "one turn may have 1" in question(bench).turns[0].fault


def test_agent_makes_no_more_calls_than_its_step_allows() -> None:
    bench = agent('S1: @AGENT_SOLVE ("g", max_calls=1) > $a')
    bench.ok("S1.0.1/t1", act("read", x=1))
    bench.ok("S1.0.1/t1c1")
    bench.ok("S1.0.1/t2", act("read", x=2))
    assert "the one call is made" in str(question(bench).turns[1].seen[0].value)


@pytest.mark.parametrize(
    "arguments", ["max_turns=0", "max_turns=101", 'max_turns="many"', "parallel=17", "max_calls=-1"]
)
def test_invalid_allowance_is_error_of_request(arguments: str) -> None:
    fault = question(agent(f'S1: @AGENT_SOLVE ("g", {arguments}) > $a')).allowed.fault
    assert fault.startswith(arguments.partition("=")[0])


# ---------------------------------------------------------------- failures and limits


def test_failed_request_is_repeated_in_turn_without_repeating_calls() -> None:
    bench = agent('S1: @AGENT_SOLVE ("g", tools=["write"]) > $a ON_FAIL @RETRY(1, delay=2)')
    bench.ok("S1.0.1/t1", act("write", x=1))
    bench.ok("S1.0.1/t1c1", "paid")
    bench.fail("S1.0.1/t2", "no answer")
    assert bench.waiting == {"S1.0.2": Sleep("S1.0.2", "S1", 2.0)}
    bench.fire("S1.0.2")
    assert bench.keys == ["S1.0.2/t2"]
    assert question(bench).turns[0].seen[0].value == "paid"
    bench.ok("S1.0.2/t2", act("write", x=2))
    assert bench.keys == ["S1.0.2/t2c1"]


def test_model_failure_fails_step() -> None:
    bench = agent(
        'S1: @AGENT_SOLVE ("g") > $a ON_FAIL GOTO S3\nS2: @RESPOND ("no")\nS3: @RESPOND ("failed: $a")'
    )
    bench.ok("S1.0.1/t1", act("read", x=1))
    bench.ok("S1.0.1/t1c1")
    bench.fail("S1.0.1/t2", "the model is gone")
    assert bench.result.response == "failed: the model is gone"


def test_agent_with_two_calls_left_makes_no_third() -> None:
    bench = agent(limits=Limits(max_calls=2))
    bench.ok("S1.0.1/t1", act("read", x=1))
    bench.ok("S1.0.1/t1c1")
    assert bench.result.status is Status.FAILED
    assert bench.result.refusal is not None
    assert bench.result.refusal.budget == "max_calls"
    assert bench.result.usage.calls == 2


def test_tool_cap_applies_within_agent() -> None:
    bench = agent(limits=Limits(max_calls_by_tool={"write": 1}))
    bench.ok("S1.0.1/t1", act("write", x=1))
    bench.ok("S1.0.1/t1c1")
    bench.ok("S1.0.1/t2", act("write", x=2))
    assert bench.result.refusal is not None
    assert bench.result.refusal.tool == "WRITE"


def test_requests_count_against_model_call_limit() -> None:
    bench = agent(limits=Limits(max_model_calls=1))
    bench.ok("S1.0.1/t1", act("read", x=1))
    bench.ok("S1.0.1/t1c1")
    assert bench.result.refusal is not None
    assert bench.result.refusal.budget == "max_model_calls"


def test_calls_in_flight_are_awaited_when_next_is_refused() -> None:
    bench = agent('S1: @AGENT_SOLVE ("g", parallel=3) > $a', limits=Limits(max_calls=3))
    bench.ok("S1.0.1/t1", acts(act("read", x=1), act("read", x=2), act("read", x=3)))
    assert bench.keys == ["S1.0.1/t1c1", "S1.0.1/t1c2"]
    bench.ok("S1.0.1/t1c2")
    assert bench.machine.result is None
    bench.ok("S1.0.1/t1c1")
    assert bench.result.refusal is not None


def test_refused_call_of_an_agent_in_a_block_ends_the_run_after_a_restore_too() -> None:
    text = '# ltp: 2\nTRY {\nS1: @AGENT_SOLVE ("g", parallel=2) > $a\n} ON_FAIL {\nLET $a = 1\n}'
    plan = read_structured(text).require()
    bench = Bench(plan, facts=FACTS, limits=Limits(max_calls=2))
    bench.ok("S1.1/t1", acts(act("read", x=1), act("read", x=2)))
    state = bench.machine.state()
    assert state is not None
    kept = json.loads(json.dumps(state_to_json(state)))
    bench.machine = Machine.at(state_from_json(compile_plan(plan, FACTS), kept))
    bench.ok("S1.1/t1c1")
    assert bench.result.refusal is not None


def test_cancelling_ends_agent_between_calls() -> None:
    bench = agent()
    bench.ok("S1.0.1/t1", act("read", x=1))
    bench.cancel()
    assert bench.result.status is Status.CANCELLED
    assert bench.machine.open_keys() == ()


# ---------------------------------------------------------------- in loops and groups


def test_loop_agents_run_sequentially() -> None:
    bench = agent("S1: ?FOREACH $i IN $l THEN @AGENT_SOLVE ($i) > $a", inputs={"l": ["x", "y"]})
    assert bench.keys == ["S1.0.1/t1"]
    bench.ok("S1.0.1/t1", done(1))
    assert question(bench).inputs == ["y"]
    assert bench.keys == ["S1.1.1/t1"]
    bench.ok("S1.1.1/t1", done(2))
    assert bench.result.variables["a"] == [1, 2]


def test_group_agents_run_concurrently() -> None:
    bench = agent(
        '@PARALLEL {\n  S1: @AGENT_SOLVE ("a") > $a\n  S2: @AGENT_SOLVE ("b") > $b\n}\nS3: @RESPOND ("$a$b")'
    )
    assert bench.keys == ["S1.0.1/t1", "S2.0.1/t1"]
    bench.ok("S2.0.1/t1", act("read", x=1))
    bench.ok("S1.0.1/t1", done("A"))
    bench.ok("S2.0.1/t1c1")
    bench.ok("S2.0.1/t2", done("B"))
    assert bench.result.response == "AB"


def test_notes_describe_each_turn() -> None:
    bench = agent()
    bench.ok("S1.0.1/t1", act("read", x="a b"))
    bench.ok("S1.0.1/t1c1")
    bench.ok("S1.0.1/t2", done(1))
    told = [note.detail for note in bench.notes if note.kind is NoteKind.TURN]
    assert told == ["turn 1: calls READ (x=a b)", "turn 2: is done"]


def test_event_of_past_turn_changes_nothing() -> None:
    bench = agent()
    bench.ok("S1.0.1/t1", act("read", x=1))
    assert bench.ok("S1.0.1/t1", done(0)) == []
    assert bench.keys == ["S1.0.1/t1c1"]
    assert isinstance(question(agent()), AgentTurn)


def test_refinements_and_agents_do_not_start_early() -> None:
    plan = "S1: @WRITE (1)\nS2: @SELF_REFINE (1, rounds=2) > $a\nS3: @AGENT_SOLVE (2)\nS4: @READ (2)"
    bench = agent(plan, limits=Limits(schedule="auto"))
    assert bench.keys == ["S1.0.1"]


def test_snapshot_keeps_what_an_agent_has_spent_in_all_attempts() -> None:
    """A question that failed counts, too, and is not asked again once nothing is left."""
    text = 'S1: @AGENT_SOLVE (goal="g", tools=["read"], max_tokens=100) > $a ON_FAIL @RETRY(5)'
    bench = agent(text, limits=Limits(retry_delay=0.0))
    bench.feed(Succeeded("S1.0.1/t1", act("read", x=1), spent=Spent(40, 10)))
    state = bench.machine.state()
    assert state is not None
    kept = json.loads(json.dumps(state_to_json(state)))
    bench.machine = Machine.at(state_from_json(state.program, kept))
    bench.ok("S1.0.1/t1c1", "seen")
    bench.feed(Failed("S1.0.1/t2", "no answer", spent=Spent(30, 10)))
    assert list(bench.waiting) == ["S1.0.2/t2"]
    bench.feed(Failed("S1.0.2/t2", "no answer", spent=Spent(10, 0)))
    assert bench.waiting == {}
    assert bench.result.failed_steps == ("S1",)
