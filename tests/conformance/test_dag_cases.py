"""Every case of `cases/dag.jsonl` is met: re-planning, the plan tools and the plan library."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from tests.conformance.dag import differences
from tests.conformance.dag_form import DagCase, read_dag_cases

CASES = read_dag_cases(Path(__file__).with_name("cases") / "dag.jsonl")


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_case_is_met(case: DagCase) -> None:
    assert differences(case) == []


def test_case_ids_are_unique() -> None:
    assert [name for name, count in Counter(case.id for case in CASES).items() if count > 1] == []
