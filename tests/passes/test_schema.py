"""Validation by schemas that are large, or made to take long."""

from __future__ import annotations

from time import monotonic

import pytest

from callsheet.passes.schema import literal_value, may_take, misfits, wanted

ITSELF = {"$ref": "#/$defs/d"}


def wrong(said, schema):
    return [(found.wrong.name, found.path) for found in misfits(literal_value(said), schema, schema)]


@pytest.mark.parametrize("word", ["allOf", "anyOf", "oneOf"])
@pytest.mark.parametrize("many", [2, 9, 5_000])
def test_a_schema_that_leads_to_itself_many_times_takes_bounded_time(word, many):
    schema = {**ITSELF, "$defs": {"d": {word: [ITSELF] * many}}}
    begin = monotonic()
    assert wrong({"a": 1}, schema) == []
    assert may_take(schema, schema, "array")
    assert monotonic() - begin < 5


def test_every_item_of_a_long_list_is_looked_at():
    assert wrong([1] * 30_000 + ["a"], {"items": {"type": "integer"}}) == [("VALUE", "[30000]")]


def test_options_that_are_long_are_told_shortly():
    assert len(wanted({"enum": ["x" * 1_000_000, ["y"] * 1_000_000]})) < 1_000


def test_a_field_that_a_pattern_may_allow_is_not_unknown():
    schema = {"properties": {"a": {}}, "additionalProperties": False}
    assert wrong({"x-1": 1}, schema) == [("UNKNOWN", ".x-1")]
    assert wrong({"x-1": 1}, {**schema, "patternProperties": {"^x-": {}}}) == []
