"""The documented executor's answer is a value or a failure, and nothing in between."""

from __future__ import annotations

import math
from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st

from callsheet.ports.answers import read_answer
from callsheet.ports.tools import ToolFailed

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


@given(VALUES)
def test_a_success_gives_its_output_unchanged(value):
    """read({"success": true, "output": v}) == v for every JSON value."""
    assert read_answer({"success": True, "output": value}) == value


def test_a_text_that_speaks_of_errors_is_a_success():
    assert (
        read_answer({"success": True, "output": "Error: nothing wrong", "error": None})
        == "Error: nothing wrong"
    )


def test_a_success_without_output_is_null():
    assert read_answer({"success": True}) is None


def test_an_answer_without_success_is_judged_by_its_error():
    assert read_answer({"output": 4}) == 4
    assert read_answer({"output": 4, "error": ""}) == 4
    with pytest.raises(ToolFailed, match="boom"):
        read_answer({"output": "", "error": "boom"})


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        ({"success": False, "error": "503"}, "503"),
        ({"success": False, "output": "not there"}, "not there"),
        ({"success": False, "error": {"code": 7}}, '{"code":7}'),
        ({"success": False}, "no reason"),
        ({"success": False, "error": "", "output": None}, "no reason"),
    ],
)
def test_a_failure_says_why(answer, text):
    with pytest.raises(ToolFailed, match=text):
        read_answer(answer)


@pytest.mark.parametrize(
    "answer",
    [None, "text", 3, [], {}, {"result": 1}, {"success": "yes", "output": 1}, {"success": 1}, object()],
)
def test_an_answer_in_no_known_shape_is_a_failure(answer):
    with pytest.raises(ToolFailed, match="no known shape"):
        read_answer(answer)


def test_python_values_become_json():
    assert read_answer({"success": True, "output": {1: (1, 2), "s": {"b", "a"}, "n": math.nan}}) == {
        "1": [1, 2],
        "s": ["a", "b"],
        "n": None,
    }


@pytest.mark.parametrize("value", [b"bytes", date(2026, 1, 1), object()])
def test_what_is_not_json_is_a_failure(value):
    with pytest.raises(ToolFailed, match="not JSON"):
        read_answer({"success": True, "output": [value]})


def test_a_value_nested_without_end_is_a_failure():
    endless: list[object] = []
    endless.append(endless)
    with pytest.raises(ToolFailed, match="nested deeper"):
        read_answer({"success": True, "output": endless})
