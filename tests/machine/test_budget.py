"""Each limit alone: what it counts, when it refuses, and its message."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.machine.driving import FACTS, Bench, failing, plan_of, play

from callsheet.frontends.spelling import read_plan_text
from callsheet.frontends.structured import read_structured
from callsheet.machine import (
    Answered,
    Ask,
    CallModel,
    Cancelled,
    Compile,
    Failed,
    Finish,
    Limits,
    LimitsChanged,
    Machine,
    PlanCompiled,
    Refusal,
    Spent,
    Started,
    Status,
    Succeeded,
    TimeUp,
    Usage,
    Verdict,
    compile_plan,
)
from callsheet.machine.usage import size_of

GROUP = "@PARALLEL {\n S1: @A ()\n S2: @B ()\n S3: @A ()\n}\nS4: @C ()"


# ---------------------------------------------------------------- what refuses


def test_call_never_made_is_not_counted() -> None:
    """Denied, about to be retried, or waiting for approval at the end of the run."""
    text = "S1: @READ (1) > $a\nS2: @WRITE (2) > $b ON_FAIL @RETRY(1, delay=5)\nS3: @READ (3) > $c"
    machine = Machine(compile_plan(plan_of(text), FACTS), None, None, ("READ",))
    (ask,) = machine.feed(Started({}))
    assert isinstance(ask, Ask)
    machine.feed(Answered(ask.key, ask.asked.digest, Verdict.DENY))
    assert machine.usage().calls_by_tool == {"WRITE": 1}
    machine.feed(Failed("S2.0.1", "no"))
    assert machine.usage().retries == 1
    machine.feed(Cancelled("enough"))
    assert machine.result is not None
    usage = machine.result.usage
    assert (usage.calls_by_tool, usage.retries) == ({"WRITE": 1}, 0)


def test_refusal_names_limit_usage_step_tool_and_remedy() -> None:
    result = play("S1: @A ()\nS2: @B ()\nS3: @C ()", limits=Limits(max_calls=2)).result
    assert result.refusal == Refusal("max_calls", 2, 2, "C")
    assert (result.status, result.ended_at) == (Status.FAILED, "S3")
    assert result.error == (
        "@C is refused: the run has made 2 calls, its limit is 2; a higher max_calls allows more"
    )


def test_cap_applies_to_its_tool_in_any_case() -> None:
    played = play(GROUP, limits=Limits(max_calls_by_tool={"@a": 1}))
    assert played.names == ["A", "B"]
    assert played.result.refusal == Refusal("max_calls_by_tool", 1, 1, "A")
    assert "called @A 1 time," in str(played.result.error)


def test_refusal_in_group_precedes_jumps() -> None:
    text = "@PARALLEL {\n S1: @A () ON_FAIL GOTO S4\n S2: @B ()\n}\nS3: @C ()\nS4: @D ()"
    played = play(text, {"A": failing()}, limits=Limits(max_calls=1))
    assert (played.names, played.result.ended_at) == (["A"], "S2")


def test_on_fail_does_not_catch_refusal() -> None:
    text = 'S1: @A ()\nS2: @B () ON_FAIL @RETRY(3) GOTO S3\nS3: @RESPOND ("caught")'
    played = play(text, limits=Limits(max_calls=1))
    assert (played.names, played.result.status, played.result.ended_at) == (["A"], Status.FAILED, "S2")


@pytest.mark.parametrize(
    ("text", "bound"),
    [
        ("S1: @A () > $a ON_FAIL @RETRY(9, delay=0) USE (1)", Limits(max_calls=2)),
        ("S1: @A () > $a ON_FAIL @RETRY(9, delay=10) CONTINUE", Limits(max_waiting=15)),
        ("TRY {\nS1: @A ()\n} ON_FAIL @RETRY(9, delay=0) {\nS2: @B ()\n}", Limits(max_calls=2)),
        (
            "?FOREACH ($i IN [1]) {\nS1: @A () ON_FAIL @RETRY(9, delay=0)\n} ON_FAIL SKIP\nS2: @B ()",
            Limits(max_calls_by_tool={"A": 2}),
        ),
        (
            'TRY {\nS1: @AGENT_SOLVE ("g") ON_FAIL @RETRY(9, delay=0)\n} FINALLY {\nS2: @B ()\n}',
            Limits(max_model_calls=2),
        ),
    ],
)
def test_nothing_in_a_plan_with_blocks_goes_on_from_an_attempt_that_a_budget_refuses(
    text: str, bound: Limits
) -> None:
    plan = read_structured(f"# ltp: 2\n{text}").require()
    played = play(plan, {"A": failing(), "AGENT_SOLVE": failing()}, limits=bound)
    assert played.result.status is Status.FAILED
    assert played.result.refusal is not None
    assert len(played.names) == 2
    assert "B" not in played.names


def test_models_agents_and_compilations_count_as_model_calls() -> None:
    text = 'S1: @LLM_EXTRACT ("x")\nS2: @AGENT_SOLVE ("g")\nS3: RE-PLAN ("y")'
    played = play(text, plans=['S1: @LLM_EXTRACT ("z")'], limits=Limits(max_model_calls=3))
    assert played.result.refusal == Refusal("max_model_calls", 3, 3, "LLM_EXTRACT")
    assert played.result.usage.calls_by_tool == {"LLM_EXTRACT": 1, "AGENT_SOLVE": 1, "RE-PLAN": 1}


def test_repair_of_new_plan_is_separate_call() -> None:
    bench = Bench('S1: RE-PLAN ("x")', limits=Limits(max_model_calls=2))
    bench.feed(PlanCompiled("S1.0.1", plan_of('S1: @LLM_EXTRACT ("z")'), {}, (), Spent(9, 1, repairs=1)))
    assert bench.result.refusal == Refusal("max_model_calls", 2, 2, "LLM_EXTRACT")
    used = bench.result.usage
    assert (used.calls_by_tool, used.model_calls, used.replans) == ({"RE-PLAN": 2}, 2, 1)
    assert Usage.of(Spent(9, 1, repairs=1)).model_calls == 2


@pytest.mark.parametrize(
    "bounds",
    [Limits(max_model_calls=1), Limits(max_calls=1), Limits(max_calls_by_tool={"RE-PLAN": 1})],
)
def test_new_plan_is_repaired_only_if_budget_allows(bounds: Limits) -> None:
    for limits, may_repair in ((bounds, False), (Limits(), True)):
        (command,) = Bench('S1: RE-PLAN ("x")', limits=limits).waiting.values()
        assert isinstance(command, Compile)
        assert command.repairs is may_repair


def test_budget_is_reserved_for_repair_unless_needed_by_concurrent_steps() -> None:
    text = '@PARALLEL {\n  S2: RE-PLAN ("x")\n  S3: @A ()\n  S4: @LLM_EXTRACT ("z")\n}'
    for most, may_repair in ((3, False), (4, True)):
        bench = Bench(text, limits=Limits(max_calls=most))
        assert bench.keys == ["S2.0.1", "S3.0.1", "S4.0.1"]  # a repair takes nothing from what is beside it
        command = bench.machine.open_commands()["S2.0.1"]
        assert isinstance(command, Compile)
        assert command.repairs is may_repair


@pytest.mark.parametrize(
    ("bounds", "refusal"),
    [
        (Limits(max_tokens=14), Refusal("max_tokens", 14, 15, "A")),
        (Limits(max_cost=0.2), Refusal("max_cost", 0.2, 0.25, "A")),
    ],
)
def test_call_exceeding_tokens_or_cost_is_last(bounds: Limits, refusal: Refusal) -> None:
    bench = Bench('S1: @LLM_EXTRACT ("x") > $x\nS2: @A ($x)', limits=bounds)
    bench.feed(Succeeded("S1.0.1", "v", (), Spent(10, 5, 0.25)))
    assert bench.result.refusal == refusal
    assert bench.result.variables == {"x": "v"}


def test_exhausted_tokens_stop_models_but_not_tools() -> None:
    limits = Limits(max_tokens=15, schedule="sequential")
    bench = Bench('S1: @LLM_EXTRACT ("x")\nS2: @A ()\nS3: @LLM_EXTRACT ("y")', limits=limits)
    bench.feed(Failed("S1.0.1", "no", (), Spent(10, 5)))
    assert bench.keys == ["S2.0.1"]
    bench.ok("S2.0.1")
    assert bench.result.refusal == Refusal("max_tokens", 15, 15, "LLM_EXTRACT")


@pytest.mark.parametrize("bounds", [Limits(max_tokens=0), Limits(max_cost=0), Limits(max_model_calls=0)])
def test_model_budget_of_zero_refuses_model_calls(bounds: Limits) -> None:
    bench = Bench('S1: @A ()\nS2: @LLM_EXTRACT ("x")', limits=bounds)
    commands = bench.ok("S1.0.1")
    assert [type(command) for command in commands] == [Finish]
    assert not any(isinstance(command, CallModel) for command in commands)


def test_results_exceeding_byte_limit_are_last() -> None:
    played = play(
        "S1: @A () > $a\nS2: @B ()\nS3: @C ()", {"A": "é" * 4, "B": [1, "xy"]}, limits=Limits(max_bytes=9)
    )
    assert played.result.refusal == Refusal("max_bytes", 9, 18, "C")
    assert played.variables == {"a": "éééé"}


def test_loop_over_too_many_items_makes_no_calls() -> None:
    text = "S1: @A () > $a\nS2: ?FOREACH ($i IN $a) THEN @WRITE ($i) > $a"
    played = play(text, {"A": [1, 2, 3]}, limits=Limits(max_items=2))
    assert (played.names, played.variables) == (["A"], {"a": [1, 2, 3]})
    assert played.result.refusal == Refusal("max_items", 2, 3)


def test_expired_time_limit_ends_run_in_any_state() -> None:
    bench = Bench("S1: @A () > $a\nS2: @B ()", limits=Limits(max_seconds=10))
    bench.ok("S1.0.1", 1)
    bench.feed(TimeUp(10.5))
    assert bench.result.refusal == Refusal("max_seconds", 10, 10.5)
    assert (bench.result.status, bench.result.variables) == (Status.FAILED, {"a": 1})
    assert bench.ok("S2.0.1") == []


# ---------------------------------------------------------------- repeated calls


def test_cycle_repeating_same_call_is_ended() -> None:
    played = play("S1: @A (x=$n)\nS2: @B ()\nS3: GOTO S1", inputs={"n": 7}, limits=Limits(max_repeats=2))
    assert played.names == ["A", "B"] * 3
    assert played.result.refusal == Refusal("max_repeats", 2, 2, "A")


def test_endless_cycle_is_ended_by_default_limits() -> None:
    played = play("S1: @POLL () > $s\nS2: GOTO S1", {"POLL": "busy"})
    assert (played.result.refusal or ())[:2] == ("max_repeats", 1_000)
    assert len(played.names) == 1_001 < Limits().max_steps / 2


def test_equal_items_are_no_repetition_by_default() -> None:
    played = play("S1: ?FOREACH ($i IN $many) THEN @A ($i)", inputs={"many": [1] * 1_500})
    assert (len(played.names), played.result.refusal) == (1_500, None)


def test_polling_is_possible_with_default_limits() -> None:
    polls = iter(["busy"] * 1_000 + ["ready"])
    text = 'S1: @POLL () > $s\nS2: ?IF ($s != "ready") THEN GOTO S1\nS3: @RESPOND ($s)'
    assert play(text, {"POLL": lambda args: next(polls)}).result.response == "ready"


def test_cycle_with_different_calls_is_no_repetition() -> None:
    count = iter(range(9))
    text = "S1: @NEXT ($n) > $n\nS2: ?IF ($n < 8) THEN GOTO S1"
    played = play(text, {"NEXT": lambda args: next(count)}, limits=Limits(max_repeats=0))
    assert (len(played.names), played.result.refusal) == (9, None)


def test_same_call_elsewhere_in_plan_is_no_repetition() -> None:
    text = "S1: @A (1)\nS2: @A (1)\nS3: ?FOREACH ($i IN [1, 1]) THEN @A ($i)"
    assert play(text, limits=Limits(max_repeats=0)).result.refusal is None


def test_steps_of_blocks_are_calls_loops_and_rounds_but_not_items() -> None:
    """No jump leads back there, so that a round may repeat a call; rounds are counted in items too."""
    text = """# ltp: 2
