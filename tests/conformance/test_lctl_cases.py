"""Every case of `cases/lctl.jsonl` is met: findings, confidence of facts, diagrams."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from tests.conformance.lctl import differences
from tests.conformance.lctl_form import LctlCase, read_lctl_cases

CASES = read_lctl_cases(Path(__file__).with_name("cases") / "lctl.jsonl")


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_case_is_met(case: LctlCase) -> None:
    assert differences(case) == []


def test_case_ids_are_unique() -> None:
    assert [name for name, count in Counter(case.id for case in CASES).items() if count > 1] == []
