"""Patterns of RE2, which matches in time linear in the text, so that a pattern of anybody's may be used.

RE2 is loaded when the first of them is compiled.
"""

from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module
from typing import Any, AnyStr


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
