"""Decides syntactically whether a call's values stand apart, so that they cannot form an address together.

In: values of a plan. Out: whether blanks separate all variables and no literal could be part of an address.
Their combination then is no address with data in it and loads nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from callsheet.ir import Literal, Ref, Template, Value

_IN_ADDRESS = re.compile(r"[/(<%&\\\]]|[.:](?!\s)|[^\x00-\x7f]")
"""What may begin, join or end an address; a full stop or colon before a blank does not."""
_OPENING = frozenset("<(]&")
"""What begins a tag, a link target (which may continue after a blank) or an entity."""


def stand_apart(values: Iterable[Value]) -> bool:
    """Whether blanks separate all variables in these values and no literal could be part of an address.

    >>> stand_apart([Template(("Number ", Ref("n"), ": ", Ref("a"))), Ref("b")])
    True
    >>> stand_apart([Template(("https://c.example/", Ref("a")))])
    False
    >>> stand_apart([Template((Ref("a"), Ref("b")))])
    False
    """
    for value in values:
        if isinstance(value, Literal):
            if isinstance(value.value, str) and _IN_ADDRESS.search(value.value):
                return False
        elif isinstance(value, Template):
            if not _is_apart(value.parts):
                return False
        elif not isinstance(value, Ref):
            return False
    return True


def _is_apart(parts: Sequence[str | Ref]) -> bool:
    """Whether a blank separates any two variables and the literals contain nothing of an address."""
    is_parted = True
    for part in parts:
        if isinstance(part, Ref):
            if not is_parted:
                return False
            is_parted = False
        elif _IN_ADDRESS.search(part):
            return False
        else:
            is_parted = is_parted or " " in part
    return True


def opens_nothing(text: str) -> bool:
    """Whether a text begins no tag or link target that would include what follows it.

    >>> opens_nothing("a. b: c"), opens_nothing("<img src='")
    (True, False)
    """
    return _OPENING.isdisjoint(text)
