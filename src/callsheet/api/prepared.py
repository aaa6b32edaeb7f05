"""Plans that have been checked and made ready on the tools of a session, for their further runs.

In: a plan and the names of the variables that a run is given. Out: what was made of it before. A plan is
known again by being the same object; the least recently used are let go.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from callsheet.ir import Plan
from callsheet.machine import Program, ToolFacts
from callsheet.policy.model import Policy

MOST = 64
"""How many plans are kept."""
MOST_STEPS = 20_000
"""A plan of more steps is not kept."""


class Prepared(NamedTuple):
    """A plan that has no errors: the facts and pins of its tools, its program, the policy that allows it."""

    facts: Mapping[str, ToolFacts]
    pins: Mapping[str, str]
    program: Program
    policy: Policy | None = None


class PreparedPlans:
    """The plans that were prepared last, at most `most`."""

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._kept: OrderedDict[tuple[int, frozenset[str]], tuple[Plan, Prepared]] = OrderedDict()

    def get(self, plan: Plan, inputs: Iterable[str]) -> Prepared | None:
        """What was made of this plan for a run that is given these variables."""
        place = id(plan), frozenset(inputs)
        found = self._kept.get(place)
        if found is None:
            return None
        self._kept.move_to_end(place)
        return found[1]

    def put(self, plan: Plan, inputs: Iterable[str], prepared: Prepared) -> None:
        """Keep what was made of a plan; the plan is kept with it, so that no other has its identity."""
        if len(plan.steps) > MOST_STEPS:
            return
        self._kept[id(plan), frozenset(inputs)] = plan, prepared
        if len(self._kept) > self._most:
            self._kept.popitem(last=False)

    def clear(self) -> None:
        """Forget all: the tools are others now."""
        self._kept.clear()
