"""Whether what a call is given stands apart: no text of it is, begins or joins an address.

In: values as they stand in a plan. Out: whether blanks part all variables in them, and no text of the plan
could be a part of an address. All of it beside each other is then no address with data in it, and loads
nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from callsheet.ir import Literal, Ref, Template, Value

_IN_ADDRESS = re.compile(r"[/(<%&\\\]]|[.:](?!\s)|[^\x00-\x7f]")
"""What may begin, join or end an address; a full stop or a colon before a blank does not."""
_OPENING = frozenset("<(]&")
"""What begins a tag, or the target of a link, which may go on behind a blank, or stands for what does."""


def stand_apart(values: Iterable[Value]) -> bool:
    """Whether blanks part all variables in these values, and no text could be part of an address.

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
    """Whether there is a blank between any two variables, and the texts hold nothing of an address."""
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
    """Whether a text begins no tag and no target of a link, in which what follows it would stand.

    >>> opens_nothing("a. b: c"), opens_nothing("<img src='")
    (True, False)
    """
    return _OPENING.isdisjoint(text)
