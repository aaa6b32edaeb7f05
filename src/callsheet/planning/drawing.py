"""Renders a plan's data for a terminal, and computes its batches."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

from callsheet.diagnostics import CallsheetError
from callsheet.diagnostics.wrong_type import wanted, wanted_list
from callsheet.frontends.dag import parse_dag
from callsheet.ir.precedence import Precedence
from callsheet.passes import check
from callsheet.views.levels import terminal_levels
from callsheet.views.marks import StepStatus


def render_plan_dag(plan_data: Mapping[str, Any], status: Mapping[str, str] | None = None) -> str:
    """The plan as lines for a terminal; `status` maps the indexes of steps to their status.

    The words are `pending`, `running`, `completed` and `failed`; a step of the data may have its own under
    `status`. Raises CallsheetError for data that is not a plan.

    >>> row = {"index": "1", "title": "Ask", "tool": "ask", "args": {}, "depends_on": []}
    >>> print(render_plan_dag({"steps": [{**row, "status": "completed"}]}))
    ● 1. Ask  [ask]
    """
    text = json.dumps(plan_data, ensure_ascii=False, default=str)
    plan = parse_dag(text, "<plan>").require()
    statuses = {**_statuses(plan_data.get("steps")), **(status or {})}
    return terminal_levels(plan, {index: _WORDS.get(word, word) for index, word in statuses.items()})


_WORDS = {"completed": StepStatus.DONE}
"""The documented status words that differ from those of callsheet."""


def _statuses(steps: object) -> dict[str, str]:
    """The status of each step as given in the data."""
    by_index: dict[str, str] = {}
    for step in cast("list[Any]", steps) if isinstance(steps, list) else []:
        if isinstance(step, Mapping):
            row = cast("Mapping[str, Any]", step)
            word: Any = row.get("status", row.get("_status"))
            if isinstance(word, str):
                by_index[str(row.get("index"))] = word
    return by_index


def compute_batches(steps: Sequence[Mapping[str, Any]]) -> list[list[Mapping[str, Any]]]:
    """The steps by level: each level depends only on earlier ones. Runs do not wait for whole levels.

    Raises CallsheetError (CHK061) for steps that wait for one another in a cycle.

    >>> rows = [{"index": "1", "depends_on": []}, {"index": "2", "depends_on": ["1"]}]
    >>> [[step["index"] for step in batch] for batch in compute_batches(rows)]
    [['1'], ['2']]
    """
    empty: dict[str, Any] = {"title": "", "tool": "none", "args": {}, "depends_on": []}
    each: Iterable[Any] = wanted_list("steps", steps, "steps (dicts)")
    filled: list[dict[str, Any]] = [
        {**empty, **wanted("each step", step, Mapping, "a dict")} for step in each
    ]
    plan = parse_dag(json.dumps({"steps": filled}, ensure_ascii=False, default=str), "<steps>").require()
    wrong = tuple(found for found in check(plan) if found.code == "CHK061")
    if wrong:
        raise CallsheetError(wrong)
    return [[steps[number] for number in level] for level in Precedence.of(plan).levels()]
