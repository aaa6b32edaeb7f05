"""What the words of a second request have in the places of those of a first, where both ask for the same job.

In: the words of two requests. Out: the value of the second for one of the first: what stands at its place.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from difflib import SequenceMatcher

from callsheet.ir import JSON

_TOKEN = re.compile(r"\d{4}-\d\d-\d\d|\d+(?:\.\d+)+|\w+|\s+|[^\w\s]")


class Retelling:
    """Two requests, word by word.

    >>> Retelling("mail 3 to ann", "mail 12 to bob smith").value_for("ann")
    'bob smith'
    >>> Retelling("mail 3 to ann", "mail 12 to bob smith").value_for(3)
    12
    """

    def __init__(self, first: str, second: str) -> None:
        self.first, self.second = first, second
        self.pieces = _pieces(_TOKEN.findall(first), _TOKEN.findall(second))

    def value_for(self, value: JSON) -> JSON:
        """What the second request has for a value of the first; None if it cannot be told."""
        if isinstance(value, list):
            found = [self.value_for(item) for item in value]
            return None if None in found else found
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            return None
        told = {
            self._at(*place.span())
            for place in re.finditer(rf"(?<!\w){re.escape(str(value))}(?!\w)", self.first)
        }
        texts = [text for text in told if text]
        if len(texts) != 1:
            return None
        if isinstance(value, str):
            return texts[0]
        try:
            return type(value)(texts[0])
        except ValueError:
            return None

    def spans(self) -> list[str]:
        """The parts of the first request that the second has otherwise, without what stands around them."""
        found, text = list[str](), ""
        for place, (old, new) in enumerate(self.pieces):
            after = next((a != b for a, b in self.pieces[place + 1 :] if a.strip()), False)
            if old != new or (text and after and not old.strip()):
                text += old
            elif text:
                found.append(text.strip(" \"',.;:"))
                text = ""
        return [one for one in (*found, text.strip(" \"',.;:")) if one]

    def _at(self, start: int, end: int) -> str | None:
        """What stands in the second request in the place of a part of the first."""
        text, at = "", 0
        for old, new in self.pieces:
            until = at + len(old)
            if at < end and until > start and old:
                if old == new:
                    text += old[max(0, start - at) : end - at]
                elif start <= at and until <= end:
                    text += new
                else:
                    return None
            at = until
        return text


def _pieces(first: Sequence[str], second: Sequence[str]) -> list[tuple[str, str]]:
    """The parts of two texts side by side; those that are alike are equal."""
    found: list[tuple[str, str]] = []
    for kind, a, b, c, d in SequenceMatcher(None, first, second, autojunk=False).get_opcodes():
        if kind == "equal" or b - a == d - c:
            found += zip(first[a:b], second[c:d], strict=True)
        else:
            found.append(("".join(first[a:b]), "".join(second[c:d])))
    return found
