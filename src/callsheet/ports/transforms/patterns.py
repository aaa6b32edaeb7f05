"""Regular expression functions on RE2, whose matching time is linear in the text for any pattern.

Imported by the first query that uses one, because the library is slow to load.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import lru_cache
from importlib import import_module
from typing import Any, cast

from callsheet.ir import JSON
from callsheet.ports.transforms.fault import Fault, TooMuchWork
from callsheet.ports.transforms.work import Work

MAX_PATTERN = 1_000
MAX_TEXT = 1_000_000
MAX_SECONDS = 10.0
"""The most seconds for one function: each match takes linear time, but there may be many matches."""
_MEMORY = 8 << 20
_SCANNED = 50_000


@lru_cache(maxsize=256)
def _compiled(pattern: str) -> Any:
    re2: Any = import_module("re2")  # imported by name: it has no types for the type checker
    options = re2.Options()
    options.log_errors = False
    options.max_mem = _MEMORY
    try:
        return re2.compile(pattern, options)
    except UnicodeEncodeError:
        raise Fault("the pattern contains half a character (a lone surrogate)") from None
    except re2.error as error:
        reason: Any = next(iter(error.args), "")
        text = reason.decode(errors="replace") if isinstance(reason, bytes) else str(reason)
        raise Fault(f"the pattern cannot be read: {text}") from None


def compiled(pattern: str) -> Any:
    """The compiled pattern; raises Fault if it is invalid or too long."""
    if len(pattern) > MAX_PATTERN:
        raise Fault(f"a pattern has at most {MAX_PATTERN:,} characters")
    return _compiled(pattern)


def _matches(work: Work, text: str, pattern: str) -> Iterator[Any]:
    regex = compiled(pattern)
    if len(text) > MAX_TEXT:
        raise Fault(f"a text for a pattern has at most {MAX_TEXT:,} characters")
    work.charge_text(len(text))
    end = time.monotonic() + MAX_SECONDS
    try:
        for one_match in regex.finditer(text):
            work.charge(1 + (len(text) - one_match.end()) // _SCANNED)
            yield one_match
            if time.monotonic() > end:
                raise TooMuchWork(f"the pattern took longer than {MAX_SECONDS:g} s")
    except UnicodeEncodeError:
        raise Fault("the text contains half a character (a lone surrogate)") from None


def _match_value(one_match: Any) -> JSON:
    """The value of a match: its named groups as an object, its groups, the only group, or the whole match."""
    named: dict[str, JSON] = one_match.groupdict()
    groups: tuple[str | None, ...] = one_match.groups()
    if named:
        return dict(sorted(named.items(), key=lambda pair: one_match.re.groupindex[pair[0]]))
    if len(groups) == 1:
        return groups[0]
    return list(groups) if groups else cast("str", one_match.group())


def match(work: Work, text: str | None, pattern: str) -> JSON:
    """Whether the pattern matches anywhere in the text."""
    return text is not None and next(_matches(work, text, pattern), None) is not None


def extract(work: Work, text: str | None, pattern: str) -> JSON:
    """The value of the first match, null if there is none."""
    first_match = None if text is None else next(_matches(work, text, pattern), None)
    return None if first_match is None else _match_value(first_match)


def extract_all(work: Work, text: str | None, pattern: str) -> JSON:
    """The values of all matches."""
    return None if text is None else [_match_value(found) for found in _matches(work, text, pattern)]


def _pieces(work: Work, text: str, pattern: str) -> list[str]:
    pieces: list[str] = []
    start = 0
    for one_match in _matches(work, text, pattern):
        pieces.append(text[start : one_match.start()])
        start = one_match.end()
    return [*pieces, text[start:]]


def split_pattern(work: Work, text: str | None, pattern: str) -> JSON:
    """The parts of a text between the matches."""
    return None if text is None else list[JSON](_pieces(work, text, pattern))


def replace_pattern(work: Work, text: str | None, pattern: str, new: str) -> JSON:
    """The text with every match replaced by `new`, taken literally."""
    if text is None:
        return None
    pieces = _pieces(work, text, pattern)
    work.charge_text(len(text) + len(new) * len(pieces))
    return new.join(pieces)
