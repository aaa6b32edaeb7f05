"""A TOML parser with one error for every invalid text, which has the position.

`tomllib` itself raises RecursionError for deep nesting and ValueError for integers with too many digits.
"""

from __future__ import annotations

from typing import Any


class TomlError(ValueError):
    """A text is not TOML; `offset` is where, in characters, and the start of the last line if unknown."""

    def __init__(self, message: str, offset: int) -> None:
        super().__init__(message)
        self.offset = offset


def read_toml(text: str) -> dict[str, Any]:
    """The table of a TOML text; raises TomlError.

    >>> read_toml("a = " + "[" * 9000)
    Traceback (most recent call last):
    callsheet.ir.strict_toml.TomlError: it is nested too deeply
    >>> try:
    ...     read_toml("a = 1\\nb = ?\\n")
    ... except TomlError as error:
    ...     error.offset
    10
    """
    import tomllib  # noqa: PLC0415 - only where there is such a file

    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        message, offset = _placed(str(error), text)
    except RecursionError:
        message, offset = _placed("it is nested too deeply", text)
    except ValueError:  # from `int`, which limits the number of digits
        message, offset = _placed("it contains a number of thousands of digits", text)
    raise TomlError(message, offset)


def _placed(message: str, text: str) -> tuple[str, int]:
    """A message of `tomllib` without its position, and the offset of that."""
    head, _, place = message.rpartition(" (at ")
    numbers = [int(word) for word in place.replace(",", " ").replace(")", " ").split() if word.isdigit()]
    line, column = (numbers[0], numbers[1]) if len(numbers) == 2 else (text.count("\n") + 1, 1)
    return head or message, sum(len(each) + 1 for each in text.split("\n")[: line - 1]) + column - 1
