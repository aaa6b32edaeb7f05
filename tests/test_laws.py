"""The profile determines the number of examples of a property test."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.laws import examples

TRIED: list[int] = []


@given(st.integers())
@settings(max_examples=100, database=None)
def test_a_law_is_tried(number: int) -> None:
    TRIED.append(number)


def test_a_law_is_tried_as_often_as_the_profile_says() -> None:
    TRIED.clear()
    test_a_law_is_tried()
    assert len(TRIED) == examples(100, settings.get_current_profile_name())


def test_the_suite_takes_a_share_of_the_examples_and_a_thorough_run_many_times_as_many() -> None:
    assert [examples(asked, "ci") for asked in (10, 30, 100, 500)] == [10, 25, 40, 200]
    assert examples(100, "default") == examples(100, None) == 100
    assert examples(30, "thorough") == 300
