"""@PARALLEL: members run together and are committed together."""

from __future__ import annotations

import itertools

import pytest
from tests.machine.driving import Bench, failing, play

from callsheet.machine import Limits, Status


def test_members_are_all_called_before_any_answer() -> None:
    bench = Bench("@PARALLEL {\n S1: @A ()\n S2: @WRITE ()\n S3: @WRITE ()\n}\nS4: @B ()")
    assert bench.keys == ["S1.0.1", "S2.0.1", "S3.0.1"]


def test_step_after_group_waits_for_all_members() -> None:
    bench = Bench("@PARALLEL {\n S1: @A ()\n S2: @B ()\n}\nS3: @C ()")
    bench.ok("S2.0.1")
    assert bench.keys == ["S1.0.1"]
    bench.ok("S1.0.1")
    assert bench.keys == ["S3.0.1"]


def test_group_takes_as_long_as_longest_member() -> None:
    assert play("@PARALLEL {\n S1: @A ()\n S2: @B ()\n S3: @C ()\n}\nS4: @D ()").seconds == 2.0


def test_members_see_variables_before_group() -> None:
    played = play(
        "@PARALLEL {\n S1: @A () > $x\n"
        ' S2: ?IF ($x == "old") THEN @B (v="$x") > $y\n S3: @RESPOND ("saw $x")\n}',
        {"A": "new", "B": 1},
        inputs={"x": "old"},
    )
    assert [call.args for call in played.calls] == [{}, {"v": "old"}]
    assert (played.result.response, played.variables) == ("saw old", {"x": "new", "y": 1})


def test_late_foreach_items_see_variables_before_group() -> None:
    bench = Bench(
        "@PARALLEL {\n S1: @A () > $x\n S2: ?FOREACH ($i IN [1, 2]) THEN @WRITE ($i, $x)\n}",
        inputs={"x": "old"},
    )
    bench.ok("S1.0.1", "new")
    bench.ok("S2.0.1")
    assert bench.args == [{"x": 2, "y": "old"}]


@pytest.mark.parametrize("order", list(itertools.permutations(["S1.0.1", "S2.0.1", "S3.0.1"])))
def test_outputs_are_stored_in_text_order(order: tuple[str, ...]) -> None:
    bench = Bench("@PARALLEL {\n S1: @A () > $x\n S2: @B () > $y\n S3: @C () > $x\n}")
    for key in order:
        bench.ok(key, key)
    assert bench.result.variables == {"x": "S3.0.1", "y": "S2.0.1"}
    assert bench.result.response == "S3.0.1"


def test_member_end_acts_after_group() -> None:
    bench = Bench('@PARALLEL {\n S1: TERMINATE ("stop")\n S2: @B () > $b\n}\nS3: @C ()')
    assert bench.keys == ["S2.0.1"]
    bench.ok("S2.0.1", 5)
    assert (bench.result.response, bench.result.variables) == ("stop", {"b": 5})


@pytest.mark.parametrize("order", [("S1.0.1", "S2.0.1"), ("S2.0.1", "S1.0.1")])
def test_first_control_in_text_order_takes_effect(order: tuple[str, ...]) -> None:
    bench = Bench(
        "@PARALLEL {\n S1: @A () ON_FAIL GOTO S5\n"
        ' S2: @B () ON_FAIL TERMINATE ("b")\n S3: @RESPOND ("c")\n}\n'
        "S4: @D ()\nS5: @E ()"
    )
    for key in order:
        bench.fail(key)
    assert bench.keys == ["S5.0.1"]


def test_failed_member_without_on_fail_stops_no_other() -> None:
    played = play("@PARALLEL {\n S1: @A () > $a\n S2: @B () > $b\n}\nS3: @C ()", {"A": failing(), "B": 2})
    assert played.variables == {"a": "broken", "b": 2}
    assert played.names == ["A", "B", "C"]


def test_failure_message_of_member_sees_its_error_and_variables_before_group() -> None:
    played = play(
        '@PARALLEL {\n S1: @A () > $a\n S2: @B () > $b ON_FAIL TERMINATE ("$a|$b")\n}',
        {"A": "new", "B": failing("bad")},
        inputs={"a": "old"},
    )
    assert played.result.response == "old|bad"
    assert played.variables == {"a": "new", "b": "bad"}


def test_guards_apply_to_their_member_only() -> None:
    played = play("@PARALLEL {\n S1: ?IF (1 == 2) THEN @A ()\n S2: @B ()\n}\nS3: @C ()")
    assert played.names == ["B", "C"]


def test_group_without_running_members_is_passed() -> None:
    played = play(
        '@PARALLEL {\n S1: ?IF (1 == 2) THEN @A ()\n S2: ?IF (1 == 3) THEN @B ()\n}\nS3: @RESPOND ("x")'
    )
    assert played.result.response == "x"


def test_foreach_loops_of_group_have_separate_windows() -> None:
    bench = Bench(
        "@PARALLEL {\n S1: ?FOREACH ($i IN [1, 2, 3]) THEN @READ ($i) > $a\n"
        " S2: ?FOREACH ($i IN [4, 5, 6]) THEN @READ ($i) > $b\n}",
        limits=Limits(window=2),
    )
    assert bench.keys == ["S1.0.1", "S1.1.1", "S2.0.1", "S2.1.1"]


def test_adjacent_groups_stay_separate() -> None:
    bench = Bench("@PARALLEL {\n S1: @A ()\n S2: @A ()\n}\n@PARALLEL {\n S3: @A ()\n S4: @A ()\n}")
    assert bench.keys == ["S1.0.1", "S2.0.1"]
    bench.ok("S1.0.1")
    bench.ok("S2.0.1")
    assert bench.keys == ["S3.0.1", "S4.0.1"]


def test_group_in_loop_is_visited_again() -> None:
    bench = Bench("S0: @Z ()\n@PARALLEL {\n S1: @A ()\n S2: @B ()\n}\nS3: GOTO S1")
    for key in ("S0.0.1", "S1.0.1", "S2.0.1"):
        bench.ok(key)
    assert bench.keys == ["S1@2.0.1", "S2@2.0.1"]


def test_budget_applies_within_group() -> None:
    played = play("@PARALLEL {\n S1: @A ()\n S2: @B ()\n S3: @C ()\n}", limits=Limits(max_steps=2))
    assert played.names == ["A", "B"]
    assert (played.result.status, played.result.steps_executed) == (Status.FAILED, 2)


def test_failed_member_hides_error_from_others() -> None:
    bench = Bench(
        '@PARALLEL {\n S1: @A () > $x ON_FAIL TERMINATE ("$x")\n'
        " S2: ?FOREACH ($i IN [1, 2]) THEN @WRITE ($i, $x)\n}",
        inputs={"x": "old"},
    )
    bench.fail("S1.0.1", "error")
    bench.ok("S2.0.1")
    assert bench.args == [{"x": 2, "y": "old"}]
    bench.ok("S2.1.1")
    assert bench.result.variables == {"x": "error"}
