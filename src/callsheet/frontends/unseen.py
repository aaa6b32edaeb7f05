"""Characters that mislead: not shown, changing the order of a text, or looking like Latin letters."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import TypeAlias

from callsheet import lazy
from callsheet.diagnostics import Diagnostic, Severity, Span

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
_MOST = 20
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
        if line_end < 0 or count == _MOST:
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


_ALIKE = {
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
    {other: latin for latin, others in _ALIKE.items() for other in others}
)
"""Cyrillic, Greek, Armenian and phonetic letters, each with the Latin letter that it looks like."""
