"""A call as its port sees it: what it is told about the call, and how it says that the call failed."""

from __future__ import annotations

import math
from collections.abc import Callable
from hashlib import sha256
from typing import Protocol, Self, TypeAlias

from callsheet.ir import JSON
from callsheet.ir.labels import Label
from callsheet.machine import CallTool, Remark, Spent
from callsheet.machine.trace_ids import traceparent

Objection: TypeAlias = "Callable[[str, str], str | None]"
"""Says what speaks against going on from one address to another, if anything does."""


class ToolFailed(Exception):
    """The call failed; the text is what a plan sees as the error.

    `in_doubt` says that the call may have had its effect all the same: no answer came in time,
    or the server ended before it gave one. `final` says that it took place and that its result cannot be
    had: it is not tried again.
    """

    def __init__(self, text: str, *, in_doubt: bool = False, final: bool = False) -> None:
        super().__init__(text)
        self.in_doubt = in_doubt
        self.final = final


class _Beside:
    """What is told of few calls: most have none, so it is made when something is."""

    __slots__ = ("delivery", "handed", "idempotency_key", "returned", "review", "shown")

    def __init__(self) -> None:
        self.delivery = ""
        self.idempotency_key: str | None = None
        self.handed = ""
        self.returned = ""
        self.review = ""
        self.shown: Label | None = None


class Caller(Protocol):
    """Who makes calls, as their contexts know it."""

    def came_late(self, context: CallContext, outcome: JSON | ToolFailed) -> None:
        """Hear of an answer that comes after the call was given up."""
        ...

    def objection(self, command: CallTool) -> Objection | None:
        """What says where a call may not be redirected; None where whatever is public may be reached."""
        ...


class CallContext:
    """What a port is told about a call besides its arguments, and where it tells what its answer cannot.

    `key` is the call's name in the run: step, visit, item and attempt. `idempotency_key` is the
    same for every delivery of this call, also after a crash and when its answer was lost, and new
    for a planned retry after a failure; it is made from the run and the key of the first attempt of
    this `delivery` (by default this one) unless it is given. `remarks` are what has been told with
    `remark`, `spent` what was reported with `spend`. `shown` is the label of the data that a planner was
    shown for this call, None where nobody has said it. `handed` is the LCTL block for an agent, empty
    where it gets none, and `returned` the one that it gives back beside its answer. `review` says why a
    person has to look at the answer. `leads` says what speaks against going on from one address to
    another within the call, as a redirect wants it; None where whatever is public may be reached.
    """

    __slots__ = ("_beside", "_caller", "_command", "key", "remarks", "run_id", "spent")

    def __init__(
        self, run_id: str, key: str, idempotency_key: str | None = None, *, delivery: str = ""
    ) -> None:
        self.begin(run_id, key, None, None)
        if delivery or idempotency_key is not None:
            beside = self._told()
            beside.delivery, beside.idempotency_key = delivery, idempotency_key

    def begin(self, run_id: str, key: str, caller: Caller | None, command: object) -> Self:
        """Be told of a call; for the gateway, whose every call needs one: a constructor takes longer."""
        self.run_id = run_id
        self.key = key
        self.remarks: tuple[Remark, ...] = ()
        self.spent: Spent | None = None
        self._beside: _Beside | None = None
        self._caller = caller
        self._command = command
        return self

    def _told(self) -> _Beside:
        """Where what few calls have is kept from now on."""
        if self._beside is None:
            self._beside = _Beside()
        return self._beside

    @property
    def handed(self) -> str:
        """The LCTL block for an agent."""
        return "" if self._beside is None else self._beside.handed

    @handed.setter
    def handed(self, block: str) -> None:
        self._told().handed = block

    @property
    def returned(self) -> str:
        """The LCTL block that an agent gives back."""
        return "" if self._beside is None else self._beside.returned

    @returned.setter
    def returned(self, block: str) -> None:
        self._told().returned = block

    @property
    def review(self) -> str:
        """Why a person has to look at the answer."""
        return "" if self._beside is None else self._beside.review

    @review.setter
    def review(self, why: str) -> None:
        self._told().review = why

    @property
    def shown(self) -> Label | None:
        """The label of the data that a planner was shown."""
        return None if self._beside is None else self._beside.shown

    @shown.setter
    def shown(self, label: Label | None) -> None:
        self._told().shown = label

    @property
    def leads(self) -> Objection | None:
        """What speaks against redirects of this call."""
        if self._caller is None or not isinstance(self._command, CallTool):
            return None
        return self._caller.objection(self._command)

    def came_late(self, outcome: JSON | ToolFailed) -> None:
        """Tell what came after the call was given up, in the thread of its event loop.

        It is noted where the run is recorded and has not ended; it changes nothing else.
        """
        if self._caller is not None:
            self._caller.came_late(self, outcome)

    def remark(self, *remarks: Remark) -> None:
        """Tell what is to be known of the outcome beside its value; it is kept in the journal."""
        self.remarks += remarks

    def spend(
        self,
        *,
        input_tokens: int = 0,
        output_tokens: int = 0,
        cost: float | None = 0.0,
        cached_tokens: int = 0,
        requests: int = 0,
        seconds: float = 0.0,
    ) -> None:
        """Report what the call has spent, for the budget of the run; what is reported adds up.

        `cost` is in the unit of `Limits(max_cost=…)`, None where nobody knows it. `cached_tokens` are
        those of the tokens in that were in a provider's cache, `requests` how often a provider of models
        was asked, and `seconds` how long that took. Raises ValueError for less than nothing.
        """
        known = 0.0 if cost is None else cost
        least = min(input_tokens, output_tokens, cached_tokens, requests, seconds)
        if least < 0 or not 0 <= known < math.inf:
            raise ValueError("what a call has spent is a number of at least 0")
        self.charge(
            Spent(input_tokens, output_tokens, known, cached_tokens, requests, int(cost is None), seconds)
        )

    def charge(self, spent: Spent) -> None:
        """Add what something else has spent for the call."""
        self.spent = spent if self.spent is None else self.spent.plus(spent)

    @property
    def idempotency_key(self) -> str:
        """The name under which a tool may know a delivery again."""
        beside = self._told()
        if beside.idempotency_key is None:
            delivery = beside.delivery or self.key
            if isinstance(self._command, CallTool):
                delivery = self._command.delivery or delivery
            beside.idempotency_key = sha256(f"{self.run_id}/{delivery}".encode()).hexdigest()
        return beside.idempotency_key

    @property
    def traceparent(self) -> str:
        """What a server is told of where the call stands in the trace of its run (W3C Trace Context)."""
        return traceparent(self.run_id, self.key)
