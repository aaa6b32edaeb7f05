"""The context of a tool call (`CallContext`) and the exception for its failure (`ToolFailed`)."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from hashlib import sha256
from typing import TYPE_CHECKING, Protocol, Self, TypeAlias

from callsheet.diagnostics.wrong_type import wanted, wanted_number
from callsheet.ir import JSON
from callsheet.ir.labels import Label
from callsheet.lazy import NamedTuple
from callsheet.machine import CallTool, Remark, Spent
from callsheet.machine.events import QUEUED, Fact
from callsheet.machine.keys import traceparent

if TYPE_CHECKING:
    import asyncio

Objection: TypeAlias = "Callable[[str, str], str | None]"
"""Returns why a redirect from the first address to the second is not allowed, or None if it is."""


class FileGrant(NamedTuple):
    """What the policy of a run lets a program see of the workspace.

    `paths` are files, folders and globs in normal form; None leaves it to the settings. `hides` says which
    files among them are not shown; None if there are none.
    """

    paths: tuple[str, ...] | None
    hides: Callable[[str], bool] | None


TIMEOUT, SCHEMA = "TIMEOUT", "SCHEMA"
"""Kinds of failure that plans with blocks tell apart (`ir.tree.Failing`)."""


class Withheld(Exception):
    """The call has not left, and has no outcome: its run was paused while it waited for others."""


class ToolFailed(Exception):
    """The call failed; the text is the error that the plan sees.

    `in_doubt` means that the call may have had its effect nevertheless: no answer came in time, or the server
    died first. `final` means that the call took place but its result is lost: it is not retried.
    `kind` is TIMEOUT if no answer came in time, SCHEMA if it is not what the tool declares, else "".
    """

    def __init__(self, text: str, *, in_doubt: bool = False, final: bool = False, kind: str = "") -> None:
        super().__init__(text)
        self.in_doubt = in_doubt
        self.final = final
        self.kind = kind


class ToolRaised(ToolFailed):
    """The tool's own code raised an exception, which is the `__cause__`; its traceback is kept."""


class _RareFields:
    """The attributes that few calls have; created at the first use of one, to keep `CallContext` small."""

    __slots__ = ("delivery", "handed", "idempotency_key", "queued_at", "returned", "review", "shown")

    def __init__(self) -> None:
        self.delivery = ""
        self.idempotency_key: str | None = None
        self.queued_at = 0.0
        self.handed = ""
        self.returned = ""
        self.review = ""
        self.shown: Label | None = None


class CallProgress(NamedTuple):
    """How far a tool says that a call has come: `done` of `total`, in its own unit; None if unknown.

    Without `done` it is a line of the tool's log. `waits` says that the call has not left yet: the message is
    what it waits for.
    """

    done: float | None
    total: float | None = None
    message: str = ""
    waits: bool = False


class ServerQuestion(NamedTuple):
    """What a server asks while a call is under way: the request of its protocol as it has sent it."""

    server: str
    method: str
    params: dict[str, JSON]


class CallListener(Protocol):
    """Follows the calls of a run while they are made; nothing in the run depends on it, and it never raises.

    Calls are identified by their keys. Progress may be reported from any thread.
    """

    def began(self, key: str) -> None:
        """A call is sent, or leaves only now after it has waited for others of its tool."""

    def queued(self, key: str) -> None:
        """A call waits for others of its tool; it leaves with a second `began`."""

    def ended(self, key: str, *, succeeded: bool) -> None:
        """A call has an outcome, or was given up."""

    def progressed(self, key: str, progress: CallProgress) -> None:
        """The tool has reported progress."""


class Caller(Protocol):
    """The gateway that makes calls, as seen by their contexts."""

    @property
    def listener(self) -> CallListener | None:
        """Who follows the calls, if anyone."""
        ...

    def progressed(self, context: CallContext, progress: CallProgress) -> None:
        """Called with what a tool reports about its progress."""
        ...

    def came_late(self, context: CallContext, outcome: JSON | ToolFailed) -> None:
        """Called with an outcome that arrives after the call was given up."""
        ...

    def labelled(self, context: CallContext, label: Label, places: str) -> None:
        """Called with the label that a server gives to what a call brings back, and where it says so."""
        ...

    async def answer_server(self, context: CallContext, question: ServerQuestion) -> JSON:
        """The answer to what a server asks during a call; None if nobody can answer."""
        ...

    def task_of(self, context: CallContext) -> str:
        """The id of the server's task that a call has become before; "" if there is none."""
        ...

    async def became_task(self, context: CallContext, task: str) -> None:
        """Called when a call has become a task of its server."""
        ...

    def queued(self, key: str, turn: asyncio.Future[None]) -> None:
        """Called with a call that waits for others before it leaves; what waits for its turn may be told that
        it does not come.
        """
        ...

    def leaving(self, key: str) -> None:
        """Called with a call whose turn it is; raises what it is told if it may not leave any more."""
        ...

    @property
    def leaves(self) -> bool:
        """Whether this process leaves the run to one that resumes it."""
        ...

    def objection(self, command: CallTool) -> Objection | None:
        """The check of redirects for a call; None if any public address may be reached."""
        ...

    def files(self, command: CallTool) -> FileGrant | None:
        """What a call's program may see of the workspace; None without a policy."""
        ...


