"""Which rates of commits use a synced tail."""

from __future__ import annotations

from itertools import chain, repeat

from callsheet.store.ledger import ENOUGH, NEAR, CommitRate


def _quick(*gaps: float) -> list[bool]:
    """The verdict for each commit, with these seconds between them."""
    now = 100.0

    def clock() -> float:
        return now

    pace = CommitRate(clock)
    said = [pace.step()]
    for gap in gaps:
        now += gap
        said.append(pace.step())
    return said


def test_rate_is_high_only_after_many_quick_commits() -> None:
    assert _quick(*repeat(NEAR / 2, ENOUGH + 3)) == [False] * ENOUGH + [True] * 4


def test_late_commit_resets_rate() -> None:
    gaps = chain(repeat(0.0, ENOUGH), [2 * NEAR], repeat(0.0, ENOUGH))
    assert _quick(*gaps) == [False] * ENOUGH + [True] + [False] * ENOUGH + [True]


def test_distant_commits_are_never_quick() -> None:
    assert not any(_quick(*repeat(2 * NEAR, 100)))
