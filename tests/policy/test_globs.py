"""Matching of patterns with stars, compared with exhaustive matching; linear in time."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.growth import seconds

from callsheet.policy.constraints import objection_to
from callsheet.policy.paths import any_text, covers, expression, matches

GLOBS = st.lists(st.sampled_from(["**/", "**", "*", "?", "a", "b", ".", "A", "/", "é"]), max_size=6).map(
    "".join
)
PATHS = st.lists(st.sampled_from(["a", "b", ".", "A", "/", "é", "\n"]), min_size=1, max_size=8).map("".join)


def from_root(pattern: str, path: str) -> str:
    return path if pattern.startswith("/") else path.lstrip("/")


@given(GLOBS, PATHS)
def test_glob_matches_like_its_expression(pattern: str, path: str) -> None:
    said = re.fullmatch(expression(pattern), from_root(pattern, path), re.DOTALL) is not None
    folder = pattern.endswith("/**") and from_root(pattern, path) == pattern[:-3]
    assert matches(pattern, path) == (said or folder)


@given(GLOBS, PATHS)
def test_path_is_covered_by_itself_or_parent_in_any_case(pattern: str, path: str) -> None:
    """The folder of `folder/**` is covered together with its content."""
    read = from_root(pattern, path)
    above = [read[:at] for at in range(1, len(read) + 1) if at == len(read) or read[at] == "/"]
    whole = pattern.removesuffix("/**") or pattern
    named = re.compile(expression(whole), re.DOTALL | re.IGNORECASE).fullmatch
    assert covers(pattern, path) == any(named(each) is not None for each in above)


@given(st.text("ab*", max_size=8), st.text("ab\n", max_size=10))
def test_star_in_text_glob_matches_anything(pattern: str, text: str) -> None:
    expected = ".*".join(re.escape(piece) for piece in pattern.split("*"))
    assert any_text(pattern)(text) == (re.fullmatch(expected, text, re.DOTALL) is not None)


@pytest.mark.parametrize("pattern", ["**/*a*/**/*b*/**/*c*", "**/a/**/b/**/c", "*a*b*c*"])
@pytest.mark.parametrize("piece", ["a/", "ab/", "a", "ab"])
def test_long_path_against_many_stars_takes_bounded_time(pattern: str, piece: str) -> None:
    """The longest path that a policy reads has 4,096 characters."""
    path = (piece * 4_096)[:4_096]
    assert not matches(pattern, path)  # the pattern is ready
    assert seconds(lambda: (matches(pattern, path), covers(pattern, path))) < 0.05


@pytest.mark.parametrize("tool", ["SEND", "FETCH_PAGE"])
def test_long_agent_argument_against_many_stars_takes_bounded_time(tool: str) -> None:
    text, pattern = "https://docs.example/" + "ab" * 50_000, "https://docs.example/*a*b*a*b*c"
    found: list[str | None] = []
    assert seconds(lambda: found.append(objection_to({tool: {"url": (pattern,)}}, tool, {"url": text}))) < 0.5
    assert found != [None]
