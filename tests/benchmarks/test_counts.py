"""Small workloads need no more instructions per step than recorded, relative to a floor."""

from __future__ import annotations

import json
import shutil

import pytest

from benchmarks import counts


def test_workloads_stay_within_recorded_instruction_counts() -> None:
    if shutil.which("valgrind") is None:
        pytest.skip("valgrind, which counts instructions, is not installed")
    recorded = json.loads(counts.RECORDED.read_text())
    now = counts.ratios(counts.count())
    assert now.keys() == recorded.keys()
    assert counts.worse(now, recorded) == []


def test_workload_over_tolerance_is_named() -> None:
    recorded = {"chain": 5.0, "journal": 20.0}
    just_so = {name: ratio * counts.TOLERANCE for name, ratio in recorded.items()}
    assert counts.worse(just_so, recorded) == []
    assert [w.name for w in counts.worse(just_so | {"chain": 6.5}, recorded)] == ["chain"]
