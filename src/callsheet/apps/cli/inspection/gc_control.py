"""Turns the cyclic garbage collector off for short commands that allocate much."""

from __future__ import annotations

import atexit
import functools
import gc
from collections.abc import Callable
from typing import ParamSpec, TypeVar

_P = ParamSpec("_P")
_R = TypeVar("_R")


def without_gc(command: Callable[_P, _R]) -> Callable[_P, _R]:
    """Decorate a command so that the cyclic garbage collector is off while it runs.

    The objects that it leaves are not scanned when the process ends; if the collector is turned on again,
    they are in its oldest generation.
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
                if not gc.get_freeze_count():  # otherwise another part has frozen objects on purpose
                    gc.freeze()
                    gc.unfreeze()
                gc.enable()

    return wrapped
