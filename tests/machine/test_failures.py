"""ON_FAIL: retries, jumps, ends, and the variables after a failure."""

from __future__ import annotations

import pytest
from tests.machine.driving import Bench, failing, play

from callsheet.machine import CallTool, Limits, Outcome, Sleep, Status
from callsheet.machine.keys import parse_key


def test_error_is_stored_and_plan_continues_without_on_fail() -> None:
    played = play('S1: @A () > $a\nS2: @RESPOND ("got $a")', {"A": failing("503")})
    assert played.result.response == "got 503"
    assert (played.result.status, played.result.error) == (Status.DONE, None)


FAILED_STEPS = """
S1: @A () > $a
S2: @A () ON_FAIL GOTO S3
S3: ?FOREACH ($x IN [1, 2]) THEN @A ($x)
@PARALLEL {
  S4: @B ()
  S5: @A () ON_FAIL @RETRY(1)
}
S6: @RESPOND ("done")
"""


def test_result_lists_failed_steps_of_continued_plan() -> None:
    assert play(FAILED_STEPS, {"A": failing("no")}).result.failed_steps == ("S1", "S3", "S5")
    assert play(FAILED_STEPS).result.failed_steps == ()


def test_step_that_ends_run_is_not_listed_as_failed() -> None:
    result = play('S1: @A ()\nS2: @A () ON_FAIL TERMINATE ("so")', {"A": failing("no")}).result
    assert (result.status, result.ended_at, result.failed_steps) == (Status.FAILED, "S2", ("S1",))


def test_failure_of_one_visit_counts_although_a_later_one_succeeds() -> None:
    bench = Bench("S1: @A () > $a\nS2: @B () > $b\nS3: ?IF ($b == 1) THEN GOTO S1\nS4: @B ()")
    bench.fail("S1.0.1")
    bench.ok("S2.0.1", 1)
    bench.ok("S1@2.0.1")
    bench.ok("S2@2.0.1", 2)
    bench.ok("S4.0.1")
    assert bench.result.failed_steps == ("S1",)
    assert bench.result.outcome is Outcome.DONE_WITH_FAILURES


def test_attempt_that_is_repeated_and_succeeds_is_no_failure() -> None:
    bench = Bench("S1: @A () > $a ON_FAIL @RETRY(1)")
    bench.fail("S1.0.1")
    bench.fire("S1.0.2")
    bench.ok("S1.0.2", 1)
    assert (bench.result.failed_steps, bench.result.outcome) == ((), Outcome.DONE)


HANDLED = """
@PARALLEL {
  S1: @A () ON_FAIL GOTO S3
  S2: @A () ON_FAIL GOTO S4
}
S3: @B ()
S4: @B ()
"""


def test_failure_of_a_member_is_handled_only_by_the_jump_that_is_obeyed() -> None:
    assert play(HANDLED, {"A": failing("no")}).result.failed_steps == ("S2",)


def test_retry_makes_up_to_n_more_attempts_one_second_apart() -> None:
    bench = Bench("S1: @A () > $a ON_FAIL @RETRY(2)")
    for attempt in (2, 3):
        assert bench.fail(f"S1.0.{attempt - 1}") == [Sleep(f"S1.0.{attempt}", "S1", 1.0)]
        assert bench.fire(f"S1.0.{attempt}") == [CallTool(f"S1.0.{attempt}", "S1", "A", {})]
    bench.fail("S1.0.3", "for good")
    assert bench.result.variables == {"a": "for good"}


def test_success_ends_retries() -> None:
    bench = Bench("S1: @A () > $a ON_FAIL @RETRY(2) TERMINATE\nS2: @B ()")
    bench.fail("S1.0.1")
    bench.fire("S1.0.2")
    bench.ok("S1.0.2", "fine")
    assert bench.keys == ["S2.0.1"]


def delays(text: str, limits: Limits | None = None) -> list[float]:
    bench, out = Bench(text, limits=limits), []
    while bench.machine.result is None:
        (key,) = bench.keys
        commands = bench.fail(key)
        out += [command.seconds for command in commands if isinstance(command, Sleep)]
        for command in commands:
            if isinstance(command, Sleep):
                bench.fire(command.key)
    return out


def test_delay_of_plan_overrides_run_default() -> None:
    assert delays("S1: @A () ON_FAIL @RETRY(2, delay=0.5)") == [0.5, 0.5]
    assert delays("S1: @A () ON_FAIL @RETRY(2)", Limits(retry_delay=3.0)) == [3.0, 3.0]


def test_backoff_grows_up_to_limit() -> None:
    assert delays("S1: @A () ON_FAIL @RETRY(3, delay=1, backoff=2)") == [1.0, 2.0, 4.0]
    limits = Limits(retry_delay=2.0, retry_backoff=3.0, max_retry_delay=10.0)
    assert delays("S1: @A () ON_FAIL @RETRY(4)", limits) == [2.0, 6.0, 10.0, 10.0]


