"""A TOML parser that raises TOMLDecodeError for every invalid text.

`tomllib` itself raises RecursionError for deep nesting and ValueError for integers with too many digits.
"""

from __future__ import annotations

import tomllib
from typing import Any


def read_toml(text: str) -> dict[str, Any]:
    """The table of a TOML text; raises tomllib.TOMLDecodeError.

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
    except ValueError:  # from `int`, which limits the number of digits
        raise tomllib.TOMLDecodeError("it holds a number of thousands of digits") from None


def wrong_at(error: tomllib.TOMLDecodeError, text: str) -> tuple[str, int]:
    """The message of a TOML error and its offset in characters; the start of the last line if not stated.

    >>> try:
    ...     read_toml("a = 1\\nb = ?\\n")
    ... except tomllib.TOMLDecodeError as error:
    ...     wrong_at(error, "a = 1\\nb = ?\\n")
    ('Invalid value', 10)
    """
    message = str(error)
    head, _, place = message.rpartition(" (at ")
    numbers = [int(word) for word in place.replace(",", " ").replace(")", " ").split() if word.isdigit()]
    line, column = (numbers[0], numbers[1]) if len(numbers) == 2 else (text.count("\n") + 1, 1)
    return head or message, sum(len(each) + 1 for each in text.split("\n")[: line - 1]) + column - 1
