"""A strict JSON parser: refuses duplicate keys, numbers out of range and excessive nesting.

`json.loads` silently takes the last of duplicate keys, accepts NaN and Infinity, and turns 1e999 into an
infinity.
"""

from __future__ import annotations

import json
import math
from typing import Any, NoReturn


class NotJson(ValueError):
    """The text is not valid JSON; `at` is the character offset of the error, if known."""

    def __init__(self, reason: str, at: int | None = None) -> None:
        super().__init__(reason)
        self.at = at


def read_json(text: str) -> Any:
    """The value of a JSON text; raises NotJson.

    >>> read_json('{"a": [1, 2.5, null]}')
    {'a': [1, 2.5, None]}
    >>> read_json('{"a": 1, "a": 2}')
    Traceback (most recent call last):
    ...
    callsheet.ir.strict_json.NotJson: the key 'a' occurs twice in one object
    """
    try:
        return _decode(text)
    except json.JSONDecodeError as error:
        raise NotJson(error.msg[:1].lower() + error.msg[1:], error.pos) from None
    except RecursionError:
        raise NotJson("it is nested too deep") from None
    except NotJson:
        raise
    except ValueError:
        raise NotJson("a number in it has too many digits") from None


def finite(text: str) -> float:
    """The value of a JSON number; raises NotJson if it exceeds the range of a float."""
    value = float(text)
    if not math.isfinite(value):
        raise NotJson(f"a number cannot be as large as {text[:40]}")
    return value


def refuse_constant(name: str) -> NoReturn:
    """Raises NotJson; the parser calls it for NaN and infinities."""
    raise NotJson(f"{name} is not JSON")


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    object_ = dict(pairs)
    if len(object_) < len(pairs):
        seen: set[str] = set()
        twice = next(key for key, _ in pairs if key in seen or seen.add(key))
        raise NotJson(f"the key {twice[:60]!r} occurs twice in one object")
    return object_


_decode = json.JSONDecoder(object_pairs_hook=_once, parse_float=finite, parse_constant=refuse_constant).decode
