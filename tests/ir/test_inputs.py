"""Inputs of version 2: values read by their types, whatever face they come from, and their JSON Schema."""

from datetime import UTC, date, datetime, timedelta
from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from callsheet.ir.inputs import NotOfType, input_schema, read_inputs, read_text, read_value
from callsheet.ir.tree import Input, Tree
from callsheet.ir.types import Basic, DictOf, ListOf, Maybe, Named, OneOf, Record, Type, json_schema
from callsheet.machine.tree.values import conformed

TICKET = Record((("id", Basic.INT), ("labels", Maybe(ListOf(Basic.STR)))))
NAMED = {"Ticket": TICKET}
DAY, TIME = date(2026, 11, 28), datetime(2026, 11, 28, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("of", "value", "read"),
    [
        (Basic.STR, "5", "5"),
        (Basic.INT, 5.0, 5),
        (Basic.FLOAT, 5, 5.0),
        (Basic.BOOL, True, True),
        (Basic.DATE, "2026-11-28", DAY),
        (Basic.DATE, DAY, DAY),
        (Basic.DATETIME, "2026-11-28T12:00:00Z", TIME),
        (Basic.DURATION, "1h30m", timedelta(minutes=90)),
        (Basic.DURATION, "PT90S", timedelta(seconds=90)),
        (Basic.JSON, {"a": [None]}, {"a": [None]}),
        (Maybe(Basic.INT), None, None),
        (ListOf(Basic.DATE), ["2026-11-28"], [DAY]),
        (DictOf(Basic.INT), {"a": 1}, {"a": 1}),
        (OneOf(("bug", 1)), 1, 1),
        (Named("Ticket"), {"id": 1, "more": 2}, {"id": 1, "more": 2}),
    ],
)
def test_a_value_of_the_type_is_read(of: Type, value: Any, read: Any) -> None:
    found = read_value(of, value, NAMED)
    assert (found, type(found)) == (read, type(read))


@pytest.mark.parametrize(
    ("of", "value", "message", "path"),
    [
        (Basic.INT, True, "an int is needed, not true", ""),
        (Basic.INT, "5", "an int is needed, not the string '5'", ""),
        (Basic.INT, 5.5, "an int is needed, not the number 5.5", ""),
        (Basic.STR, None, "a str is needed, not null", ""),
        (Basic.FLOAT, float("nan"), "a float is needed, not nan", ""),
        (Basic.FLOAT, 2**60 + 1, "a float is needed, not the number 1152921504606846977", ""),
        (Basic.DATE, "28.11.2026", "a date such as 2026-11-28 is needed, not the string '28.11.2026'", ""),
        (
            Basic.DATE,
            TIME,
            "a date such as 2026-11-28 is needed, not a datetime",
            "",
        ),
        (OneOf(("bug", 1)), True, 'one of "bug" | 1 is needed, not true', ""),
        (ListOf(Basic.INT), {}, "a list[int] is needed, not an object", ""),
        (Named("Ticket"), {"labels": []}, "Ticket with the field id is needed, not one with labels", ""),
        (Named("Ticket"), {"id": 1, "labels": ["a", 2]}, "a str is needed, not the number 2", ".labels[1]"),
    ],
)
def test_a_value_of_another_type_is_refused_with_its_place(
    of: Type, value: Any, message: str, path: str
) -> None:
    with pytest.raises(NotOfType) as caught:
        read_value(of, value, NAMED)
    assert (str(caught.value), caught.value.path) == (message, path)


def test_casts_of_runs_read_values_by_the_same_rule() -> None:
    assert conformed({"id": "x"}, TICKET, NAMED)[1] == ".id: an int is needed, not the string 'x'"
    assert conformed(("2026-11-28",), ListOf(Basic.DATE), {}) == ([DAY], "")
    assert conformed(float("inf"), Basic.FLOAT, {}) == (float("inf"), "")
    for number in (10**17, 10**400, 2**60 + 1):
        made, wrong = conformed(number, Basic.FLOAT, {})
        assert (type(made), bool(wrong)) == ((float, False) if number == 10**17 else (int, True))


