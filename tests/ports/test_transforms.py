"""The functions of queries: their results, and errors for wrong queries."""

from __future__ import annotations

import time
from contextlib import nullcontext, suppress
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.growth import seconds

from callsheet.ports.calls import ToolFailed
from callsheet.ports.transforms import select
from callsheet.ports.transforms.functions import compiled

PEOPLE = [
    {"name": "Ann", "city": "Rome", "age": 41, "since": "2024-03-01", "mail": "ann@a.example, x@b.example"},
    {"name": "Bob", "city": "Oslo", "age": "39", "since": "2025-12-31T12:00:00Z", "mail": None},
    {"name": "Cy", "city": "Rome", "age": 7, "since": "soon", "mail": "none"},
]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("[?match(name, '^[AB]')].name", ["Ann", "Bob"]),
        ("[].match(mail, '@')", [True, False, False]),
        ("[0].extract(mail, '[a-z]+@')", "ann@"),
        ("[0].extract(mail, '@([a-z])')", "a"),
        ("[0].extract(mail, '(?P<who>[a-z]+)@(?P<host>[a-z]+)')", {"who": "ann", "host": "a"}),
        ("[2].extract(mail, '@')", None),
        ("[0].extract_all(mail, '([a-z]+)@([a-z]+)')", [["ann", "a"], ["x", "b"]]),
        ("[0].extract_all(mail, '[a-z]+@')", ["ann@", "x@"]),
        ("[].extract_all(mail, '@')", [["@", "@"], []]),
        ("[0].split(mail, ', ')", ["ann@a.example", "x@b.example"]),
        ("split_pattern('a1b22c', '[0-9]+')", ["a", "b", "c"]),
        ("replace('a.b.c', '.', '-')", "a-b-c"),
        ("replace_pattern('1,200 EUR', '[^0-9]', '')", "1200"),
        ("replace_pattern('ab', 'b', '\\1')", "a\\1"),
        ("[].lower(name)", ["ann", "bob", "cy"]),
        ("[].upper(city)", ["ROME", "OSLO", "ROME"]),
        ("trim('  a ')", "a"),
        ("trim('--a-', '-')", "a"),
        ("[].to_number(age)", [41, 39, 7]),
        ("[].to_number(name)", []),
        ("to_number('nan')", None),
        ("to_number('1.5e1')", 15.0),
        ("""from_json('{"a": [1]}').a""", [1]),
        ("round(`2.5`)", 3),
        ("round(`-2.675`, `2`)", -2.68),
        ("round(`1250`, `-2`)", 1300),
        ("[].parse_date(since)", ["2024-03-01", "2025-12-31T12:00:00+00:00"]),
        ("parse_date('3 Feb 2026', '%d %b %Y')", "2026-02-03"),
        ("parse_date('02/03/26 4:05 pm', '%m/%d/%y %I:%M %p')", "2026-02-03T16:05:00"),
        ("parse_date('2026-02-30', '%Y-%m-%d')", None),
        ("parse_date('1 1 2026 +0230', '%d %m %Y %z')", "2026-01-01T00:00:00+02:30"),
        ("parse_date(`0`)", "1970-01-01T00:00:00+00:00"),
        ("format_date('2026-02-03', '%A, %d %B %Y %H:%M%%')", "Tuesday, 03 February 2026 00:00%"),
        ("format_date('never', '%Y')", None),
        ("days_between('2024-02-28', '2024-03-01')", 2),
        ("days_between('2026-01-02', '2026-01-01T12:00:00')", -0.5),
        ("days_between('2026-01-01T00:00:00+01:00', '2026-01-01T00:00:00Z') < `0.05`", True),
        ("days_between('2026-01-01', 'never')", None),
        ("add_days('2026-02-27', `2`)", "2026-03-01"),
        ("[].city | unique(@)", ["Rome", "Oslo"]),
        ("unique([`1`, `1.0`, `true`, '1', `[1]`, `[1]`])", [1, True, "1", [1]]),
        ("group_by(@, &city).Rome[].name", ["Ann", "Cy"]),
        ("items(group_by(@, &city))[*].{city: [0], count: length([1])}",
         [{"city": "Rome", "count": 2}, {"city": "Oslo", "count": 1}]),
        ("keys(group_by(@, &mail))", ["ann@a.example, x@b.example", "null", "none"]),
        ("zip([].name, range(`9`))", [["Ann", 0], ["Bob", 1], ["Cy", 2]]),
        ("range(`5`, `0`, `-2`)", [5, 3, 1]),
        ("range(`1`, `4`)", [1, 2, 3]),
        ("sort_by(@, &name)[-1].name", "Cy"),
        ("[?city == `Rome`].name", ["Ann", "Cy"]),
        ("sum([].to_number(age))", 87),
        ("join(', ', [].name)", "Ann, Bob, Cy"),
    ],
)  # fmt: skip
def test_query_returns_documented_result(query: str, expected: Any) -> None:
    found = select(PEOPLE, query)
    assert found == expected
    assert repr(found) == repr(expected)