def test_infinite_backoff_is_capped() -> None:
    assert delays("S1: @A () ON_FAIL @RETRY(500, backoff=1000)")[-1] == 300.0


def test_retry_without_delay_starts_at_once() -> None:
    bench = Bench("S1: @A () ON_FAIL @RETRY(1)", limits=Limits(retry_delay=0.0))
    assert bench.fail("S1.0.1") == [CallTool("S1.0.2", "S1", "A", {})]


def test_attempts_are_numbered_in_their_keys_and_nothing_else_changes() -> None:
    bench = Bench("S1: @A () ON_FAIL @RETRY(1)")
    first = parse_key(bench.keys[0])
    bench.fail("S1.0.1")
    again = parse_key(bench.keys[0])
    assert (first.attempt, again.attempt) == (1, 2)
    assert (again.generation, again.step, again.visit, again.index) == (0, "S1", 1, 0)


def test_goto_follows_retries() -> None:
    bench = Bench("S1: @A () > $a ON_FAIL @RETRY(1) GOTO S3\nS2: @B ()\nS3: @C ($a)")
    bench.fail("S1.0.1", "first")
    bench.fire("S1.0.2")
    bench.fail("S1.0.2", "second")
    assert bench.keys == ["S3.0.1"]
    assert bench.args == [{"arg0": "second"}]


def test_terminate_follows_retries() -> None:
    played = play('S1: @A () ON_FAIL @RETRY(2) TERMINATE ("gave up")\nS2: @B ()', {"A": failing("x")})
    assert (played.names, played.seconds) == (["A", "A", "A"], 5.0)
    assert (played.result.response, played.result.terminated) == ("gave up", True)
    assert (played.result.status, played.result.error, played.result.ended_at) == (Status.FAILED, "x", "S1")


def test_message_shows_error_by_output_variable() -> None:
    played = play('S1: @A () > $a ON_FAIL TERMINATE ("down: $a")', {"A": failing("503")}, inputs={"a": "old"})
    assert played.result.response == "down: 503"
    assert played.variables == {"a": "503"}


def test_error_text_is_not_expanded() -> None:
    played = play('S1: @A () > $a ON_FAIL TERMINATE ("$a")', {"A": failing("no $a ${a}")})
    assert played.result.response == "no $a ${a}"


def test_terminate_without_message_ends_plan() -> None:
    played = play("S1: @A () ON_FAIL TERMINATE\nS2: @B ()", {"A": failing("x")})
    assert (played.names, played.result.terminated, played.result.status) == (["A"], True, Status.FAILED)


def test_failure_jump_to_missing_step_fails() -> None:
    played = play("S1: @A () ON_FAIL GOTO S42", {"A": failing()})
    assert played.result.status is Status.FAILED
    assert "S42" in str(played.result.error)


def test_failure_loop_ends_at_step_budget() -> None:
    played = play("S1: @A () ON_FAIL GOTO S1", {"A": failing()}, limits=Limits(max_steps=7))
    assert (len(played.calls), played.result.status) == (7, Status.FAILED)


def test_error_is_text_in_conditions() -> None:
    played = play(
        'S1: @A () > $a\nS2: ?IF ($a contains "503") THEN @RESPOND ("down")', {"A": failing("HTTP 503")}
    )
    assert played.result.response == "down"


@pytest.mark.parametrize("value", [False, {"success": False}, "error: x", "", None])
def test_any_port_value_is_success(value: object) -> None:
    played = play('S1: @A () > $a ON_FAIL TERMINATE ("no")', {"A": value})  # type: ignore[dict-item]
    assert played.variables == {"a": value}


# ---------------------------------------------------------------- budgets


def test_waiting_budget_ends_retries() -> None:
    played = play("S1: @A () ON_FAIL @RETRY(100000) GOTO S2\nS2: @B ()", {"A": failing()})
    assert played.result.status is Status.FAILED
    assert played.result.error == (
        "the run has waited 3600 s between attempts, its limit is 3600; a higher max_waiting allows more"
    )
    assert (len(played.calls), played.seconds) == (3_601, 3_600 + 3_601)


def test_call_budget_ends_retries_without_wait() -> None:
    text = "S1: @A () ON_FAIL @RETRY(100000, delay=0)\nS2: @B ()"
    played = play(text, {"A": failing()}, limits=Limits(max_calls=50))
    assert played.result.error == (
        "@A is refused: the run has made 50 calls, its limit is 50; a higher max_calls allows more"
    )
    assert played.names == ["A"] * 50


def test_loop_items_count_as_calls_and_current_batch_completes() -> None:
    text = "@PARALLEL {\n S1: ?FOREACH ($i IN [1, 2, 3, 4]) THEN @WRITE ($i)\n S2: @B () > $b\n}\nS3: @C ()"
    played = play(text, limits=Limits(max_calls=3))
    assert played.result.status is Status.FAILED
    assert "max_calls" in str(played.result.error)
    assert sorted(played.names) == ["B", "WRITE", "WRITE"]
