"""Shows ids of facts so that none is taken for another text, and finds ids that read alike.

In: ids, which may be any text. Out: short texts on one line; pairs of ids that differ only in case, in
leading zeros, or in letters, digits and invisible characters that look alike.
"""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from callsheet import lazy
from callsheet.frontends.unseen import LATIN_OF

SHORT_ID = lazy.pattern(r"[A-Za-z][A-Za-z0-9_-]{0,31}")
"""The form of an id of a fact."""
_MOST_SHOWN = 40
_ONE = dict.fromkeys("1I|", "l")
"""What is read as a small L."""
_SHAPES = str.maketrans(
    {**{other: _ONE.get(latin, latin) for other, latin in LATIN_OF.items()}, **_ONE, "0": "O"}
)
_LEADING_ZEROS = lazy.pattern(r"(?<!\d)0+(?=\d)")


class Alike(NamedTuple):
    """An id, and an earlier one that reads like it."""

    fact: str
    other: str


def shown_id(fact: str) -> str:
    """A short identifier as it is, any other text quoted, escaped and cut.

    >>> print(shown_id("F1"), shown_id("F1 0.99, F2"), shown_id("F\\u200b1"))
    F1 "F1 0.99, F2" "F\\u200b1"
    """
    if SHORT_ID.fullmatch(fact):
        return fact
    return json.dumps(fact if len(fact) <= _MOST_SHOWN else f"{fact[:_MOST_SHOWN]}...")


def shown_ids(facts: Iterable[str]) -> str:
    """Ids in one line, separated by commas."""
    return ", ".join(map(shown_id, facts))


def shown_name(name: str) -> str:
    """The name of an agent on one line, cut, with escapes for what is not printed."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in name[:_MOST_SHOWN])


def alike(facts: Iterable[str], known: Iterable[str] = ()) -> Iterator[Alike]:
    """The ids among `facts` that read like an earlier one of them, or like one of those `known`.

    >>> list(alike(["F1", "F2", "F01"], ["f2"]))
    [Alike(fact='F2', other='f2'), Alike(fact='F01', other='F1')]
    """
    first: dict[str, str] = {}
    for fact in known:
        for reading in _readings(fact):
            first.setdefault(reading, fact)
    for fact in facts:
        others = [first.setdefault(reading, fact) for reading in _readings(fact)]
        other = next((other for other in others if other != fact), None)
        if other is not None:
            yield Alike(fact, other)


def _readings(fact: str) -> tuple[str, str]:
    """What an id is read as at a glance: without its case, and by the shapes of its letters."""
    plain = "".join(
        c for c in unicodedata.normalize("NFKD", fact) if unicodedata.category(c) not in ("Cf", "Mn", "Me")
    )
    short = _LEADING_ZEROS.sub("", " ".join(plain.split()))
    return f"case {short.casefold()}", f"shape {short.translate(_SHAPES)}"
