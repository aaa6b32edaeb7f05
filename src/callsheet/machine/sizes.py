"""The size of a value in bytes, and a fingerprint for recognising equal data.

In: JSON data. Out: a number, a short text. Both are the same in every process, so a resumed run counts alike.
"""

from __future__ import annotations

import marshal
from hashlib import sha256
from typing import Any, cast

from callsheet.ir import JSON

SIZED = frozenset({str, list, dict})
"""The types of values that have a size to count."""
_WITHOUT_REFERENCES = 2
"""The version of marshal's format without references, in which equal data has equal bytes."""
_NUMBER = 8


def size_of(value: JSON) -> int:
    """The size of a value: the UTF-8 bytes of its texts and keys, and 8 for each other scalar in it.

    >>> size_of("é"), size_of({"a": [1, "xy"]}), size_of(7)
    (2, 11, 8)
    """
    if type(value) is str:
        return _length(value)
    size = 0
    waiting: list[Any] = [value]
    while waiting:
        item = waiting.pop()
        if type(item) is str:
            size += _length(item)
        elif type(item) is list:
            members = cast("list[Any]", item)
            kinds = set(map(type, members))
            if kinds == {str}:
                size += _length("".join(members))
            elif kinds.isdisjoint(SIZED):
                size += _NUMBER * len(members)
            else:
                waiting += members
        elif type(item) is dict:
            named = cast("dict[str, Any]", item)
            size += _length("".join(named))
            waiting += named.values()
        else:
            size += _NUMBER
    return size


def fingerprint(made_of: object) -> str:
    """The same text for equal data, in every process; for data nested too deep, only its size counts."""
    try:
        data = marshal.dumps(cast("Any", made_of), _WITHOUT_REFERENCES)
    except ValueError:
        data = b"%d" % size_of(cast("JSON", made_of))
    return sha256(data).hexdigest()[:32]


def _length(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))
