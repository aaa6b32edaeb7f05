"""Validation by schemas that are large, or made to take long."""

from __future__ import annotations

import subprocess
import sys
from time import process_time

import pytest

from callsheet.ir import DictExpr, ListExpr, Literal, Ref
from callsheet.passes.schema import literal_value, may_take, misfits, wanted

ITSELF = {"$ref": "#/$defs/d"}


def wrong(said, schema):
    return [(found.wrong.name, found.path) for found in misfits(literal_value(said), schema, schema)]


@pytest.mark.parametrize("word", ["allOf", "anyOf", "oneOf"])
@pytest.mark.parametrize("many", [2, 9, 5_000])
def test_recursive_schema_takes_bounded_time(word, many):
    schema = {**ITSELF, "$defs": {"d": {word: [ITSELF] * many}}}
    begin = process_time()
    assert wrong({"a": 1}, schema) == []
    assert may_take(schema, schema, "array")
    assert process_time() - begin < 5


def test_every_item_of_long_list_is_checked():
    assert wrong([1] * 30_000 + ["a"], {"items": {"type": "integer"}}) == [("VALUE", "[30000]")]


def test_long_options_are_abbreviated():
    assert len(wanted({"enum": ["x" * 1_000_000, ["y"] * 1_000_000]})) < 1_000


def test_field_matching_pattern_properties_is_known():
    schema = {"properties": {"a": {}}, "additionalProperties": False}
    assert wrong({"x-1": 1}, schema) == [("UNKNOWN", ".x-1")]
    assert wrong({"x-1": 1}, {**schema, "patternProperties": {"^x-": {}}}) == []


def test_prefix_items_have_their_schemas():
    schema = {"prefixItems": [{"type": "string"}, {"type": "boolean"}], "items": {"type": "integer"}}
    assert wrong(["a", True, 5, 6], schema) == []
    assert wrong([5], schema) == [("VALUE", "[0]")]
    assert wrong(["a", 5], schema) == [("VALUE", "[1]")]
    assert wrong(["a", True, "b"], schema) == [("VALUE", "[2]")]


@pytest.mark.parametrize(
    ("said", "options", "fits"),
    [(1.0, [1], True), (1, [1.0], True), (True, [1], False), (1, [True], False), (None, [0], False)],
)
def test_number_equals_option_of_same_value_and_no_boolean(said, options, fits):
    assert (wrong(said, {"enum": options}) == []) == fits
    assert (wrong(said, {"const": options[0]}) == []) == fits


def test_boolean_bounds_of_older_drafts_are_ignored():
    schema = {"type": "integer", "minimum": 0, "exclusiveMinimum": True}
    assert wrong(1, schema) == []
    assert wanted(schema) == "integer (minimum 0)"


@pytest.mark.parametrize("types", ["strang", ["string", "date"], [5], {}])
def test_unknown_schema_type_accepts_anything(types):
    assert wrong(5, {"type": types}) == []


@pytest.mark.parametrize(
    ("said", "schema", "fits"),
    [
        ("AB12", {"pattern": "^[A-Z]+[0-9]+$"}, True),
        ("AB", {"pattern": "^[A-Z]+[0-9]+$"}, False),
        ("x12y", {"pattern": "[0-9]"}, True),
        ("é", {"pattern": "^.$"}, True),
        ("\udc80", {"pattern": "^.$"}, True),
        ("anything", {"pattern": "(?=no look-ahead in RE2)x"}, True),
        (5, {"pattern": "^x$"}, True),
        (8, {"multipleOf": 2}, True),
        (7, {"multipleOf": 2}, False),
        (0.3, {"multipleOf": 0.1}, True),
        (0.35, {"multipleOf": 0.1}, False),
        (7, {"multipleOf": 0}, True),
        ([1, "1", True, None], {"uniqueItems": True}, True),
        ([1, 2, 1.0], {"uniqueItems": True}, False),
        ([{"a": 1, "b": 2}, {"b": 2, "a": 1}], {"uniqueItems": True}, False),
        ([1, 1], {"uniqueItems": False}, True),
    ],
)
def test_patterns_multiples_and_unique_items_are_checked(said, schema, fits):
    assert (wrong(said, schema) == []) == fits


def test_list_with_runtime_values_may_have_unique_items():
    value = ListExpr((Ref("x"), Ref("x")))
    assert list(misfits(value, {"uniqueItems": True}, {})) == []