@pytest.mark.parametrize(
    ("of", "text", "read"),
    [
        (Basic.STR, "5", "5"),
        (Basic.INT, "-5", -5),
        (Basic.FLOAT, "5", 5.0),
        (Basic.BOOL, "Yes", True),
        (Basic.DATE, "2026-11-28", DAY),
        (Basic.JSON, "[1]", [1]),
        (Basic.JSON, "Oslo", "Oslo"),
        (OneOf(("1", 1)), "1", "1"),
        (OneOf((True, "no")), "true", True),
        (Maybe(Basic.INT), "null", None),
        (Maybe(Basic.STR), "null", "null"),
        (ListOf(Basic.STR), '["a"]', ["a"]),
    ],
)
def test_a_text_of_a_shell_is_read_by_the_type(of: Type, text: str, read: Any) -> None:
    found = read_text(of, text, NAMED)
    assert (found, type(found)) == (read, type(read))


@pytest.mark.parametrize(
    ("of", "text", "message"),
    [
        (Basic.INT, "many", "an int is needed, not the text 'many'"),
        (Basic.FLOAT, "inf", "a float is needed, not the text 'inf'"),
        (Basic.BOOL, "2", "a bool is needed, not the text '2'"),
        (OneOf(("a", "b")), "c", 'one of "a" | "b" is needed, not the text \'c\''),
        (ListOf(Basic.STR), "a,b", 'a list[str] as JSON (["a", "b"]) is needed, not the text \'a,b\''),
        (ListOf(Basic.STR), "[1]", "a str is needed, not the number 1"),
    ],
)
def test_a_text_that_is_not_of_the_type_is_refused(of: Type, text: str, message: str) -> None:
    with pytest.raises(NotOfType) as caught:
        read_text(of, text, NAMED)
    assert str(caught.value) == message


PLAN = Tree(
    (),
    (
        Input("repo", Basic.STR, help="the repository"),
        Input("limit", Basic.INT, 20, is_required=False),
        Input("since", Maybe(Basic.DATE)),
        Input("key", Basic.INT, 1, is_required=False, is_secret=True),
        Input("ticket", Named("Ticket"), None, is_required=False),
    ),
    (("Ticket", TICKET),),
)


def _told(values: dict[str, Any], texts: dict[str, str] | None = None) -> list[str]:
    plan = Tree((), PLAN.inputs[:4], PLAN.types)
    return [f"{one.code} {one.message}" for one in read_inputs(plan, values, texts).diagnostics]


def test_all_inputs_have_a_value() -> None:
    plan = Tree((), PLAN.inputs[:4], PLAN.types)
    found = read_inputs(plan, {"repo": "a/b"}, {"limit": "3"})
    assert found.diagnostics == ()
    assert found.values == {"repo": "a/b", "limit": 3, "since": None, "key": 1}


def test_every_wrong_input_is_told_at_once() -> None:
    assert _told({"limit": "3", "limt": 1, "since": 4}) == [
        "RUN035 the plan needs the input $repo: str (the repository)",
        "RUN037 the input $limit takes an int, not the string '3'",
        "RUN037 the input $since takes a date such as 2026-11-28, not the number 4",
        "RUN036 the plan has no input $limt",
    ]


def test_a_secret_is_not_told() -> None:
    assert _told({"repo": "a"}, {"key": "hunter2"}) == ["RUN037 the input $key takes an int"]


def test_the_schema_says_what_the_reader_takes() -> None:
    schema = input_schema(PLAN)
    jsonschema.Draft202012Validator.check_schema(schema)
    assert schema["required"] == ["repo"]
    assert schema["properties"]["repo"]["description"] == "the repository"
    assert schema["properties"]["key"]["writeOnly"] is True
    assert schema["additionalProperties"] is False


_TYPES = st.recursive(
    st.sampled_from(
        [Basic.STR, Basic.INT, Basic.FLOAT, Basic.BOOL, Basic.JSON, OneOf(("a", 1)), Named("Ticket")]
    ),
    lambda inner: st.one_of(inner.map(ListOf), inner.map(DictOf), inner.map(Maybe)),
    max_leaves=4,
)
_JSON = st.recursive(
    st.sampled_from([None, True, 0, 1, 2.5, "a", "", {"id": 1}, {"id": "x"}]),
    lambda inner: st.one_of(
        st.lists(inner, max_size=2), st.dictionaries(st.sampled_from("ab"), inner, max_size=2)
    ),
    max_leaves=4,
)


@given(_TYPES, _JSON)
def test_what_is_read_is_what_the_schema_accepts(of: Type, value: Any) -> None:
    accepted = jsonschema.Draft202012Validator(json_schema(of, NAMED)).is_valid(value)
    try:
        read_value(of, value, NAMED)
    except NotOfType:
        assert not accepted
    else:
        assert accepted