S1: @A (x=1)
S2: ?FOREACH ($i IN [1, 2, 3]) {
  S3: @A (x=1)
  ?REPEAT (max=2) {
    S4: @A (x=1)
  } UNTIL ($i > 1)
}
LET $x = 1"""
    plan = read_plan_text(text).result.require()
    played = play(plan, limits=Limits(max_repeats=0))
    assert (played.names.count("A"), played.result.refusal) == (8, None)
    assert played.result.usage.steps == 1 + 1 + 4
    assert (play(plan, limits=Limits(max_steps=5)).result.refusal or ())[:1] == ("max_steps",)


@pytest.mark.parametrize("back", ["S3: GOTO S2", "S3: @B () ON_FAIL GOTO S2"])
def test_max_repeats_counts_only_steps_in_cycle(back: str) -> None:
    played = play(f"S1: @A ()\nS2: @A ()\n{back}\nS4: @A ()", {"B": failing()}, limits=Limits(max_repeats=1))
    assert played.names.count("A") == 3
    assert (played.result.refusal or ())[:1] == ("max_repeats",)


def test_jump_within_group_repeats_all_members() -> None:
    played = play("@PARALLEL {\n S1: GOTO S1\n S2: @A ()\n}", limits=Limits(max_repeats=3))
    assert played.names == ["A"] * 4


# ---------------------------------------------------------------- what was used


def test_every_result_has_usage() -> None:
    text = "S1: @A () > $a ON_FAIL @RETRY(2)\nS2: ?FOREACH ($i IN [1, 2]) THEN @B ($i)"
    usage = play(text, {"A": failing("bad")}).result.usage
    assert usage == Usage(
        steps=2, calls=5, calls_by_tool={"A": 3, "B": 2}, retries=2, waits=2, waited=2.0, bytes=9
    )


def test_new_limits_count_previous_usage() -> None:
    bench = Bench("S1: @A ()\nS2: @A ()\nS3: @A ()", limits=Limits(max_calls=1))
    bench.feed(LimitsChanged(Limits(max_calls=2)))
    bench.ok("S1.0.1")
    assert bench.keys == ["S2.0.1"]
    bench.ok("S2.0.1")
    assert bench.result.refusal == Refusal("max_calls", 2, 2, "A")


def test_nothing_is_refused_without_limits() -> None:
    bounds = Limits(max_steps=3, max_calls=1, max_calls_by_tool={"A": 0}).without_guards()
    text = "S1: @A () > $n\nS2: ?IF ($n < 2000) THEN GOTO S1"
    count = iter(range(9_999))
    assert play(text, {"A": lambda args: next(count)}, limits=bounds).result.status is Status.DONE


# ---------------------------------------------------------------- limits and sizes


@pytest.mark.parametrize(
    "bad",
    [
        {"max_calls": -1},
        {"max_steps": 0},
        {"max_calls_by_tool": {"A": -1}},
        {"max_cost": float("nan")},
        {"max_seconds": float("inf")},
        {"window": 0},
        {"window": 501},
    ],
)
def test_invalid_limit_is_refused(bad: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=next(iter(bad)) if "by_tool" not in str(bad) else "A must"):
        Limits(**bad)  # type: ignore[arg-type]


def test_limits_survive_journal_and_unnamed_ones_are_off() -> None:
    limits = Limits(max_calls=3, max_calls_by_tool={"A": 1}, max_cost=None)
    assert Limits.from_json(limits.to_json()) == limits
    old = Limits.from_json({"max_steps": 10_000, "max_replans": 3, "window": 16})
    assert (old.schedule, Limits().schedule) == ("sequential", "auto")
    assert (old.max_items, old.max_repeats, old.max_calls) == (None, None, None)


@pytest.mark.parametrize(
    ("value", "size"),
    [
        ("", 0),
        ("é", 2),
        ("\ud800", 3),
        (None, 8),
        ([], 0),
        ([1, 2.5, None], 24),
        (["a", "é"], 3),
        ({"k": ["a", {"kk": 1}]}, 12),
    ],
)
def test_size_is_text_length_plus_eight_per_other_value(value: object, size: int) -> None:
    assert size_of(value) == size  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["retry_delay", "retry_backoff", "max_retry_delay", "max_cost"])
@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_limits_are_finite(name: str, value: float) -> None:
    with pytest.raises(ValueError, match="must be finite"):
        Limits(**{name: value})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("said", "name", "most"),
    [
        ("10,000 executed steps", "max_steps", 10_000),
        ("500,000 calls", "max_calls", 500_000),
        ("10,000 calls of models and agents", "max_model_calls", 10_000),
        ("50 million tokens", "max_tokens", 50_000_000),
        ("a cost of 100", "max_cost", 100.0),
        ("1 GB of results", "max_bytes", 1_000_000_000),
        ("100,000 items of one `FOREACH`", "max_items", 100_000),
        ("a day of work", "max_seconds", 86_400.0),
        ("an hour of waiting between attempts", "max_waiting", 3_600.0),
        ("three new plans", "max_replans", 3),
        ("1,000 repetitions of the same call", "max_repeats", 1_000),
        ("At most `max_concurrency` (4) steps", "max_concurrency", 4),
    ],
)
def test_default_limits_match_language_reference(said: str, name: str, most: float) -> None:
    reference = (Path(__file__).parents[2] / "docs" / "language.md").read_text("utf-8")
    assert said in reference
    assert getattr(Limits(), name) == most
