"""TOML is read so that whatever is wrong with it is one kind of error.

In: a text. Out: its table, or TOMLDecodeError, also for what Python itself cannot read of it.
"""

from __future__ import annotations

import tomllib
from typing import Any


def read_toml(text: str) -> dict[str, Any]:
    """The table that a text is; raises tomllib.TOMLDecodeError.

    >>> read_toml("a = " + "[" * 9000)
    Traceback (most recent call last):
    tomllib.TOMLDecodeError: it is nested too deeply
    """
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        raise
    except RecursionError:
        raise tomllib.TOMLDecodeError("it is nested too deeply") from None
    except ValueError:  # of `int`
        raise tomllib.TOMLDecodeError("it holds a number of thousands of digits") from None
