"""The quick test of data against a schema: what it takes, JSON Schema takes; the rest is judged as before."""

from __future__ import annotations

from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import given
from jsonschema import Draft202012Validator

from callsheet.passes.fitting import first_misfit, sure_fit
from callsheet.passes.schema import literal_value, misfits

NAMES = st.sampled_from(["a", "b"])
SCALARS: st.SearchStrategy[Any] = st.one_of(
    st.none(), st.booleans(), st.integers(-2, 2), st.sampled_from([1.0, 0.5]), NAMES
)
DATA: st.SearchStrategy[Any] = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=2)
)
TYPES = st.sampled_from(["string", "integer", "number", "boolean", "null", "array", "object"])


def _within(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.fixed_dictionaries(
        {},
        optional={
            "type": TYPES,
            "title": NAMES,
            "enum": st.lists(SCALARS, min_size=1, max_size=3),
            "items": inner,
            "properties": st.dictionaries(NAMES, inner, max_size=2),
            "required": st.lists(NAMES, unique=True, max_size=2),
            "additionalProperties": st.booleans() | inner,
            "anyOf": st.lists(inner, min_size=1, max_size=2),
            "minLength": st.integers(0, 2),
        },
    )


PARTS: st.SearchStrategy[dict[str, Any]] = st.recursive(
    st.fixed_dictionaries({"type": TYPES}) | st.just({"$ref": "#/$defs/a"}), _within, max_leaves=6
)


def _document(part: dict[str, Any], definition: dict[str, Any]) -> dict[str, Any]:
    return {**part, "$defs": {"a": definition}}


def _is_valid(schema: dict[str, Any], data: Any) -> bool:
    validator: Any = Draft202012Validator(schema)
    return validator.is_valid(data)


SCHEMAS: st.SearchStrategy[dict[str, Any]] = st.builds(_document, PARTS, _within(PARTS))


@given(SCHEMAS, DATA)
def test_what_is_sure_to_fit_is_valid(schema: dict[str, Any], data: Any) -> None:
    try:
        fits = sure_fit(schema)(data)
    except RecursionError:  # a definition that is only itself
        fits = False
    assert not fits or _is_valid(schema, data)


@given(SCHEMAS, DATA)
def test_misfit_is_that_of_the_judged_value(schema: dict[str, Any], data: Any) -> None:
    found, told = first_misfit(data, schema), next(misfits(literal_value(data), schema, schema), None)
    assert found == told or (found is None and _is_valid(schema, data))


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object", "properties": {"rows": {"type": "array", "items": {"$ref": "#/$defs/Row"}}}},
        {"$schema": "http://json-schema.org/draft-07/schema#", "type": "object", "additionalProperties": {}},
        {"anyOf": [{"$ref": "#/$defs/Row"}, {"type": "null"}, {"type": "object"}]},
    ],
)
def test_schemas_of_usual_servers_are_told_at_once(schema: dict[str, Any]) -> None:
    row = {
        "type": "object",
        "properties": {
            "id": {"type": "integer"},
            "when": {"type": "string", "format": "date-time", "description": "x"},
            "kind": {"enum": ["a", "b"], "type": "string", "default": "a"},
            "next": {"anyOf": [{"$ref": "#/$defs/Row"}, {"type": "null"}]},
        },
        "required": ["id"],
    }
    one = {"id": 1, "when": "2026-01-31T00:00:00Z", "kind": "a", "next": {"id": 2, "next": None}}
    assert sure_fit({**schema, "$defs": {"Row": row}})({"rows": [one]} | one)


@pytest.mark.parametrize(("pointer", "part"), [("a/b", {"b": {"type": "integer"}}), ("a%2Fb", True)])
def test_pointer_is_not_taken_for_a_name(pointer: str, part: Any) -> None:
    """A name may be spelled as a pointer that leads elsewhere."""
    parts = {"a": part, "a/b": False} | {pointer: {"type": "string"}}
    assert not sure_fit({"$ref": f"#/$defs/{pointer}", "$defs": parts})("text")
