"""Every case of `cases/security*.jsonl`: hostile plans are refused, harmless ones are not."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from tests.conformance.security import differences, read_security_cases

FOLDER = Path(__file__).with_name("cases")
CASES = [
    *read_security_cases(FOLDER / "security.jsonl"),
    *read_security_cases(FOLDER / "security_combined.jsonl"),
    *read_security_cases(FOLDER / "security_everyday.jsonl"),
]
"""The cases of one idea each, those that put several together, then plans as people write them."""


def test_cases_are_met() -> None:
    found = {case.id: differences(case) for case in CASES}
    assert {name: wrong for name, wrong in found.items() if wrong} == {}


def test_case_ids_are_unique() -> None:
    assert [name for name, count in Counter(case.id for case in CASES).items() if count > 1] == []
