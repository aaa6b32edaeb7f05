"""The usage of a run (steps, calls by tool, tokens, cost, bytes, time) and of a single call."""

from __future__ import annotations

import marshal
from collections.abc import Mapping
from hashlib import sha256
from types import MappingProxyType
from typing import Any, cast

from callsheet.ir import JSON
from callsheet.lazy import NamedTuple

_NO_CALLS: Mapping[str, int] = MappingProxyType({})


class Spent(NamedTuple):
    """What one call has spent, as its port reports it: tokens, and the cost in the user's own unit.

    Of the tokens in, `cached_tokens` were in the provider's cache. `requests` is how often a provider of
    models was asked, and `seconds` how long that took; `unpriced` counts the answers whose cost nobody knows,
    which is not in `cost`. `repairs` are the questions to a model beyond the one that the call is counted as,
    as where a new plan was wrong and was asked for again. `kept` are the bytes that were put into files which
    the value names.
    """

    input_tokens: int = 0
    output_tokens: int = 0
    cost: float = 0.0
    cached_tokens: int = 0
    requests: int = 0
    unpriced: int = 0
    seconds: float = 0.0
    repairs: int = 0
    kept: int = 0

    def plus(self, other: Spent, sign: int = 1) -> Spent:
        """What both have spent together, or with a sign of -1 what is left of this one without the other.

        >>> tuple(Spent(10, 2, 0.5).plus(Spent(1, 1, 0.25, requests=1)))
        (11, 3, 0.75, 0, 1, 0, 0.0, 0, 0)
        """
        return Spent(
            self.input_tokens + sign * other.input_tokens,
            self.output_tokens + sign * other.output_tokens,
            self.cost + sign * other.cost,
            self.cached_tokens + sign * other.cached_tokens,
            self.requests + sign * other.requests,
            self.unpriced + sign * other.unpriced,
            self.seconds + sign * other.seconds,
            self.repairs + sign * other.repairs,
            self.kept + sign * other.kept,
        )


class OwnBudget(NamedTuple):
    """What a part of a run may spend; None is no limit."""

    tokens: int | None = None
    cost: float | None = None

    def words(self, tokens: int, cost: float) -> str:
        """What has been spent of its limits; "" without limits.

        >>> OwnBudget(2000, 0.5).words(1240, 0.1)
        '1,240 of 2,000 tokens, cost 0.1 of 0.5'
        """
        parts = [] if self.tokens is None else [f"{tokens:,} of {self.tokens:,} tokens"]
        parts += [] if self.cost is None else [f"cost {cost:.6g} of {self.cost:.6g}"]
        return ", ".join(parts)

    def is_spent(self, tokens: int, cost: float) -> bool:
        """Whether nothing is left of one of its limits.

        >>> OwnBudget(2000).is_spent(1999, 5.0), OwnBudget(2000).is_spent(2000, 0.0)
        (False, True)
        """
        return (self.tokens is not None and tokens >= self.tokens) or (
            self.cost is not None and cost >= self.cost
        )


