"""Whether the limits of a run leave ample room for a call before its turn.

A call may leave early only where every step that stands before it could still make all the calls that
it may come to, retries and loops included: no step is ever refused something because of a later one,
and no limit on calls is gone over whatever comes of them.
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
"""How many items the loop of a step has, None where that is not known yet."""
_AMPLE = 0.5
"""What calls spend is known only afterwards: they leave early while at most half of it is used."""
_MOST_IN_ROUNDS = MAX_ROUNDS
_MOST_OF_AN_AGENT = MAX_TURNS * (1 + MAX_AT_ONCE * (1 + MOST_REDELIVERIES))
"""Whatever its step gives: that may be data."""
_CALLS = frozenset({Kind.TOOL, Kind.MODEL, Kind.AGENT, Kind.ASK})
_MODELS = frozenset({Kind.MODEL, Kind.AGENT})


class Room:
    """The calls that the steps of a program may come to, held against what a budget leaves."""

    __slots__ = ("_all", "_codes", "_loops", "_models", "bytes", "spent")

    def __init__(self, codes: Sequence[StepCode]) -> None:
        self._codes = codes
        self._loops = [code.number for code in codes if code.source is not None]
        self._all = _sums(codes, _CALLS)
        self._models = _sums(codes, _MODELS)
        self.spent = Spent()
        """What the calls have spent whose turn has not come."""
        self.bytes = 0
        """The bytes that they gave."""

    def is_ample(
        self, code: StepCode, first: int, last: int, items: int, budget: Budget, size_of: SizeOf
    ) -> bool:
        """Whether the calls of a step (one for each of its items) may leave before its turn.

        `first` is the step whose turn it is and `last` the last one that has started or is about to.
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
        """The most calls of these kinds that the steps from `first` to `last` may come to."""
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
        """The most calls of a tool that the steps from `first` to `last` may come to."""
        need: float = 0
        for code in self._codes[first : last + 1]:
            if code.tool == tool or (code.loop is not None and tool in code.loop.tools):
                items = 1.0 if code.source is None else _items(size_of(code.number), most_items)
                need += _most_calls(code) * items
        return need


def _items(known: int | None, most: int | None) -> float:
    return known if known is not None else math.inf if most is None else most


def _most_calls(code: StepCode) -> int:
    """How many calls one item may come to without a person's word."""
    if code.loop is not None:
        return code.retries + (_MOST_IN_ROUNDS if code.kind is Kind.MODEL else _MOST_OF_AN_AGENT)
    again = code.probes or code.on_in_doubt is OnInDoubt.RETRY
    return (1 + code.retries) * (1 + MOST_REDELIVERIES * again)


def _sums(codes: Sequence[StepCode], kinds: frozenset[Kind]) -> list[int]:
    """For each step the calls that those before it may come to, loops left out."""
    each = (_most_calls(code) if code.kind in kinds and code.source is None else 0 for code in codes)
    return list(accumulate(each, initial=0))
