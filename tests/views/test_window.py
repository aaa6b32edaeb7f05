"""A long diagram on a small screen: the important part is shown, and hidden parts are counted."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from callsheet.views.columns import Gap, shown_rows


@given(st.integers(0, 300), st.integers(-2, 60), st.lists(st.integers(-5, 320), max_size=12))
def test_rows_and_gaps_cover_all_rows_and_fit(count: int, room: int, focus: list[int]) -> None:
    shown = shown_rows(count, room, focus)
    at = 0
    for row in shown:
        if isinstance(row, Gap):
            assert row.rows > 0
            at += row.rows
        else:
            assert row == at
            at += 1
    assert at == count
    assert len(shown) <= max(room, 3)
    assert not any(isinstance(a, Gap) and isinstance(b, Gap) for a, b in pairwise(shown))


@given(st.integers(20, 300), st.integers(9, 18), st.data())
def test_important_rows_are_shown_if_they_fit(count: int, room: int, data: st.DataObject) -> None:
    focus = data.draw(st.lists(st.integers(0, count - 1), max_size=(room - 1) // 2))
    assert set(focus) <= set(shown_rows(count, room, focus))


def test_short_diagram_is_shown_completely() -> None:
    assert shown_rows(4, 4, [0]) == [0, 1, 2, 3]


def test_important_row_is_centred() -> None:
    assert shown_rows(100, 7, [50]) == [Gap(48), 48, 49, 50, 51, 52, Gap(47)]
