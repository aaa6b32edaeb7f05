"""The evaluation of conditions."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.machine.driving import Bench

from callsheet.ir import JSON


def holds(condition: str, **inputs: JSON) -> bool:
    return bool(Bench(f"S1: ?IF ({condition}) THEN @T ()", inputs=inputs).waiting)


@pytest.mark.parametrize(
    ("a", "op", "b"),
    [
        ("10", ">", "9"),
        (5, "==", "5.0"),
        (" 5 ", "==", 5),
        ("1e3", "==", 1000),
        (-0.5, "<", "0"),
        ("+7", ">=", 7),
        (".5", "<=", "0.50"),
        (10**30, ">", 10**30 - 1),
        ("3", "!=", 4),
    ],
)
def test_numeric_values_compare_as_numbers(a: JSON, op: str, b: JSON) -> None:
    assert holds(f"$a {op} $b", a=a, b=b)


@pytest.mark.parametrize(
    ("a", "b", "same"),
    [
        ("x", "x", True),
        ("x", "X", False),
        (None, "", True),
        ([1, "a"], '[1,"a"]', True),
        ({"k": 1}, '{"k":1}', True),
        ("0x10", "16", False),
        ("1_000", "1000", False),
        ("nan", "nan", True),
    ],
)
def test_other_values_compare_as_text(a: JSON, b: JSON, same: bool) -> None:
    assert holds("$a == $b", a=a, b=b) is same
    assert holds("$a != $b", a=a, b=b) is not same


@pytest.mark.parametrize("op", [">", "<", ">=", "<="])
@pytest.mark.parametrize(
    ("a", "b"), [("a", "b"), ("b", "a"), ("x", 1), (None, 0), (True, 0), ([], []), ("", "")]
)
def test_ordering_of_non_numbers_is_false(op: str, a: JSON, b: JSON) -> None:
    assert not holds(f"$a {op} $b", a=a, b=b)


@pytest.mark.parametrize("word", ["true", "TRUE", "True", " true ", True])
def test_bool_equals_its_word_in_any_case(word: JSON) -> None:
    assert holds("$a == true", a=word)
    assert holds("true == $a", a=word)
    assert not holds("$a == false", a=word)


@pytest.mark.parametrize("other", [1, "1", "yes", None, ""])
def test_bool_equals_only_its_word(other: JSON) -> None:
    assert not holds("$a == true", a=other)


@pytest.mark.parametrize(
    ("whole", "part"),
    [
        ("a bug here", "bug"),
        (["feature", "bug"], "bug"),
        ([1, 2], "2"),
        (["2"], 2),
        ([[1], {"a": 1}], [1]),
        ({"bug": 0}, "bug"),
        ({"1": 0}, 1),
        (1234, 23),
    ],
)
def test_contains_searches_text_list_and_keys(whole: JSON, part: JSON) -> None:
    assert holds("$a contains $b", a=whole, b=part)


@pytest.mark.parametrize(
    ("whole", "part"),
    [("bug", "BUG"), (["a bug"], "bug"), ({"k": "bug"}, "bug"), (None, "x"), ([], "x"), ("abc", None)],
)
def test_contains_is_false_for_other_types(whole: JSON, part: JSON) -> None:
    assert not holds("$a contains $b", a=whole, b=part)


@pytest.mark.parametrize("value", [None, "", "  \n\t", [], {}])
def test_null_blank_text_and_empty_containers_are_empty(value: JSON) -> None:
    assert holds("IS_EMPTY($a)", a=value)
    assert not holds("NOT_EMPTY($a)", a=value)


@pytest.mark.parametrize("value", [0, 0.0, False, "0", "[]", [None], {"": None}])
def test_zero_and_false_are_not_empty(value: JSON) -> None:
    assert holds("NOT_EMPTY($a)", a=value)
    assert not holds("IS_EMPTY($a)", a=value)


def test_unset_variables_are_empty() -> None:
    assert holds("IS_EMPTY($never)")
    assert holds("IS_EMPTY($a.missing)", a={"there": 1})


def test_conditions_combine() -> None:
    assert holds("$a == 1 AND NOT ($b == 1) OR $c == 1", a=1, b=2, c=0)
    assert holds("$a == 1 AND NOT ($b == 1) OR $c == 1", a=0, b=0, c=1)
    assert not holds("$a == 1 AND ($b == 1 OR $c == 1)", a=1, b=0, c=0)


def test_either_operand_may_be_any_value() -> None:
    assert holds('"<$a>" == "<1>"', a=1)
    assert holds("$a.b.0 == [1]", a={"b": [[1]]})


def test_step_with_false_condition_never_runs() -> None:
    bench = Bench('S1: ?IF (1 == 2) THEN @T () > $r\nS2: @RESPOND ("end")')
    assert bench.result.response == "end"
    assert bench.result.variables == {}
    assert bench.result.steps_executed == 1


NUMBERS = st.integers() | st.floats(allow_nan=False, allow_infinity=False)


@given(NUMBERS, NUMBERS)
def test_number_order_is_total(a: float, b: float) -> None:
    """Exactly one of <, == and > holds, and the other operators follow."""
    inputs = {"a": a, "b": b}
    assert [holds(f"$a {op} $b", **inputs) for op in ("<", "==", ">")].count(True) == 1
    assert holds("$a <= $b", **inputs) is not holds("$a > $b", **inputs)
    assert holds("$a >= $b", **inputs) is not holds("$a < $b", **inputs)


SCALARS = st.none() | st.booleans() | NUMBERS | st.text(max_size=4)


@given(SCALARS, SCALARS)
def test_equality_is_symmetric(a: JSON, b: JSON) -> None:
    """a == b if and only if b == a, and != is the negation."""
    assert holds("$a == $b", a=a, b=b) is holds("$b == $a", a=a, b=b)
    assert holds("$a != $b", a=a, b=b) is not holds("$a == $b", a=a, b=b)
