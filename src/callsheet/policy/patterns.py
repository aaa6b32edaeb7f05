"""Matches a policy's forbidden patterns with RE2: all of them in one pass, in time linear in the text.

In: patterns as the policy writes them. Out: those that match a text. Imported only if a policy has patterns.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

from callsheet import lazy
from callsheet.ir.linear_patterns import PatternRejected, compile_pattern, pattern_set

_MEMORY = 64 << 20
_MOST_KEPT = 8
_ANCHOR = lazy.pattern(r"[\^$]|\\[Az]")
r"""Anchors to the beginning or end of a text; characters in a set that look like one are included.

Word boundaries (`\b`) need no care: texts that are joined are separated by non-word characters.
"""


class Patterns:
    """A compiled set of patterns. Raises ValueError for an invalid RE2 pattern."""

    def __init__(self, patterns: tuple[str, ...]) -> None:
        self._patterns = patterns
        for pattern in patterns:
            try:
                compile_pattern(pattern, memory=_MEMORY)
            except PatternRejected as error:
                raise ValueError(f"{pattern!r} cannot be read as a pattern: {error}") from None
        self._match: Callable[[bytes], Any] = pattern_set(patterns, memory=_MEMORY).Match
        self.are_anchored = any(_ANCHOR.search(pattern) for pattern in patterns)
        """Whether one of them depends on where a text begins or ends."""

    def any_in(self, text: str) -> bool:
        """Whether one of the patterns matches somewhere in the text, which is ASCII."""
        return bool(self._match(text.encode()))

    def found_in(self, text: str) -> list[str]:
        """The patterns that match somewhere in the text."""
        matched = self._match(text.encode(errors="replace"))
        return [self._patterns[number] for number in matched] if matched else []


@lru_cache(maxsize=_MOST_KEPT)
def patterns_of(patterns: tuple[str, ...]) -> Patterns:
    """The compiled patterns, cached for the last few policies since each tool asks for them.

    Raises ValueError for an invalid RE2 pattern.
    """
    return Patterns(patterns)
