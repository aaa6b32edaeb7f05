"""The effect of each action, and how a plan ends."""

from __future__ import annotations

import pytest
from tests.machine.driving import Bench, play

from callsheet.ir import JSON
from callsheet.machine import CallModel, CallTool, Limits, RunAgent, Status, ToolFacts


def test_steps_run_one_after_another_in_text_order() -> None:
    bench = Bench("S1: @A ()\nS2: @B ()")
    assert bench.keys == ["S1.0.1"]
    bench.ok("S1.0.1")
    assert bench.keys == ["S2.0.1"]


def test_positional_arguments_take_remaining_parameter_names() -> None:
    facts = {"T": ToolFacts(parameters=("a", "b", "c"))}
    assert Bench("S1: @T (1, 2, a=3)", facts=facts).args == [{"b": 1, "c": 2, "a": 3}]


def test_positional_arguments_beyond_known_names_are_numbered() -> None:
    assert Bench("S1: @T (1, 2)").args == [{"arg0": 1, "arg1": 2}]


def test_model_operations_and_agents_have_separate_commands() -> None:
    bench = Bench('S1: @LLM_EXTRACT ($x, target="t")\nS2: @AGENT_SOLVE ("g", max_turns=3)', inputs={"x": [1]})
    assert bench.waiting == {"S1.0.1": CallModel("S1.0.1", "S1", "LLM_EXTRACT", [[1]], {"target": "t"})}
    bench.ok("S1.0.1")
    assert bench.waiting == {"S2.0.1": RunAgent("S2.0.1", "S2", "AGENT_SOLVE", ["g"], {"max_turns": 3})}


def test_tool_names_are_case_insensitive() -> None:
    bench = Bench("S1: @fetch_Page ()")
    assert bench.waiting == {"S1.0.1": CallTool("S1.0.1", "S1", "FETCH_PAGE", {})}


def test_respond_joins_its_values_with_one_space_and_ends_plan() -> None:
    played = play('S1: @RESPOND ("a", 1, $x, [2])\nS2: @T ()', inputs={"x": {"k": True}})
    assert played.result.response == 'a 1 {"k":true} [2]'
    assert (played.result.status, played.result.terminated, played.names) == (Status.DONE, False, [])


@pytest.mark.parametrize("value", [None, "", "  ", [], {}])
def test_empty_respond_is_skipped_if_steps_follow(value: JSON) -> None:
    played = play('S1: @RESPOND ($x, $never)\nS2: @RESPOND ("later")', inputs={"x": value})
    assert played.result.response == "later"


@pytest.mark.parametrize("value", [0, False, "0"])
def test_zero_and_false_are_not_empty_answers(value: JSON) -> None:
    played = play('S1: @RESPOND ($x)\nS2: @RESPOND ("later")', inputs={"x": value})
    assert played.result.ended_at == "S1"


def test_last_respond_counts_even_if_empty() -> None:
    played = play("S1: @A () > $a\nS2: @RESPOND ($never)", {"A": "result"})
    assert (played.result.response, played.result.ended_at) == ("", "S2")


def test_plan_without_respond_answers_with_last_stored_value() -> None:
    assert play("S1: @A () > $a\nS2: @B ()", {"A": [1], "B": "unstored"}).result.response == "[1]"


def test_plan_without_stored_value_has_no_answer() -> None:
    played = play("S1: @A ()", {"A": 1}, inputs={"x": "given"})
    assert (played.result.status, played.result.response, played.result.ended_at) == (Status.DONE, "", None)


def test_terminate_ends_plan_with_message() -> None:
    played = play('S1: TERMINATE ("stop $x")\nS2: @T ()', inputs={"x": 1})
    assert (played.result.terminated, played.result.response, played.names) == (True, "stop 1", [])
    assert played.result.status is Status.DONE


def test_goto_jumps_forward_and_back() -> None:
    played = play(
        "S1: GOTO S3\nS2: @RESPOND ($n)\nS3: @A () > $n\nS4: GOTO S2",
        {"A": "answer"},
    )
    assert (played.names, played.result.response) == (["A"], "answer")


def test_goto_missing_step_fails() -> None:
    played = play('S1: GOTO S42\nS2: @RESPOND ("x")')
    assert played.result.status is Status.FAILED
    assert played.result.error is not None
    assert "S42" in played.result.error
    assert played.result.ended_at == "S1"


def test_self_jump_fails_at_step_limit() -> None:
    played = play("S1: GOTO S1")
    assert played.result.status is Status.FAILED
    assert played.result.steps_executed == 10_000
    assert "10000" in str(played.result.error)


def test_step_budget_bounds_executed_steps_and_is_configurable() -> None:
    played = play("S1: @A ()\nS2: GOTO S1", limits=Limits(max_steps=5))
    assert played.names == ["A", "A", "A"]
    assert (played.result.status, played.result.steps_executed) == (Status.FAILED, 5)


def test_skipped_steps_do_not_count() -> None:
    text = "\n".join(f"S{i}: ?IF (1 == 2) THEN @A ()" for i in range(1, 20))
    played = play(f'{text}\nS20: @RESPOND ("end")', limits=Limits(max_steps=1))
    assert (played.result.response, played.result.steps_executed) == ("end", 1)


def test_inputs_are_variables_and_may_be_unused() -> None:
    played = play("S1: @RESPOND ($a)", inputs={"a": 1, "unread": 2})
    assert (played.result.response, played.variables) == ("1", {"a": 1, "unread": 2})


def test_step_without_output_stores_nothing() -> None:
    assert play('S1: @A ()\nS2: @RESPOND ("x")', {"A": 1}).variables == {}


def test_null_is_stored() -> None:
    assert play("S1: @A () > $a", inputs={"a": "old"}).variables == {"a": None}


def test_text_mentioning_errors_is_success() -> None:
    played = play('S1: @A () > $a ON_FAIL TERMINATE ("no")\nS2: @RESPOND ($a)', {"A": "Error: 404"})
    assert (played.result.response, played.result.status) == ("Error: 404", Status.DONE)
