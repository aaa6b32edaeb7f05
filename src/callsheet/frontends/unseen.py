"""Characters that mislead: not shown, changing the order of a text, or in words that look Latin."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import islice
from types import MappingProxyType
from typing import TypeAlias, cast

from callsheet import lazy
from callsheet.diagnostics import Diagnostic, Severity, Span
from callsheet.ir import JSON

Ranges: TypeAlias = "tuple[tuple[int, int], ...]"
"""Characters as first and last code points."""
_MARK = "\ufeff"
_HIDDEN: Ranges = (
    (0x200B, 0x200B),
    (0x202A, 0x202E),
    (0x2060, 0x206F),
    (0xFEFF, 0xFEFF),
    (0xFFF9, 0xFFFB),
    (0xE0000, 0xE007F),
)
"""Zero-width, direction and tag characters; not the joiners U+200C and U+200D, which are part of words."""
ESCAPED: Ranges = (
    (0x7F, 0x9F),
    (0x061C, 0x061C),
    (0x200E, 0x200F),
    (0x2028, 0x2029),
    *_HIDDEN,
)
"""What canonical text always escapes, besides what JSON escapes and lone surrogates."""
_MOST_WARNINGS = 20
"""The most warnings for one text."""


def _class_of(ranges: Ranges) -> str:
    return "".join(f"{chr(first)}-{chr(last)}" for first, last in ranges)


UNSEEN = rf"{_class_of(ESCAPED)}\ud800-\udfff"
"""All of these and surrogates, for a character class of a regular expression."""
_WARNED = lazy.pattern(f"[{_class_of(_HIDDEN)}]")


def hidden_characters(text: str) -> Iterator[Diagnostic]:
    """A warning (LTP071) for the first hidden character of each line.

    >>> [d.message for d in hidden_characters('S1: @RESPOND ("a\\u202eb")')]
    ['the character U+202E is not shown, and the text around it may look different from what is executed']
    """
    if text.isascii():
        return
    line_end, count = -1, 0
    for match in _WARNED.finditer(text, 1 if text.startswith(_MARK) else 0):
        if match.start() <= line_end:
            continue
        message = (
            f"the character U+{ord(match[0]):04X} is not shown, and the text around it may look different "
            "from what is executed"
        )
        help_text = "delete it, or write it as an escape sequence"
        yield Diagnostic("LTP071", Severity.WARNING, message, Span(*match.span()), help_text)
        line_end = text.find("\n", match.end())
        count += 1
        if line_end < 0 or count == _MOST_WARNINGS:
            return


def escape(match: re.Match[str]) -> str:
    r"""The JSON escape of the character that a match has found.

    The second half of a surrogate pair that the text has as two characters is not escaped: two escapes would
    be read as one character.

    >>> print(re.sub(f"[{UNSEEN}]", escape, "a\u200bb\U000e0041"))
    a\u200bb\udb40\udc41
    """
    char, at = match[0], match.start()
    if "\udc00" <= char <= "\udfff" and at and "\ud800" <= match.string[at - 1] <= "\udbff":
        return char
    code = ord(char)
    if code <= 0xFFFF:
        return f"\\u{code:04x}"
    high, low = divmod(code - 0x10000, 0x400)
    return f"\\u{0xD800 + high:04x}\\u{0xDC00 + low:04x}"


_LIKE_LATIN = {
    "A": "\u0391\u0410", "B": "\u0392\u0412\u0432", "C": "\u0421\u03f9", "E": "\u0395\u0415", "F": "\u03dc",
    "H": "\u0397\u041d\u043d", "I": "\u0399\u0406\u04c0", "J": "\u0408", "K": "\u039a\u041a",
    "M": "\u039c\u041c\u043c", "N": "\u039d", "O": "\u039f\u041e\u0555", "P": "\u03a1\u0420",
    "S": "\u0405\u054f", "T": "\u03a4\u0422\u0442", "X": "\u03a7\u0425", "Y": "\u03a5\u0423", "Z": "\u0396",
    "a": "\u0251\u03b1\u0430", "c": "\u0441\u1d04", "d": "\u0501", "e": "\u0435", "f": "\u0192",
    "g": "\u0261\u0581", "h": "\u04bb\u0570", "i": "\u0131\u0456\u03b9", "j": "\u0458", "k": "\u03ba\u043a",
    "l": "\u04cf", "n": "\u0578", "o": "\u03bf\u043e\u0585\u1d0f", "p": "\u03c1\u0440", "q": "\u051b",
    "s": "\u0455", "u": "\u03c5\u057d", "v": "\u03bd\u1d20", "w": "\u051d", "x": "\u0445", "y": "\u0443",
    "z": "\u1d22",
}  # fmt: skip
LATIN_OF: Mapping[str, str] = MappingProxyType(
    {other: latin for latin, others in _LIKE_LATIN.items() for other in others}
)
"""Cyrillic, Greek, Armenian and phonetic letters, each with the Latin letter that it looks like."""


_ALIKE_LETTERS = "".join(LATIN_OF) + "\uff21-\uff3a\uff41-\uff5a"
"""Letters that look like Latin ones, full-width ones among them."""
_LOOKALIKE = lazy.pattern(f"[{_ALIKE_LETTERS}]")
_TOKEN = lazy.pattern(r"\S+")
_WORD = lazy.pattern(r"[^\W\d_]+")
_READ_AS_LATIN = lazy.pattern(f"[A-Za-z{_ALIKE_LETTERS}]*")
_LATIN = lazy.pattern("[A-Za-z]")
_MOST_WORDS = 5


def lookalikes(value: JSON) -> list[str]:
    r"""The first few words in a value that mix Latin letters with others that look like them, these escaped.

    A word in another script is none of them, unless all of its letters look Latin and Latin ones follow or
    precede without a blank, as in a host name.

    >>> lookalikes({"to": "p\u0430ypal@x.org", "text": "\u043f\u0440\u0438\u0432\u0435\u0442 all"})
    ['p\\u0430ypal@x.org']
    """
    return list(islice(_found(value), _MOST_WORDS))


def _found(value: JSON) -> Iterator[str]:
    if isinstance(value, str):
        if not value.isascii():
            yield from (_marked(token) for token in _TOKEN.findall(value) if _is_forged(token))
    elif isinstance(value, dict):
        for name, part in value.items():
            yield from _found(name)
            yield from _found(cast("JSON", part))
    elif isinstance(value, list):
        for part in value:
            yield from _found(cast("JSON", part))


def _is_forged(token: str) -> bool:
    if token.isascii() or _LATIN.search(token) is None:
        return False
    words = _WORD.findall(token)
    return any(_LOOKALIKE.search(word) and _READ_AS_LATIN.fullmatch(word) for word in words)


def _marked(token: str) -> str:
    return _LOOKALIKE.sub(lambda found: f"\\u{ord(found[0]):04x}", token)
