"""Changes turn an earlier document into the later one, and contain no more than necessary."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from callsheet.views.report.document import changes, name_of, print_of

_ROWS = st.lists(st.lists(st.integers(0, 3) | st.text(max_size=2), max_size=2), max_size=4)
_LONG = st.lists(st.sampled_from(["a", "b", "", "c" * 600]), max_size=9).map("\n".join)
_PARTS = _LONG | st.integers(0, 2) | st.none() | st.text(max_size=2) | _ROWS
_NAMES = st.sampled_from(["events", "rows", "columns", "lctl"])
_DOCUMENTS = st.dictionaries(_NAMES, st.recursive(_PARTS, lambda part: st.dictionaries(_NAMES, part)))


def grown(document: Any, told: dict[str, Any]) -> Any:
    for path, value in told["set"]:
        document = put(document, path, value)
    for path, length, others in told["rows"]:
        old = document
        for key in path:
            old = old[key]
        rows = [*old[:length], *[None] * (length - len(old))]
        for place, row in others:
            rows[place] = row
        document = put(document, path, rows)
    for path, line, count, others in told["texts"]:
        text = document
        for key in path:
            text = text[key]
        lines = text.split("\n")
        document = put(document, path, "\n".join([*lines[:line], *others, *lines[line + count :]]))
    return document


def put(document: Any, path: list[str], value: Any) -> Any:
    if not path:
        return value
    return {**document, path[0]: put(document[path[0]], path[1:], value)}


@given(_DOCUMENTS, _DOCUMENTS)
def test_delta_turns_earlier_document_into_later(before: Any, after: Any) -> None:
    one, other = print_of(before), print_of(after)
    assert grown(before, changes(one, other, after)) == after
    assert (name_of(one) == name_of(other)) == (before == after)


def test_only_new_or_changed_rows_are_sent() -> None:
    before = {
        "run": {"status": "running"},
        "visits": {"columns": ["a"], "rows": [[1], [2]]},
        "usage": {"calls": 1},
    }
    after = {**before, "visits": {"columns": ["a"], "rows": [[1], [3], [4]]}, "usage": {"calls": 2}}
    told = changes(print_of(before), print_of(after), after)
    assert told == {
        "set": [[["usage", "calls"], 2]],
        "rows": [[["visits", "rows"], 3, [[1, [3]], [2, [4]]]]],
        "texts": [],
    }
    assert changes(print_of(after), print_of(after), after) == {"set": [], "rows": [], "texts": []}


def test_only_changed_lines_of_long_text_are_sent() -> None:
    lines = [f"line {n}" for n in range(400)]
    before, after = {"lctl": "\n".join(lines)}, {"lctl": "\n".join([*lines[:300], "new", "", *lines[301:]])}
    told = changes(print_of(before), print_of(after), after)
    assert told == {"set": [], "rows": [], "texts": [[["lctl"], 300, 1, ["new", ""]]]}
    assert grown(before, told) == after
