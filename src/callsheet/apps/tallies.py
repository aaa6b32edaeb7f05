"""Sums up the costs of several attempts at goals, in total and per solved goal.

Pure. In: attempts. Out: sums, and tokens, calls and time for each that reached its goal.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from callsheet.apps.comparing import Way

CACHED_COUNTS = 0.1
"""What a token from a provider's cache counts beside a new one: about what providers ask for it."""


class Each(NamedTuple):
    """What one solved goal took; what went into attempts that did not solve theirs is in it.

    `tokens_cold` counts every token that was read or written, as without any cache; `tokens_warm` those from
    the provider's cache at a tenth.
    """

    tokens_cold: float
    tokens_warm: float
    model_calls: float
    calls: float
    seconds: float


@dataclass(frozen=True, slots=True)
class Tally:
    """All attempts of one way: how many there were, how many solved their goal, and what they took together.

    `answer` and `error` are those of the last attempt; the other fields are those of `Way`, summed up.
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
        """Tokens that were read and stood in no cache."""
        return self.input_tokens - self.cached_tokens

    @property
    def each(self) -> Each | None:
        """What a solved goal took; None where none was solved."""
        if not self.solved:
            return None
        new = self.fresh_tokens + self.output_tokens
        return Each(
            (new + self.cached_tokens) / self.solved,
            (new + CACHED_COUNTS * self.cached_tokens) / self.solved,
            self.model_calls / self.solved,
            self.calls / self.solved,
            self.seconds / self.solved,
        )


def tally(ways: Sequence[Way]) -> Tally:
    """The attempts of one way taken together; there must be one at least.

    >>> ways = [Way("plan", True, "a", input_tokens=100, cached_tokens=50), Way("plan", False, "b")]
    >>> tally(ways).each
    Each(tokens_cold=100.0, tokens_warm=55.0, model_calls=0.0, calls=0.0, seconds=0.0)
    """
    return Tally(
        name=ways[0].name,
        times=len(ways),
        solved=sum(way.is_solved for way in ways),
        answer=ways[-1].answer,
        error=ways[-1].error,
        calls=sum(way.calls for way in ways),
        model_calls=sum(way.model_calls for way in ways),
        compiling=sum(way.compiling for way in ways),
        repairs=sum(way.repairs for way in ways),
        replans=sum(way.replans for way in ways),
        input_tokens=sum(way.input_tokens for way in ways),
        cached_tokens=sum(way.cached_tokens for way in ways),
        output_tokens=sum(way.output_tokens for way in ways),
        seconds=sum(way.seconds for way in ways),
    )
