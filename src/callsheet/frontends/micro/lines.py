"""Classifies the lines of a text of Micro-CLI: a command, something that may be one, or prose.

In: a text and an offset after bullets, numbers and labels. Out: a `Kind`. Models write sentences around
their plans; a line that may be a command never counts as prose.
"""

from __future__ import annotations

import re
from collections.abc import Set as AbstractSet
from enum import Enum

from callsheet import lazy
from callsheet.diagnostics import did_you_mean
from callsheet.frontends.ltp.words import PLAN_LIKE
from callsheet.frontends.micro.commands import ELSE, control_of
from callsheet.frontends.micro.guards import GUARD
from callsheet.frontends.micro.verbs import CONTROLS, VERBS

DECORATION = lazy.pattern(
    r"(?:(?:[-*+•]|\d{1,9}[.)])[ \t]+)*"
    r"(?:\**(?:S(?P<number>\d{1,9})|(?:step[ \t]+)?\d{1,9})\**[ \t]*:\**(?!:|//)[ \t]*)?(?:`(?!`))?",
    re.IGNORECASE,
)
"""Bullets, numbers, a label or a backtick before a command."""

FENCE = lazy.pattern(r"(?:```+|~~~+)(?:[\w+.-]*[ \t\r]*(?=\n|\Z))?")
HEAD = lazy.pattern(r"(id|title|goal):(?: |$)(.*)", re.DOTALL)

_WORD = lazy.pattern(r"(@(?=\w))?((?(1)[A-Za-z0-9_]+|[A-Za-z_][A-Za-z0-9_]*(?:-plan\b)?))", re.IGNORECASE)
_VALUE_LIKE = lazy.pattern(r"[\"$>=({\[]|(?:^|\s)[-+]?\d+(?:\.\d+)?(?=\s|$)|\bON_FAIL\b", re.IGNORECASE)
_GUARDED = lazy.pattern(r"[ \t]:[ \t]")
_SENTENCE_END = (".", ":", "!", "?", "…")
_LEAST_WORDS = 3
_SURE_VALUE = lazy.pattern(r"[ \t]+(?:[\"'$\[{]|r[\"'])|[ \t]*>[ \t]*\$?[A-Za-z_]|[ \t]*\(")
_MOST_LOOKUPS = 200


class Kind(Enum):
    """The kind of a line."""

    COMMAND = "command"
    MAYBE = "maybe"
    """Possibly a command, although it does not begin with a verb."""
    PROSE = "prose"


class Lines:
    """Classifies the lines of one text."""

    def __init__(self) -> None:
        self._lookups = 0

    def kind(self, text: str, pos: int, end: int, known: AbstractSet[str], *, labelled: bool) -> Kind:
        """The kind of the line from `pos` to `end`; `known` are the variables set so far."""
        if labelled or text.startswith("?", pos) or ELSE.match(text, pos):
            return Kind.COMMAND
        if GUARD.match(text, pos) and text.find(":", pos, end - 1) != -1:
            return Kind.COMMAND
        word = _WORD.match(text, pos)
        if word is None:
            return Kind.MAYBE if PLAN_LIKE.search(text, pos, end) else Kind.PROSE
        at, name = word.groups()
        lower = name.lower()
        is_tool = bool(at) or ("_" in name and name[0].isalpha())
        is_verb = is_tool or lower in VERBS or lower == "foreach" or control_of(name) is not None
        line = text[pos:end]
        if is_verb and text[word.end() : word.end() + 1] != ":" and not _is_sentence(line, known):
            return Kind.COMMAND
        if is_verb and _SURE_VALUE.match(text, word.end(), end):
            return Kind.COMMAND
        if name[0].islower() and (_VALUE_LIKE.search(line) or _GUARDED.search(line)):
            return Kind.MAYBE
        if PLAN_LIKE.search(line) or (len(line.split(None, 3)) < 3 and self._is_near(name)):
            return Kind.MAYBE
        return Kind.PROSE

    def _is_near(self, word: str) -> bool:
        """Whether a lower-case word may be a misspelt verb; always true after `_MOST_LOOKUPS` searches."""
        if not word.islower():
            return False
        self._lookups += 1
        return self._lookups > _MOST_LOOKUPS or bool(did_you_mean(word, (*VERBS, *CONTROLS), 1))


def _is_sentence(line: str, known: AbstractSet[str]) -> bool:
    """Whether a line that begins with a verb is a sentence: it has a capital first or a full stop last."""
    content = line.partition(" #")[0]
    if _VALUE_LIKE.search(content):
        return False
    words = content.split()
    if len(words) < _LEAST_WORDS or any(word.strip(".,:;!?") in known for word in words[1:]):
        return False
    return words[0][0].isupper() or words[-1].endswith(_SENTENCE_END)
