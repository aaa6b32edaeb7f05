"""Decides syntactically whether a call's values stand apart, so that they cannot form an address together.

In: values of a plan. Out: whether blanks separate all variables and no literal could be part of an address.
Their combination then is no address with data in it and loads nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from enum import Enum

from callsheet.ir import Literal, Ref, Template, Value

_IN_ADDRESS = re.compile(r"[/(<%&\\\].:\x80-\U0010ffff](?!(?<=[.:])\s)")
"""What may begin, join or end an address; a full stop or colon before a blank does not.

One set of characters comes first, which is searched fast.
"""
_END = "\x00"
"""Separates texts that are searched together; to the pattern it is like the end of a text."""
_OPENING = frozenset("<(]&")
"""What begins a tag, a link target (which may continue after a blank) or an entity."""


class Separation(Enum):
    """Whether values stand apart: blanks separate all data in them, and no literal could be of an address."""

    NO = 0
    ALONE = 1
    """They do, and there is at most one piece of data in them."""
    YES = 2


NO, ALONE, YES = Separation
"""Read for each call: a module global is faster than an enum member."""


def separation(values: Iterable[Value]) -> Separation:
    """Whether these values stand apart.

    >>> separation([Template(("Number ", Ref("n"), ": ", Ref("a"))), Ref("b")])
    <Separation.YES: 2>
    >>> separation([Template(("https://c.example/", Ref("a")))])
    <Separation.NO: 0>
    >>> separation([Template((Ref("a"), Ref("b")))])
    <Separation.NO: 0>
    """
    texts: list[str] = []
    holes = 0
    for value in values:
        if type(value) is Ref:
            holes += 1
        elif type(value) is Template:
            is_parted = True
            for part in value.parts:
                if type(part) is str:
                    texts.append(part)
                    is_parted = is_parted or " " in part
                elif is_parted:
                    holes += 1
                    is_parted = False
                else:
                    return NO
        elif type(value) is not Literal:
            return NO
        elif type(value.value) is str:
            texts.append(value.value)
    if texts and _IN_ADDRESS.search(_END.join(texts)):
        return NO
    return YES if holes > 1 else ALONE


def opens_nothing(text: str) -> bool:
    """Whether a text begins no tag or link target that would include what follows it.

    >>> opens_nothing("a. b: c"), opens_nothing("<img src='")
    (True, False)
    """
    return _OPENING.isdisjoint(text)
