"""Compiles a search text into a matcher: for a literal text, or for an RE2 pattern, which takes linear time.

In: the text to search for. Out: a function that finds the first match.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from callsheet.store.errors import JournalError
from callsheet.trace.search import Find

_MEMORY = 64 << 20
_LEAST = 2
"""The length of `//`, an empty pattern."""


def finder(text: str, *, ignore_case: bool = False) -> Find:
    """A function that finds a text, or a pattern if the text is in slashes.

    Raises ValueError for an empty text, JournalError (JRN085) for a pattern that RE2 rejects.

    >>> finder("b")("abc"), finder("/[0-9]+/")("on 12 May"), finder("B", ignore_case=True)("abc")
    ((1, 2), (3, 5), (1, 2))
    """
    if len(text) > _LEAST and text.startswith("/") and text.endswith("/"):
        return _pattern(text[1:-1], ignore_case=ignore_case)
    if not text:
        raise ValueError("the text to look for is empty")
    if ignore_case:
        return _pattern(import_module("re2").escape(text), ignore_case=True)

    def find(within: str) -> tuple[int, int] | None:
        at = within.find(text)
        return None if at < 0 else (at, at + len(text))

    return find


def _pattern(pattern: str, *, ignore_case: bool) -> Find:
    re2: Any = import_module("re2")  # by name, as it has no types for the checker
    options_ = re2.Options()
    options_.log_errors = False
    options_.max_mem = _MEMORY
    options_.case_sensitive = not ignore_case
    try:
        compiled = re2.compile(pattern, options_)
    except re2.error as error:
        reason: Any = next(iter(error.args), "")
        why = reason.decode(errors="replace") if isinstance(reason, bytes) else str(reason)
        raise JournalError(
            "JRN085",
            f"/{pattern[:80]}/ cannot be read as a pattern: {why}",
            "patterns use RE2: no look-around, no back-references; without slashes it is plain text",
        ) from None

    def find(within: str) -> tuple[int, int] | None:
        clean = within if within.isascii() else within.encode(errors="replace").decode()
        match = compiled.search(clean)
        return None if match is None else match.span()

    return find
