"""Run ids: validates them before they become part of a path, and makes new ones.

New ids sort by time: the minute in UTC, four characters for the moment within the minute (steps of 57
microseconds) and two random ones.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable

from callsheet.store.errors import JournalError

_RUN_ID = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}", re.ASCII)
_DIGITS = "0123456789abcdefghjkmnpqrstvwxyz"
_MOMENTS_A_MINUTE = 32**4


def check_run_id(run_id: str) -> str:
    """The id itself if it matches `[a-z0-9][a-z0-9._-]{0,63}`; raises JournalError (JRN001) otherwise."""
    if _RUN_ID.fullmatch(_text(run_id)) is None:
        raise JournalError(
            "JRN001",
            f"{run_id[:80]!a} is not a run id",
            hint="1 to 64 of a-z, 0-9, dot, dash and underscore, with a letter or a digit first",
        )
    return run_id


def may_begin_run_id(text: str) -> bool:
    """Whether some run id is `text` or starts with it."""
    return _RUN_ID.fullmatch(_text(text)) is not None


def _text(given: object) -> str:
    if not isinstance(given, str):
        raise TypeError(f"run_id must be a text, not {type(given).__name__}")
    return given


def new_run_id(
    clock: Callable[[], float] = time.time, random_below: Callable[[int], int] | None = None
) -> str:
    """A fresh id such as `20261121-2301-k3f9zq`.

    `clock` gives seconds since 1970; `random_below(n)` a whole number from 0 to n - 1, by default
    from the system.

    >>> new_run_id(lambda: 1795302119.5, lambda n: 7)
    '20261121-2301-zqex07'
    """
    now = clock()
    minute, within = divmod(now, 60.0)
    stamp = time.strftime("%Y%m%d-%H%M", time.gmtime(minute * 60.0))
    moment = min(int(within / 60.0 * _MOMENTS_A_MINUTE), _MOMENTS_A_MINUTE - 1)
    return f"{stamp}-{_digits(moment, 4)}{_digits((random_below or _random_below)(32**2), 2)}"


def _random_below(limit: int) -> int:
    return int.from_bytes(os.urandom(8), "big") % limit


def _digits(number: int, count: int) -> str:
    return "".join(_DIGITS[number >> 5 * place & 31] for place in reversed(range(count)))
