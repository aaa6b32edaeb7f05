"""Cleaning of results: code, searches and pages are cleaned, others are unchanged."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from callsheet.machine import Cut, Fact
from callsheet.ports.outcome_texts import clean_output, left_out

SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text()
KEYS = st.sampled_from(["stdout", "stderr", "exit_code", "results", "title", "url", "snippet"]) | st.text()
VALUES = st.recursive(SCALARS, lambda inner: st.lists(inner) | st.dictionaries(KEYS, inner), max_leaves=20)
TOOLS = st.sampled_from(["EXEC_CODE", "SHELL_EXEC", "HOST_EXEC", "WEB_SEARCH", "FETCH_PAGE", "READ_FILE"])


@given(TOOLS, VALUES)
def test_cleaning_is_pure_and_never_raises(tool, value):
    """clean(t, v) is defined for every v and always the same."""
    assert clean_output(tool, value) == clean_output(tool, value)


@given(VALUES)
def test_unrelated_tool_keeps_its_value(value):
    """clean(t, v) is v for every tool that is not of the three kinds."""
    assert clean_output("READ_FILE", value) is value


@given(st.text())
@settings(deadline=None)  # the first page imports the parser
def test_html_fragments_never_raise(text):
    clean_output("FETCH_PAGE", "<html><p>" + text)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"stdout": "2026-04-28\n", "stderr": "", "exit_code": 0}, "2026-04-28"),
        ({"stdout": "line one\nline two\n"}, "line one\nline two"),
        ({"stdout": "  indented\n"}, "  indented"),
        ({"stdout": "", "stderr": "NameError: x", "exit_code": 1}, "NameError: x"),
        ({"stdout": "half\n", "stderr": "Error: rest\n", "exit_code": 1}, "half\nError: rest"),
        ({"stdout": "done\n", "stderr": "a warning", "exit_code": 0}, "done"),
        ({"stdout": ""}, ""),
        ({"stdout": 5}, {"stdout": 5}),
        ("{'stdout': 5}", "{'stdout': 5}"),
        ('{"stdout": "x\\n", "stderr": "", "exit_code": 0}', "x"),
        ("{'stdout': '2026-04-28\\n', 'stderr': '', 'exit_code': 0}", "2026-04-28"),
        ("{'stdout': \"it's\", 'stderr': None}", "it's"),
        ("{'stdout': 'x', 'count': 3}", "{'stdout': 'x', 'count': 3}"),
        ("{'stdout': open('x'), 'stderr': ''}", "{'stdout': open('x'), 'stderr': ''}"),
        ("{'stdout': " + "[" * 5_000, "{'stdout': " + "[" * 5_000),
        ('{"stdout": "x", "count": 3}', '{"stdout": "x", "count": 3}'),
        ([1, 2, 3], [1, 2, 3]),
        (True, True),
        (2.25, 2.25),
        (None, None),
    ],
)
def test_code_result_is_its_output(value, expected):
    assert clean_output("EXEC_CODE", value) == expected
    assert clean_output("HOST_EXEC", value) == expected


def test_dict_with_stdout_from_other_tool_is_unchanged():
    value = {"stdout": "x", "other": 1}
    assert clean_output("GIT_LOG", value) is value


def test_search_results_become_titled_list_with_addresses():
    rows = [
        {"title": "Big  News", "url": "https://n.test/1", "snippet": "all\nof it"},
        {"name": "Second", "link": "https://n.test/2"},
    ]
    expected = "1. Big News\n   https://n.test/1\n   all of it\n2. Second\n   https://n.test/2"
    assert clean_output("WEB_SEARCH", rows) == expected
    assert clean_output("WEB_SEARCH", {"results": rows, "took": 3}) == expected
    assert clean_output("WEB_SEARCH", expected) == expected


@pytest.mark.parametrize(
    "value", [[], {}, [1, 2], [{"x": 1}], {"results": "none"}, "text", [{"title": "a"}, 3]]
)
def test_non_search_result_is_unchanged(value):
    assert clean_output("WEB_SEARCH", value) == value


def test_page_becomes_markdown_without_scripts():
    head = "<head><script>var a=1;</script></head>"
    page = f"<html>{head}<body><h1>Main heading</h1><p>Body text</p></body></html>"
    assert clean_output("FETCH_PAGE", page) == "# Main heading\n\nBody text"


@pytest.mark.parametrize(
    "value", ['{"result": {"id": "<p>X9</p>"}}', "a < b and c > d", "", json.dumps(["<html>"])]
)
def test_non_page_document_is_unchanged(value):
    assert clean_output("FETCH_PAGE", value) == value


def test_deeply_nested_page_becomes_text():
    assert "deep" in str(clean_output("FETCH_PAGE", "<div>" * 20_000 + "deep" + "</div>" * 20_000))


@pytest.mark.parametrize(
    ("value", "told"),
    [
        ({"stdout": "7\n", "stderr": "", "exit_code": 0}, []),
        ({"stdout": "7", "stderr": "a warning\n", "exit_code": 0}, [Cut("stderr", 0, 9, "characters")]),
        ({"stdout": "7", "stderr": "broken\n", "exit_code": 1}, []),
        ({"stdout": "", "stderr": "NameError", "exit_code": 1}, []),
        ({"stdout": "7", "isolation": "namespaces"}, [Fact("isolation", "namespaces")]),
        ('{"stdout": "x", "stderr": "odd", "exit_code": 0}', [Cut("stderr", 0, 3, "characters")]),
    ],
)
def test_hidden_program_output_is_remarked(value, told):
    assert left_out("EXEC_CODE", value, clean_output("EXEC_CODE", value)) == told


def test_fields_omitted_from_search_results_are_remarked():
    rows = [
        {"title": "a", "url": "u", "score": 0.5, "content": "c", "body": "more"},
        {"name": "b", "score": 0},
    ]
    for value, names in (
        (rows, "score, body"),
        ({"results": rows, "answer": "42", "took": 0}, "answer, score, body"),
    ):
        assert left_out("WEB_SEARCH", value, clean_output("WEB_SEARCH", value)) == [Fact("left out", names)]
    plain = [{"title": "a", "url": "u", "snippet": "s"}]
    assert left_out("WEB_SEARCH", plain, clean_output("WEB_SEARCH", plain)) == []


def test_page_conversion_remarks_original_size():
    page = "<html><body><p>Body</p></body></html>"
    told = [Fact("page", f"4 characters of text from {len(page)} of HTML")]
    assert left_out("FETCH_PAGE", page, clean_output("FETCH_PAGE", page)) == told
