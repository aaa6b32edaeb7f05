"""What a run is called in lists: by its plan, by the file that it was read from, or by its goal.

In: a plan, and what the face that started the run noted. Out: a name and a goal, as they are stored with the
run and searched.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, cast

from callsheet.ir import Plan
from callsheet.store.pending import sayable

_LONGEST_NAME = 200
_LONGEST_GOAL = 1_000
_OF_A_GOAL = 80
_UNNAMED = frozenset({"", "-", "plan", "<plan>", "<stdin>"})
"""The names of texts that come from no file, and that nobody has named."""


class RunNames(NamedTuple):
    """The name of a run, and the goal of its plan."""

    name: str
    goal: str | None


def names_of(plan: Plan, start: Mapping[str, Any] | None, plan_hash: str) -> RunNames:
    """The names of a run with this plan and start: the plan's title or id, else its file, else its goal.

    >>> names_of(Plan((), goal="Pay what is owed"), {"launch": {"plan": "<plan>"}}, "0123456789ab").name
    'Pay what is owed'
    """
    launch = (start or {}).get("launch")
    noted = cast("Mapping[str, Any]", launch).get("plan") if isinstance(launch, Mapping) else None
    file = noted if isinstance(noted, str) and noted not in _UNNAMED else ""
    goal = " ".join((plan.goal or "").split())
    short = goal if len(goal) <= _OF_A_GOAL else f"{goal[: _OF_A_GOAL - 1]}…"
    name = plan.title or plan.id or file or short or f"plan {plan_hash[:12]}"
    return RunNames(sayable(name[:_LONGEST_NAME]) or "", sayable(goal[:_LONGEST_GOAL]) or None)
