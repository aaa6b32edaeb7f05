"""Tracks the budget of a conversation across its runs, counting each run once.

In: what runs have used, told as often as they stop. Out: what a run that begins now may use.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

from callsheet.api.budget import SharedBudget
from callsheet.machine import Limits, Usage

Bounds = dict[str, float | int]

_BOUNDS = ("max_steps", "max_calls", "max_model_calls", "max_tokens", "max_cost", "max_seconds", "max_bytes")


class ConversationBudget:
    """The budget of a conversation.

    A run that stops and is carried on is told of with all that it has used: only what is new is counted.

    >>> budget = ConversationBudget(Limits(max_calls=10))
    >>> budget.count_run("r", Usage(calls=2))
    >>> budget.count_run("r", Usage(calls=3))
    >>> budget.used.calls, budget.remaining()["max_calls"]
    (3, 7)
    """

    def __init__(self, limits: Limits) -> None:
        self._budget = SharedBudget(limits)
        self._counted: dict[str, Usage] = {}
        self._reserved: Bounds = {}

    @property
    def used(self) -> Usage:
        """What was used so far."""
        return self._budget.used

    @property
    def is_model_budget_spent(self) -> bool:
        """Whether no model may be asked any more."""
        left = self.remaining()
        return any(left.get(name) == 0 for name in ("max_model_calls", "max_tokens"))

    def add(self, usage: Usage) -> None:
        """Count what was used outside of runs."""
        self._budget.add(usage)

    def count_run(self, run_id: str, usage: Usage) -> None:
        """Count what a run has used by now, as far as it has not been counted."""
        before = self._counted.get(run_id)
        self._budget.add(usage if before is None else usage.since(before))
        self._counted[run_id] = usage

    def count_from(self, run_id: str, usage: Usage) -> None:
        """Count nothing of what a run had used before it became one of this conversation."""
        self._counted.setdefault(run_id, usage)

    def remaining(self) -> Bounds:
        """What a run that begins now may use: the budget, but for what is set aside for one that goes on."""
        left = self._budget.left()
        bounds = {name: getattr(left, name) for name in _BOUNDS}
        return {
            name: max(0, most - self._reserved.get(name, 0))
            for name, most in bounds.items()
            if most is not None
        }

    def describe(self) -> str:
        """What is left, in one line.

        >>> ConversationBudget(Limits(max_calls=2_000, max_tokens=None)).describe()[:31]
        '10,000 steps · 2,000 calls · 10'
        """
        remaining = (
            (name.removeprefix("max_").replace("_", " "), value) for name, value in self.remaining().items()
        )
        return " · ".join(
            f"cost {format_number(value)}" if name == "cost" else f"{format_number(value)} {name}"
            for name, value in remaining
        )

    def half_of_remaining(self) -> Bounds:
        """Half of what is left: for a message whose model may make plans, which have the other half."""
        return {name: half_bound(most) for name, most in self.remaining().items()}

    @contextmanager
    def reserving(self, bounds: Bounds) -> Generator[None]:
        """Set this aside meanwhile."""
        self._reserved = bounds
        try:
            yield
        finally:
            self._reserved = {}


def format_number(value: float) -> str:
    """A number for people.

    >>> format_number(50_000_000), format_number(86_399.25), format_number(0.5)
    ('50,000,000', '86,399.2', '0.5')
    """
    return f"{value:,}" if isinstance(value, int) else f"{value:,.6g}"


def half_bound(most: float) -> float | int:
    """Half of a bound, a whole number of what is counted in whole numbers.

    >>> half_bound(5), half_bound(1), half_bound(0.5)
    (2, 1, 0.25)
    """
    return max(most // 2, min(most, 1)) if isinstance(most, int) else most / 2
