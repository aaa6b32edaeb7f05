"""Patterns of RE2, one or many in one pass, in time linear in the text, so that anybody's may be matched.

RE2 is loaded when the first of them is compiled.

In: patterns as the policy writes them. Out: those that match a text. Imported only if a policy has patterns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import lru_cache
from importlib import import_module
from typing import Any, AnyStr

from callsheet import lazy


class PatternRejected(ValueError):
    """RE2 cannot read a pattern; the message says why."""


def compile_pattern(
    pattern: str | bytes,
    *,
    memory: int | None = None,
    any_case: bool = False,
    dot_is_any: bool = False,
    is_bytes: bool = False,
) -> Any:
    """A compiled pattern with the methods of RE2's; `memory` is the most bytes that it may take.

    With `is_bytes` it is matched against bytes, each a character. Raises PatternRejected.

    >>> compile_pattern("a+", any_case=True).search("xAA")[0]
    'AA'
    >>> compile_pattern("(a")
    Traceback (most recent call last):
    callsheet.ir.linear_patterns.PatternRejected: missing ): (a
    """
    options = _options(memory, is_bytes=is_bytes)
    options.case_sensitive = not any_case
    options.dot_nl = dot_is_any
    re2 = _re2()
    try:
        return re2.compile(pattern, options)
    except re2.error as error:
        raise PatternRejected(_reason(error)) from None


def pattern_set(patterns: Iterable[str | bytes], *, memory: int, is_bytes: bool = False) -> Any:
    """Patterns that are searched in one pass; `Match(data)` gives the numbers of those that are in bytes.

    Raises PatternRejected if they are too large together.
    """
    options, re2 = _options(memory, is_bytes=is_bytes), _re2()
    options.never_capture = True
    found = re2.Set.SearchSet(options)
    for pattern in patterns:
        found.Add(pattern)
    try:
        found.Compile()
    except re2.error as error:
        raise PatternRejected(_reason(error)) from None
    return found


def escaped(text: AnyStr) -> AnyStr:
    """The pattern that matches just this text."""
    return _re2().escape(text)


def _re2() -> Any:
    return import_module("re2")  # by name: it has no types for the type checker


def _options(memory: int | None, *, is_bytes: bool) -> Any:
    re2 = _re2()
    options = re2.Options()
    options.log_errors = False
    if memory is not None:
        options.max_mem = memory
    if is_bytes:
        options.encoding = re2.Options.Encoding.LATIN1
    return options


def _reason(error: Exception) -> str:
    reason: Any = next(iter(error.args), "")
    return reason.decode(errors="replace") if isinstance(reason, bytes) else str(reason)


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
