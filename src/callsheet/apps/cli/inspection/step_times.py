"""Compares the durations of the steps of two runs."""

from __future__ import annotations

from collections import Counter

from callsheet.apps.cli.output import print_text
from callsheet.apps.rendering.values import format_seconds
from callsheet.store.journal import Journal
from callsheet.store.runs import RunInfo
from callsheet.trace.summary import account_of
from callsheet.trace.value_differences import Slower, slower

_MAX_SHOWN = 20


def compare_step_times(journal: Journal, old: RunInfo, new: RunInfo, noise: float) -> list[Slower]:
    """The visits of steps that took longer or shorter in the second run, beyond `noise` (a fraction)."""
    return slower(_times(journal, old), _times(journal, new), noise)


def _times(journal: Journal, info: RunInfo) -> dict[tuple[str, int], float]:
    plan = journal.plan_of(info.plan_hash)
    account = account_of(plan, journal.events(info.run_id), journal.plan_of)
    visits: Counter[str] = Counter()
    durations: dict[tuple[str, int], float] = {}
    for visit in account.steps:
        visits[visit.step] += 1
        if visit.ended is not None and visit.calls:
            durations[visit.step, visits[visit.step]] = visit.ended - visit.started
    return durations


def print_times(differences: list[Slower], noise: float) -> None:
    """Print the differences, the largest first."""
    for difference in differences[:_MAX_SHOWN]:
        name = difference.step if difference.visit == 1 else f"{difference.step}@{difference.visit}"
        word = "slower" if difference.new > difference.old else "faster"
        print_text(f"{word:7} {name}: A {format_seconds(difference.old)}, B {format_seconds(difference.new)}")
    if len(differences) > _MAX_SHOWN:
        print_text(f"and {len(differences) - _MAX_SHOWN} more times")
    if not differences:
        print_text(f"times   no step differs by more than {noise:.0%}")
