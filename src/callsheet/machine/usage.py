"""What a run has used: steps, calls by tool, tokens, cost, bytes, time; and what one call spent."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any, NamedTuple


class Spent(NamedTuple):
    """What one call has spent, as its port reports it: tokens, and the cost in the user's own unit."""

    input_tokens: int = 0
    output_tokens: int = 0
    cost: float = 0.0


@dataclass(frozen=True, slots=True)
class Usage:
    """What a run has used so far, resumes and re-plans included.

    A call is counted once, also where it is made again after a crash under its own key. `bytes`
    are those of the texts, lists and objects that calls gave; numbers alone count nothing.
    `seconds` is the time that processes have worked on the run, waits included; what a process
    did between its last event and a crash is not known.

    >>> Usage(steps=3, calls=2, calls_by_tool={"READ": 2}, bytes=1_200, seconds=0.25).describe()
    '3 steps · 2 calls (READ 2) · 1,200 bytes · 0.25 s'
    """

    steps: int = 0
    calls: int = 0
    calls_by_tool: dict[str, int] = field(default_factory=dict[str, int])
    """All calls by what was called; a compilation is `RE-PLAN`."""
    model_calls: int = 0
    """The calls among them that asked a model or an agent."""
    retries: int = 0
    waits: int = 0
    waited: float = 0.0
    """Seconds of waits between attempts, as far as they have begun."""
    replans: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost: float = 0.0
    bytes: int = 0
    seconds: float = 0.0
    early: int = 0
    """The calls that left before their turn, on the schedule `auto`."""
    unused: int = 0
    """The calls among them that came to nothing, for the run ended before their turn."""

    @property
    def tokens(self) -> int:
        """Tokens in and out."""
        return self.input_tokens + self.output_tokens

    def to_json(self) -> dict[str, Any]:
        """The usage as JSON data."""
        data = {name: getattr(self, name) for name in _NAMES}
        return {**data, "calls_by_tool": dict(self.calls_by_tool)}

    def describe(self) -> str:
        """The usage in one line; what is zero is left out but for steps and calls."""
        tools = sorted(self.calls_by_tool.items(), key=lambda item: (-item[1], item[0]))
        named = ", ".join(f"{name} {count:,}" for name, count in tools[:_MOST_TOOLS])
        more = f", {len(tools) - _MOST_TOOLS} more tools" if len(tools) > _MOST_TOOLS else ""
        parts = (
            _counted(self.steps, "step"),
            _counted(self.calls, "call") + (f" ({named}{more})" if tools else ""),
            _counted(self.model_calls, "model call") if self.model_calls else "",
            f"{self.early:,} of them early" if self.early else "",
            f"{self.unused:,} of these for nothing" if self.unused else "",
            _counted(self.retries, "retry", "retries") if self.retries else "",
            f"{self.waited:g} s of waiting" if self.waited else "",
            _counted(self.replans, "re-plan") if self.replans else "",
            f"{self.input_tokens:,} + {self.output_tokens:,} tokens" if self.tokens else "",
            f"cost {self.cost:.6g}" if self.cost else "",
            _counted(self.bytes, "byte") if self.bytes else "",
            f"{self.seconds:.3g} s" if self.seconds else "",
        )
        return " · ".join(part for part in parts if part)


_NAMES = tuple(f.name for f in fields(Usage))
_MOST_TOOLS = 6


def _counted(number: int, one: str, many: str | None = None) -> str:
    return f"{number:,} {one if number == 1 else many or f'{one}s'}"