class Usage(NamedTuple):
    """What a run has used so far, resumes and re-plans included.

    A call is counted once, also where it is made again after a crash under its own key. `bytes`
    are those of the texts, lists, objects and files that calls gave; numbers alone count nothing.
    `seconds` is the time that processes have worked on the run, waits included; what a process
    did between its last event and a crash is not known.

    >>> Usage(steps=3, calls=2, calls_by_tool={"READ": 2}, bytes=1_200, seconds=0.25).describe()
    '3 steps · 2 calls (READ 2) · 1,200 bytes · 0.25 s'
    """

    steps: int = 0
    calls: int = 0
    calls_by_tool: Mapping[str, int] = _NO_CALLS
    """All calls by what was called; a compilation is `RE-PLAN`, and its repair one more."""
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
    """What is known of the cost: that of `unpriced` answers is not in it."""
    bytes: int = 0
    seconds: float = 0.0
    early: int = 0
    """The calls that left before their turn, on the schedule `auto`."""
    unused: int = 0
    """The calls among them that came to nothing, for the run ended before their turn."""
    cached_tokens: int = 0
    """The tokens in that were in a provider's cache."""
    model_requests: int = 0
    """How often providers in models were asked for answers, with the tries that failed before one came."""
    unpriced: int = 0
    """The answers in models whose cost nobody knows."""
    model_seconds: float = 0.0
    """How long models took, added up also where they worked side by side."""

    @property
    def tokens(self) -> int:
        """Tokens in and out."""
        return self.input_tokens + self.output_tokens

    @classmethod
    def of(cls, spent: Spent, model_calls: int = 1) -> Usage:
        """The usage of what has spent this outside of a run, as the making of a plan does.

        `model_calls` are those without the repairs, which `spent` tells.
        """
        return cls(
            model_calls=model_calls + spent.repairs,
            input_tokens=spent.input_tokens,
            output_tokens=spent.output_tokens,
            cost=spent.cost,
            cached_tokens=spent.cached_tokens,
            model_requests=spent.requests,
            unpriced=spent.unpriced,
            model_seconds=spent.seconds,
        )

    def since(self, earlier: Usage) -> Usage:
        """What was used after an earlier count of the same run.

        >>> Usage(calls=3, calls_by_tool={"READ": 3}).since(Usage(calls=2, calls_by_tool={"READ": 2})).calls
        1
        """
        fields = (name for name in self._fields if name != "calls_by_tool")
        changes: dict[str, Any] = {name: getattr(self, name) - getattr(earlier, name) for name in fields}
        calls = {name: n - earlier.calls_by_tool.get(name, 0) for name, n in self.calls_by_tool.items()}
        return Usage(**changes, calls_by_tool={name: n for name, n in calls.items() if n})

    @property
    def spent(self) -> Spent:
        """What of it was spent on models and by calls that report it; repairs are among the model calls."""
        return Spent(
            self.input_tokens,
            self.output_tokens,
            self.cost,
            self.cached_tokens,
            self.model_requests,
            self.unpriced,
            self.model_seconds,
        )

    @property
    def known_cost(self) -> float | None:
        """The cost; None where there is one that nobody knows."""
        return None if self.unpriced else self.cost

    def to_json(self) -> dict[str, Any]:
        """The usage as JSON data; the cost is null where nothing is known of it."""
        data = self._asdict()
        data["calls_by_tool"] = dict(self.calls_by_tool)
        if self.unpriced and not self.cost:
            data["cost"] = None
        return data

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Usage:
        """The usage that data tells of; what this version does not count is left out.

        >>> Usage.from_json(Usage(calls=2, unpriced=1).to_json()) == Usage(calls=2, unpriced=1)
        True
        """
        known: dict[str, Any] = {name: value for name, value in data.items() if name in cls._fields}
        known["cost"] = known.get("cost") or 0.0
        return cls(**known)

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
            f"{self.unused:,} of these unused" if self.unused else "",
            _counted(self.retries, "retry", "retries") if self.retries else "",
            f"{self.waited:g} s of waiting" if self.waited else "",
            _counted(self.replans, "re-plan") if self.replans else "",
            f"{self.input_tokens:,} + {self.output_tokens:,} tokens" if self.tokens else "",
            f"{self.cached_tokens:,} of them cached" if self.cached_tokens else "",
            f"cost {self.cost:.6g}" if self.cost else "",
            f"{_counted(self.unpriced, 'answer')} of unknown cost" if self.unpriced else "",
            f"{self.model_seconds:.3g} s in models" if self.model_seconds else "",
            _counted(self.bytes, "byte") if self.bytes else "",
            f"{self.seconds:.3g} s" if self.seconds else "",
        )
        return " · ".join(part for part in parts if part)


_MOST_TOOLS = 6


def _counted(number: int, one: str, many: str | None = None) -> str:
    return f"{number:,} {one if number == 1 else many or f'{one}s'}"


SIZED = frozenset({str, list, dict})
"""The types of values that have a size to count."""
_WITHOUT_REFERENCES = 2
"""The version of marshal's format without references, in which equal data has equal bytes."""
_NUMBER = 8


def size_of(value: JSON) -> int:
    """The size of a value: the UTF-8 bytes of its texts and keys, and 8 for each other scalar in it.

    >>> size_of("é"), size_of({"a": [1, "xy"]}), size_of(7)
    (2, 11, 8)
    """
    if type(value) is str:
        return _length(value)
    size = 0
    waiting: list[Any] = [value]
    while waiting:
        item = waiting.pop()
        if type(item) is str:
            size += _length(item)
        elif type(item) is list:
            members = cast("list[Any]", item)
            kinds = set(map(type, members))
            if kinds == {str}:
                size += _length("".join(members))
            elif kinds.isdisjoint(SIZED):
                size += _NUMBER * len(members)
            else:
                waiting += members
        elif type(item) is dict:
            named = cast("dict[str, Any]", item)
            size += _length("".join(named))
            waiting += named.values()
        else:
            size += _NUMBER
    return size


def fingerprint(made_of: object) -> str:
    """The same text for equal data, in every process; for data nested too deep, only its size counts."""
    try:
        data = marshal.dumps(cast("Any", made_of), _WITHOUT_REFERENCES)
    except ValueError:
        data = b"%d" % size_of(cast("JSON", made_of))
    return sha256(data).hexdigest()[:32]


def _length(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))