@pytest.mark.parametrize(
    "function",
    [
        *("lower(@)", "upper(@)", "trim(@)", "split(@, ',')", "round(@)", "unique(@)", "items(@)"),
        *("extract(@, 'a')", "from_json(@)", "group_by(@, &a)"),
    ],
)
def test_null_input_returns_null(function: str) -> None:
    assert select(None, function) is None


def test_json_text_is_data_at_every_path_step() -> None:
    data = '{"body": "[{\\"n\\": 1}, {\\"n\\": \\"2\\"}]"}'
    assert select(data, "body[*].n") == [1, "2"]
    assert select(data, "body[1].n") == "2"
    assert select(data, "body[?n == `1`]") == [{"n": 1}]
    assert select("2026-01", "split(@, '-')") == ["2026", "01"]
    assert select("12", "type(@)") == "string"


def test_result_shares_nothing_with_data_or_query() -> None:
    data = [[1]]
    found: Any = select(data, "[0]")
    found.append(2)
    literal: Any = select(None, "`[1]`")
    literal.append(2)
    assert data == [[1]]
    assert select(None, "`[1]`") == [1]


@pytest.mark.parametrize(
    ("query", "message", "at"),
    [
        ("rows[?a", "ends too early", 7),
        ("a b", "'b' is out of place", 2),
        ("a.'b'", "out of place", 2),
        ("a == 'b", "unclosed ' delimiter", 5),
        ("a | mtch(b, 'c')", "no function is called mtch(); did you mean match()?", 4),
        ("a.match(b)", "match() takes 2 arguments, not 1", 2),
        ("length(a, b)", "length() takes 1 argument, not 2", 0),
        ("zip(a)", "at least 2 arguments", 0),
        ("[?match(a, '(b')]", "the pattern cannot be read: missing )", 2),
        ("[?match(a, '(.)\\1')]", "the pattern cannot be read", 2),
        ("format_date(a, '%Q')", "a date format has no %Q", 0),
        ("parse_date('1', '%j')", "%j is only for writing", 0),
        ("[0] | lower(@)", "argument 1 of lower() is object, not null or string", 6),
        ("sum([].name)", "sum() was given string, not array-number", 0),
        ("sum(@)", "sum() was given object, not array-number", 0),
        ("contains('abc', `1`)", "contains() cannot be applied to this", 0),
        ("split('a', '')", "the separator is empty", 0),
        ("replace('a', '', 'b')", "empty", 0),
        ("range(`1`, `2`, `0`)", "step", 0),
        ("range(`0.5`)", "whole", 0),
        ("range(`1e9`)", "at most 100,000", 0),
        ("round(`1`, `0.5`)", "whole", 0),
        ("add_days('2026-01-01', `0.5`)", "whole days", 0),
        ("add_days('2026-01-01', `1e9`)", "outside", 0),
        ("add_days('9999-12-31', `1`)", "outside", 0),
        ("", "the query is empty", None),
        ("[::0]", "step of a slice", None),
        ("&a", "an expression", None),
        ("`NaN`", "number that is too large", None),
        ("a" * 10_001, "longer than 10,000 characters", None),
        ("(" * 5_000, "deeper than", None),
        ("a|" * 400 + "a", "deeper than 100 levels", None),
    ],
)  # fmt: skip
def test_invalid_query_error_has_reason_and_position(query: str, message: str, at: int | None) -> None:
    with pytest.raises(ToolFailed) as failed:
        select(PEOPLE, query)
    said, _, place = str(failed.value).partition("\n")
    assert message in said
    assert place == ("" if at is None else f"  {query}\n  {' ' * at}^")


