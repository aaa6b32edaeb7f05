"""Forbidden patterns on RE2: one pass over a text for all of them, in time linear in the text.

In: patterns as a policy writes them. Out: the patterns that a text matches. Loaded when a policy has some.
"""

from __future__ import annotations

import re
from functools import lru_cache
from importlib import import_module
from typing import Any

_MEMORY = 64 << 20
_MOST_KEPT = 8
_ANCHOR = re.compile(r"[\^$]|\\[Az]")
r"""What asks for the beginning or the end of a text; what looks like it in a set counts too.

Where a word begins or ends (`\b`) is the same in one text and beside others, for no word stands between them.
"""


class Patterns:
    """Patterns ready to be looked for. Raises ValueError for a text that is no RE2 pattern."""

    def __init__(self, patterns: tuple[str, ...]) -> None:
        re2: Any = import_module("re2")  # by its name: it has no types that a checker could find
        options = re2.Options()
        options.log_errors = False
        options.max_mem = _MEMORY
        self._patterns = patterns
        self._set: Any = re2.Set.SearchSet(options)
        for pattern in patterns:
            try:
                re2.compile(pattern, options)
                self._set.Add(pattern)
            except re2.error as error:
                said: Any = next(iter(error.args), "")
                text = said.decode(errors="replace") if isinstance(said, bytes) else str(said)
                raise ValueError(f"{pattern!r} cannot be read as a pattern: {text}") from None
        self._set.Compile()
        self.are_anchored = any(_ANCHOR.search(pattern) for pattern in patterns)
        """Whether it counts for one of them where a text begins or ends."""

    def found_in(self, text: str) -> list[str]:
        """The patterns that match somewhere in the text."""
        matched = self._set.Match(text.encode(errors="replace"))
        return [self._patterns[number] for number in matched] if matched else []


@lru_cache(maxsize=_MOST_KEPT)
def patterns_of(patterns: tuple[str, ...]) -> Patterns:
    """The patterns ready to be looked for; the last few policies' are kept, for each tool asks for its own.

    Raises ValueError for a text that is no RE2 pattern.
    """
    return Patterns(patterns)
