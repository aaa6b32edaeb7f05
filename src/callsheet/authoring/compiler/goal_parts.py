"""Splits a goal into parts, and gives the words by which tools for them can be found.

Pure. In: a goal. Out: its clauses, and for a text its words and those implied by
shapes in it (a URL, a file name, a channel). This only helps to find tools: the model always gets the whole
goal.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TypeAlias

from callsheet import lazy

Fields: TypeAlias = "Sequence[tuple[str, float]]"
"""The texts of one document, each with the weight of its words."""
Wanted: TypeAlias = "Mapping[str, float]"
"""A query word, perhaps beside others of which the best match counts, each with its weight."""

_SATURATION = 1.2
_BY_LENGTH = 0.4
"""BM25's length normalisation; low, because descriptions of tools are of similar length."""
_CAMEL = lazy.pattern(r"(?<=[a-z0-9])(?=[A-Z])")
_WORD = lazy.pattern(r"[^\W_]+")
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


def worths(queries: Sequence[Wanted], documents: Sequence[Fields]) -> list[list[float]]:
    """The score of each query word in each document, 0 if it does not match.

    >>> near = worths([{"send": 1}], [[("send_mail", 3.0), ("Send a text.", 1.0)], [("ls", 3.0)]])
    >>> near[0][0] > 1, near[1]
    (True, [0.0])
    """
    return WordIndex(documents).worths(queries)


class WordIndex:
    """The words of documents, counted once for many queries."""

    def __init__(self, documents: Sequence[Fields]) -> None:
        self._counted = [_counted(fields) for fields in documents]
        self._lengths = [sum(counts.values()) for counts in self._counted]
        self._usual = (sum(self._lengths) / len(documents) if documents else 0) or 1.0
        self._holding = Counter(word for counts in self._counted for word in counts)

    def worths(self, queries: Sequence[Wanted]) -> list[list[float]]:
        """The score of each query word in each document, 0 if it does not match."""
        return [
            [
                max(
                    (weight * self._worth(word, counts, length) for word, weight in wanted.items()),
                    default=0.0,
                )
                for wanted in queries
            ]
            for counts, length in zip(self._counted, self._lengths, strict=True)
        ]

    def _worth(self, word: str, counts: Mapping[str, float], length: float) -> float:
        if word not in counts:
            return 0.0
        holding = self._holding[word]
        rarity = math.log(1 + (len(self._counted) - holding + 0.5) / (holding + 0.5))
        count, pull = counts[word], 1 - _BY_LENGTH + _BY_LENGTH * length / self._usual
        return rarity * count * (_SATURATION + 1) / (count + _SATURATION * pull)


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


MAX_PARTS = 12
"""The most parts; further text belongs to the last one."""

_FIRST_COUNTS = 1.5
"""The weight of a part's first word, which is mostly the verb."""
_GENERAL = frozenset(map(stem, ("get", "give", "show", "take", "make", "do", "use", "bring", "have", "look")))
_GENERAL_COUNTS = 0.7
"""The weight of a verb that says little about what to do."""
_SHAPE_COUNTS, _QUOTED_COUNTS = 0.6, 0.2

_JOINS = lazy.pattern(
    r"[.;:!?]+(?:\s+|$)|\n+|,\s+"
    r"|,?\s+(?:and then|and also|and|then|but|afterwards|after that|otherwise|else)\s+",
    re.IGNORECASE,
)
_ANSWERING = lazy.pattern(
    r"(?:please\s+)?(?:finally\s+|just\s+)?"
    r"(?:(?:tell|show|give|send|list|report|read|bring)"
    r"(?:\s+(?:it|that|them|both|all|(?:the|their|its)\s+\w+(?:\s+\w+)?)\s+to)?\s+(?:me|us)\b"
    r"|let\s+(?:me|us)\s+(?:know|see)\b|(?P<quoting>answer|respond|reply)\b(?:\s+with\b)?)",
    re.IGNORECASE,
)
"""How a part begins that only asks for the answer, which needs no tool."""
_MANNER = lazy.pattern(
    r"\b(?:at the same time|in parallel|side by side|at once|first|next|finally)\b", re.IGNORECASE
)
"""Words about the order of the parts, which ask for nothing."""
_PLACE = lazy.pattern(r"(?:in|on|at|for|from|within|under|inside)\s+\S+(?:\s+\S+)?\Z", re.IGNORECASE)
"""A part that only says where or for whom."""
_MOST_OF_ANSWER = 2
_JOINED = lazy.pattern(r"\A(?:(?:and|then|also|finally)\s+)+", re.IGNORECASE)
_QUOTED = lazy.pattern(r"\"[^\"\n]*\"|“[^”\n]*”|(?<!\w)'[^'\n]*'(?!\w)|`[^`\n]*`")
_SQL = lazy.pattern(r"\bselect\s.{1,400}?\sfrom\s+\w+", re.IGNORECASE)
_PLACES = lazy.pattern(r"(?<![\w.+-])[\w.+-]*[/@#]\S*|(?<![\w-])[\w-]+\.[A-Za-z]\w{0,4}(?!\w)")
"""Paths, files, addresses and channels, whose words are names and not actions."""

_SUMMED_UP = lazy.pattern(
    r"\bsum(?:med|s)? ((?:it|this|that|them|these|those|(?:the|my|all) \w+) up)\b", re.IGNORECASE
)
"""Asks for a summary and not for arithmetic, as `sum up the prices` may."""
_SUMMED_TEXT = lazy.pattern(
    r"\bsum(?:med|s)? up (?=(?:(?:the|this|that|my|each|every|all|of) )*(?:(?!in )\w+ )?"
    r"(?:article|chapter|document|essay|file|letter|log|mail|message|note|page|report|review|story|text|thread)"
    r"s?\b(?! (?:amount|cost|count|length|number|price|size|total))|what |\W*$)",
    re.IGNORECASE,
)
"""The same before a kind of text, or without an object."""

