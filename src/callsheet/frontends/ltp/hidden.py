"""Finds characters that are not shown, or that change the order in which a text is displayed.

In: a text. Out: warnings. A reviewer of such a text may read another plan than the one that is executed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from callsheet.diagnostics import Diagnostic, Severity, Span

_MARK = "\ufeff"
_HIDDEN = re.compile(f"[\u200b\u202a-\u202e\u2060-\u2064\u2066-\u2069{_MARK}\U000e0001\U000e0020-\U000e007f]")
_MOST = 20
"""The most warnings for one text."""


def hidden_characters(text: str) -> Iterator[Diagnostic]:
    """A warning (LTP071) for the first hidden character of each line.

    >>> [d.message for d in hidden_characters('S1: @RESPOND ("a\\u202eb")')]
    ['the character U+202E is not shown, and the text around it may look different from what is executed']
    """
    if text.isascii():
        return
    line_end, count = -1, 0
    for match in _HIDDEN.finditer(text, 1 if text.startswith(_MARK) else 0):
        if match.start() <= line_end:
            continue
        message = (
            f"the character U+{ord(match[0]):04X} is not shown, and the text around it may not read as it is "
            "executed"
        )
        help_text = "delete it, or write it as an escape sequence"
        yield Diagnostic("LTP071", Severity.WARNING, message, Span(*match.span()), help_text)
        line_end = text.find("\n", match.end())
        count += 1
        if line_end < 0 or count == _MOST:
            return