class CallContext:
    """What a tool's handler learns about a call besides its arguments, and where it reports extra results.

    `key` identifies the call in the run: step, visit, item and attempt. `idempotency_key` stays the same for
    every delivery of this call, including after a crash or a lost answer, and differs for a planned retry
    after a failure. Unless given, it is derived from the run id and `delivery`, the key of the first attempt
    of this delivery (by default `key`).

    `remarks` collects what `remark` was given, `spent` what `spend` was given. `shown` is the label of the
    data that a planner was shown, None if unknown. `handed` is the LCTL block given to an agent, empty if
    none, and `returned` the block that it gave back beside its answer. `review` says why a person has to look
    at the answer. `leads` checks redirects within the call; None if any public address may be reached.
    """

    __slots__ = ("_caller", "_command", "_rare_fields", "key", "remarks", "run_id", "spent")

    def __init__(
        self, run_id: str, key: str, idempotency_key: str | None = None, *, delivery: str = ""
    ) -> None:
        self.begin(run_id, key, None, None)
        if delivery or idempotency_key is not None:
            rare = self._rare()
            rare.delivery, rare.idempotency_key = delivery, idempotency_key

    def begin(self, run_id: str, key: str, caller: Caller | None, command: object) -> Self:
        """Reset the context for a call; the gateway uses this because it is faster than the constructor."""
        self.run_id = run_id
        self.key = key
        self.remarks: tuple[Remark, ...] = ()
        self.spent: Spent | None = None
        self._rare_fields: _RareFields | None = None
        self._caller = caller
        self._command = command
        return self

    def _rare(self) -> _RareFields:
        """The holder of the rarely used attributes, created when first needed."""
        if self._rare_fields is None:
            self._rare_fields = _RareFields()
        return self._rare_fields

    @property
    def handed(self) -> str:
        """The LCTL block given to an agent."""
        return "" if self._rare_fields is None else self._rare_fields.handed

    @handed.setter
    def handed(self, block: str) -> None:
        self._rare().handed = block

    @property
    def returned(self) -> str:
        """The LCTL block that the agent gave back."""
        return "" if self._rare_fields is None else self._rare_fields.returned

    @returned.setter
    def returned(self, block: str) -> None:
        self._rare().returned = block

    @property
    def review(self) -> str:
        """Why a person has to look at the answer."""
        return "" if self._rare_fields is None else self._rare_fields.review

    @review.setter
    def review(self, why: str) -> None:
        self._rare().review = why

    @property
    def shown(self) -> Label | None:
        """The label of the data that a planner was shown."""
        return None if self._rare_fields is None else self._rare_fields.shown

    @shown.setter
    def shown(self, label: Label | None) -> None:
        self._rare().shown = label

    @property
    def leads(self) -> Objection | None:
        """The check of redirects of this call, if there is one."""
        if self._caller is None or not isinstance(self._command, CallTool):
            return None
        return self._caller.objection(self._command)

    @property
    def files(self) -> FileGrant | None:
        """What the policy lets the call's program see of the workspace; None without a policy."""
        if self._caller is None or not isinstance(self._command, CallTool):
            return None
        return self._caller.files(self._command)

    @property
    def sends_secrets(self) -> bool:
        """Whether the call sends secret data, by the labels of a policy."""
        command = self._command
        return isinstance(command, CallTool) and command.label is not None and command.label.is_secret

    @property
    def is_followed(self) -> bool:
        """Whether anyone follows the progress of this call."""
        return self._caller is not None and self._caller.listener is not None

    def leave(self) -> None:
        """Say that the call leaves only now, after it has waited for others; its time counts from here.

        Raises Withheld if the run was paused meanwhile, and ToolFailed if the call is not wanted any more.
        """
        if self._caller is not None:
            self._caller.leaving(self.key)
        if self._rare_fields is not None and self._rare_fields.queued_at:
            waited = time.monotonic() - self._rare_fields.queued_at
            self._rare_fields.queued_at = 0.0
            self.remark(Fact(QUEUED, f"{waited:.6f} s"))
        if self._caller is not None and self._caller.listener is not None:
            self._caller.listener.began(self.key)

    def queue(self, turn: asyncio.Future[None]) -> None:
        """Say that the call waits for others until its `turn` comes, which is told what `leave` would raise.

        `leave` says when it leaves, and how long it waited.
        """
        self._rare().queued_at = time.monotonic()
        if self._caller is None:
            return
        self._caller.queued(self.key, turn)
        if self._caller.listener is not None:
            self._caller.listener.queued(self.key)

    def wait_for(self, what: str) -> None:
        """Say what the call waits for before it leaves, for whoever watches the run."""
        if self._caller is not None:
            self._caller.progressed(self, CallProgress(0, None, f"waiting for {what}", waits=True))

    def report_progress(self, done: float, total: float | None = None, message: str = "") -> None:
        """Report how far the call has come, for whoever watches the run; it is not recorded.

        `done` of `total` are in a unit of the tool's choice; `total` is None if it is unknown. Raises
        TypeError for an argument of another type.
        """
        wanted_number("done", done)
        if total is not None:
            wanted_number("total", total, "a number or None")
        wanted("message", message, str, "a text")
        if self._caller is not None:
            self._caller.progressed(self, CallProgress(done, total, message))

    def report_log(self, message: str) -> None:
        """Report a line of the tool's log, for whoever watches the run; it is not recorded.

        Raises TypeError for an argument of another type.
        """
        wanted("message", message, str, "a text")
        if self._caller is not None:
            self._caller.progressed(self, CallProgress(None, None, message))

    async def answer_server(self, question: ServerQuestion) -> JSON:
        """The answer to what a server asks during this call, in its protocol; None if nobody can answer."""
        return None if self._caller is None else await self._caller.answer_server(self, question)

    @property
    def task(self) -> str:
        """The id of the server's task that this call has become before a crash; "" if there is none."""
        return "" if self._caller is None else self._caller.task_of(self)

    async def became_task(self, task: str) -> None:
        """Report that the call has become a task of its server, whose result can be had after a crash too."""
        if self._caller is not None:
            await self._caller.became_task(self, task)

    @property
    def may_go_on(self) -> bool:
        """Whether the call is cancelled only in this process: whoever resumes the run waits for its task."""
        return self._caller is not None and self._caller.leaves

    def came_late(self, outcome: JSON | ToolFailed) -> None:
        """Report an outcome that arrived after the call was given up; call it in the event loop's thread.

        It is noted in the journal if the run is recorded and still going on; it changes nothing else.
        """
        if self._caller is not None:
            self._caller.came_late(self, outcome)

    def labelled(self, label: Label, places: str) -> None:
        """Say which label the tool's server gives to what the call brings back, its failure too.

        It can only add to what the policy of the run says; a run without one takes no notice.
        """
        if self._caller is not None:
            self._caller.labelled(self, label, places)

    def remark(self, *remarks: Remark) -> None:
        """Add remarks about the outcome, which are kept in the journal beside its value."""
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
        """Report what the call has used, for the budget of the run; repeated reports add up.

        `cost` is in the unit of `Limits(max_cost=…)`, None if unknown. `cached_tokens` are the input tokens
        that were in the provider's cache, `requests` the number of requests to a model provider, and
        `seconds` their duration. Raises ValueError for negative amounts or a cost that is not finite.
        """
        known = 0.0 if cost is None else cost
        least = min(input_tokens, output_tokens, cached_tokens, requests, seconds)
        if least < 0 or not 0 <= known < math.inf:
            raise ValueError("what a call has spent is a number of at least 0")
        self.charge(
            Spent(input_tokens, output_tokens, known, cached_tokens, requests, int(cost is None), seconds)
        )

    def charge(self, spent: Spent) -> None:
        """Add an amount that was counted elsewhere on behalf of this call."""
        self.spent = spent if self.spent is None else self.spent.plus(spent)

    @property
    def idempotency_key(self) -> str:
        """The key by which a tool can recognize repeated deliveries of this call."""
        rare = self._rare()
        if rare.idempotency_key is None:
            delivery = rare.delivery or self.key
            if isinstance(self._command, CallTool):
                delivery = self._command.delivery or delivery
            rare.idempotency_key = sha256(f"{self.run_id}/{delivery}".encode()).hexdigest()
        return rare.idempotency_key

    @property
    def traceparent(self) -> str:
        """The W3C Trace Context header that places the call in the trace of its run."""
        return traceparent(self.run_id, self.key)
