"""What a planning model learns about values and failures: kinds and sizes, values where allowed."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from callsheet.authoring.shapes import MAX_VALUE, about, described, failure_kind
from callsheet.machine import Cut

SECRETS = st.recursive(
    st.text(min_size=1).map(lambda text: f"SECRET-{text}")
    | st.integers(10**9, 10**10)
    | st.none()
    | st.booleans(),
    lambda inside: st.lists(inside, max_size=3) | st.dictionaries(st.just("field"), inside, max_size=2),
)


@given(SECRETS)
def test_value_description_excludes_value(value: Any) -> None:
    said = about(value)
    assert "SECRET" not in said
    assert len(said) < 300


@given(st.text(max_size=300))
def test_failure_is_described_by_kind_only(error: str) -> None:
    assert failure_kind(f"{error}") in {
        "took too long",
        "limited for now",
        "not allowed",
        "not found",
        "exists already",
        "wrong arguments",
        "cannot be reached",
        "failed",
    }


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        ("no answer within 30 s", "took too long"),
        ("HTTP 429: slow down", "limited for now"),
        ("PermissionError: [Errno 13] Permission denied: '/root/key'", "not allowed"),
        ("FileNotFoundError: [Errno 2] No such file or directory: 'a'", "not found"),
        ("the branch exists already", "exists already"),
        ("limit: Input should be a valid integer, invalid type", "wrong arguments"),
        ("ConnectError: connection refused", "cannot be reached"),
        ("RuntimeError: boom", "failed"),
    ],
)
def test_failure_kinds_are_recognized(error: str, kind: str) -> None:
    assert failure_kind(error) == kind


def test_values_are_sent_if_allowed_by_name_or_function() -> None:
    values = {"a": "hush", "b": [1, 2]}
    assert described(values)[0] == {"a": "a text of 4 characters", "b": "a list of 2"}
    assert described(values, {"a"})[0] == {"a": '"hush"', "b": "a list of 2"}
    assert described(values, lambda name: name == "b")[0] == {"a": "a text of 4 characters", "b": "[1, 2]"}


def test_long_value_is_truncated_with_mark() -> None:
    words, cuts = described({"a": "x" * (MAX_VALUE + 1)}, {"a"})
    assert len(words["a"]) < MAX_VALUE + 100
    assert cuts == (Cut("$a in the prompt", MAX_VALUE, len(json.dumps("x" * (MAX_VALUE + 1))), "characters"),)
