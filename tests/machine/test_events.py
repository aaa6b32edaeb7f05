"""Events that are late, repeated, unknown or out of order; decisions; cancelling; keys."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.machine.driving import FACTS, Bench, plan_of
from tests.machine.test_values import JSON_VALUES

from callsheet.machine import (
    CallTool,
    Cancelled,
    Decided,
    Decision,
    Event,
    Failed,
    Machine,
    PlanCompiled,
    Sleep,
    Started,
    Status,
    Succeeded,
    TimerFired,
    compile_plan,
)
from callsheet.machine.keys import Key, parse_key


def test_unknown_key_changes_nothing() -> None:
    bench = Bench("S1: @A ()")
    for event in (Succeeded("S9.0.1", 1), Failed("S1.1.1", "x"), TimerFired("S1.0.2")):
        assert bench.feed(event) == []
    assert bench.machine.open_keys() == ("S1.0.1",)


def test_repeated_outcome_changes_nothing() -> None:
    bench = Bench("@PARALLEL {\n S1: @A () > $a\n S2: @B ()\n}")
    bench.ok("S1.0.1", "first")
    assert bench.ok("S1.0.1", "second") == bench.fail("S1.0.1") == []
    bench.ok("S2.0.1")
    assert bench.result.variables == {"a": "first"}


def test_late_answer_of_failed_attempt_changes_nothing() -> None:
    bench = Bench("S1: @A () > $a ON_FAIL @RETRY(1)")
    bench.fail("S1.0.1", "timeout")
    assert bench.ok("S1.0.1", "late") == []
    bench.fire("S1.0.2")
    bench.ok("S1.0.2", "in time")
    assert bench.result.variables == {"a": "in time"}


def test_timer_fired_twice_makes_one_call() -> None:
    bench = Bench("S1: @A () ON_FAIL @RETRY(1)")
    bench.fail("S1.0.1")
    assert len(bench.fire("S1.0.2")) == 1
    assert bench.fire("S1.0.2") == []


def test_timer_for_call_in_flight_makes_no_call() -> None:
    assert Bench("S1: @A ()").fire("S1.0.1") == []


@pytest.mark.parametrize("event", [Succeeded("S1.0.2", 1), Failed("S1.0.2", "x")])
def test_attempt_not_started_has_no_outcome(event: Event) -> None:
    bench = Bench("S1: @A () > $a ON_FAIL @RETRY(2)")
    bench.fail("S1.0.1")
    assert bench.feed(event) == []
    assert isinstance(bench.fire("S1.0.2")[0], CallTool)


def test_unrequested_plan_is_not_run() -> None:
    bench = Bench('S1: @A ()\nS2: @RESPOND ("mine")')
    bench.compiled("S1.0.1", 'S1: @RESPOND ("other")')
    bench.ok("S1.0.1")
    assert bench.result.response == "mine"


def test_events_after_end_are_ignored() -> None:
    bench = Bench('S1: @RESPOND ("end")')
    before = bench.result
    for event in (
        Succeeded("S1.0.1", 1),
        Cancelled("x"),
        Started({"a": 1}),
        Decided("S1.0.1", Decision.FAIL),
    ):
        assert bench.feed(event) == []
    assert bench.result is before


def test_decided_retry_repeats_call_under_its_key() -> None:
    bench = Bench("S1: @A (v=1) > $a")
    assert bench.decide("S1.0.1", Decision.RETRY) == [CallTool("S1.0.1", "S1", "A", {"v": 1})]
    bench.ok("S1.0.1", "again")
    assert bench.result.variables == {"a": "again"}


def test_decided_skip_continues_with_null() -> None:
    bench = Bench("S1: @A () > $a ON_FAIL TERMINATE\nS2: @B ()")
    bench.decide("S1.0.1", Decision.SKIP)
    assert bench.keys == ["S2.0.1"]
    assert bench.machine.variables() == {"a": None}


def test_decided_fail_follows_failure_path() -> None:
    bench = Bench("S1: @A () > $a ON_FAIL GOTO S3\nS2: @B ()\nS3: @C ()")
    bench.decide("S1.0.1", Decision.FAIL)
    assert bench.keys == ["S3.0.1"]
    assert bench.machine.variables()["a"]


def test_decided_fail_makes_no_other_attempt() -> None:
    """A call in doubt may have happened: only `retry` may repeat it."""
    bench = Bench('S1: @A () > $a ON_FAIL @RETRY(3) TERMINATE ("gone")')
    bench.decide("S1.0.1", Decision.FAIL)
    assert bench.result.response == "gone"


def test_decision_without_doubt_changes_nothing() -> None:
    bench = Bench("S1: @A ()")
    for decision in Decision:
        assert bench.decide("S2.0.1", decision) == []
    assert bench.machine.open_keys() == ("S1.0.1",)


def test_cancelling_ends_run_with_current_variables() -> None:
    bench = Bench("S1: @A () > $a\n@PARALLEL {\n S2: @B () > $b\n S3: @C ()\n}", inputs={"i": 1})
    bench.ok("S1.0.1", "kept")
    bench.ok("S2.0.1", "not committed")
    bench.cancel("enough")
    assert (bench.result.status, bench.result.error) == (Status.CANCELLED, "enough")
    assert bench.result.variables == {"i": 1, "a": "kept"}
    assert bench.machine.open_keys() == ()


def test_run_is_cancelled_during_retry_wait() -> None:
    bench = Bench("S1: @A () ON_FAIL @RETRY(1)")
    bench.fail("S1.0.1")
    bench.cancel()
    assert bench.fire("S1.0.2") == []
    assert (bench.result.status, bench.machine.open_keys()) == (Status.CANCELLED, ())


def test_run_is_cancelled_during_compilation() -> None:
    bench = Bench('S1: RE-PLAN ("x")')
    assert bench.machine.open_keys() == ("S1.0.1",)
    bench.cancel()
    assert bench.compiled("S1.0.1", "S1: @A ()") == []
    assert (bench.result.status, bench.machine.open_keys()) == (Status.CANCELLED, ())


def test_key_contains_step_visit_item_and_attempt() -> None:
    bench = Bench("S1: ?FOREACH ($i IN [7, 8]) THEN @READ ($i) ON_FAIL @RETRY(1)\nS2: GOTO S1")
    bench.ok("S1.0.1")
    bench.ok("S1.1.1")
    bench.fail("S1@2.1.1")
    assert bench.keys == ["S1@2.0.1", "S1@2.1.2"]
    assert isinstance(bench.waiting["S1@2.1.2"], Sleep)


IDS = st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,8}", fullmatch=True)


@given(st.integers(0, 99), IDS, st.integers(1, 10**6), st.integers(0, 10**6), st.integers(1, 99))
def test_key_parses_into_its_parts(generation: int, step: str, visit: int, index: int, attempt: int) -> None:
    """`parse_key` is the inverse of formatting keys."""
    start = f"r{generation}/" if generation else ""
    at = "" if visit == 1 else f"@{visit}"
    assert parse_key(f"{start}{step}{at}.{index}.{attempt}") == Key(generation, step, visit, index, attempt)


def test_two_runs_of_plan_issue_same_commands() -> None:
    loop = "S1: ?FOREACH ($i IN [1, 2]) THEN @READ ($i) > $r"
    text = f"{loop}\n@PARALLEL {{\n S2: @A ()\n S3: @B ()\n}}\nS4: GOTO S1"
    seen: list[list[str]] = []
    for _ in range(2):
        bench, keys = Bench(text), []
        for _ in range(12):
            keys += bench.keys
            bench.ok(bench.keys[0], 1)
        seen.append(keys)
    assert seen[0] == seen[1]


BUSY = """
S1: ?FOREACH ($i IN $x) THEN @READ ($i, "$x") > $r:int ON_FAIL @RETRY(1) GOTO S3
@PARALLEL {
  S2: ?IF ($r.0 > 1) THEN @A (v=$r) > $a:json
  S3: @LLM_EXTRACT ("$r $x.a.0", target="t") > $b:list ON_FAIL TERMINATE ("$b $r")
}
S4: ?FOREACH ($i IN $a) THEN ?IF ($i contains $b) THEN @RESPOND ("$i", $b.-1)
S5: ?IF ($n == $a) THEN GOTO S1
S6: RE-PLAN ("again $b", $r)
""".replace("$b.-1", "$b[-1]")
OTHER = 'S1: @AGENT_SOLVE ("$r") > $x:float\nS2: @RESPOND ("$x $a")'

MADE_UP = ["", ".", "x", "S1", "S1.0", "r/S1.0.1", "S1.0.x", "S1@x.0.1", "r9/S2.0.1", "S3.0.1", "S6.0.2"]
MACHINE_JSON = JSON_VALUES | st.sampled_from(
    [10**5000, -(10**5000), "[" * 5000, '{"a":' * 900 + "1" + "}" * 900, "\ud800", 1e308, 10**400, "9" * 500]
)


def _nested(depth: int) -> list[object]:
    value: list[object] = []
    for _ in range(depth):
        value = [value]
    return value


@given(
    st.lists(
        st.tuples(st.integers(0, 9), st.integers(0, 40), MACHINE_JSON | st.just(_nested(5000))),  # type: ignore[arg-type]
        max_size=25,
    ),
    MACHINE_JSON,
)
def test_machine_never_raises_for_event_sequences(
    moves: list[tuple[int, int, object]], first: object
) -> None:
    """`feed` is total: known and made-up keys, any JSON value, any kind of event in any order."""
    machine = Machine(compile_plan(plan_of(BUSY), FACTS))
    machine.feed(Started({"x": first, "n": 3}))  # type: ignore[dict-item]
    for kind, pick, value in moves:
        known = [*machine.open_keys(), *MADE_UP] if kind < 8 else [*MADE_UP, *machine.open_keys()]
        key = known[pick % len(known)]
        event: Event = (
            Succeeded(key, value),  # type: ignore[arg-type]
            Succeeded(key, value),  # type: ignore[arg-type]
            Succeeded(key, value),  # type: ignore[arg-type]
            Failed(key, "failed $x"),
            TimerFired(key),
            PlanCompiled(key, plan_of(OTHER), FACTS),
            Decided(key, list(Decision)[pick % 3]),
            Started({"x": value}),  # type: ignore[dict-item]
            Failed(key, ""),
            Cancelled("") if pick > 30 else TimerFired(key),
        )[kind]
        machine.feed(event)


@pytest.mark.parametrize("value", [10**5000, _nested(5000), [10**5000]], ids=["long", "deep", "inside"])
def test_oversized_value_is_reported_not_raised(value: object) -> None:
    bench = Bench('S1: @A () > $a\nS2: ?IF ($a != "x") THEN @B (v="$a", w=$a.0.0)\nS3: @RESPOND ("end $a")')
    bench.ok("S1.0.1", value)  # type: ignore[arg-type]
    if "S2.0.1" in bench.keys:
        bench.ok("S2.0.1")
    assert bench.result.status in Status
