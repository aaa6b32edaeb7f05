"""Every case of `cases/ltp.jsonl` is met by the documented API."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest
from tests.conformance.form import FIELDS, Case, read_cases
from tests.conformance.ltp import differences

from callsheet import compat

FILE = Path(__file__).with_name("cases") / "ltp.jsonl"
CASES = read_cases(FILE)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_case_is_met(case: Case) -> None:
    assert differences(case, compat) == []


def test_case_ids_are_unique() -> None:
    assert [name for name, count in Counter(case.id for case in CASES).items() if count > 1] == []


def test_cases_have_no_unknown_fields() -> None:
    lines = [json.loads(line) for line in FILE.read_text("utf-8").split("\n") if line]
    assert {name for line in lines for name in line} <= FIELDS
