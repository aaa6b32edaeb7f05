"""Tracks the budget of a conversation across its runs, counting each run once.

In: the usage of runs, reported each time that they stop. Out: the limits for the next run.
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

    A run that is resumed reports its total usage again; only the increase is counted.

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
        """The usage so far."""
        return self._budget.used

    @property
    def is_model_budget_spent(self) -> bool:
        """Whether the budget for model calls or tokens is spent."""
        remaining = self.remaining()
        return any(remaining.get(name) == 0 for name in ("max_model_calls", "max_tokens"))

    def add(self, usage: Usage) -> None:
        """Count usage outside of runs."""
        self._budget.add(usage)

    def count_run(self, run_id: str, usage: Usage) -> None:
        """Count the total usage of a run, without the part that was counted before."""
        before = self._counted.get(run_id)
        self._budget.add(usage if before is None else usage.since(before))
        self._counted[run_id] = usage

    def count_from(self, run_id: str, usage: Usage) -> None:
        """Exclude the usage that a run had before this conversation resumed it."""
        self._counted.setdefault(run_id, usage)

    def remaining(self) -> Bounds:
        """The limits for the next run: the rest of the budget, without the reserved part."""
        left = self._budget.left()
        bounds = {name: getattr(left, name) for name in _BOUNDS}
        return {
            name: max(0, most - self._reserved.get(name, 0))
            for name, most in bounds.items()
            if most is not None
        }

    def describe(self) -> str:
        """The rest of the budget, in one line.

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
        """Half of the rest: for a message whose model may run plans, which get the other half."""
        return {name: half_bound(most) for name, most in self.remaining().items()}

    @contextmanager
    def reserving(self, bounds: Bounds) -> Generator[None]:
        """Reserve these amounts during the block."""
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
    """Half of a bound; an integer for an integer bound, and at least 1 unless that is 0.

    >>> half_bound(5), half_bound(1), half_bound(0.5)
    (2, 1, 0.25)
    """
    return max(most // 2, min(most, 1)) if isinstance(most, int) else most / 2
