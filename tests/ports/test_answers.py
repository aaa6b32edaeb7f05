"""What a tool gave back is a value or a failure, by the same rules for every kind of tool."""

from __future__ import annotations

import asyncio
import math
from datetime import date
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp_types import CallToolResult, TextContent

from callsheet.ports.answers import Answerer, as_json, as_json_in_turns, may_report, read_answer
from callsheet.ports.calls import ToolFailed

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


EXECUTOR, MANAGER, FUNCTION = Answerer.EXECUTOR, Answerer.MANAGER, Answerer.FUNCTION
STANDING_IN = (EXECUTOR, MANAGER)
"""Those that stand in for all tools."""


def text(words):
    return {"type": "text", "text": words}


def failed(words):
    return {"content": [text(words)], "isError": True}


def envelope(**fields):
    """An object with these fields, like the result types of other packages."""
    return SimpleNamespace(**fields)


@pytest.mark.parametrize("answerer", STANDING_IN)
@given(value=VALUES)
def test_success_returns_output_unchanged(answerer, value):
    """read({"success": true, "output": v}) == v for every JSON value that is not an MCP result."""
    assert read_answer({"success": True, "output": value}, answerer) == value


@given(VALUES)
def test_value_of_function_is_unchanged(value):
    """What a function returns is its value, whatever texts and numbers are in there."""
    assert read_answer({"rows": value}, FUNCTION) == {"rows": value}
    assert not may_report({"rows": value})


@pytest.mark.parametrize("answerer", STANDING_IN)
def test_text_mentioning_errors_is_success(answerer):
    answer = {"success": True, "output": "Error: nothing wrong", "error": None}
    assert read_answer(answer, answerer) == "Error: nothing wrong"


def test_success_without_output_is_null():
    assert read_answer({"success": True}, EXECUTOR) is None
    assert read_answer({"success": True, "rows": [1]}, MANAGER) == {"success": True, "rows": [1]}


def test_answer_without_success_flag_is_judged_by_error():
    assert read_answer({"output": 4}, EXECUTOR) == 4
    assert read_answer({"output": 4, "error": ""}, EXECUTOR) == 4
    for answerer in STANDING_IN:
        with pytest.raises(ToolFailed, match="boom"):
            read_answer({"output": "", "error": "boom"}, answerer)


@pytest.mark.parametrize("answerer", Answerer)
@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ({"success": False, "error": "503"}, "503"),
        ({"success": False, "output": "not there"}, "not there"),
        ({"success": False, "error": {"code": 7}}, '{"code":7}'),
        ({"success": False}, "without a reason"),
        ({"success": False, "error": "", "output": None}, "without a reason"),
        (envelope(success=False, result=None, error="503"), "503"),
        ({"error": "boom"}, "boom"),
        ({"error": "boom", "output": None}, "boom"),
        ({"isError": True}, "without a reason"),
        ({"is_error": True, "error": "gone"}, "gone"),
        (failed("no"), "no"),
        ({"success": True, "result": {"isError": True}}, "without a reason"),
        ({"success": True, "output": failed("no")}, "no"),
        (envelope(success=True, result={"isError": True, "error": "no"}, error=None), "no"),
        (envelope(success=True, result=CallToolResult(content=[], is_error=True), error=None), "without a r"),
        (CallToolResult(content=[TextContent(type="text", text="no")], is_error=True), "no"),
        (envelope(content=[envelope(type="text", text="no")], isError=True), "no"),
    ],
)
def test_reported_failure_is_failure_with_its_reason_for_every_kind_of_tool(answerer, answer, said):
    assert may_report(answer)
    with pytest.raises(ToolFailed, match=said):
        read_answer(answer, answerer)


def test_dict_of_function_with_other_fields_than_error_is_data():
    found = {"line": 3, "error": "unexpected )"}
    assert read_answer(found, FUNCTION) == found
    for answerer in STANDING_IN:
        with pytest.raises(ToolFailed, match="unexpected"):
            read_answer(found, answerer)
    counted = {"success": True, "result": {"rows": 2}}
    assert read_answer(counted, FUNCTION) == counted
    assert read_answer(counted, MANAGER) == {"rows": 2}


