"""Hypothesis profiles: how many examples a property test gets.

The profile is chosen with `--hypothesis-profile`; CONTRIBUTING.md says which to use when. The number that a
test asks for is the number in the profile `default`, which plain pytest uses.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import is_hypothesis_test, settings

LEAST = 8
"""Examples that no profile goes below, where a test asks for as many."""
SHARES = {"ci": 0.15, "thorough": 10.0}
"""Of the examples that a test asks for, those it is given in a profile."""

settings.register_profile("ci", deadline=None, derandomize=True, database=None)
settings.register_profile("thorough", deadline=None)


def examples(asked: int, profile: str | None) -> int:
    """The number of examples for a test that asks for `asked`."""
    return max(min(asked, LEAST), round(asked * SHARES.get(profile or "", 1.0)))


def give_examples(items: Iterable[pytest.Item]) -> None:
    """Set the number of examples of all property tests by the profile."""
    profile = settings.get_current_profile_name()
    laws: dict[int, Any] = {id(test): test for item in items if is_hypothesis_test(test := _test(item))}
    for law in laws.values():
        given = law._hypothesis_internal_use_settings  # the decorator itself refuses to be used twice
        law._hypothesis_internal_use_settings = settings(
            given, max_examples=examples(given.max_examples, profile)
        )


def _test(item: pytest.Item) -> Any:
    return getattr(item, "obj", None)
