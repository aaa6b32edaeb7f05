"""Counts what a run uses and enforces its limits: every call is reserved here before it is issued.

In: what is about to happen, and its outcome. Out: None if there is room, otherwise a `Refusal` that names
the limit. The counts depend only on the events fed to the machine, so they are the same on every schedule
that makes the same calls, and after a resume.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, cast

from callsheet import lazy
from callsheet.ir import JSON
from callsheet.lazy import NamedTuple
from callsheet.machine.limits import Limits
from callsheet.machine.usage import Spent, Usage, fingerprint, size_of

REPLAN = "RE-PLAN"
"""The tool name under which compilations of new plans are counted."""
_WORDS = {
    "max_steps": "the run has executed {} steps",
    "max_calls": "the run has made {} calls",
    "max_calls_by_tool": "the run has called @{tool} {} times",
    "max_model_calls": "the run has asked models {} times",
    "max_tokens": "the run has used {} tokens",
    "max_cost": "the calls of the run have cost {}",
    "max_bytes": "the results of the run have come to {} bytes",
    "max_seconds": "the run has taken {} s",
    "max_items": "the loop has {} items",
    "max_repeats": "this call has been made again with the same arguments {} times",
    "max_replans": "the run has compiled {} new plans",
    "max_waiting": "the run has waited {} s between attempts",
}


_ONE = lazy.pattern(r"( 1 (?:new )?[a-z]+)s(?![a-z])")
"""One of something, with the noun in the plural."""


class Refusal(NamedTuple):
    """Why something is not done: `budget` is the name of the limit, `used` what has been used of it.

    `tool` is the tool that was to be called, "" for a step or the run as a whole.
    """

    budget: str
    limit: float
    used: float
    tool: str = ""

    def describe(self) -> str:
        """The refusal in words, with the way out.

        >>> Refusal("max_calls", 2, 2, "SEND").describe()
        '@SEND is refused: the run has made 2 calls, its limit is 2; a higher max_calls allows more'
        """
        what = _WORDS[self.budget].format(f"{self.used:.12g}", tool=self.tool)
        what = _ONE.sub(r"\1", what)
        head = f"@{self.tool} is refused: " if self.tool else ""
        return f"{head}{what}, its limit is {self.limit:.12g}; a higher {self.budget} allows more"


class ReplanReserve(NamedTuple):
    """The most calls that may be made while a new plan is compiled, and how many of them ask a model."""

    calls: int = 0
    asking: int = 0


_COUNTS = (
    "bytes",
    "cached_tokens",
    "calls",
    "cost",
    "early",
    "input_tokens",
    "model_calls",
    "model_requests",
    "model_seconds",
    "output_tokens",
    "repairing",
    "repeats",
    "replans",
    "retries",
    "steps",
    "unpriced",
    "unused",
    "waited",
    "waits",
)


class Budget:
    """The counts of one run, checked against its limits.

    For speed, limits are not checked at every call: `ahead` is how many steps and calls can be counted before
    any limit could be reached. It is set to zero, which forces a check, when spending exceeds a limit.
    `weigh` gives the size of a value in bytes.
    """

    __slots__ = ("ahead", "limits", "weigh", *_COUNTS)

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.weigh: Callable[[JSON], int] = size_of
        self.steps = 0
        self.calls: defaultdict[str, int] = defaultdict(int)
        self.model_calls = 0
        self.retries = 0
        self.waits = 0
        self.waited = 0.0
        self.replans = 0
        self.input_tokens = 0
        self.output_tokens = 0
        self.cost = 0.0
        self.cached_tokens = 0
        self.model_requests = 0
        self.unpriced = 0
        self.model_seconds = 0.0
        self.bytes = 0
        self.repeats: dict[str, int] = {}
        """How often steps in cycles have made a call, by fingerprint of tool and arguments."""
        self.repairing: dict[str, int] = {}
        """The keys of open compilations for which a call is reserved to repair an invalid plan."""
        self.early = 0
        """How many calls were issued ahead of their turn."""
        self.unused = 0
        """How many of them were wasted: the run ended or went elsewhere before their turn."""
        most, caps = limits.max_calls, limits.max_calls_by_tool
        self.ahead = limits.max_steps if most is None else min(limits.max_steps, most)
        if caps:
            self.ahead = min(self.ahead, *caps.values())

    def change(self, limits: Limits) -> None:
        """Apply other limits from now on, also to what has been used."""
        self.limits = limits
        self.ahead = 0

    def counts(self) -> dict[str, Any]:
        """All counts as JSON data; `at` restores a budget from it."""
        return {name: _plain(getattr(self, name)) for name in _COUNTS}

    @classmethod
    def at(cls, limits: Limits, counts: Mapping[str, Any]) -> Budget:
        """A budget with the counts that `counts` gave.

        Raises KeyError for missing counts, TypeError or ValueError for values of the wrong type.
        """
        budget = cls(limits)
        budget.ahead = 0
        for name in _COUNTS:
            count: Any = getattr(budget, name)
            if name in _LATER and name not in counts:
                continue
            if isinstance(count, dict):
                count.update(counts[name])  # pyright: ignore[reportUnknownMemberType]
            else:
                setattr(budget, name, type(count)(counts[name]))
        return budget

    # ------------------------------------------------------------ before

    def reserve(self, tool: str, made_of: object = None) -> Refusal | None:
        """Count a call that is about to be issued; returns a refusal if a limit forbids it.

        `made_of` is given for a step in a cycle: what it calls with, as data, to detect repetitions.
        """
        if self.ahead <= 0 or made_of is not None:
            refusal = self._check_limits(tool, made_of)
            if refusal is not None:
                return refusal
        self.ahead -= 1
        self.calls[tool] += 1
        return None

    def reserve_model(self, tool: str, made_of: object = None) -> Refusal | None:
        """As `reserve`, for a call that asks a model: model calls, tokens and cost must not be used up."""
        limits = self.limits
        for name, limit, used in (
            ("max_model_calls", limits.max_model_calls, self._models()),
            ("max_tokens", limits.max_tokens, self.input_tokens + self.output_tokens),
            ("max_cost", limits.max_cost, self.cost),
        ):
            if limit is not None and used >= limit:
                return Refusal(name, limit, used, tool)
        refusal = self.reserve(tool, made_of)
        if refusal is None:
            self.model_calls += 1
        return refusal

    def hold_repair(self, key: str, reserve: ReplanReserve) -> bool:
        """Reserve a call for repairing the plan of this open compilation; whether there is room for one.

        The reservation lasts until the plan is there. Calls in `reserve` take precedence: none is made if one
        of them may need the room.
        """
        limits = self.limits
        cap = limits.max_calls_by_tool.get(REPLAN)
        has_room = (
            (limits.max_model_calls is None or self._models() + reserve.asking < limits.max_model_calls)
            and (limits.max_calls is None or self._total() + reserve.calls < limits.max_calls)
            and (cap is None or self._of_tool(REPLAN) + reserve.asking < cap)
        )
        if has_room:
            self.repairing[key] = 1
            self.ahead = 0
        return has_room

    def may_repair(self, key: str) -> bool:
        """Whether a call is reserved for repairing the plan of this compilation."""
        return key in self.repairing

    def _models(self) -> int:
        """The model calls, with those reserved for repairs."""
        return self.model_calls + len(self.repairing)

    def _total(self) -> int:
        """All calls, with those reserved for repairs."""
        return sum(self.calls.values()) + len(self.repairing)

    def _of_tool(self, tool: str) -> int:
        """The calls of a tool, with those reserved for repairs."""
        return self.calls.get(tool, 0) + (len(self.repairing) if tool == REPLAN else 0)

    def reserve_replan(self) -> Refusal | None:
        """A refusal if no further plan may be compiled; the attempts are reserved one by one."""
        most = self.limits.max_replans
        return Refusal("max_replans", most, self.replans, REPLAN) if self.replans >= most else None

    def reserve_wait(self, seconds: float) -> Refusal | None:
        """Count a wait between two attempts; returns a refusal if it exceeds `max_waiting`."""
        waited, most = self.waited + seconds, self.limits.max_waiting
        if most is not None and waited > most:
            return Refusal("max_waiting", most, self.waited)
        self.count_wait(seconds)
        return None

    def count_wait(self, seconds: float) -> None:
        """Count a wait that no limit is about, such as a time limit that is over."""
        self.waited += seconds
        self.waits += seconds > 0

    def give_back_wait(self, seconds: float) -> None:
        """Undo the reservation of a wait that is withdrawn before its end."""
        self.waited = max(0.0, self.waited - seconds)
        self.waits -= seconds > 0

    def refuse_items(self, count: int) -> Refusal | None:
        """A refusal if a loop has too many items."""
        most = self.limits.max_items
        return Refusal("max_items", most, count) if most is not None and count > most else None

    def _check_limits(self, tool: str, made_of: object) -> Refusal | None:
        """Check all limits for a call, and compute `ahead`."""
        limits = self.limits
        tokens = self.input_tokens + self.output_tokens
        if limits.max_tokens is not None and tokens > limits.max_tokens:
            return Refusal("max_tokens", limits.max_tokens, tokens, tool)
        if limits.max_cost is not None and self.cost > limits.max_cost:
            return Refusal("max_cost", limits.max_cost, self.cost, tool)
        if limits.max_bytes is not None and self.bytes > limits.max_bytes:
            return Refusal("max_bytes", limits.max_bytes, self.bytes, tool)
        cap = limits.max_calls_by_tool.get(tool)
        if cap is not None and self._of_tool(tool) >= cap:
            return Refusal("max_calls_by_tool", cap, self._of_tool(tool), tool)
        total, most = self._total(), limits.max_calls
        if most is not None and total >= most:
            return Refusal("max_calls", most, total, tool)
        if made_of is not None:
            again = self._repeat(tool, made_of)
            if again is not None:
                return again
        self.ahead = limits.max_steps - self.steps
        if most is not None:
            self.ahead = min(self.ahead, most - total)
        for name, cap in limits.max_calls_by_tool.items():
            self.ahead = min(self.ahead, cap - self._of_tool(name))
        return None

    def _repeat(self, tool: str, made_of: object) -> Refusal | None:
        most = self.limits.max_repeats
        if most is None:
            return None
        call = fingerprint([tool, made_of])
        count = self.repeats.get(call, 0)
        if count > most:
            return Refusal("max_repeats", most, count - 1, tool)
        self.repeats[call] = count + 1
        return None

    def repeats_too_often(self, tool: str, made_of: object) -> bool:
        """Whether `reserve` would refuse this call of a step in a cycle because it repeats too often."""
        most = self.limits.max_repeats
        return most is not None and self.repeats.get(fingerprint([tool, made_of]), 0) > most

    # ------------------------------------------------------------ afterwards

    def give_back(self, tool: str, *, asks_model: bool) -> None:
        """Undo the reservation of a call that is never issued."""
        self.calls[tool] -= 1
        self.model_calls -= asks_model

    def waste(self, tool: str, *, asks_model: bool) -> None:
        """Count a call that was issued ahead of its turn and whose turn never came."""
        self.unused += 1
        self.calls[tool] += 1
        self.model_calls += asks_model
        self.ahead = 0

    def spend(self, spent: Spent) -> None:
        """Count what a call has spent."""
        limits = self.limits
        self.input_tokens += spent.input_tokens
        self.output_tokens += spent.output_tokens
        self.cost += spent.cost
        self.cached_tokens += spent.cached_tokens
        self.model_requests += spent.requests
        self.unpriced += spent.unpriced
        self.model_seconds += spent.seconds
        self.bytes += spent.kept
        tokens = self.input_tokens + self.output_tokens
        bounds = (tokens, limits.max_tokens), (self.cost, limits.max_cost), (self.bytes, limits.max_bytes)
        if any(most is not None and used > most for used, most in bounds):
            self.ahead = 0

    def count_repairs(self, key: str, spent: Spent | None) -> None:
        """Count the repairs of a new plan, each a model call, and release the reservation for them."""
        self.repairing.pop(key, None)
        if spent is not None and spent.repairs:
            self.calls[REPLAN] += spent.repairs
            self.model_calls += spent.repairs
            self.ahead = 0

    def measure(self, value: JSON) -> None:
        """Count the size of a call's result or error."""
        self.bytes += self.weigh(value)
        most = self.limits.max_bytes
        if most is not None and self.bytes > most:
            self.ahead = 0

    def usage(self) -> Usage:
        """All that has been used; `seconds` is 0 here, as only the driver knows the time."""
        by_tool = dict(self.calls)
        if 0 in by_tool.values():
            by_tool = {tool: count for tool, count in by_tool.items() if count}
        seconds = round(self.model_seconds, 3) if self.model_seconds else 0.0
        # positional, in the order of the fields: every run makes one, and keywords take twice as long
        # fmt: off
        return _usage((
            self.steps, sum(by_tool.values()), by_tool, self.model_calls, self.retries, self.waits,
            self.waited, self.replans, self.input_tokens, self.output_tokens, self.cost, self.bytes, 0.0,
            self.early, self.unused, self.cached_tokens, self.model_requests, self.unpriced, seconds,
        ))
        # fmt: on


_usage: Callable[[tuple[object, ...]], Usage] = partial(cast("Any", tuple).__new__, Usage)
_LATER = frozenset(
    {"cached_tokens", "early", "model_requests", "model_seconds", "repairing", "unpriced", "unused"}
)
"""Counts that data written by older versions lacks."""


def _plain(value: Any) -> Any:
    return dict(value) if isinstance(value, dict) else value  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