_ALL = lazy.pattern(
    r"\b(?:(?:each|every)\b(?! of (?:them|it|these|those)\b)|all (?:of )?(?:the |my )?\w+s\b)", re.IGNORECASE
)
_SIDE_BY_SIDE = lazy.pattern(
    r"\b(?:at the same time|at once|side by side|in parallel|parallel|concurrently|simultaneously)\b",
    re.IGNORECASE,
)

_SHAPES: tuple[tuple[re.Pattern[str], tuple[str, ...]], ...] = (
    (re.compile(r"\bhttps?://", re.IGNORECASE), ("url web page", "fetch")),
    (re.compile(r"(?<![\w.+-])[\w.+-]+@[\w-]+\.\w+"), ("mail email address",)),
    (re.compile(r"(?<![\w/.@*~-])(?:[\w*~.-]+/)*[\w*-]+\.[A-Za-z]\w{0,4}(?![\w.]|/)"), ("file path", "read")),
    (re.compile(r"(?<!\w)#[A-Za-z]\w*"), ("channel", "message")),
    (re.compile(r"\b\d{4}-\d{2}-\d{2}\b"), ("date",)),
    (re.compile(r"(?<![\w/])/\w+(?:/\w+)*"), ("path",)),
    (re.compile(r"\bselect\s.+\sfrom\b", re.IGNORECASE), ("sql", "query database")),
    (re.compile(r"\A\s*(?:which|what|who|how many)\b", re.IGNORECASE), ("list get show find",)),
    (re.compile(r"\d\s*%|\d\s*[-+*/×]\s*\d"), ("compute",)),
    (
        re.compile(r"\b(?:USD|EUR|GBP|JPY|CHF|CNY|INR|dollars?|euros?)\b|[€$£¥]\s?\d"),
        ("currency money", "convert"),
    ),
    (_ALL, ("list find search",)),
    (re.compile(r"\b(?:newest|recent|unread|my)\s+\w+s\b", re.IGNORECASE), ("list find search",)),
    (re.compile(r"\bhow (?:big|large|old|long)\b", re.IGNORECASE), ("info details", "get")),
)
"""Shapes in a goal that imply words for finding tools, though the goal does not use those words."""


def parts_of(goal: str) -> list[str]:
    """The parts of a goal in order, each a clause that asks for something; quoted texts stay whole.

    Parts that only ask for the result of the others, or only say where, are left out unless they are alone.

    >>> parts_of('Read a.txt, sum it up and mail "this, and that" to ann@example.com.')
    ['Read a.txt', 'sum it up', 'mail "this, and that" to ann@example.com']
    >>> parts_of("Read a.txt and tell me what it says")
    ['Read a.txt']
    """
    quoted = [match.span() for pattern in (_QUOTED, _SQL) for match in pattern.finditer(goal)]
    cuts = [
        match.span()
        for match in _JOINS.finditer(goal)
        if not any(start < match.end() and match.start() < end for start, end in quoted)
    ][: MAX_PARTS - 1]
    starts = [0, *(end for _, end in cuts)]
    ends = [*(start for start, _ in cuts), len(goal)]
    parts = (goal[start:end].strip(" \t\r\n.,;:!?") for start, end in zip(starts, ends, strict=True))
    parts = (_JOINED.sub("", part) for part in parts)
    asked = [part for part in parts if words_of(_MANNER.sub(" ", part))]
    return [part for part in asked if not _is_the_answer(part) and not _PLACE.match(part)] or asked


def mentions_all(text: str) -> bool:
    """Whether a text speaks of each of several things.

    >>> mentions_all("Delete every file"), mentions_all("Delete a.txt")
    (True, False)
    """
    return _ALL.search(text) is not None


def is_side_by_side(goal: str) -> bool:
    """Whether a goal asks for things to be done at the same time.

    >>> is_side_by_side("Read a and b in parallel"), is_side_by_side("Read a and b")
    (True, False)
    """
    return _SIDE_BY_SIDE.search(_QUOTED.sub(" ", goal)) is not None


def _is_the_answer(part: str) -> bool:
    """Whether a part does little more than ask for the answer: `tell me the result`."""
    begins = _ANSWERING.match(part)
    if begins is None:
        return False
    more = _QUOTED.sub(" ", part[begins.end() :])
    return not more.strip() if begins["quoting"] else len(words_of(more)) <= _MOST_OF_ANSWER


def wanted_by(text: str) -> list[Wanted]:
    """The words that a text asks for, and those implied by its shapes.

    Words in quotes, paths and addresses count little, because they do not say what to do.

    >>> wanted_by("store it")
    [{'stor': 1.5}]
    >>> [*wanted_by("sum it up")[0]], [*wanted_by("sum up the prices")[0]]
    (['summariz'], ['sum'])
    """
    plain = _SUMMED_UP.sub(r"summarize \1", _PLACES.sub(" ", _QUOTED.sub(" ", text)))
    plain = _SUMMED_TEXT.sub("summarize ", plain)
    weights = dict.fromkeys(words_of(plain), 1.0)
    if weights:
        first = next(iter(weights))
        weights[first] = _GENERAL_COUNTS if first in _GENERAL else _FIRST_COUNTS
    quoted = {word: _QUOTED_COUNTS for word in words_of(text) if word not in weights}
    wanted: list[Wanted] = [{word: weight} for word, weight in {**weights, **quoted}.items()]
    shapes = (words for shape, all_words in _SHAPES if shape.search(text) for words in all_words)
    return [*wanted, *(dict.fromkeys(words_of(words), _SHAPE_COUNTS) for words in shapes)]
