"""Characters that are not shown, or that change the order in which a text is displayed.

In: a text. Out: warnings for those that it contains, or their escapes. A reviewer of such a text may read
another plan than the one that is executed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TypeAlias

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
_WARNED = re.compile(f"[{_class_of(_HIDDEN)}]")


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
