"""Scores documents against a query by BM25, deterministically.

Pure. In: queries with synonyms, and documents as weighted texts. Out: a score for each document.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TypeAlias

Fields: TypeAlias = "Sequence[tuple[str, float]]"
"""The texts of one document, each with the weight of its words."""
Wanted: TypeAlias = "Mapping[str, float]"
"""A query word and its synonyms, each with its weight."""

_SATURATION = 1.2
_BY_LENGTH = 0.4
"""BM25's length normalisation; low, because descriptions of tools are of similar length."""
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_WORD = re.compile(r"[^\W_]+")
_ENDINGS = ("ations", "ation", "ings", "ing", "ies", "ers", "er", "ed", "es", "s", "ly", "e", "y")
_STEM = 3
"""The letters that stemming leaves at least."""
_EMPTY_WORDS = frozenset(
    word
    for line in (
        "a an the and or of to in on at by for from with into it its is are be was were do does that this",
        "these those then than as all each every any my me i you your our us we their them they he she his",
        "her please let what which who how if when so not no can could should would will must may one",
    )
    for word in line.split()
)


def is_empty_word(word: str) -> bool:
    """Whether a word is a stop word."""
    return word.casefold() in _EMPTY_WORDS


def words_of(text: str) -> list[str]:
    """The stems of a text's words, without stop words.

    >>> words_of("Lists the open_issues; listIssues")
    ['list', 'open', 'issu', 'list', 'issu']
    """
    words = (word.casefold() for word in _WORD.findall(_CAMEL.sub(" ", text)))
    return [stem(word) for word in words if word not in _EMPTY_WORDS]


def scores(queries: Sequence[Wanted], documents: Sequence[Fields]) -> list[float]:
    """The score of each document; of synonyms the best match counts.

    >>> near = scores([{"send": 1}], [[("send_mail", 3.0), ("Send a text.", 1.0)], [("ls", 3.0)]])
    >>> near[0] > 1, near[1]
    (True, 0.0)
    """
    return [sum(each) for each in worths(queries, documents)]


def worths(queries: Sequence[Wanted], documents: Sequence[Fields]) -> list[list[float]]:
    """The score of each query word in each document, 0 if it does not match."""
    counted = [_counted(fields) for fields in documents]
    lengths = [sum(counts.values()) for counts in counted]
    usual = (sum(lengths) / len(lengths) if lengths else 0) or 1.0
    holding = Counter(word for counts in counted for word in counts)

    def worth(word: str, counts: Mapping[str, float], length: float) -> float:
        if word not in counts:
            return 0.0
        rarity = math.log(1 + (len(documents) - holding[word] + 0.5) / (holding[word] + 0.5))
        count, pull = counts[word], 1 - _BY_LENGTH + _BY_LENGTH * length / usual
        return rarity * count * (_SATURATION + 1) / (count + _SATURATION * pull)

    return [
        [
            max((weight * worth(word, counts, length) for word, weight in wanted.items()), default=0.0)
            for wanted in queries
        ]
        for counts, length in zip(counted, lengths, strict=True)
    ]


def _counted(fields: Fields) -> dict[str, float]:
    counts: dict[str, float] = {}
    for text, weight in fields:
        for word in words_of(text):
            counts[word] = counts.get(word, 0.0) + weight
    return counts


def stem(word: str) -> str:
    """The stem of a word."""
    for ending in _ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= _STEM:
            return _undoubled(word[: -len(ending)])
    return word


def _undoubled(word: str) -> str:
    """Undoes a doubled final consonant: `plann` (from `planning`) becomes `plan`."""
    is_double = len(word) > _STEM and word[-1] == word[-2] and word[-1] not in "aeiousl"
    return word[:-1] if is_double else word
