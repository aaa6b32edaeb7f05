"""The effect of casts on results."""

from __future__ import annotations

import pytest
from tests.machine.driving import Bench, failing_for, play

from callsheet.ir import JSON
from callsheet.machine.notes import NoteKind


def cast(kind: str, value: JSON) -> tuple[JSON, bool]:
    """The stored value, and whether a warning was emitted."""
    bench = Bench(f"S1: @T () > $v:{kind}")
    bench.ok("S1.0.1", value)
    warned = any(note.kind is NoteKind.CAST_FAILED for note in bench.notes)
    return bench.result.variables["v"], warned


@pytest.mark.parametrize(
    ("kind", "value", "made"),
    [
        ("int", "42", 42),
        ("int", " 3.9 ", 3),
        ("int", -3.9, -3),
        ("int", "1e3", 1000),
        ("int", True, 1),
        ("float", "2", 2.0),
        ("float", 3, 3.0),
        ("bool", "TRUE", True),
        ("bool", "yes", True),
        ("bool", "1", True),
        ("bool", True, True),
        ("bool", 1, True),
        ("bool", "FALSE", False),
        ("bool", "no", False),
        ("bool", "anything", False),
        ("list", "[1, 2]", [1, 2]),
        ("list", [1, 2], [1, 2]),
        ("list", "a, b", ["a, b"]),
        ("list", {"a": 1}, [{"a": 1}]),
        ("list", 5, [5]),
        ("list", None, [None]),
        ("list", "null", [None]),
        ("list", "", [""]),
        ("json", '{"a": [1]}', {"a": [1]}),
        ("json", {"a": 1}, {"a": 1}),
        ("json", "3", 3),
    ],
)
def test_matching_value_is_cast(kind: str, value: JSON, made: JSON) -> None:
    found, warned = cast(kind, value)
    assert (found, type(found), warned) == (made, type(made), False)


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("int", "many"),
        ("int", ""),
        ("int", None),
        ("int", [1]),
        ("int", "nan"),
        ("int", "1e999"),
        ("float", "1,5"),
        ("float", "inf"),
        ("float", 10**400),
        ("json", "{broken"),
        ("json", "NaN"),
    ],
)
def test_non_matching_value_stays_with_warning(kind: str, value: JSON) -> None:
    assert cast(kind, value) == (value, True)


@pytest.mark.parametrize("kind", ["int", "bool", "list", "json"])
def test_error_of_failed_step_is_never_cast(kind: str) -> None:
    bench = Bench(f"S1: @T () > $v:{kind}")
    bench.fail("S1.0.1", "503")
    assert bench.result.variables["v"] == "503"
    assert isinstance(bench.result.variables["v"], str)


def test_error_returned_as_value_is_cast() -> None:
    """A successful call that returns the text of an error returns a plain value."""
    bench = Bench("S1: @T () > $e\nS2: @READ ($e) > $n:int")
    bench.fail("S1.0.1", "12")
    bench.ok("S2.0.1", bench.args[0]["x"])
    assert bench.result.variables == {"e": "12", "n": 12}


def test_foreach_results_are_cast_by_item_except_errors() -> None:
    played = play(
        'S1: ?FOREACH ($i IN ["1", "2", "3"]) THEN @READ ($i) > $n:int', {"READ": failing_for("2", "99")}
    )
    assert played.variables["n"] == [1, "99", 3]


def test_foreach_result_is_list_already() -> None:
    played = play(
        'S1: ?FOREACH ($i IN ["a", "b"]) THEN @READ ($i) > $r:list', {"READ": lambda args: args["x"]}
    )
    assert played.variables["r"] == ["a", "b"]


def test_later_steps_see_cast_value() -> None:
    bench = Bench("S1: @T () > $v:json\nS2: @T (n=$v.0)")
    bench.ok("S1.0.1", "[7]")
    assert bench.args == [{"n": 7}]
