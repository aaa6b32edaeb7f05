"""The picture of a plan's data, and its batches."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from callsheet.frontends.dag import parse_dag
from callsheet.ir.precedence import Precedence
from callsheet.views.levels import terminal_levels


def render_plan_dag(plan_data: Mapping[str, Any], status: Mapping[str, str] | None = None) -> str:
    """The plan as lines for a terminal; `status` says of a step's index where it stands.

    Raises CallsheetError for data that is no plan.
    """
    text = json.dumps(plan_data, ensure_ascii=False, default=str)
    return terminal_levels(parse_dag(text, "<plan>").require(), status)


def compute_batches(steps: Sequence[Mapping[str, Any]]) -> list[list[Mapping[str, Any]]]:
    """The steps by level: each level depends on those before it alone. Runs do not wait for whole levels.

    >>> rows = [{"index": "1", "depends_on": []}, {"index": "2", "depends_on": ["1"]}]
    >>> [[step["index"] for step in batch] for batch in compute_batches(rows)]
    [['1'], ['2']]
    """
    empty: dict[str, Any] = {"title": "", "tool": "none", "args": {}, "depends_on": []}
    filled: list[dict[str, Any]] = [{**empty, **step} for step in steps]
    plan = parse_dag(json.dumps({"steps": filled}, ensure_ascii=False, default=str), "<steps>").require()
    return [[steps[number] for number in level] for level in Precedence.of(plan).levels()]
