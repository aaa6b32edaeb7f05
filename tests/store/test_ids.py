"""The ids of runs: valid and invalid ones, and new ones, which sort by time."""

from __future__ import annotations

import pytest

from callsheet.store import JournalError, check_run_id, new_run_id


@pytest.mark.parametrize("good", ["a", "0", "20261121-2301-k3f9", "a.b_c-d", "x" * 64])
def test_valid_run_ids_are_accepted(good: str) -> None:
    assert check_run_id(good) == good


@pytest.mark.parametrize(
    "bad", ["", "..", ".a", "-a", "A", "a/b", "a b", "a\n", "é", "x" * 65, "a\ud800", "a\0"]
)
def test_invalid_run_ids_are_refused(bad: str) -> None:
    with pytest.raises(JournalError, match="JRN001"):
        check_run_id(bad)


def test_new_id_is_valid() -> None:
    assert check_run_id(new_run_id())


def test_new_ids_sort_by_time() -> None:
    times = [1795302059.9999, 1795302060.0, 1795302060.001, 1795302119.999, 1795302120.0, 1795388520.0]
    ids = [new_run_id(lambda now=now: now, lambda n: n - 1) for now in times]
    assert ids == sorted(ids)
    assert len(set(ids)) == len(ids)


def test_simultaneous_ids_differ_randomly() -> None:
    assert len({new_run_id(lambda: 1795302119.5) for _ in range(50)}) > 25


def test_documented_example_is_correct() -> None:
    assert new_run_id(lambda: 1795302119.5, lambda n: 7) == "20261121-2301-zqex07"
