"""A cache of plans that a session has checked and compiled, so that further runs start faster.

In: a plan and the names of a run's input variables. Out: the cached preparation. Plans are compared by
identity; the least recently used are dropped.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from callsheet.ir import Plan
from callsheet.machine import Program, ToolFacts
from callsheet.policy.model import Policy

MOST = 64
"""The greatest number of cached plans."""
MOST_STEPS = 20_000
"""A plan with more steps is not cached."""


class Prepared(NamedTuple):
    """A plan without errors, ready to run: tool facts and pins, its program, the bound policy."""

    facts: Mapping[str, ToolFacts]
    pins: Mapping[str, str]
    program: Program
    policy: Policy | None = None


class PreparedPlans:
    """An LRU cache of at most `most` prepared plans."""

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._entries: OrderedDict[tuple[int, frozenset[str]], tuple[Plan, Prepared]] = OrderedDict()

    def get(self, plan: Plan, inputs: Iterable[str]) -> Prepared | None:
        """The preparation of this plan for a run with these variables; None if not cached."""
        place = id(plan), frozenset(inputs)
        prepared = self._entries.get(place)
        if prepared is None:
            return None
        self._entries.move_to_end(place)
        return prepared[1]

    def put(self, plan: Plan, inputs: Iterable[str], prepared: Prepared) -> None:
        """Cache a preparation, together with the plan, so that its `id()` is not reused."""
        if len(plan.steps) > MOST_STEPS:
            return
        self._entries[id(plan), frozenset(inputs)] = plan, prepared
        if len(self._entries) > self._most:
            self._entries.popitem(last=False)

    def clear(self) -> None:
        """Drop everything, because the tools have changed."""
        self._entries.clear()
