"""Encloses data in prompts in marks such as `<text>` that nothing in the data opens or closes.

A mark is numbered if a text contains it in any spelling: with blanks, other brackets, escapes, accents,
invisible characters, or letters that look alike.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from functools import cache

_OPENING = r"[<\u2039\u00ab\u02c2\u1438\u140a\u2329\u226a\u227a\u22d6\u276e\u2770\u27e8\u27ea\u3008\u300a]"
"""A less-than sign, and characters that look like one."""
_ESCAPED = r"&(?:lt|#0*60|#x0*3c);?|\\(?:u00|x|u\{0*)3c\}?|%3c"
_BEGIN = re.compile(f"{_OPENING}|{_ESCAPED}|[\ufe64\uff1c]", re.IGNORECASE)
_SAME = {"l": "[l1i|]", "o": "[o0]", "e": "[e3]", "a": "[a4@]", "t": "[t7]", "g": "[g9]"}
_CONTROLS = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029]+")
_INVISIBLE = frozenset("\u115f\u1160\u2800\u3164\uffa0")
"""Letters and a symbol without a shape; other invisible characters are known by their category."""
_DROPPED = frozenset({"Cf", "Mn", "Me"})


def mark_number(names: Iterable[str], texts: Iterable[str]) -> int:
    """The lowest number from 1 with which no text opens or closes a mark of one of these names.

    >>> mark_number(["text"], ["a <b>"]), mark_number(["text"], ["</text> <TEXT_2>"])
    (1, 3)
    """
    patterns = [_pattern(name) for name in names]
    used = {
        int(number or 1)
        for text in texts
        if _BEGIN.search(text) is not None
        for folded in [_folded(text)]
        for pattern in patterns
        for number in pattern.findall(folded)
    }
    return next(number for number in range(1, len(used) + 2) if number not in used)


def mark_name(name: str, number: int) -> str:
    """The name of a mark with a number; the first has none.

    >>> mark_name("text", 1), mark_name("text", 2)
    ('text', 'text_2')
    """
    return name if number == 1 else f"{name}_{number}"


def enclosed(mark: str, text: str) -> str:
    """A text between its marks, each on a line of its own."""
    return f"<{mark}>\n{text}\n</{mark}>"


def without_invisible(text: str) -> str:
    """The text without characters that are not shown, such as zero-width and tag characters.

    >>> without_invisible("a\\u200bb\\U000e0041 c")
    'ab c'
    """
    if text.isascii():
        return text
    return "".join(c for c in text if unicodedata.category(c) != "Cf" and c not in _INVISIBLE)


def one_line(text: str) -> str:
    """The text on one line: line breaks and control characters become blanks, invisible ones are left out.

    >>> one_line("reads\\n@send (x)"), one_line("a\\u2028b\\x00c")
    ('reads @send (x)', 'a b c')
    """
    return _CONTROLS.sub(" ", without_invisible(text))


@cache
def _pattern(name: str) -> re.Pattern[str]:
    """Matches the beginning of a mark; a letter may be any that is not ASCII."""
    letters = "".join(f"(?:{_SAME.get(letter, letter)}|[^\\x00-\\x7f])" for letter in name)
    return re.compile(
        rf"(?:{_OPENING}|{_ESCAPED})[^\w<]{{0,40}}{letters}(?:\W?_\W?(\d{{1,9}}))?", re.IGNORECASE
    )


def _folded(text: str) -> str:
    """The text with compatible characters, accents and invisible characters folded away."""
    if text.isascii():
        return text
    return "".join(
        c
        for c in unicodedata.normalize("NFKD", text)
        if c not in _INVISIBLE and unicodedata.category(c) not in _DROPPED
    )
