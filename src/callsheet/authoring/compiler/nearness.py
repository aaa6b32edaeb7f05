"""Which tools and operations come near to each part of a goal, and which of them others outdo.

Pure. In: a goal and the texts of what may be called. Out: candidates for each of its parts, the best first.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from callsheet.authoring.compiler.focus import meant_by, parts_of, speaks_of_all, wanted_by
from callsheet.authoring.compiler.ranking import Fields, scores, words_of, worths

_NEAR_ENOUGH = 0.5
"""What share of the best score of a part makes another candidate for it."""
_CANDIDATES = 4
_CANDIDATES_OF_ALL = 6
"""Tools for one part of a goal, and for one that speaks of many things and is alone: it may take several."""


class Part(NamedTuple):
    """A part of a goal, and the numbers of its candidates, the best first."""

    text: str
    candidates: tuple[int, ...]


def near_parts(goal: str, documents: Sequence[Fields], is_tool: Sequence[bool]) -> list[Part]:
    """The parts of a goal with what comes near to each; what is no tool is an operation."""
    texts = parts_of(goal)
    most = _CANDIDATES_OF_ALL if len(texts) == 1 and speaks_of_all(goal) else _CANDIDATES
    verbs = [words_of(document[0][0])[:1] if document else [] for document in documents]
    parts: list[Part] = []
    for before, text in zip(("", *texts), texts, strict=False):
        near, begins = _Near.to(text, before, documents), words_of(text)[:1]
        parts.append(Part(text, _best_first(near, is_tool, most, [verb == begins for verb in verbs])))
    return parts


class _Near(NamedTuple):
    """How near each candidate is to a part of a goal, and which of its words speak for it.

    The word of number 0 is the part's first, which mostly says what is to be done; that of number -1 stands
    for all that an `it` or `each` of the part may mean.
    """

    scores: list[float]
    words: list[frozenset[int]]

    @classmethod
    def to(cls, part: str, before: str, documents: Sequence[Fields]) -> _Near:
        """`before` is the part before: `it` and `each` of a part may mean what is spoken of there."""
        found = worths(wanted_by(part), documents)
        meant = scores(meant_by(part, before), documents)
        near = [sum(each) for each in found]
        words = [frozenset(n for n, worth in enumerate(each) if worth > 0) for each in found]
        return cls(
            [score and score + more for score, more in zip(near, meant, strict=True)],
            [each | {-1} if more else each for each, more in zip(words, meant, strict=True)],
        )

    def is_outdone(self, one: int, close: Sequence[int]) -> bool:
        """Whether all that speaks for a candidate speaks for the best one too, and more with the first word.

        Of `search the web` only `search` speaks for a search of notes. And of `move each`, where events are
        spoken of before, only `move` speaks for moving a file; of `read issue 12` only `read` for a note.
        """
        own, best = self.words[one] - {-1}, self.words[close[0]] - {-1}
        if 0 in best and own < best:
            return True
        return self.words[one] == frozenset({0}) and any(
            {0, -1} <= self.words[other] or {0, 1} <= self.words[other] for other in close
        )


def _best_first(
    near: _Near, is_tool: Sequence[bool], most: int, begins_so: Sequence[bool]
) -> tuple[int, ...]:
    """The candidates for one part: tools that are near enough to the best one, and the best operation.

    An operation works on what a tool gives, so it takes no tool's place; nor is it one where only the part's
    first word speaks for it, and a tool's name `begins_so`: to `text her` is what `text_driver` does.
    """
    best = max(near.scores, default=0.0)
    found = sorted((-score, n) for n, score in enumerate(near.scores) if score > 0)
    tools = [(-score, n) for score, n in found if is_tool[n]]
    close = [n for score, n in tools if score >= _NEAR_ENOUGH * tools[0][0]]
    kept = [n for n in close if not near.is_outdone(n, close)]
    operations = [n for score, n in found if not is_tool[n] and -score >= _NEAR_ENOUGH * best][:1]
    if any(begins_so[n] for n in kept):
        operations = [n for n in operations if near.words[n] - {-1} != frozenset({0})]
    return tuple(sorted((*kept[:most], *operations), key=lambda n: (-near.scores[n], n)))
