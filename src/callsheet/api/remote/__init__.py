"""Runtimes with an address: the methods of `Runtime` over the HTTP API of `callsheet serve`."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from types import MethodType
from typing import TYPE_CHECKING, Any, Concatenate, Generic, ParamSpec, TypeVar, overload

if TYPE_CHECKING:
    from callsheet.api.remote.runtime import RemoteRuntime

_Of = TypeVar("_Of")
_P = ParamSpec("_P")
_Value = TypeVar("_Value")


class RunOrServer(Generic[_Of, _P, _Value]):
    """`runtime.at(run, event)`, the state of a run after an event; and `Runtime.at(address)`, on a server."""

    def __init__(self, of_run: Callable[Concatenate[_Of, _P], Coroutine[Any, Any, _Value]]) -> None:
        self.of_run = of_run
        self.__doc__ = of_run.__doc__

    @overload
    def __get__(self, runtime: None, owner: type[object]) -> type[RemoteRuntime]: ...
    @overload
    def __get__(self, runtime: _Of, owner: type[object]) -> Callable[_P, Coroutine[Any, Any, _Value]]: ...
    def __get__(self, runtime: Any, owner: type[object]) -> Any:
        if runtime is not None:
            return MethodType(self.of_run, runtime)
        from callsheet.api.remote.runtime import RemoteRuntime  # noqa: PLC0415 - only where a server is asked

        return RemoteRuntime
