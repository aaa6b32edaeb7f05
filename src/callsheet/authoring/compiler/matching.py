"""Matches tools and operations to the parts of a goal.

Pure. In: a goal and the searchable texts of the offers. Out: candidates for each part, the best first.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from callsheet.authoring.compiler.goal_parts import meant_by, mentions_all, parts_of, wanted_by
from callsheet.authoring.compiler.ranking import Fields, scores, words_of, worths

_NEAR_ENOUGH = 0.5
"""The share of a part's best score that makes another tool a candidate."""
_CANDIDATES = 4
_CANDIDATES_OF_ALL = 6
"""The most tools for a part, and for a single part that speaks of many things and may need several."""


class Part(NamedTuple):
    """A part of a goal, and the indexes of its candidates, the best first."""

    text: str
    candidates: tuple[int, ...]


def near_parts(goal: str, documents: Sequence[Fields], is_tool: Sequence[bool]) -> list[Part]:
    """The parts of a goal with their candidates; a document that is not a tool is an operation."""
    texts = parts_of(goal)
    most = _CANDIDATES_OF_ALL if len(texts) == 1 and mentions_all(goal) else _CANDIDATES
    verbs = [words_of(document[0][0])[:1] if document else [] for document in documents]
    parts: list[Part] = []
    for before, text in zip(("", *texts), texts, strict=False):
        near, begins = _Match.to(text, before, documents), words_of(text)[:1]
        parts.append(Part(text, _best_first(near, is_tool, most, [verb == begins for verb in verbs])))
    return parts


class _Match(NamedTuple):
    """The score of each candidate for a part of a goal, and the words that matched.

    Word 0 is the part's first word, which mostly says what to do; word -1 stands for anything that a pronoun
    in the part may refer to.
    """

    scores: list[float]
    words: list[frozenset[int]]

    @classmethod
    def to(cls, part: str, before: str, documents: Sequence[Fields]) -> _Match:
        """`before` is the previous part, to which pronouns in this one may refer."""
        worths_by_word = worths(wanted_by(part), documents)
        meant = scores(meant_by(part, before), documents)
        near = [sum(each) for each in worths_by_word]
        words = [frozenset(n for n, worth in enumerate(each) if worth > 0) for each in worths_by_word]
        return cls(
            [score and score + more for score, more in zip(near, meant, strict=True)],
            [each | {-1} if more else each for each, more in zip(words, meant, strict=True)],
        )

    def is_outdone(self, one: int, close: Sequence[int]) -> bool:
        """Whether a better candidate matches everything that this one does, and more.

        In `search the web` a search of notes matches only `search`. In `move each`, after a part about
        events, moving a file matches only `move`; in `read issue 12` a note matches only `read`.
        """
        own, best = self.words[one] - {-1}, self.words[close[0]] - {-1}
        if 0 in best and own < best:
            return True
        return self.words[one] == frozenset({0}) and any(
            {0, -1} <= self.words[other] or {0, 1} <= self.words[other] for other in close
        )


def _best_first(
    near: _Match, is_tool: Sequence[bool], most: int, begins_so: Sequence[bool]
) -> tuple[int, ...]:
    """The candidates for one part: tools with scores close to the best one, and the best operation.

    An operation works on the result of a tool, so it does not replace one. It is dropped if it matches only
    the part's first word and the name of a tool begins with that word: `text her` means `text_driver`.
    """
    best = max(near.scores, default=0.0)
    by_score = sorted((-score, n) for n, score in enumerate(near.scores) if score > 0)
    tools = [(-score, n) for score, n in by_score if is_tool[n]]
    close = [n for score, n in tools if score >= _NEAR_ENOUGH * tools[0][0]]
    best_matches = [n for n in close if not near.is_outdone(n, close)]
    operations = [n for score, n in by_score if not is_tool[n] and -score >= _NEAR_ENOUGH * best][:1]
    if any(begins_so[n] for n in best_matches):
        operations = [n for n in operations if near.words[n] - {-1} != frozenset({0})]
    return tuple(sorted((*best_matches[:most], *operations), key=lambda n: (-near.scores[n], n)))
