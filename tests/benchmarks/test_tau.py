"""The plans for tasks of tau-bench can be read, and nothing is found in them that is wrong."""

from __future__ import annotations

from benchmarks.tau.measures import copied, longest_lookup, numbered

from callsheet import Plan


def test_plans_for_tau_bench_are_read_and_checked() -> None:
    paths = numbered()
    assert len(paths) == 80
    for path in paths:
        plan = Plan.load(path)
        assert [str(each) for each in plan.check()] == [], path.stem
        text = path.read_text(encoding="utf-8")
        assert not copied(text), path.stem
        assert longest_lookup(text) <= 100, path.stem
