"""The answer of the documented executor is a value or a failure."""

from __future__ import annotations

import asyncio
import math
from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st

from callsheet.ports.answers import as_json, as_json_in_turns, read_answer
from callsheet.ports.calls import ToolFailed

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
        ({"success": False}, "without a reason"),
        ({"success": False, "error": "", "output": None}, "without a reason"),
    ],
)
def test_a_failure_says_why(answer, text):
    with pytest.raises(ToolFailed, match=text):
        read_answer(answer)


def test_an_error_of_mcp_is_a_failure_with_its_texts():
    texts = [{"type": "text", "text": "no such"}, {"type": "image"}, {"type": "text", "text": "ticket"}]
    with pytest.raises(ToolFailed, match="no such\nticket"):
        read_answer({"isError": True, "content": texts})
    with pytest.raises(ToolFailed, match="without a reason"):
        read_answer({"isError": True, "content": []})


@pytest.mark.parametrize("said", [{}, {"isError": False}])
def test_a_result_of_mcp_is_what_it_holds(said):
    texts = [{"type": "text", "text": "one"}, {"type": "image"}, {"type": "text", "text": "two"}]
    assert read_answer({"content": texts, **said}) == "one\ntwo"
    assert read_answer({"content": [], **said}) == ""
    assert read_answer({"content": texts, "structuredContent": {"n": 2}, **said}) == {"n": 2}
    assert read_answer({"content": texts, "structuredContent": None, **said}) == "one\ntwo"


@pytest.mark.parametrize(
    "answer",
    [None, "text", 3, [], {}, {"result": 1}, {"success": "yes", "output": 1}, {"success": 1}, object()],
)
def test_an_answer_in_no_known_shape_is_a_failure(answer):
    with pytest.raises(ToolFailed, match="no known shape"):
        read_answer(answer)


@pytest.mark.parametrize("content", ["text", ["text"], [{}], None])
def test_content_that_is_not_of_mcp_is_no_known_shape(content):
    with pytest.raises(ToolFailed, match="no known shape"):
        read_answer({"content": content})


def test_python_values_become_json():
    assert as_json({1: (1, 2), "s": {"b", "a"}, "n": math.nan}) == {
        "1": [1, 2],
        "s": ["a", "b"],
        "n": None,
    }


@pytest.mark.parametrize("item", ["text", 7, 1 << 70, None, 0.5, math.inf, (1, 2), {"a": [1]}])
async def test_a_long_list_becomes_what_its_items_become(item):
    """The way of long lists, whatever is in them, is that of short ones; the list is a new one."""
    many = [item] * 2_500
    for made in (as_json(many), await as_json_in_turns(many)):
        assert made == [as_json(item)] * 2_500
        assert made is not many


async def test_converting_a_long_list_lets_other_tasks_run():
    turns = 0

    async def count_turns() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    other = asyncio.create_task(count_turns())
    await as_json_in_turns([{"n": 1}] * 30_000)
    other.cancel()
    assert turns >= 30


@pytest.mark.parametrize("value", [b"bytes", date(2026, 1, 1), object()])
def test_what_is_not_json_is_a_failure(value):
    with pytest.raises(ToolFailed, match="not JSON"):
        as_json([value])


def test_a_value_nested_without_end_is_a_failure():
    endless: list[object] = []
    endless.append(endless)
    with pytest.raises(ToolFailed, match="nested deeper"):
        as_json(endless)
