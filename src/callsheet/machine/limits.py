"""What bounds a run: steps, calls, re-plans, items at once, the pace of retries and all their waits."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

MAX_WINDOW = 500


@dataclass(frozen=True, slots=True)
class Limits:
    """The bounds of one run; they are recorded with it, so that a resumed run keeps them."""

    max_steps: int = 10_000
    """Executed steps over the whole run, re-plans included; over it the run fails."""
    max_calls: int = 500_000
    """Calls of tools, models and agents over the whole run, each retry one more; over it the run fails."""
    max_replans: int = 3
    """How often a run may compile a new plan."""
    max_concurrency: int = 4
    """Steps under way at once in a plan of dependencies."""
    window: int = 16
    """Items of one FOREACH that may be under way at once, at most 500."""
    retry_delay: float = 1.0
    """Seconds before the first further attempt, where the plan does not say."""
    retry_backoff: float = 1.0
    """Each further wait is this many times the one before, where the plan does not say."""
    max_retry_delay: float = 300.0
    """Seconds that no single wait exceeds."""
    max_waiting: float = 3_600.0
    """Seconds that the waits between attempts may come to in one run; over it the run fails."""

    def __post_init__(self) -> None:
        if self.max_steps < 1 or self.max_replans < 0:
            raise ValueError("max_steps must be at least 1 and max_replans at least 0")
        if self.max_calls < 1 or self.max_waiting < 0:
            raise ValueError("max_calls must be at least 1 and max_waiting not negative")
        if self.max_concurrency < 1:
            raise ValueError("max_concurrency must be at least 1")
        if not 1 <= self.window <= MAX_WINDOW:
            raise ValueError(f"window must be from 1 to {MAX_WINDOW}")
        if self.retry_delay < 0 or self.retry_backoff < 1 or self.max_retry_delay < 0:
            raise ValueError("retry delays are not negative and a backoff is at least 1")

    def pause(self, failures: int, delay: float | None, backoff: float | None) -> float:
        """Seconds to wait after so many failures; None takes what the run is set to."""
        delay = self.retry_delay if delay is None else delay
        backoff = self.retry_backoff if backoff is None else backoff
        try:
            return min(delay * backoff ** (failures - 1), self.max_retry_delay)
        except OverflowError:
            return self.max_retry_delay

    def to_json(self) -> dict[str, Any]:
        """The limits as JSON data."""
        return asdict(self)
