"""`SharedBudget`: one budget for a conversation and all the runs that it starts.

In: limits for the whole, and usage. Out: the limits that remain for the next run. Runs take turns, so that
together they cannot overspend.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from contextvars import ContextVar
from dataclasses import replace

from callsheet.diagnostics import CallsheetError
from callsheet.diagnostics.wrong_type import wanted
from callsheet.ir import canonical_tool_name
from callsheet.machine import Limits, Refusal, Usage

_PAIRS = (
    ("max_calls", "calls"),
    ("max_model_calls", "model_calls"),
    ("max_cost", "cost"),
    ("max_bytes", "bytes"),
    ("max_seconds", "seconds"),
)


_NOBODY: frozenset[int] = frozenset()
_HAVE_THE_TURN: ContextVar[frozenset[int]] = ContextVar("callsheet budgets in use", default=_NOBODY)
"""The ids of the budgets whose turn the current run holds, seen by its tasks and threads."""


class SharedBudget:
    """Limits for a whole conversation, and how much of them has been used.

    >>> budget = SharedBudget(Limits(max_calls=10, max_calls_by_tool={"send": 1}))
    >>> budget.count_call("send")
    >>> budget.left().max_calls, budget.left().max_calls_by_tool
    (9, {'SEND': 0})
    """

    def __init__(self, limits: Limits | None = None) -> None:
        self.limits = Limits() if limits is None else wanted("limits", limits, Limits, "Limits(…)")
        self.used = Usage()
        self._lock = asyncio.Lock()

    @asynccontextmanager
    async def turn(self) -> AsyncGenerator[None]:
        """Hold the budget for one run or planner; others that use it wait.

        Raises CallsheetError (PLN020) if the run that holds it, or one of its tools, asks for it again.
        """
        if id(self) in _HAVE_THE_TURN.get():
            raise CallsheetError.single(
                "PLN020",
                "a plan that uses a shared budget cannot create or run another plan with the same budget",
                help="give the tools inside plans their own budget",
            )
        async with self._lock:
            token = _HAVE_THE_TURN.set(_HAVE_THE_TURN.get() | {id(self)})
            try:
                yield
            finally:
                _HAVE_THE_TURN.reset(token)

    def count_call(self, tool: str) -> None:
        """Count a call that the conversation makes itself."""
        name = canonical_tool_name(wanted("tool", tool, str, "the name of a tool"))
        self.add(Usage(calls=1, calls_by_tool={name: 1}))

    def refusal(self, tool: str) -> Refusal | None:
        """Why the conversation may no longer call a tool; None if it may."""
        name, left = canonical_tool_name(wanted("tool", tool, str, "the name of a tool")), self.left()
        if left.max_calls == 0:
            return Refusal("max_calls", self.limits.max_calls or 0, self.used.calls, name)
        cap = self.limits.max_calls_by_tool.get(name)
        used = self.used.calls_by_tool.get(name, 0)
        return Refusal("max_calls_by_tool", cap, used, name) if cap is not None and used >= cap else None

    def add(self, usage: Usage) -> None:
        """Add the usage of a run."""
        before, by_tool = self.used, dict(self.used.calls_by_tool)
        for tool, count in usage.calls_by_tool.items():
            by_tool[tool] = by_tool.get(tool, 0) + count
        spent = Usage.of(before.spent.plus(usage.spent), before.model_calls + usage.model_calls)
        self.used = spent._replace(
            steps=before.steps + usage.steps,
            calls=before.calls + usage.calls,
            calls_by_tool=by_tool,
            retries=before.retries + usage.retries,
            replans=before.replans + usage.replans,
            bytes=before.bytes + usage.bytes,
            seconds=before.seconds + usage.seconds,
        )

    def left(self) -> Limits:
        """The limits for the next run: these limits less what has been used."""
        limits, used = self.limits, self.used
        changes: dict[str, float | int] = {}
        for bound, count in _PAIRS:
            most = getattr(limits, bound)
            if most is not None:
                changes[bound] = max(0, most - getattr(used, count))
        if limits.max_tokens is not None:
            changes["max_tokens"] = max(0, limits.max_tokens - used.input_tokens - used.output_tokens)
        caps = {
            tool: max(0, most - used.calls_by_tool.get(tool, 0))
            for tool, most in limits.max_calls_by_tool.items()
        }
        return replace(
            limits, **changes, max_steps=max(1, limits.max_steps - used.steps), max_calls_by_tool=caps
        )

    @property
    def is_spent(self) -> bool:
        """Whether `max_steps` is used up."""
        return self.used.steps >= self.limits.max_steps


def limits_after(left: Limits, used: Usage) -> Limits:
    """The limits of a whole run that has used some already, so that `left` is what it may still use."""
    changes: dict[str, float | int] = {}
    for bound, count in _PAIRS:
        most = getattr(left, bound)
        if most is not None:
            changes[bound] = most + getattr(used, count)
    if left.max_tokens is not None:
        changes["max_tokens"] = left.max_tokens + used.input_tokens + used.output_tokens
    caps = {tool: most + used.calls_by_tool.get(tool, 0) for tool, most in left.max_calls_by_tool.items()}
    return replace(left, **changes, max_steps=left.max_steps + used.steps, max_calls_by_tool=caps)
