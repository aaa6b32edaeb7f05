"""The JSON Schema test suite, draft 2020-12, from the source archive of the package `jsonschema` on PyPI."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from callsheet.passes import json_schema
from callsheet.passes.schema import literal_value, misfits
from suites.fetching import assert_expected, python_source

_ELSEWHERE = "the schema is in another document, which is never fetched: the data counts as fitting"
_VOCABULARY = (
    "vocabulary.json: schema that uses custom metaschema with with no validation vocabulary: "
    "no validation: invalid number, but it still validates"
)
_VOCABULARIES = "a dialect of its own, which lies in another document, is validated as draft 2020-12"


@pytest.fixture(scope="module")
def suite() -> Path:
    sha256 = "0c26707e2efad8aa1bfc5b7ce170f3fccc2e4918ff85989ba9ffa9facb2be326"
    return python_source("jsonschema", "4.26.0", sha256) / "json"


def cases(suite: Path) -> Iterator[tuple[str, Any, Any, bool]]:
    """The name of each case, its schema, its data, and whether they fit."""
    for path in sorted((suite / "tests" / "draft2020-12").glob("*.json")):
        for group in json.loads(path.read_text(encoding="utf-8")):
            for case in group["tests"]:
                name = f"{path.name}: {group['description']}: {case['description']}"
                schema = group["schema"]
                whole = schema if isinstance(schema, dict) else {"allOf": [schema]}
                yield name, whole, case["data"], case["valid"]


def wrong(suite: Path) -> set[str]:
    """The cases in which callsheet is wrong about data that is known."""
    return {
        name
        for name, schema, data, valid in cases(suite)
        if valid is any(True for _ in misfits(literal_value(data), schema, schema))
    }


def test_known_values_are_judged_as_in_suite(suite: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the documents that the suite wants to be known beforehand."""
    dialects = json_schema._dialects()
    registry = dialects.registry
    folder = suite / "remotes"
    for path in folder.rglob("*.json"):
        place = path.relative_to(folder)
        if place.parts[0] in ("draft2020-12",) or not place.parts[0].startswith("draft"):
            contents = json.loads(path.read_text(encoding="utf-8"))
            contents.pop("$schema", None)  # the dialect of a document that is brought is the usual one
            resource = dialects.resource(contents, dialects.usual)
            registry = registry.with_resource(f"http://localhost:1234/{place.as_posix()}", resource)
    monkeypatch.setattr(json_schema, "_dialects", lambda: dialects._replace(registry=registry))
    assert len(list(cases(suite))) == 1_257
    assert_expected(wrong(suite), {_VOCABULARY: _VOCABULARIES})


def test_only_references_to_other_documents_are_not_judged(suite: Path) -> None:
    elsewhere = {
        name: _ELSEWHERE
        for name, schema, _, valid in cases(suite)
        if not valid and "http://localhost:1234/" in json.dumps(_references(schema))
    }
    own = wrong(suite)
    assert 20 < len(own) < 30
    assert own - elsewhere.keys() - {_VOCABULARY} == set()


def _references(schema: Any) -> list[str]:
    if isinstance(schema, list):
        return [found for item in schema for found in _references(item)]
    if not isinstance(schema, dict):
        return []
    own = [str(schema[key]) for key in ("$ref", "$dynamicRef", "$id", "$schema") if key in schema]
    return own + [found for item in schema.values() for found in _references(item)]