@pytest.mark.parametrize(
    "query",
    [
        "[@,@]" + " | [@,@]" * 60,
        "[@,@][]" + " | [@,@][]" * 60,
        "join('', ['ab','ab'])" + " | join('', [@,@])" * 60,
        "[@,@]" + " | [@,@]" * 60 + " | to_string(@)",
        "[@,@]" + " | [@,@]" * 60 + " | {a: [@], b: [@]} | a == b",
        "[@,@]" + " | [@,@]" * 60 + " | unique([@, @])",
        "replace('aaaaaaaa', 'a', 'aaaaaaaa')" + " | replace(@, 'a', 'aaaaaaaa')" * 60,
        "range(`100000`) | [" + ",".join("@" * 4_000) + "] | []",
        "range(`100000`) | [" + ",".join("@" * 4_000) + "] | [*][::-1] | length(@)",
        "range(`100000`) | map(&to_string(@), @) | ["
        + ",".join("@" * 4_000)
        + "] | length([].join('"
        + "x" * 900
        + "', @))",
        "range(`100000`) | zip(@, @, @, @, @, @, @, @) | [@, @, @, @, @, @, @, @] | [][]",
    ],
)
def test_long_running_query_is_failure(query: str) -> None:
    before = time.monotonic()
    with pytest.raises(ToolFailed, match=r"too expensive|more than 1,000,000 values"):
        select([1], query)
    assert time.monotonic() - before < 30


@pytest.mark.parametrize("pattern", ["(a+)+$", "(a|aa)+$", "(.*)*b", "(a?){200}a{200}$", r"^(\w+\s?)*\Z"])
def test_hostile_patterns_take_linear_time(pattern: str) -> None:
    text = "a" * 100_000 + "!"

    def matched() -> None:
        with pytest.raises(ToolFailed) if r"\Z" in pattern else nullcontext():
            select(text, f"match(@, '{pattern}')")

    assert seconds(matched) < 5


@pytest.mark.parametrize(
    ("pattern", "text", "message"),
    [
        ("a" * 1_001, "a", "at most 1,000 characters"),
        ("((a{100}){100}){100}", "a", "cannot be read"),
        ("\ud800", "a", "surrogate"),
        ("a", "\ud800", "surrogate"),
        ("a", "a" * 1_000_001, "at most 1,000,000 characters"),
        ("a|b.*c", "a" * 1_000_000, "too expensive|took longer"),  # by work, or on a slow machine by time
    ],
)
def test_patterns_have_limits(pattern: str, text: str, message: str) -> None:
    with pytest.raises(ToolFailed, match=message):
        select({"p": pattern, "t": text}, "extract_all(t, p)")


def test_pattern_is_compiled_once() -> None:
    assert compiled("a+b") is compiled("a+b")


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=12,
)
PIECES = [
    *"ab.[]()@|&!<*,:{}`'\"0",
    *(
        "[]",
        "[*]",
        "[?",
        "&&",
        "||",
        "==",
        "`1`",
        "'x'",
        "-1",
        "lower(",
        "match(",
        "group_by(",
        "zip(",
        "range(",
    ),
    *("sort_by(", "max_by(", "round(", "to_number(", "parse_date(", "split(", "unique(", "map(", "merge("),
    *("days_between(", "to_string(", "from_json(", "replace_pattern(", "sum(", "avg("),
]


@settings(max_examples=1_000, deadline=None)
@given(values, st.lists(st.sampled_from(PIECES), max_size=14).map("".join) | st.text(max_size=20))
def test_query_returns_value_or_failure_only(data: Any, query: str) -> None:
    with suppress(ToolFailed):
        select(data, query)


@settings(max_examples=300, deadline=None)
@given(
    values,
    st.sampled_from(["f(@)", "f(@, @)", "f(@, @, @)", "f(@, 'x')", "f(@, `1`)", "f(@, &a)", "f(a, b)"]),
)
def test_function_accepts_any_value_or_gives_reason(data: Any, call: str) -> None:
    from callsheet.ports.transforms.functions import FUNCTIONS

    for name in FUNCTIONS:
        with suppress(ToolFailed):
            select(data, name + call[1:])
