"""The plans for tasks of tau-bench and BFCL can be read, and nothing is found in them that is wrong."""

from __future__ import annotations

from pathlib import Path

import pytest
from benchmarks.bfcl.__main__ import PLANS as BFCL
from benchmarks.tau.measures import PLANS as TAU
from benchmarks.tau.measures import copied, longest_lookup, numbered

from callsheet import Plan


@pytest.mark.parametrize(("plans", "count"), [(TAU, 80), (BFCL, 25)])
def test_plans_for_tasks_of_others_are_read_and_checked(plans: Path, count: int) -> None:
    paths = numbered(plans)
    assert len(paths) == count
    for path in paths:
        plan = Plan.load(path)
        assert [str(each) for each in plan.check() if each.is_error] == [], path.stem
        text = path.read_text(encoding="utf-8")
        assert not copied(text), path.stem
        assert longest_lookup(text) <= 100, path.stem
