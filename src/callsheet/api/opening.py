"""Opens and closes the session of a runtime: for each run, or once within `with` or `async with`.

In: a configuration. Out: the session that a run uses, on the event loop that it belongs to.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from contextlib import AbstractAsyncContextManager, nullcontext
from types import TracebackType
from typing import Any, Self, TypeVar

from callsheet.api.configuration import Configuration
from callsheet.api.handle import RunHandle
from callsheet.api.session import Session
from callsheet.api.threads import end_tasks, result_of, run_before_close, with_own_threads
from callsheet.store import Journal, JournalError
from callsheet.store.errors import run_exists

_T = TypeVar("_T")
_IS_OPEN = "this runtime is already open; create another one, or share it"
_IS_NOT_OPEN = "this runtime is not open"
_IS_BUSY = "another thread runs something with this runtime; create one for each thread"


class Opening:
    """The part of `Runtime` that opens its config for each run, or once within `with` or `async with`."""

    def __init__(self, config: Configuration) -> None:
        self._config = config
        self._session: Session | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._runner: asyncio.Runner | None = None
        self._handles: set[RunHandle] = set()

    async def __aenter__(self) -> Self:
        if self._session is not None:
            raise RuntimeError(_IS_OPEN)
        self._session = Session(self._config)
        self._loop = asyncio.get_running_loop()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        session, self._session = self._session, None
        if session is None:
            raise RuntimeError(_IS_NOT_OPEN)
        async with session:
            await asyncio.gather(*(handle.interrupt() for handle in tuple(self._handles)))

    def __enter__(self) -> Self:
        refuse_running_loop("with Runtime(…)", "async with Runtime(…)")
        if self._session is not None:
            raise RuntimeError(_IS_OPEN)
        runner = asyncio.Runner()
        runner.run(self.__aenter__())
        self._runner = runner
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._runner is not None and self._runner.get_loop().is_running():
            raise RuntimeError(_IS_BUSY)
        runner, self._runner = self._runner, None
        if runner is None:
            raise RuntimeError(_IS_NOT_OPEN)
        with runner:
            try:
                runner.run(self.__aexit__(kind, error, trace))
            finally:
                runner.run(end_tasks())

    def _opened(self) -> AbstractAsyncContextManager[Session]:
        """The session of `async with`, or one for this call alone.

        Not an async generator: a loop that shuts down closes all of those at once instead of in nesting
        order.
        """
        if self._session is None:
            return Session(self._config)
        if asyncio.get_running_loop() is not self._loop:
            raise RuntimeError("this runtime was opened on another event loop; create one for each loop")
        return nullcontext(self._session)

    @property
    def _is_recorded(self) -> bool:
        return self._config.journal is not None

    def _require_journal(self) -> None:
        if not self._is_recorded:
            raise ValueError("this runtime has no journal: Runtime(journal=PATH)")

    def _refuse_taken(self, run_id: str) -> None:
        """Raise JournalError (JRN003) for the id of a recorded run, or of one that was started here."""
        if self._is_recorded and (self._starts(run_id) or self._has_recorded(run_id)):
            raise run_exists(run_id)

    def _has_recorded(self, run_id: str) -> bool:
        """Whether the journal has a run with this id; False if it cannot be read, as the run tells why."""
        try:
            given = self._config.journal if self._session is None else self._session.journal
            if given is None:
                return False
            with nullcontext(given) if isinstance(given, Journal) else Journal.open_to_read(given) as journal:
                return journal.parts.reader.runs.has(run_id)
        except JournalError:
            return False

    def _starts(self, run_id: str) -> bool:
        """Whether a run with this id was started here and has not ended; it need not be recorded yet."""
        return any(handle.run_id == run_id and not handle.is_done for handle in self._handles)

    def _handle(self, handle: RunHandle) -> RunHandle:
        """Keep the handle until its run has ended, so that closing the runtime can interrupt it."""
        self._handles.add(handle)
        handle.when_done(lambda: self._handles.discard(handle))
        return handle

    def _run_sync(self, work: Coroutine[Any, Any, _T], name: str) -> _T:
        try:
            refuse_running_loop(f"{name}_sync", f"await runtime.{name}(…)")
            if self._runner is not None and self._runner.get_loop().is_running():
                raise RuntimeError(_IS_BUSY)
        except RuntimeError:
            work.close()
            raise
        if self._runner is None:
            return result_of(run_before_close(work), asyncio.run)
        return result_of(with_own_threads(work), self._runner.run)


def require_loop(name: str, instead: str) -> None:
    """Raise RuntimeError outside an event loop; `instead` is the alternative that the message names."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        message = f"{name} needs a running event loop; without one use {instead}"
        raise RuntimeError(message) from None


def refuse_running_loop(what: str, instead: str) -> None:
    """Raise RuntimeError inside an event loop; `instead` is the alternative that the message names."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    raise RuntimeError(f"{what} cannot be used inside a running event loop; write `{instead}`")
