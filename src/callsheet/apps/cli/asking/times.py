"""Compares the step times of two runs, side by side."""

from __future__ import annotations

from collections import Counter

from callsheet.apps.cli.output import print_text
from callsheet.apps.rendering.values import format_seconds
from callsheet.store.journal import Journal
from callsheet.store.runs import RunInfo
from callsheet.trace.summary import account_of
from callsheet.trace.value_differences import Slower, slower

_MOST = 20


def times_apart(journal: Journal, old: RunInfo, new: RunInfo, noise: float) -> list[Slower]:
    """The visits of steps that took longer or shorter in the second run, beyond the noise."""
    return slower(_times(journal, old), _times(journal, new), noise)


def _times(journal: Journal, info: RunInfo) -> dict[tuple[str, int], float]:
    plan = journal.plan_of(info.plan_hash)
    account = account_of(plan, journal.events(info.run_id), journal.plan_of)
    visits: Counter[str] = Counter()
    found: dict[tuple[str, int], float] = {}
    for visit in account.steps:
        visits[visit.step] += 1
        if visit.ended is not None and visit.calls:
            found[visit.step, visits[visit.step]] = visit.ended - visit.started
    return found


def print_times(apart: list[Slower], noise: float) -> None:
    """Print them, the largest differences first."""
    for one in apart[:_MOST]:
        name = one.step if one.visit == 1 else f"{one.step}@{one.visit}"
        word = "slower" if one.new > one.old else "faster"
        print_text(f"{word:7} {name}: A {format_seconds(one.old)}, B {format_seconds(one.new)}")
    if len(apart) > _MOST:
        print_text(f"and {len(apart) - _MOST} more times")
    if not apart:
        print_text(f"times   none differs by more than {noise:.0%}")
