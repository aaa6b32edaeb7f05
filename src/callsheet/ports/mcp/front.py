"""Who stands in front of the servers: what servers ask or tell beside the results of calls, and who hears it.

A server may ask its client something while a call is under way (a form, a language model's answer, its
roots), and tell of progress, log lines and changed lists. In: what the SDK's session hears. Out: the answer
of the run that made the call, or of the client in front of a gate; an error of the protocol if there is none.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Generator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, TypeVar

from callsheet.ir import JSON
from callsheet.machine.values import to_json_text

if TYPE_CHECKING:
    from mcp.shared.dispatcher import ProgressFnT
    from pydantic import BaseModel

    _Model = TypeVar("_Model", bound=BaseModel)

_NOBODY = -32600
_MOST_ASKED = 100
"""The most that a server may ask during one call: further requests are not answered, and stop no clock."""
_log = logging.getLogger("callsheet.mcp")

Ask: TypeAlias = "Callable[[str, dict[str, JSON]], Awaitable[JSON]]"
"""Answers a request of a server, by method and parameters, during a call; None if nobody can."""


class Changed(StrEnum):
    """A list of a server that has changed, or a resource."""

    TOOLS = "tools"
    PROMPTS = "prompts"
    RESOURCES = "resources"
    RESOURCE = "resource"


@dataclass(frozen=True, slots=True, kw_only=True)
class Front:
    """The client in front of a gate, for what servers ask and tell when no call is under way.

    `is_older` says that it speaks a protocol before that of 2026, in which servers ask by requests of their
    own: one that knows both is spoken to in that protocol, as the client itself would. `samples` says whether
    it can ask a language model, `has_roots` whether it has roots; `roots` gives them if they can be asked for
    outside of a call. `changed` is told of the lists of servers (with the URI of a
    resource), `logged` of their log lines, if it is the only client.
    """

    is_older: bool = False
    samples: bool = False
    has_roots: bool = False
    roots: Callable[[], Awaitable[JSON]] | None = None
    changed: Callable[[str, Changed, str], None] | None = None
    logged: Callable[[str, dict[str, JSON]], None] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Passage:
    """A call that is passed on for a client: `hear` gets the result as its server sent it, tokens masked.

    `refused` gets code, message and data of an error of the protocol that its server sent instead.
    `progress` is told how far the call is, if its client wants to know; `logged` gets log lines. `meta` are
    further fields of the call.
    """

    hear: Callable[[dict[str, Any]], None]
    refused: Callable[[int, str, Any], None]
    progress: ProgressFnT | None = None
    logged: Callable[[dict[str, JSON]], Awaitable[None]] | None = None
    meta: Mapping[str, JSON] = field(default_factory=dict[str, JSON])


PASSAGE: ContextVar[Passage | None] = ContextVar("callsheet_mcp_passage", default=None)
"""The passage that a call of a tool is part of."""


class TaskOfCall(NamedTuple):
    """The task that a call has become: its id if it is `known`; `began` is told of a new one.

    A call that has become a task before is not made again. `may_go_on` says whether the task is left to go on
    when the call is cancelled.
    """

    known: str
    began: Callable[[str], Awaitable[None]]
    may_go_on: Callable[[], bool]


class OpenCall:
    """A call that a server works on; while a question is open, its time does not run.

    A server may ask so often only, since it could hold a call for ever otherwise.
    """

    def __init__(
        self,
        owner: str,
        ask: Ask | None,
        scope: asyncio.Timeout,
        seconds: float,
        task: TaskOfCall | None = None,
        logs: Callable[[str], None] | None = None,
    ) -> None:
        self.owner = owner
        self.task = task
        self.logs = logs
        """Hears the log lines of the server while it is the only call."""
        self.passage = PASSAGE.get()
        self._ask = ask
        self._scope = scope
        self._seconds = seconds
        self._count = 0
        self._is_over = False
        self._asking: set[asyncio.Future[JSON]] = set()

    @property
    def may_go_on(self) -> bool:
        """Whether a task that the call has become is left to go on although the call is cancelled."""
        return self.task is not None and self.task.may_go_on() and not self._scope.expired()

    def lives(self, pause: float = 0.0) -> None:
        """The server works on it as a task: its time begins anew, after the `pause` that the server wants."""
        if not (self._asking or self._is_over or self._scope.expired()):
            self._scope.reschedule(asyncio.get_running_loop().time() + pause + self._seconds)

    async def answer(self, method: str, params: dict[str, JSON]) -> JSON:
        """The answer to a request of the server; None if nobody can answer."""
        self._count += 1
        if self._count == _MOST_ASKED + 1:
            _log.warning("a server asks more than %d times during a call: no longer answered", _MOST_ASKED)
        if self._ask is None or self._is_over or self._count > _MOST_ASKED:
            return None
        asking = asyncio.ensure_future(self._ask(method, params))
        self._asking.add(asking)
        if not self._scope.expired():
            self._scope.reschedule(None)
        try:
            await asyncio.wait({asking})
            return None if asking.cancelled() else asking.result()
        finally:
            asking.cancel()
            self._asking.discard(asking)
            self.lives()

    def end(self) -> None:
        """The call is over, however: questions that are still open are taken back."""
        self._is_over = True
        for asking in self._asking:
            asking.cancel()


_CALL: ContextVar[OpenCall | None] = ContextVar("callsheet_mcp_call", default=None)


def open_call() -> OpenCall | None:
    """The call of this task, if the server works on one."""
    return _CALL.get()


class OpenCalls:
    """The calls that one server works on, and what it asks and tells meanwhile.

    A server of the protocol of 2026 asks within its answer, so that the call is known. Before, a request does
    not say which call it belongs to: it is answered if all open calls are of one run.
    """

    def __init__(self, server: str, front: Front | None) -> None:
        self._server = server
        self.front = front or Front()
        self._open: list[OpenCall] = []

    @contextmanager
    def during(self, call: OpenCall) -> Generator[None]:
        """Count a call as open."""
        self._open.append(call)
        token = _CALL.set(call)
        try:
            yield
        finally:
            call.end()
            _CALL.reset(token)
            self._open.remove(call)

    def _asking(self) -> OpenCall | None:
        call = _CALL.get()
        if call is not None and call in self._open:
            return call
        return self._open[0] if len({each.owner for each in self._open}) == 1 else None

    async def answered(self, method: str, params: BaseModel | None, model: type[_Model]) -> Any:
        """The answer to a request of the server as a model of the SDK, or an ErrorData."""
        from mcp_types import ErrorData  # noqa: PLC0415 - a session is open

        given: dict[str, JSON] = (
            {} if params is None else params.model_dump(by_alias=True, mode="json", exclude_none=True)
        )
        call = self._asking()
        result: JSON = None
        if call is not None:
            result = await call.answer(method, given)
        elif method == "roots/list" and self.front.roots is not None:
            result = await self.front.roots()
        if result is None:
            count = len(self._open)
            why = "nobody can answer" if count else "it comes outside of a call"
            why = "it does not say to which of several calls it belongs" if call is None and count else why
            return ErrorData(code=_NOBODY, message=f"{method} is not answered: {why}")
        try:
            return model.model_validate(result)
        except ValueError as error:
            _log.warning("%s: the answer to %s cannot be passed on: %s", self._server, method, error)
            return ErrorData(code=_NOBODY, message=f"the answer to {method} is not one of the protocol")

    async def logged(self, params: dict[str, JSON]) -> None:
        """Pass a log line on: to the client whose calls are open, or else to the one in front.

        It does not say which call it belongs to: among the calls of several clients nobody gets it. Whoever
        watches a run gets it during a single call only.
        """
        if self.front.logged is None and len({call.owner for call in self._open}) > 1:
            return
        heard = False
        for call in [*self._open]:
            if call.passage is not None and call.passage.logged is not None:
                heard = True
                await call.passage.logged(params)
        if not heard and self.front.logged is not None:
            self.front.logged(self._server, params)
        elif not heard and len(self._open) == 1 and (tell := self._open[0].logs) is not None:
            tell(to_json_text(params.get("data")))

    def changed(self, what: Changed, uri: str = "") -> None:
        """Tell the client in front of a changed list or resource."""
        if self.front.changed is not None:
            self.front.changed(self._server, what, uri)
