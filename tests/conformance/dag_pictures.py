"""Diagrams of a plan of dependencies: its levels and lines."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from tests.conformance.findings import difference

from callsheet.ir import Plan
from callsheet.ir.graphs import Precedence
from callsheet.planning import render_plan_dag

RENDERINGS = frozenset({"render", "render_line_count", "render_order"})
_INDEX = re.compile(r"^\S+ (\S+?)\. ")


def batch_differences(plan: Plan, expect: Mapping[str, Any]) -> list[str]:
    """The unmet expectations of levels."""
    if "batches" not in expect:
        return []
    found = [[plan.steps[number].id for number in level] for level in Precedence.of(plan).levels()]
    return [] if found == expect["batches"] else [difference("batches", expect["batches"], found)]


def picture_differences(data: Mapping[str, Any], expect: Mapping[str, Any]) -> list[str]:
    """What speaks against the documented picture of a plan's data.

    Looked at are the patterns that its lines meet in their order, and their count.
    """
    lines = render_plan_dag(data).split("\n")
    out: list[str] = []
    wanted = expect.get("render_line_count", len(lines))
    if len(lines) != wanted:
        out.append(difference("number of lines", wanted, len(lines)))
    at = 0
    for pattern in expect.get("render", ()):
        found = next((n for n in range(at, len(lines)) if re.search(pattern, lines[n])), None)
        if found is None:
            out.append(difference("a line of the picture", pattern, lines[at:]))
            break
        at = found + 1
    if "render_order" in expect:
        order = [match[1] for line in lines if (match := _INDEX.match(line))]
        if order != expect["render_order"]:
            out.append(difference("order of the lines", expect["render_order"], order))
    return out
