"""Async methods without an event loop: each call on a loop of its own, or all on that of `with`."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine
from functools import wraps
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

from callsheet.runtime.event_loop import end_tasks, result_of, run_before_close, with_own_threads

_P = ParamSpec("_P")
_T = TypeVar("_T")
_Loops = TypeVar("_Loops", bound="Loops")
IS_OPEN = "this runtime is already open; create another one, or share it"
IS_NOT_OPEN = "this runtime is not open"
_IS_BUSY = "another thread runs something with this runtime; create one for each thread"


class Loops(ABC):
    """What is opened by `async with`, or by `with` in a program without an event loop."""

    _runner: asyncio.Runner | None = None

    @abstractmethod
    async def __aenter__(self) -> Self:
        """Open it; raises RuntimeError if it is open."""

    @abstractmethod
    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close it; raises RuntimeError if it is not open."""

    def __enter__(self) -> Self:
        refuse_running_loop("with Runtime(…)", "async with Runtime(…)")
        if self._runner is not None:
            raise RuntimeError(IS_OPEN)
        runner = asyncio.Runner()
        try:
            runner.run(self.__aenter__())
        except BaseException:
            runner.close()
            raise
        self._runner = runner
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._runner is not None and self._runner.get_loop().is_running():
            raise RuntimeError(_IS_BUSY)
        runner, self._runner = self._runner, None
        if runner is None:
            raise RuntimeError(IS_NOT_OPEN)
        with runner:
            try:
                runner.run(self.__aexit__(kind, error, trace))
            finally:
                runner.run(end_tasks())

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


def blocking(
    method: Callable[Concatenate[_Loops, _P], Coroutine[Any, Any, _T]],
) -> Callable[Concatenate[_Loops, _P], _T]:
    """An async method for programs without an event loop, under its name with `_sync`."""
    name = method.__name__

    @wraps(method)
    def call(runtime: _Loops, *args: _P.args, **named: _P.kwargs) -> _T:
        work = method(runtime, *args, **named)
        return runtime._run_sync(work, name)  # pyright: ignore[reportPrivateUsage]

    call.__name__, call.__qualname__ = f"{name}_sync", f"{method.__qualname__}_sync"
    call.__doc__ = f"Like `{name}`, for programs without an event loop; raises RuntimeError inside one."
    return call


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