@pytest.mark.parametrize("answerer", STANDING_IN)
def test_success_that_is_said_outweighs_an_error_field(answerer):
    warned = {"success": True, "output": {"error": "a warning"}, "error": "a warning"}
    assert read_answer(warned, answerer) == {"error": "a warning"}


@pytest.mark.parametrize("answerer", Answerer)
def test_mcp_error_is_failure_with_texts(answerer):
    blocks = [text("no such"), {"type": "image", "data": "", "mimeType": "image/png"}, text("ticket")]
    with pytest.raises(ToolFailed, match="no such\nticket"):
        read_answer({"isError": True, "content": blocks}, answerer)
    with pytest.raises(ToolFailed, match="without a reason"):
        read_answer({"isError": True, "content": []}, answerer)


@pytest.mark.parametrize("answerer", Answerer)
@pytest.mark.parametrize("flag", ["isError", "is_error"])
def test_mcp_result_is_its_content(answerer, flag):
    """The value is the one that the same result has when a server sends it."""
    ok = {flag: False}
    assert read_answer({"content": [text("one")], **ok}, answerer) == "one"
    assert read_answer({"content": [text("one"), text("two")], **ok}, answerer) == ["one", "two"]
    assert read_answer({"content": [], **ok}, answerer) is None
    assert read_answer({"content": [text("1")], "structuredContent": {"n": 2}, **ok}, answerer) == {"n": 2}
    assert read_answer({"content": [text("1")], "structuredContent": None, **ok}, answerer) == "1"
    assert read_answer({"content": {"n": 2}, **ok}, answerer) == {"n": 2}
    of_sdk = CallToolResult(content=[TextContent(type="text", text="one")], structured_content={"n": 2})
    assert read_answer(of_sdk, answerer) == {"n": 2}
    assert read_answer([TextContent(type="text", text="one")], answerer) == "one"
    assert (
        read_answer(envelope(content=[envelope(type="text", text="one")], isError=False), answerer) == "one"
    )


@pytest.mark.parametrize(
    ("wrapped", "texts", "value"),
    [
        ("warm", ["warm"], "warm"),
        (7, ["7"], 7),
        ([1, "b"], ["1", "b"], [1, "b"]),
        ([], ["[]"], []),
        ("warm", ['{"result": "warm"}'], {"result": "warm"}),
        ([1, 2], ["1"], {"result": [1, 2]}),
        ("warm", [], {"result": "warm"}),
    ],
)
def test_wrapper_of_a_server_is_removed_without_schema_where_texts_tell(wrapped, texts, value):
    result = {"content": list(map(text, texts)), "structuredContent": {"result": wrapped}, "isError": False}
    assert read_answer(result, MANAGER) == value


def test_mcp_result_without_flag_is_one_only_from_those_that_stand_in():
    message = {"content": [text("one")]}
    assert read_answer(message, FUNCTION) == message
    for answerer in STANDING_IN:
        assert read_answer(message, answerer) == "one"
        assert read_answer({"success": True, "output": message}, answerer) == "one"


@pytest.mark.parametrize("answerer", [MANAGER, FUNCTION])
@pytest.mark.parametrize(
    "answer",
    ["text", 3, None, [], {}, [{"type": "text", "text": "x"}], {"content": "c"}, {"isError": False, "n": 1}],
)
def test_bare_value_is_itself(answerer, answer):
    assert read_answer(answer, answerer) == answer


@pytest.mark.parametrize(
    "answer",
    [None, "text", 3, [], {}, {"result": 1}, {"success": "yes", "output": 1}, {"success": 1}, object()],
)
def test_answer_of_unknown_shape_is_failure_of_an_executor(answer):
    with pytest.raises(ToolFailed, match="unknown shape"):
        read_answer(answer, EXECUTOR)


@pytest.mark.parametrize("content", ["text", ["text"], [{}], None])
def test_non_mcp_content_is_of_unknown_shape(content):
    with pytest.raises(ToolFailed, match="unknown shape"):
        read_answer({"content": content}, EXECUTOR)


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