def test_mismatch_names_constraints():
    assert wanted({"type": "string", "pattern": "^[a-z]$"}) == "string (pattern ^[a-z]$)"
    assert (
        wanted({"type": "array", "uniqueItems": True, "minItems": 1}) == "array (minItems 1, no duplicates)"
    )


@pytest.mark.parametrize("schema", [{"pattern": "(a+)+$"}, {"uniqueItems": True}])
def test_expensive_constraint_takes_bounded_time(schema):
    root = {"allOf": [{"$ref": "#/$defs/d"}] * 1_000, "$defs": {"d": schema}}
    begin = process_time()
    wrong("a" * 100_000 + "!", root)
    wrong(list(range(2_000)), root)
    assert process_time() - begin < 5


@pytest.mark.parametrize(
    ("said", "schema", "found"),
    [
        ({"a": 1, "b": 2}, {"not": {"required": ["a", "b"]}}, [("VALUE", "")]),
        ({"a": 1}, {"dependentRequired": {"a": ["b"]}}, [("VALUE", "")]),
        ({}, {"minProperties": 1}, [("VALUE", "")]),
        ({"rows": [1, "x"]}, {"properties": {"rows": {"contains": {"type": "null"}}}}, [("VALUE", ".rows")]),
        ({"x-1": 5}, {"patternProperties": {"^x-": {"type": "string"}}}, [("VALUE", ".x-1")]),
        ({"y": 5}, {"patternProperties": {"^x-": {}}, "additionalProperties": False}, [("UNKNOWN", ".y")]),
        ({"k": "a"}, {"if": {"required": ["k"]}, "then": {"required": ["l"]}}, [("MISSING", ".l")]),
        (5, {"oneOf": [{"minimum": 1}, {"maximum": 9}]}, [("VALUE", "")]),
        ("a", {"oneOf": [{"type": "string"}, {"type": "null"}]}, []),
        ("5", {"not": {"const": 1}, "type": "integer"}, [("VALUE", "")]),
        ({"n": 1.5, "m": {}}, {"properties": {"n": {"type": "integer"}, "m": {"minProperties": 1}}},
         [("VALUE", ".n"), ("VALUE", ".m")]),
        ({"a": 1}, {"unevaluatedProperties": False, "patternProperties": {"^b": {}}}, [("VALUE", "")]),
        ({"a": 1}, {"$ref": "https://example.com/other", "not": {}}, []),
        (5, {"$schema": "http://json-schema.org/draft-04/schema#", "minimum": 5, "exclusiveMinimum": True},
         [("VALUE", "")]),
    ],
)  # fmt: skip
def test_known_value_is_judged_by_every_keyword(said, schema, found):
    assert wrong(said, schema) == found


def test_partly_unknown_value_is_read_as_far_as_it_is_known():
    schema = {"not": {"required": ["a"]}, "properties": {"b": {"type": "integer"}}}
    value = DictExpr((("a", Ref("x")), ("b", Literal("text"))))
    assert [found.path for found in misfits(value, schema, schema)] == [".b"]


def test_library_is_not_imported_for_usual_schemas():
    usual = {
        "type": "object",
        "properties": {"path": {"type": "string"}, "note": {"anyOf": [{"type": "string"}, {"type": "null"}]}},
        "required": ["path"],
        "additionalProperties": False,
    }
    code = (
        "import sys\n"
        "from callsheet.passes.schema import literal_value, misfits\n"
        f"assert not [*misfits(literal_value({{'path': 'a', 'note': None}}), {usual!r}, {usual!r})]\n"
        "assert 'jsonschema' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize(
    "schema",
    [
        {"patternProperties": {"(a+)+$": {}}, "unevaluatedProperties": False},
        {"propertyNames": {"pattern": "(a+)+$"}},
        {
            "properties": {
                "a": {"$schema": "https://json-schema.org/draft/2020-12/schema", "pattern": "(a+)+$"}
            }
        },
        {"$ref": "#/$defs/n", "$defs": {"n": {"not": {"oneOf": [{"$ref": "#/$defs/n"}] * 9}}}},
        {"uniqueItems": True, "contains": {"not": {"const": 0}}},
    ],
)
def test_judgement_of_hostile_schema_takes_bounded_time(schema):
    begin = process_time()
    wrong({"a": "a" * 40 + "!", "a" * 40 + "!": 1}, schema)
    wrong(list(range(20_000)), schema)
    assert process_time() - begin < 5
