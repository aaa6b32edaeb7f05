"""The limits of a run: steps, calls, cost, time, concurrency, and the pace of retries."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import field, replace
from typing import TYPE_CHECKING, Any, Final, Literal, Self

from callsheet.diagnostics.wrong_type import wanted, wanted_names, wanted_number
from callsheet.ir.operations import pattern_fault
from callsheet.lazy import dataclass

if TYPE_CHECKING:
    from callsheet.policy.model import Policy

MAX_WINDOW = 500
SEQUENTIAL: Final = "sequential"
AUTO: Final = "auto"
SCHEDULES = (SEQUENTIAL, AUTO)
"""Whether the steps of a plan in text order start one after another, or as early as nobody can tell."""


@dataclass(frozen=True, slots=True)
class Limits:
    """The bounds of one run; they are recorded with it, so that a resumed run keeps them.

    A bound of 0 allows none of its kind, None is no bound. A run that would go over one fails,
    and says which. Raises ValueError for a bound that is none.

    >>> Limits(max_calls=20, max_calls_by_tool={"send_mail": 1}).max_calls_by_tool
    {'SEND_MAIL': 1}
    """

    max_steps: int = 10_000
    """Executed steps over the whole run, re-plans included; in the items of loops only rounds are counted."""
    max_calls: int | None = 500_000
    """Calls of tools, models and agents over the whole run, re-plans and each retry one more."""
    max_calls_by_tool: Mapping[str, int] = field(default_factory=dict[str, int])
    """Calls of single tools, by name."""
    max_model_calls: int | None = 10_000
    """Operations asked of models and agents, re-plans among them."""
    max_tokens: int | None = 50_000_000
    """Tokens in and out, as far as they are reported; the call that goes over is the last."""
    max_cost: float | None = 100.0
    """What calls may cost, in the unit in which they report it; the call that goes over is the last."""
    max_bytes: int | None = 1_000_000_000
    """Bytes of the texts, lists and objects that calls give; the call that goes over is the last."""
    max_seconds: float | None = 86_400.0
    """Seconds that processes may work on the run, those before a resume included."""
    max_items: int | None = 100_000
    """Items of one FOREACH."""
    max_repeats: int | None = 1_000
    """How often steps that a jump leads back to may make a call with the same arguments again.

    It acts before `max_steps` in circles of up to nine steps, and leaves room to ask a thousand times whether
    something is done. Calls elsewhere, and the items of a FOREACH, may be alike as often as they are. In
    version 2 no jump leads back: each REPEAT has a bound of its own.
    """
    max_replans: int = 3
    """How often a run may compile a new plan."""
    replans_on_failure: int = 0
    """How often a planner may be asked for other steps when a plan of dependencies has failed; 0 is never."""
    max_concurrency: int = 4
    """Steps under way at once in a plan of dependencies, and on the schedule `auto`."""
    max_concurrency_by_tool: Mapping[str, int] = field(default_factory=dict[str, int])
    """Calls of single tools under way at once, by name; the others wait in the order in which they came."""
    schedule: Literal["sequential", "auto"] = AUTO
    """When steps in text order start: each in its turn, or (`auto`) calls that only read before it."""
    window: int = 16
    """Items of one FOREACH that may be under way at once, at most 500."""
    retry_delay: float = 1.0
    """Seconds before the first further attempt, where the plan does not say."""
    retry_backoff: float = 1.0
    """Each further wait is this many times the one before, where the plan does not say."""
    max_retry_delay: float = 300.0
    """Seconds that no single wait exceeds."""
    max_waiting: float | None = 3_600.0
    """Seconds that the waits between attempts may come to in one run."""

    def __post_init__(self) -> None:
        for name in _WHOLE:
            wanted(name, getattr(self, name), int, "a whole number")
        for name in (*_OPTIONAL, *_PACE):
            given: float | None = getattr(self, name)
            if given is not None or name in _PACE:
                wanted_number(name, given)
        if self.max_steps < 1:
            raise ValueError("max_steps must be at least 1")
        if self.replans_on_failure < 0:
            raise ValueError("replans_on_failure must not be negative")
        if self.max_concurrency < 1:
            raise ValueError("max_concurrency must be at least 1")
        if self.schedule not in SCHEDULES:
            raise ValueError(f"schedule must be {' or '.join(SCHEDULES)}")
        if not 1 <= self.window <= MAX_WINDOW:
            raise ValueError(f"window must be from 1 to {MAX_WINDOW}")
        if not (0 <= self.retry_delay < math.inf and 0 <= self.max_retry_delay < math.inf):
            raise ValueError("retry delays must be finite and not negative")
        if not 1 <= self.retry_backoff < math.inf:
            raise ValueError("retry_backoff must be finite and at least 1")
        caps = _by_tool("max_calls_by_tool", self.max_calls_by_tool)
        object.__setattr__(self, "max_calls_by_tool", caps)
        at_once = _by_tool("max_concurrency_by_tool", self.max_concurrency_by_tool)
        object.__setattr__(self, "max_concurrency_by_tool", at_once)
        for name, most in at_once.items():
            if most < 1:
                raise ValueError(f"max_concurrency_by_tool must be at least 1: for {name} it is {most}")
        bounds = [(name, getattr(self, name)) for name in _BOUNDS]
        for name, bound in (*bounds, *caps.items()):
            if bound is not None and not 0 <= bound < math.inf:
                raise ValueError(f"{name} must be finite and not negative: it is {bound}")

    def without_guards(self) -> Self:
        """These limits at their pace, with no bound that a run could go over."""
        bounds: dict[str, Any] = {**dict.fromkeys(_OPTIONAL), "max_steps": _ENDLESS, "max_replans": _ENDLESS}
        return replace(self, max_calls_by_tool={}, **bounds)

    def pause(self, failures: int, delay: float | None, backoff: float | None) -> float:
        """Seconds to wait after so many failures; None takes what the run is set to."""
        delay = self.retry_delay if delay is None else delay
        backoff = self.retry_backoff if backoff is None else backoff
        try:
            return min(delay * backoff ** (failures - 1), self.max_retry_delay)
        except OverflowError:
            return self.max_retry_delay

    def changed(self, changes: Mapping[str, Any]) -> Self:
        """These limits with other values for some; those of single tools are added to the others."""
        added = {name: {**getattr(self, name), **changes.get(name, {})} for name in _TABLES}
        return replace(self, **{**changes, **added})

    def to_json(self) -> dict[str, Any]:
        """The limits as JSON data."""
        data = {name: getattr(self, name) for name in _NAMES}
        return {**data, **{name: dict(data[name]) for name in _TABLES}}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """The limits that data tells of.

        A bound that it does not name did not hold then, nor did the schedule `auto`.
        Raises TypeError or ValueError for data that is none.

        >>> Limits().schedule, Limits.from_json({}).schedule
        ('auto', 'sequential')
        """
        bounds: dict[str, Any] = {**dict.fromkeys(_OPTIONAL), "schedule": SEQUENTIAL}
        return cls(**{**bounds, **wanted_names("data", data)})


def _by_tool(argument: str, given: Mapping[str, int]) -> dict[str, int]:
    fault = next(filter(None, map(pattern_fault, wanted_names(argument, given))), None)
    if fault is not None:
        raise ValueError(f"{argument}: {fault}")
    return {
        name.strip().removeprefix("@").upper(): wanted(f"{argument}[{name!r}]", most, int, "a whole number")
        for name, most in wanted_names(argument, given).items()
    }


_ENDLESS = 2**62
_WHOLE = ("max_steps", "max_replans", "replans_on_failure", "max_concurrency", "window")
_PACE = ("retry_delay", "retry_backoff", "max_retry_delay")
_OPTIONAL = (
    "max_calls", "max_model_calls", "max_tokens", "max_cost", "max_bytes", "max_seconds", "max_items",
    "max_repeats", "max_waiting",
)  # fmt: skip
"""The bounds that may be None."""
_NAMES = Limits.__slots__
_TABLES = ("max_calls_by_tool", "max_concurrency_by_tool")
IN_REQUESTS = frozenset(_NAMES) - {
    "replans_on_failure", "window", "retry_delay", "retry_backoff", "max_retry_delay", "max_waiting",
}  # fmt: skip
"""The limits that a request to a server can set; the others are the server's."""
_BOUNDS = tuple(name for name in _NAMES if name.startswith("max_") and name not in _TABLES)


def bounded(limits: Limits, policy: Policy | None) -> Limits:
    """The limits of a run tightened by those of its policy."""
    if policy is None:
        return limits
    calls = [most for most in (limits.max_calls, policy.max_calls) if most is not None]
    replans = 0 if policy.replan is None else min(limits.max_replans, policy.replan.max)
    return replace(limits, max_calls=min(calls, default=None), max_replans=replans)
