"""Decides whether the limits of a run leave enough room for a call before its turn.

A call may start early only if every earlier step could still make all the calls that it may need, retries
and loops included. So no step is ever refused because of a later one, and no limit on calls is exceeded,
whatever the outcomes are.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Sequence
from itertools import accumulate

from callsheet.ir import OnInDoubt
from callsheet.machine.agents.allowance import MAX_AT_ONCE, MAX_ROUNDS, MAX_TURNS
from callsheet.machine.budget import Budget
from callsheet.machine.doubt import MOST_REDELIVERIES
from callsheet.machine.program import Kind, StepCode
from callsheet.machine.usage import Spent

SizeOf = Callable[[int], int | None]
"""Returns the number of items of a step's FOREACH, None if it is not known yet."""
_AMPLE = 0.5
"""What calls spend is known only afterwards: they start early while at most this share of a limit is used."""
_MOST_IN_ROUNDS = MAX_ROUNDS
_MOST_OF_AN_AGENT = MAX_TURNS * (1 + MAX_AT_ONCE * (1 + MOST_REDELIVERIES))
"""Assumes the maximum, since the limits that a step sets for its agent may be data."""
_CALLS = frozenset({Kind.TOOL, Kind.MODEL, Kind.AGENT, Kind.ASK})
_MODELS = frozenset({Kind.MODEL, Kind.AGENT})


class Headroom:
    """The most calls that the steps of a program may make, compared with what a budget leaves."""

    __slots__ = ("_all", "_codes", "_loops", "_models", "bytes", "spent")

    def __init__(self, codes: Sequence[StepCode]) -> None:
        self._codes = codes
        self._loops = [code.number for code in codes if code.source is not None]
        self._all = _sums(codes, _CALLS)
        self._models = _sums(codes, _MODELS)
        self.spent = Spent()
        """What early calls have spent that the budget has not counted yet."""
        self.bytes = 0
        """The size of their results."""

    def is_ample(
        self, code: StepCode, first: int, last: int, items: int, budget: Budget, size_of: SizeOf
    ) -> bool:
        """Whether the calls of a step (one for each of its items) may start before its turn.

        `first` is the current step, `last` the last step that has started or is about to start.
        """
        limits = budget.limits
        if budget.steps + last - first > limits.max_steps:  # the first has been counted
            return False
        if limits.max_items is not None and items > limits.max_items:
            return False
        if limits.max_calls is not None:
            need = self._need(self._all, _CALLS, first, last, limits.max_items, size_of)
            if sum(budget.calls.values()) + need > limits.max_calls:
                return False
        cap = limits.max_calls_by_tool.get(code.tool)
        if cap is not None:
            need = self._need_of(code.tool, first, last, limits.max_items, size_of)
            if budget.calls[code.tool] + need > cap:
                return False
        if limits.max_model_calls is not None and code.kind is Kind.MODEL:
            need = self._need(self._models, _MODELS, first, last, limits.max_items, size_of)
            if budget.model_calls + need > limits.max_model_calls:
                return False
        return self._may_spend(budget)

    def _may_spend(self, budget: Budget) -> bool:
        limits, spent = budget.limits, self.spent
        tokens = budget.input_tokens + budget.output_tokens + spent.input_tokens + spent.output_tokens
        return all(
            limit is None or used <= limit * _AMPLE
            for limit, used in (
                (limits.max_tokens, tokens),
                (limits.max_cost, budget.cost + spent.cost),
                (limits.max_bytes, budget.bytes + self.bytes + spent.kept),
            )
        )

    def _need(
        self,
        sums: list[int],
        kinds: frozenset[Kind],
        first: int,
        last: int,
        most_items: int | None,
        size_of: SizeOf,
    ) -> float:
        """The most calls of these kinds that the steps from `first` to `last` may make."""
        need: float = sums[last + 1] - sums[first]
        for at in range(bisect_left(self._loops, first), len(self._loops)):
            number = self._loops[at]
            if number > last:
                break
            code = self._codes[number]
            if code.kind in kinds:
                need += _most_calls(code) * _items(size_of(number), most_items)
        return need

    def _need_of(self, tool: str, first: int, last: int, most_items: int | None, size_of: SizeOf) -> float:
        """The most calls of a tool that the steps from `first` to `last` may make."""
        need: float = 0
        for code in self._codes[first : last + 1]:
            if code.tool == tool or (code.loop is not None and tool in code.loop.tools):
                items = 1.0 if code.source is None else _items(size_of(code.number), most_items)
                need += _most_calls(code) * items
        return need


def _items(known: int | None, most: int | None) -> float:
    return known if known is not None else math.inf if most is None else most


def _most_calls(code: StepCode) -> int:
    """The most calls for one item that are made without a person's decision."""
    if code.loop is not None:
        return code.retries + (_MOST_IN_ROUNDS if code.kind is Kind.MODEL else _MOST_OF_AN_AGENT)
    again = code.probes or code.on_in_doubt is OnInDoubt.RETRY
    return (1 + code.retries) * (1 + MOST_REDELIVERIES * again)


def _sums(codes: Sequence[StepCode], kinds: frozenset[Kind]) -> list[int]:
    """For each step, the most calls that the steps before it may make, without FOREACH steps."""
    each = (_most_calls(code) if code.kind in kinds and code.source is None else 0 for code in codes)
    return list(accumulate(each, initial=0))
