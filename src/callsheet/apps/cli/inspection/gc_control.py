"""Disables the cyclic garbage collector for short commands that allocate many objects."""

from __future__ import annotations

import atexit
import functools
import gc
from collections.abc import Callable
from typing import ParamSpec, TypeVar

_P = ParamSpec("_P")
_R = TypeVar("_R")


def without_gc(command: Callable[_P, _R]) -> Callable[_P, _R]:
    """Decorate a command so that the cyclic garbage collector is disabled while it runs.

    The remaining objects are not scanned when the process ends. If the collector is enabled again, they are
    in its oldest generation.
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
                if not gc.get_freeze_count():  # objects that other code has frozen stay frozen
                    gc.freeze()
                    gc.unfreeze()
                gc.enable()

    return wrapped
