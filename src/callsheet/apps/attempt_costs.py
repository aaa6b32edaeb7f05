"""Sums up the costs of several attempts at goals, in total and per solved goal.

Pure. In: attempts. Out: totals, and the tokens, calls and seconds per solved goal.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from callsheet.apps.comparison import Attempt

CACHED_TOKEN_WEIGHT = 0.1
"""The weight of a cached token relative to a new one, about what providers charge."""


class AverageCost(NamedTuple):
    """The average cost of a solved goal, including the cost of failed attempts.

    `tokens_cold` counts every token that was read or written, as without a cache; `tokens_warm` counts those
    from the provider's cache at a tenth.
    """

    tokens_cold: float
    tokens_warm: float
    model_calls: float
    calls: float
    seconds: float


@dataclass(frozen=True, slots=True)
class AttemptTotals:
    """The totals of all attempts with one method: their number, how many solved the goal, and the costs.

    `answer` and `error` are those of the last attempt; the other fields are those of `Attempt`, summed up.
    """

    name: str
    times: int
    solved: int
    answer: str
    error: str
    calls: int
    model_calls: int
    compiling: int
    repairs: int
    replans: int
    input_tokens: int
    cached_tokens: int
    output_tokens: int
    seconds: float

    @property
    def fresh_tokens(self) -> int:
        """Input tokens that were not in a cache."""
        return self.input_tokens - self.cached_tokens

    @property
    def per_solved_goal(self) -> AverageCost | None:
        """The cost per solved goal; None if none was solved."""
        if not self.solved:
            return None
        new = self.fresh_tokens + self.output_tokens
        return AverageCost(
            (new + self.cached_tokens) / self.solved,
            (new + CACHED_TOKEN_WEIGHT * self.cached_tokens) / self.solved,
            self.model_calls / self.solved,
            self.calls / self.solved,
            self.seconds / self.solved,
        )


def total_costs(attempts: Sequence[Attempt]) -> AttemptTotals:
    """Sum up the attempts with one method; there must be at least one.

    >>> solved = Attempt("plan", True, "a", input_tokens=100, cached_tokens=50)
    >>> total_costs([solved, Attempt("plan", False, "b")]).per_solved_goal
    AverageCost(tokens_cold=100.0, tokens_warm=55.0, model_calls=0.0, calls=0.0, seconds=0.0)
    """
    return AttemptTotals(
        name=attempts[0].name,
        times=len(attempts),
        solved=sum(attempt.is_solved for attempt in attempts),
        answer=attempts[-1].answer,
        error=attempts[-1].error,
        calls=sum(attempt.calls for attempt in attempts),
        model_calls=sum(attempt.model_calls for attempt in attempts),
        compiling=sum(attempt.compiling for attempt in attempts),
        repairs=sum(attempt.repairs for attempt in attempts),
        replans=sum(attempt.replans for attempt in attempts),
        input_tokens=sum(attempt.input_tokens for attempt in attempts),
        cached_tokens=sum(attempt.cached_tokens for attempt in attempts),
        output_tokens=sum(attempt.output_tokens for attempt in attempts),
        seconds=sum(attempt.seconds for attempt in attempts),
    )
