"""Commands that build much and end soon: Python's cyclic collector is not worth its time in them."""

from __future__ import annotations

import atexit
import functools
import gc
from collections.abc import Callable
from typing import ParamSpec, TypeVar

_P = ParamSpec("_P")
_R = TypeVar("_R")


def collector_rests(command: Callable[_P, _R]) -> Callable[_P, _R]:
    """The command, during which nothing looks for circles of references.

    What it leaves is not looked through when the process ends, nor when the collector works again:
    it counts as old then.
    """

    @functools.wraps(command)
    def wrapped(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        was_enabled = gc.isenabled()
        gc.disable()
        atexit.unregister(gc.freeze)
        atexit.register(gc.freeze)
        try:
            return command(*args, **kwargs)
        finally:
            if was_enabled:
                if not gc.get_freeze_count():  # else somebody keeps objects out of collections on purpose
                    gc.freeze()
                    gc.unfreeze()
                gc.enable()

    return wrapped
