"""Reports answers that arrive after their calls were given up.

In: the messages sent and received. Out: the late result, passed to a callback. The SDK drops answers that
nobody waits for, so the streams are wrapped to see them first.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeAlias

from callsheet.ports.mcp.transport import IDEMPOTENCY_KEY

if TYPE_CHECKING:
    from mcp.client import Transport

_MOST_UNANSWERED = 100
_PATIENCE = 1.0
"""Longest delay of a request in seconds, so that an answer that never comes blocks nothing for ever."""
_CANCELLED = "notifications/cancelled"


class Unanswered:
    """The server's requests in one session that we have not answered yet."""

    def __init__(self) -> None:
        self._by_id: dict[str | int, int] = {}
        self._count = 0
        self._room = asyncio.Event()

    async def arrives(self, message: Any) -> None:
        """Note a received message; returns when it may be handed on."""
        method: str | None = getattr(message, "method", None)
        request: str | int | None = getattr(message, "id", None)
        if method == _CANCELLED:  # a cancelled request gets no answer
            params: dict[str, Any] = message.params or {}
            self._settle(params.get("requestId"))
        if method is None or request is None:
            return
        if self._count >= _MOST_UNANSWERED:
            self._room.clear()
            with suppress(TimeoutError):
                await asyncio.wait_for(self._room.wait(), _PATIENCE)
        self._by_id[request] = self._by_id.get(request, 0) + 1
        self._count += 1

    def has_left(self, message: Any) -> None:
        """Note a message that was sent."""
        if getattr(message, "method", None) is None:
            self._settle(getattr(message, "id", None))

    def _settle(self, request: Any) -> None:
        waiting = self._by_id.get(request, 0) if isinstance(request, int | str) else 0
        if not waiting:
            return
        if waiting == 1:
            del self._by_id[request]
        else:
            self._by_id[request] = waiting - 1
        self._count -= 1
        self._room.set()


OnAnswer: TypeAlias = "Callable[[dict[str, Any] | None, str], None]"
"""Called with the result as the server sent it, or with None and the text of its error."""

_MOST_GIVEN_UP = 1_000
"""The number of unanswered calls that are remembered, newest last: some servers never answer."""


class LateAnswers:
    """The unanswered calls of one session, and the callbacks for those that were given up."""

    def __init__(self) -> None:
        self._open: dict[str | int, tuple[str, OnAnswer | None]] = {}

    def expect(self, delivery: str, on_answer: OnAnswer) -> None:
        """Call `on_answer` if the newest call with this idempotency key is answered from now on."""
        for request, (key, _) in reversed(self._open.items()):
            if key == delivery:
                self._open[request] = key, on_answer
                return

    def leaves(self, message: Any) -> None:
        """Note a message that is about to be sent."""
        if getattr(message, "method", None) != "tools/call":
            return
        params: dict[str, Any] = message.params or {}
        meta: dict[str, Any] = params.get("_meta") or {}
        key = meta.get(IDEMPOTENCY_KEY)
        if isinstance(key, str):
            self._open[message.id] = key, None
            if len(self._open) > _MOST_GIVEN_UP:
                del self._open[next(iter(self._open))]

    def arrives(self, message: Any) -> None:
        """Note a received message."""
        if hasattr(message, "method"):
            return
        _, on_answer = self._open.pop(getattr(message, "id", ""), ("", None))
        if on_answer is None:
            return
        error = getattr(message, "error", None)
        if error is None:
            on_answer(message.result, "")
        else:
            on_answer(None, error.message)


@asynccontextmanager
async def observed(
    transport: Transport, late: LateAnswers, taken: Callable[[Any], Any]
) -> AsyncGenerator[Any]:
    """The transport's streams with their messages shown to `late`, and requests delayed by `Unanswered`.

    The SDK gets what `taken` makes of each received message.
    """
    unanswered = Unanswered()
    async with transport as (received, sending):
        yield _Received(received, late, unanswered, taken), _Sending(sending, late, unanswered)


class _Stream:
    """A wrapper around a stream of the SDK; what is not defined here is delegated."""

    def __init__(self, inner: Any, late: LateAnswers, unanswered: Unanswered) -> None:
        self._inner = inner
        self._late = late
        self._unanswered = unanswered

    async def __aenter__(self) -> Self:
        await self._inner.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        return await self._inner.__aexit__(kind, error, trace)

    async def aclose(self) -> None:
        await self._inner.aclose()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


class _Received(_Stream):
    def __init__(
        self, inner: Any, late: LateAnswers, unanswered: Unanswered, taken: Callable[[Any], Any]
    ) -> None:
        super().__init__(inner, late, unanswered)
        self._taken = taken

    async def receive(self) -> Any:
        return await self._seen(await self._inner.receive())

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Any:
        return await self._seen(await self._inner.__anext__())

    async def _seen(self, item: Any) -> Any:
        message = getattr(item, "message", None)  # an exception of the transport has none
        if message is not None:
            self._late.arrives(message)
            await self._unanswered.arrives(message)
            item.message = self._taken(message)
        return item


class _Sending(_Stream):
    async def send(self, item: Any) -> None:
        self._late.leaves(item.message)
        await self._inner.send(item)
        self._unanswered.has_left(item.message)
