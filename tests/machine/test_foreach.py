"""FOREACH: its items, how they run, and the position of their results."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.machine.driving import Bench, Boom, failing, failing_for, play, waits

from callsheet.ir import JSON
from callsheet.machine import Limits, Status


def items(source: JSON) -> list[JSON]:
    bench = Bench("S1: ?FOREACH ($i IN $s) THEN @READ ($i) > $r", inputs={"s": source})
    return [args["x"] for args in bench.args]


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ([1, [2], None], [1, [2], None]),
        ('["a", "b"]', ["a", "b"]),
        ('{"a": 1}', [{"a": 1}]),
        ({"a": 1}, [{"a": 1}]),
        ("plain, text", ["plain, text"]),
        (7, [7]),
        (0, [0]),
        (False, [False]),
    ],
)
def test_source_is_list_json_list_or_single_value(source: JSON, found: list[JSON]) -> None:
    assert items(source) == found


@pytest.mark.parametrize("source", [None, "", " ", [], {}, "[]", "null"])
def test_empty_source_runs_nothing_and_yields_empty_list(source: JSON) -> None:
    played = play("S1: ?FOREACH ($i IN $s) THEN @T ($i) > $r", inputs={"s": source})
    assert (played.names, played.variables["r"], played.result.response) == ([], [], "[]")


def test_read_only_items_run_sixteen_at_once() -> None:
    bench = Bench("S1: ?FOREACH ($i IN $s) THEN @READ ($i)", inputs={"s": list(range(20))})
    assert len(bench.waiting) == 16
    bench.ok("S1.7.1")
    assert bench.keys[-1] == "S1.16.1"
    assert len(bench.waiting) == 16


@pytest.mark.parametrize("action", ["@KEEP ($i)", '@LLM_EXTRACT ($i, target="t")'])
def test_idempotent_tools_and_model_operations_run_concurrently(action: str) -> None:
    assert len(Bench(f"S1: ?FOREACH ($i IN [1, 2, 3]) THEN {action}").waiting) == 3


@pytest.mark.parametrize("action", ["@WRITE ($i)", "@UNKNOWN ($i)", "@AGENT_SOLVE ($i)"])
def test_writing_items_run_sequentially(action: str) -> None:
    bench = Bench(f"S1: ?FOREACH ($i IN [1, 2]) THEN {action}")
    assert bench.keys == ["S1.0.1"]
    bench.ok("S1.0.1")
    assert bench.keys == ["S1.1.1"]


def test_window_is_configurable() -> None:
    bench = Bench("S1: ?FOREACH ($i IN [1, 2, 3]) THEN @READ ($i)", limits=Limits(window=2))
    assert bench.keys == ["S1.0.1", "S1.1.1"]


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
def test_results_are_in_item_order(order: tuple[int, ...]) -> None:
    bench = Bench("S1: ?FOREACH ($i IN [0, 1, 2]) THEN @READ ($i) > $r")
    for index in order:
        bench.ok(f"S1.{index}.1", f"r{index}")
    assert bench.result.variables["r"] == ["r0", "r1", "r2"]


def test_failed_item_leaves_error_and_others_continue() -> None:
    played = play("S1: ?FOREACH ($i IN [1, 2, 3]) THEN @WRITE ($i) > $r", {"WRITE": failing_for(2)})
    assert played.variables["r"] == [1, "broken", 3]
    assert played.result.status is Status.DONE


def test_retry_is_per_item() -> None:
    bench = Bench("S1: ?FOREACH ($i IN [0, 1]) THEN @READ ($i) > $r ON_FAIL @RETRY(1)")
    bench.fail("S1.1.1")
    assert bench.keys == ["S1.0.1", "S1.1.2"]
    bench.ok("S1.0.1", "a")
    bench.fire("S1.1.2")
    bench.ok("S1.1.2", "b")
    assert bench.result.variables["r"] == ["a", "b"]


def test_retried_item_keeps_arguments() -> None:
    bench = Bench("S1: ?FOREACH ($i IN [4, 5]) THEN @WRITE ($i) ON_FAIL @RETRY(1)")
    bench.fail("S1.0.1")
    assert waits(bench) == [1.0]
    bench.fire("S1.0.2")
    assert bench.args == [{"x": 4}]


ON_ONE = (
    'S1: ?FOREACH ($i IN $s) THEN @READ ($i) > $r ON_FAIL TERMINATE ("item $i: $r")\nS2: @RESPOND ("all")'
)


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
def test_terminate_acts_on_first_failed_item_in_list_order(order: tuple[int, ...]) -> None:
    """Not on the item whose failure arrives first."""
    bench = Bench(ON_ONE, inputs={"s": ["a", "b", "c"]})
    for index in order:
        bench.ok("S1.0.1", 1) if index == 0 else bench.fail(f"S1.{index}.1", f"error {index}")
    assert bench.result.response == "item b: error 1"
    assert (bench.result.terminated, bench.result.error) == (True, "error 1")


def test_goto_acts_after_items_in_flight() -> None:
    bench = Bench("S1: ?FOREACH ($i IN [0, 1]) THEN @READ ($i) ON_FAIL GOTO S3\nS2: @A ()\nS3: @B ()")
    bench.fail("S1.0.1")
    assert bench.keys == ["S1.1.1"]
    bench.ok("S1.1.1")
    assert bench.keys == ["S3.0.1"]


def test_no_item_starts_after_final_failure() -> None:
    bench = Bench(ON_ONE, inputs={"s": list(range(40))})
    bench.fail("S1.3.1")
    for key in bench.keys:
        bench.ok(key)
    assert bench.result.response == "item 3: broken"


def test_sequential_items_end_at_first_failure() -> None:
    text = 'S1: ?FOREACH ($i IN [1, 2, 3]) THEN @WRITE ($i) > $r ON_FAIL TERMINATE ("$r")'
    played = play(text, {"WRITE": failing_for(2)})
    assert (len(played.calls), played.variables["r"]) == (2, [1, "broken"])


@given(
    st.lists(st.booleans(), min_size=1, max_size=8),
    st.integers(1, 4),
    st.sampled_from(['TERMINATE ("$i $r")', "GOTO S2"]),
    st.randoms(use_true_random=False),
)
def test_ended_foreach_is_same_in_parallel_and_sequential(
    fails: list[bool], window: int, then: str, random: object
) -> None:
    """Variables, answer and status are those of items run one after another, whatever the order of arrival.

    The calls made are a run of items from the first; all up to the first that fails are among them.
    """
    text = 'S1: ?FOREACH ($i IN $s) THEN @{} ($i) > $r ON_FAIL {}\nS2: @RESPOND ("$r")'
    inputs: dict[str, JSON] = {"s": list(range(len(fails)))}

    def tool(args: dict[str, int]) -> JSON:
        if fails[args["x"]]:
            raise Boom(f"e{args['x']}")
        return f"v{args['x']}"

    alone = play(text.format("WRITE", then), {"WRITE": tool}, inputs=inputs)
    bench = Bench(text.format("READ", then), inputs=inputs, limits=Limits(window=window))
    called: list[int] = []
    while bench.machine.result is None:
        key = random.choice(bench.keys)  # type: ignore[attr-defined]
        index = int(key.split(".")[1])
        called.append(index)
        bench.fail(key, f"e{index}") if fails[index] else bench.ok(key, f"v{index}")
    assert sorted(called) == list(range(len(called)))
    assert len(called) >= len(alone.calls)
    assert bench.result == alone.result


def test_error_returned_as_value_is_no_item_failure() -> None:
    """Only a failed attempt counts, not a text that was an error before."""
    bench = Bench(
        "S1: ?FOREACH ($i IN [1]) THEN @READ ($i) > $errors\n"
        'S2: ?FOREACH ($e IN [$errors.0, "b"]) THEN @READ ($e) > $r ON_FAIL TERMINATE ("$r")'
    )
    bench.fail("S1.0.1", "old")
    bench.ok("S2.0.1", bench.args[0]["x"])
    bench.fail("S2.1.1", "new")
    assert bench.result.response == "new"


def test_condition_filters_items() -> None:
    played = play(
        "S1: ?FOREACH ($i IN [1, 5, 2, 7]) THEN ?IF ($i > 3) THEN @WRITE ($i) > $r",
        {"WRITE": lambda args: args["x"] * 10},
    )
    assert played.variables["r"] == [50, 70]
    assert played.result.steps_executed == 1


def test_loop_variable_is_set_only_in_its_step() -> None:
    text = 'S1: ?FOREACH ($i IN [1, 2]) THEN @READ ($i) > $r\nS2: @RESPOND ("<$i>")'
    assert play(text).result.response == "<>"
    assert "i" not in play(text).variables


def test_shadowed_variable_is_restored_after_loop() -> None:
    text = 'S1: ?FOREACH ($i IN [1, 2]) THEN @WRITE ($i)\nS2: @RESPOND ("<$i>")'
    played = play(text, inputs={"i": "mine"})
    assert (played.result.response, played.variables) == ("<mine>", {"i": "mine"})


def test_loop_variable_may_shadow_its_source() -> None:
    played = play(
        "S1: ?FOREACH ($x IN $x) THEN @READ ($x) > $x", {"READ": failing("no")}, inputs={"x": [1, 2]}
    )
    assert played.variables["x"] == ["no", "no"]


def test_respond_per_item_joins_texts_with_newlines() -> None:
    played = play('S1: ?FOREACH ($i IN ["a", "", "c"]) THEN @RESPOND ($i)\nS2: @T ()')
    assert (played.result.response, played.names) == ("a\nc", [])


def test_respond_for_no_item_continues_plan() -> None:
    played = play('S1: ?FOREACH ($i IN []) THEN @RESPOND ("x $i")\nS2: @RESPOND ("none")')
    assert played.result.response == "none"


def test_first_matching_item_may_end_or_jump() -> None:
    end = play('S1: ?FOREACH ($i IN [1, 2, 3]) THEN ?IF ($i > 1) THEN TERMINATE ("at $i")')
    jump = play('S1: ?FOREACH ($i IN [1, 2]) THEN ?IF ($i > 1) THEN GOTO S3\nS2: @T ()\nS3: @RESPOND ("x")')
    assert (end.result.response, jump.result.response, jump.names) == ("at 2", "x", [])


def test_failed_item_of_message_is_not_stored() -> None:
    played = play(
        'S1: ?FOREACH ($i IN [1, 2]) THEN @WRITE ($i) ON_FAIL TERMINATE ("at $i")',
        {"WRITE": failing()},
        inputs={"i": "mine"},
    )
    assert (played.result.response, played.variables) == ("at 1", {"i": "mine"})
