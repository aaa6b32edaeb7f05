"""The profile determines the number of examples of a property test."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.laws import examples

TRIED: list[int] = []


@given(st.integers())
@settings(max_examples=100, database=None)
def test_property_is_tested(number: int) -> None:
    TRIED.append(number)


def test_example_count_follows_profile() -> None:
    TRIED.clear()
    test_property_is_tested()
    assert len(TRIED) == examples(100, settings.get_current_profile_name())


def test_ci_profile_reduces_and_thorough_profile_multiplies_examples() -> None:
    assert [examples(asked, "ci") for asked in (6, 30, 100, 500)] == [6, 8, 15, 75]
    assert examples(100, "default") == examples(100, None) == 100
    assert examples(30, "thorough") == 300
