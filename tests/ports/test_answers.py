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
def test_success_returns_output_unchanged(value):
    """read({"success": true, "output": v}) == v for every JSON value."""
    assert read_answer({"success": True, "output": value}) == value


def test_text_mentioning_errors_is_success():
    assert (
        read_answer({"success": True, "output": "Error: nothing wrong", "error": None})
        == "Error: nothing wrong"
    )


def test_success_without_output_is_null():
    assert read_answer({"success": True}) is None


def test_answer_without_success_flag_is_judged_by_error():
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
def test_failure_has_reason(answer, text):
    with pytest.raises(ToolFailed, match=text):
        read_answer(answer)


def test_mcp_error_is_failure_with_texts():
    texts = [{"type": "text", "text": "no such"}, {"type": "image"}, {"type": "text", "text": "ticket"}]
    with pytest.raises(ToolFailed, match="no such\nticket"):
        read_answer({"isError": True, "content": texts})
    with pytest.raises(ToolFailed, match="without a reason"):
        read_answer({"isError": True, "content": []})


@pytest.mark.parametrize("said", [{}, {"isError": False}])
def test_mcp_result_is_its_content(said):
    texts = [{"type": "text", "text": "one"}, {"type": "image"}, {"type": "text", "text": "two"}]
    assert read_answer({"content": texts, **said}) == "one\ntwo"
    assert read_answer({"content": [], **said}) == ""
    assert read_answer({"content": texts, "structuredContent": {"n": 2}, **said}) == {"n": 2}
    assert read_answer({"content": texts, "structuredContent": None, **said}) == "one\ntwo"


@pytest.mark.parametrize(
    "answer",
    [None, "text", 3, [], {}, {"result": 1}, {"success": "yes", "output": 1}, {"success": 1}, object()],
)
def test_answer_of_unknown_shape_is_failure(answer):
    with pytest.raises(ToolFailed, match="unknown shape"):
        read_answer(answer)


@pytest.mark.parametrize("content", ["text", ["text"], [{}], None])
def test_non_mcp_content_is_of_unknown_shape(content):
    with pytest.raises(ToolFailed, match="unknown shape"):
        read_answer({"content": content})


def test_python_values_become_json():
    assert as_json({1: (1, 2), "s": {"b", "a"}, "n": math.nan}) == {
        "1": [1, 2],
        "s": ["a", "b"],
        "n": None,
    }


@pytest.mark.parametrize("item", ["text", 7, 1 << 70, None, 0.5, math.inf, (1, 2), {"a": [1]}])
async def test_long_list_is_converted_like_its_items(item):
    """Long lists with any content are converted like short ones; the list is a new one."""
    many = [item] * 2_500
    for made in (as_json(many), await as_json_in_turns(many)):
        assert made == [as_json(item)] * 2_500
        assert made is not many


async def test_converting_long_list_lets_other_tasks_run():
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
def test_non_json_value_is_failure(value):
    with pytest.raises(ToolFailed, match="not JSON"):
        as_json([value])


def test_endlessly_nested_value_is_failure():
    endless: list[object] = []
    endless.append(endless)
    with pytest.raises(ToolFailed, match="nested deeper"):
        as_json(endless)
