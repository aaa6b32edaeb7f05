"""Searching many texts at once finds what searching for each one finds."""

from __future__ import annotations

from unittest.mock import patch

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.growth import seconds

from callsheet.sealing import known as searching
from callsheet.sealing.known import Form, Known, PrefixIndex

LETTERS = st.text("ab\u00e9", min_size=1, max_size=4)


@given(
    st.lists(LETTERS, max_size=8, unique=True),
    st.text("ab\u00e9", max_size=30),
    st.sampled_from([(500_000, 4), (3, 100), (3, 1)]),
)
@example(["a", "ab", "bb", "ba", "aab"], "aabba", (3, 100))
@example(["a", "ab", "bb", "ba", "aab"], "aabba", (3, 1))
def test_texts_are_found_at_every_position(texts: list[str], text: str, most: tuple[int, int]) -> None:
    """Whether one matcher holds them, several do, or places are looked at."""
    each = sorted((at, one) for one in texts for at in range(len(text)) if text.startswith(one, at))
    assert sorted(PrefixIndex(texts).found_in(text)) == each
    known = Known(Form(one, "declared") for one in texts)
    with patch.multiple(searching, _MOST_BYTES=most[0], _MOST_PASSES=most[1]):
        assert sorted((at, text[at:end]) for at, end, _ in known.found_in(text)) == each
        assert known.may_be_in(text.encode()) == bool(each)


def many(count: int) -> Known:
    return Known.of([f"token-{number:06}-of-some-length" for number in range(count)], "declared")


@pytest.mark.parametrize(("some", "more"), [(100, 1_000), (6_000, 12_000)], ids=["few", "many"])
def test_search_time_is_independent_of_number_of_patterns(some: int, more: int) -> None:
    text = "nothing of them " * 2_000
    few, all_of_them = many(some), many(more)
    for known in (few, all_of_them):
        assert [*known.found_in("token-000000-of-some-length, token-000099-of-some-length")] == [
            (0, 27, "declared"),
            (29, 56, "declared"),
        ]
        assert next(known.found_in("token-000007-of-some-length")) == (0, 27, "declared")
        assert known.may_be_in(b'{"value":"token-000007-of-some-length"}')
    took = min(seconds(lambda: list(few.found_in(text))) for _ in range(5))
    assert min(seconds(lambda: list(all_of_them.found_in(text))) for _ in range(5)) < 5 * took + 0.001


def one_by_one(count: int) -> Known:
    """This many secrets, each added after a search for the earlier ones."""
    known = Known()
    for number in range(count):
        assert not known.may_be_in(b'{"value":"nothing of them"}')
        known += Known.of([f"token-{number:06}-of-some-length"], "declared")
    return known


def test_incremental_additions_cost_their_own_size() -> None:
    assert one_by_one(50).may_be_in(b'{"value":"token-000001-of-some-length"}')
    few = min(seconds(lambda: one_by_one(75)) for _ in range(2))
    assert min(seconds(lambda: one_by_one(300)) for _ in range(2)) < 9 * few + 0.1
