"""Searches for many texts at once, in time that depends on the text searched and not on their number."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Generic, TypeVar

_Text = TypeVar("_Text", str, bytes)


class PrefixIndex(Generic[_Text]):
    """Texts indexed by their first characters (as many as the shortest has).

    >>> list(PrefixIndex(["ab", "abc", "xyz"]).found_in("_abc"))
    [(1, 'ab'), (1, 'abc')]
    """

    def __init__(self, texts: Sequence[_Text]) -> None:
        self._length = min(map(len, texts), default=0)
        self._by_head: defaultdict[_Text, list[_Text]] = defaultdict(list)
        for text in texts if self._length else ():
            self._by_head[text[: self._length]].append(text)

    def found_in(self, text: _Text) -> Iterator[tuple[int, _Text]]:
        """Every occurrence, as (position, text)."""
        length, get = self._length, self._by_head.get
        for at in range(len(text) - length + 1):
            for one in get(text[at : at + length], ()):
                if text.startswith(one, at):
                    yield at, one
