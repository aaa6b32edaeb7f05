"""The JMESPath compliance suite: queries of `@SELECT` give what the suite expects, or fail.

No registry has it. `data/jmespath.json` holds the files of `tests/compliance` of jmespath/jmespath.py on
GitHub at 2ad18b0e51ef3c22ef0d4bbeb11506746a39e228, without the benchmarks, under their licence
(`data/jmespath.LICENSE`).
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from callsheet.ports.transforms.query import compiled, search
from callsheet.ports.transforms.work import Fault, Work
from suites.fetching import assert_expected

SUITE = json.loads((Path(__file__).parent / "data" / "jmespath.json").read_text(encoding="utf-8"))


def outcome(data: Any, query: str) -> tuple[bool, Any]:
    """Whether a query succeeds, and its result."""
    try:
        compiled(query)
        return True, search(data, query, Work())
    except Fault:
        return False, None


def test_queries_give_what_suite_expects() -> None:
    wrong: set[str] = set()
    count = 0
    for name, groups in SUITE.items():
        for group in groups:
            for case in group["cases"]:
                count += 1
                wanted = ("result" in case, case.get("result"))
                if outcome(group["given"], case["expression"]) != wanted:
                    wrong.add(f"{name}: {case['expression']}")
    assert count == 892
    assert_expected(wrong, {})
