"""Turns CEL's parse errors into short messages with a span within the predicate.

In: the text of a predicate and of CEL's error. Out: a message, a span, a suggested fix. CEL lists every
possible token; people are told what kind of thing was expected.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from callsheet.diagnostics import Span

_BEGIN = "Failed to parse expression '{}': "
_ERROR = re.compile(r"^ERROR: [^\n:]*:(\d+):(\d+): (.*)$", re.MULTILINE)
_SYNTAX = "Syntax error: "
_EXPECTING = re.compile(r"(?:mismatched|extraneous) input '(.*)' expecting (.*)")
_MISSING = re.compile(r"missing (.+) at '(.*)'")
_NO_TOKEN = re.compile(r"token recognition error at: '(.*)'")
_NO_ALTERNATIVE = re.compile(r"no viable alternative at input '(.*)'")
_END = "<EOF>"
_CLOSING = (")", "]", "}", ":", ",")
_HINTS = {
    "and": "CEL writes && for and",
    "or": "CEL writes || for or",
    "not": "CEL writes ! for not",
    "=": "CEL writes == for equal",
}


class Unreadable(NamedTuple):
    """What is wrong with a predicate, where, and how to fix it."""

    message: str
    place: Span
    help: str | None


def unreadable(when: str, words: str) -> Unreadable:
    """The readable form of CEL's error about a predicate."""
    listed = _ERROR.findall(words.removeprefix(_BEGIN.format(when)))
    faults = sorted((int(line), int(column), text) for line, column, text in listed)
    if not faults:
        return Unreadable(words.partition("\n")[0], Span(0, len(when)), None)
    line, column, text = next((each for each in faults if each[2].startswith(_SYNTAX)), faults[0])
    before = sum(len(each) + 1 for each in when.split("\n")[: line - 1])
    at = min(before + column - 1, len(when))
    message, token = _in_few_words(text.removeprefix(_SYNTAX))
    if _NO_ALTERNATIVE.search(text):  # CEL means the last of several tokens
        at = max(when.rfind(token, 0, at + len(token)), 0)
    end = min(at + max(len(token), 1), max(len(when), at))
    hint = _HINTS.get(token) or _HINTS.get(when[:at].rstrip().rpartition(" ")[2])
    return Unreadable(message, Span(at, end), hint)


def _in_few_words(message: str) -> tuple[str, str]:
    """The message, and the token that it is about; empty at the end of the predicate."""
    if match := _EXPECTING.fullmatch(message):
        token = "" if match[1] == _END else match[1]
        expected = _kind_of(match[2])
        return (f"{token!r} stands" if token else "it ends") + f" where {expected} was expected", token
    if match := _MISSING.fullmatch(message):
        token = "" if match[2] == _END else match[2]
        return f"{match[1]} is missing " + (f"before {token!r}" if token else "at its end"), token
    if match := _NO_TOKEN.fullmatch(message):
        token = match[1].strip()
        if token[:1] in ("'", '"'):
            return "a string is not terminated: its closing quote is missing", token
        return f"{token!r} is not part of CEL", token
    if match := _NO_ALTERNATIVE.fullmatch(message):
        return f"{match[1]!r} is not allowed here", match[1]
    return message, ""


def _kind_of(tokens: str) -> str:
    """What was expected, summarised from the possible tokens."""
    names = [each.strip("'") for each in tokens.strip("{}").split(", ")]
    if "IDENTIFIER" in names and "NUM_INT" in names:
        return "a value"
    kinds = ["an operator"] if "==" in names else []
    kinds += [repr(each) for each in _CLOSING if f"'{each}'" in tokens]
    kinds += ["the end"] if _END in names else []
    if "IDENTIFIER" in names:
        kinds.append("a name")
    return " or ".join(kinds) or tokens
