"""What the words of a user and of a model say: conditions, numbers of things, and words that stay the same.

In: the words of a request. Out: its condition, the figures that it asks for, its data; and whether a text
that a model has written has anything of its own, which another time would be another: then no plan may
repeat it. The words are English ones.
"""

from __future__ import annotations

import re
from functools import lru_cache

_SHORTEST_FORM = 3
_SHORTEST_STEM = 5
_CONDITIONS = frozenset(
    ("if", "unless", "whether", "otherwise", "else", "or", "depending", "provided", "when")
)
_OR_MORE = re.compile(
    r"\bor (?=(?:later|earlier|more|less|fewer|after|before|above|below|over|under|newer|older)\b)"
)
"""The word within a bound, as in "10 or more"."""


def unquoted(said: str) -> str:
    """The words of a request without what it quotes, which is data.

    >>> unquoted('tell bob: "call me if you can"')
    'tell bob: '
    """
    return re.sub(r"\"[^\"]*\"|“[^”]*”|«[^»]*»", "", said)


def condition_in(said: str) -> str:
    """The word with which a request makes something depend on what is found; "" if there is none.

    >>> condition_in("if it rains, tell ann"), condition_in("tell ann at 9:00 or later")
    ('if', '')
    """
    words = re.findall(r"\w+", _OR_MORE.sub("", unquoted(said).lower()))
    return next((word for word in words if word in _CONDITIONS), "")


def counts(said: str) -> bool:
    """Whether the words ask for a number of things.

    >>> counts("write how many mails there are"), counts("forward the mails")
    (True, False)
    """
    return "count" in asked_figures(said)


def word_set(text: str) -> frozenset[str]:
    """The words of a list of words."""
    return frozenset(text.split())


SMALL_WORDS = word_set(
    "a an the you your i we my our us me it its they them their he his she her who whom whose is are was "
    "were be been has have had for of to in on at from with by about this that these those and as per via "
    "than here there please hi hello dear re fwd regards cc s t z thank thanks greetings sincerely kind best "
    "ms sec kb mb gb km kg eur usd euro euros dollar dollars pct percent"
)
"""Words that carry no decision: those of grammar, politeness and units. What denies or counts is none."""
QUANTIFIERS = word_set("all each every both these those what which their his her many number count")
NUMBER_WORDS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
_CLAUSE_WORDS = frozenset(("that", "which", "who", "whose", "with", "without", "where"))
_CLAUSE_ENDS = frozenset(("and", "to", "into", "so", "then", "but"))
_DATA = re.compile(r"[^\s,;!?\"“”'()]+")
_FORMS = re.compile(r"[^\W\d_]+|\d+")


def says_the_same(text: str, said: str, vocabulary: frozenset[str]) -> bool:
    """Whether the words of a text are those of the user in other forms, or say nothing by themselves.

    `vocabulary` are the words of the tools. A word that the user has said exactly so may be data of this one
    time, unless it is the first one, which says what to do.

    >>> says_the_same("Thank you for your mail ", "thank for mail 12", frozenset(["mail"]))
    True
    >>> says_the_same("Great work, ", "answer mail 12", frozenset(["mail"]))
    False
    """
    others = re.findall(r"\w+", said)
    for word in _FORMS.findall(text):
        lower = word.lower()
        if word.isdigit():
            return False
        if len(word) == 1 or lower in SMALL_WORDS or lower in vocabulary or lower.rstrip("s") in vocabulary:
            continue
        if word in others[1:] or not any(is_form(lower, other.lower()) for other in others):
            return False
    return True


@lru_cache(maxsize=1_000)
def restrictions(said: str, nouns: frozenset[str]) -> tuple[str, ...]:
    """The words by the word for some things that say which of them are meant.

    >>> restrictions("book the earliest direct flight to Rome", frozenset(["flight"]))
    ('direct', 'earliest')
    >>> restrictions("return the items that arrived broken, and tell ann", frozenset(["items"]))
    ('arrived', 'broken')
    """
    words = re.findall(r"[\w'-]+|[,.;:]", said.lower())
    found: dict[str, None] = {}
    for place, word in enumerate(words):
        if word not in nouns and word.rstrip("s") not in nouns:
            continue
        for before in reversed(words[1:place]):
            if before in SMALL_WORDS | QUANTIFIERS or not before[0].isalpha():
                break
            found[before] = None
        clause = words[place + 1 :]
        end = next((n for n, one in enumerate(clause) if one in _CLAUSE_ENDS or not one[0].isalpha()), None)
        start = next((n for n, one in enumerate(clause[:end]) if one in _CLAUSE_WORDS), None)
        for after in clause[start + 1 : end] if start is not None else ():
            if after not in SMALL_WORDS | QUANTIFIERS and after[0].isalpha():
                found[after] = None
    return (*found,)


def is_form(word: str, other: str) -> bool:
    """Whether two words are forms of one: the same beginning, and little besides.

    >>> is_form("thanks", "thank"), is_form("open", "opinion")
    (True, False)
    """
    short, long = sorted((word, other), key=len)
    return long == short or (
        len(short) >= _SHORTEST_FORM and long.startswith(short) and len(long) <= len(short) + 3
    )


def is_kin(word: str, other: str) -> bool:
    """Whether two words have one stem, however they end.

    >>> is_kin("assignee", "assigned"), is_kin("failing", "fail"), is_kin("report", "repeat")
    (True, True, False)
    """
    short, long = sorted((word.lower(), other.lower()), key=len)
    if len(short) < _SHORTEST_FORM + 1:
        return is_form(short, long)
    stem = short[: max(_SHORTEST_STEM, len(short) - 2)]
    return long.startswith(stem) and len(long) <= len(short) + 3


def said_data(said: str) -> list[str]:
    """What of a request looks like data: it has a digit or a sign within.

    >>> said_data("move it to 2026-12-01 at 10:00, for ann@x.example.")
    ['2026-12-01', '10:00', 'ann@x.example']
    """
    found = (text.strip(".:") for text in _DATA.findall(said))
    return [text for text in dict.fromkeys(found) if re.search(r"\d|\w\W\w", text)]


_ASKED = (
    ("count", r"how (?:many|often)|count|number of"),
    ("sum", r"how much|sum|total|totals|altogether|together|come to|adds? up|in all"),
    ("mean", r"average|mean"),
    ("max", r"highest|largest|biggest|greatest|maximum|max|peak|longest|most"),
    ("min", r"lowest|smallest|least|minimum|min|shortest|cheapest"),
    ("more", r"more|another|additional|extra|increase|raise|add"),
    ("less", r"less|fewer|reduce|lower|decrease|remaining|left|missing|rest"),
    ("times", r"times|each|worth|shares|cost|costs|per"),
    ("sorted", r"sort(?:ed|ing)?|alphabetical(?:ly)?|order(?:ed)? by|by (?:first |last )?name|in order"),
)


def asked_figures(said: str) -> frozenset[str]:
    """What about a list the words ask for: count, sum, mean, max or min, sorted; and what to do with numbers.

    >>> sorted(asked_figures("log the average and the highest price"))
    ['max', 'mean']
    """
    return frozenset(name for name, words in _ASKED if re.search(rf"\b({words})\b", said.lower()))
