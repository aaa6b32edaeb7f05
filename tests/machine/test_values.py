"""The values that a plan passes on: references, paths, texts, containers."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.machine.driving import Bench, play

from callsheet.ir import JSON
from callsheet.machine import to_text

JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


def given_as(written: str, **inputs: JSON) -> JSON:
    """The argument that a tool receives for a value written so."""
    return Bench(f"S1: @T (v={written})", inputs=inputs).args[0]["v"]


@pytest.mark.parametrize("value", [None, True, 0, 2.5, "", "text", [1, [2]], {"a": {"b": None}}])
def test_reference_alone_keeps_type(value: JSON) -> None:
    assert given_as("$x", x=value) == value
    assert type(given_as("$x", x=value)) is type(value)


def test_string_of_one_reference_is_that_reference() -> None:
    assert given_as('"$x"', x=[1, 2]) == [1, 2]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("it's", "it's"),
        (None, ""),
        (True, "true"),
        (False, "false"),
        (7, "7"),
        (2.0, "2.0"),
        (["a", 1, None], '["a",1,null]'),
        ({"k": "ä"}, '{"k":"ä"}'),
    ],
)
def test_reference_in_text_is_str_or_compact_json(value: JSON, text: str) -> None:
    assert given_as('"<$x>"', x=value) == f"<{text}>"
    assert to_text(value) == text


def test_unset_variable_is_null() -> None:
    assert given_as("$never") is None
    assert given_as('"[$never]"') == "[]"


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("$x.a", {"b": [10, 20, {"odd key": "deep"}]}),
        ("$x.a.b.1", 20),
        ("$x.a.b[1]", 20),
        ("$x.a.b[-1]", {"odd key": "deep"}),
        ('$x.a.b[2]["odd key"]', "deep"),
        ("$x.a.b[3]", None),
        ("$x.a.b[-4]", None),
        ("$x.a.c.d.e", None),
        ("$x.a.b.first", None),
    ],
)
def test_path_leads_through_dicts_and_lists_to_value_or_null(path: str, value: JSON) -> None:
    assert given_as(path, x={"a": {"b": [10, 20, {"odd key": "deep"}]}}) == value


def test_path_leads_through_json_texts_at_every_depth() -> None:
    inner = json.dumps([{"name": "Ada"}])
    assert given_as("$x.rows.0.name", x=json.dumps({"rows": inner})) == "Ada"


def test_text_at_end_of_path_stays_text() -> None:
    assert given_as("$x.n", x='{"n": "[1]"}') == "[1]"


@pytest.mark.parametrize("text", ["", "plain", "{", "[1", "NaN"])
def test_path_into_non_json_text_is_null(text: str) -> None:
    assert given_as("$x.a", x=text) is None


def test_numeric_part_is_key_on_dict() -> None:
    assert given_as("$x.0", x={"0": "zero"}) == "zero"


@pytest.mark.parametrize("scalar", [5, 1.5, True, None])
def test_path_into_scalar_is_null(scalar: JSON) -> None:
    assert given_as("$x.a", x=scalar) is None


def test_containers_are_expanded_and_fresh() -> None:
    bench = Bench('S1: @A (v=[$x, {"k": "<$x>"}])\nS2: @A (v=[$x])', inputs={"x": 1})
    first = bench.args[0]["v"]
    assert first == [1, {"k": "<1>"}]
    first.append("mine")
    bench.ok("S1.0.1")
    assert bench.args[0]["v"] == [1]


def test_longest_name_is_read_and_trailing_dot_is_punctuation() -> None:
    assert given_as('"$ab.c. $a."', a="A", ab={"c": "AB"}) == "AB. A."


@pytest.mark.parametrize("written", ['"costs $5"', '"$(date)"', '"$$"'])
def test_dollar_without_name_is_literal(written: str) -> None:
    assert given_as(written) == written.strip('"')


def test_escaped_or_raw_dollar_is_no_reference() -> None:
    assert given_as(r'"\$x"', x="no") == "$x"
    assert given_as('r"$x"', x="no") == "$x"


def test_inserted_values_are_not_expanded_again() -> None:
    played = play(
        'S1: @A () > $a\nS2: @B ($a, t="<$a>", l=["$a", $b]) > $b\nS3: @RESPOND ("$b", $a)',
        {"A": '$b ${b.c} " ) > $c', "B": "$a"},
    )
    assert played.calls[1].args == {
        "arg0": '$b ${b.c} " ) > $c',
        "t": '<$b ${b.c} " ) > $c>',
        "l": ['$b ${b.c} " ) > $c', None],
    }
    assert played.result.response == '$a $b ${b.c} " ) > $c'


@given(JSON_VALUES)
def test_no_tool_output_changes_which_calls_are_made(output: JSON) -> None:
    """The calls, and everything in them except the output, depend on the plan alone."""
    called = 'S1: @A () > $a\nS2: @B (v="<$a>", w=$a, k="$b")\nS3: @C (v=["$a"], d={"x": $a})'
    played = play(f'{called}\nS4: @RESPOND ("done $a")', {"A": output})
    text = to_text(output)
    assert played.names == ["A", "B", "C"]
    assert played.calls[1].args == {"v": f"<{text}>", "w": output, "k": None}
    assert played.calls[2].args == {"v": [output], "d": {"x": output}}
    assert played.result.response == f"done {text}"


@given(JSON_VALUES)
def test_path_into_json_text_equals_path_into_value(value: JSON) -> None:
    """A text containing a value is traversed like the value."""
    whole = {"k": [value]}
    assert given_as("$x.k.0", x=json.dumps(whole)) == given_as("$x.k.0", x=whole) == value
