"""Renders the old and new lines of one part of a plan, with common lines shortened.

In: the lines of both sides. Out: lines, each with a sign: `-` old, `+` new, a space for both.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher

from callsheet.views.columns import CUT

_CONTEXT = 2
_MOST_COMPARED = 1_000
"""For longer texts, only a common beginning and end are found."""

_LONG = 240
_KEPT = 60
_MOST = 4_000


def line_changes(old: Sequence[str], new: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yields the differences of two texts as signs and lines, with up to two lines of context.

    >>> list(line_changes(["a", "b"], ["a", "c"]))
    [(' ', 'a'), ('-', 'b'), ('+', 'c')]
    """
    start = 0
    least = min(len(old), len(new))
    while start < least and old[start] == new[start]:
        start += 1
    end = 0
    while end < least - start and old[-1 - end] == new[-1 - end]:
        end += 1
    if start > _CONTEXT:
        yield " ", CUT
    yield from ((" ", shortened(line)) for line in old[max(start - _CONTEXT, 0) : start])
    yield from _between(old[start : len(old) - end], new[start : len(new) - end])
    yield from ((" ", shortened(line)) for line in old[len(old) - end :][:_CONTEXT])
    if end > _CONTEXT:
        yield " ", CUT


def _between(old: Sequence[str], new: Sequence[str]) -> Iterator[tuple[str, str]]:
    if max(len(old), len(new)) > _MOST_COMPARED:
        yield from _replaced(old, new)
        return
    matcher = SequenceMatcher(None, old, new, autojunk=False)
    for tag, i, to_i, j, to_j in matcher.get_opcodes():
        if tag != "equal":
            yield from _replaced(old[i:to_i], new[j:to_j])
            continue
        same = old[i:to_i]
        if len(same) <= 2 * _CONTEXT:
            yield from ((" ", shortened(line)) for line in same)
        else:
            yield from ((" ", shortened(line)) for line in same[:_CONTEXT])
            yield " ", CUT
            yield from ((" ", shortened(line)) for line in same[-_CONTEXT:])


def _replaced(old: Sequence[str], new: Sequence[str]) -> Iterator[tuple[str, str]]:
    if len(old) == len(new) == 1:
        was, now = focused(old[0], new[0])
        yield "-", was
        yield "+", now
        return
    yield from (("-", shortened(line)) for line in old)
    yield from (("+", shortened(line)) for line in new)


def focused(old: str, new: str) -> tuple[str, str]:
    """Returns two lines; if one is long, both are cut to the part that differs.

    >>> [len(side) for side in focused("x" * 900 + "a" + "y" * 900, "x" * 900 + "b" + "y" * 900)]
    [123, 123]
    """
    if max(len(old), len(new)) <= _LONG:
        return old, new
    before = max(_shared(old, new) - _KEPT, 0)
    least = min(len(old), len(new)) - before
    behind = _shared(old[::-1][:least], new[::-1][:least])
    after = max(min(behind, least) - _KEPT, 0)

    def cut_out(text: str) -> str:
        inside = text[before : len(text) - after]
        return (CUT if before else "") + shortened(inside) + (CUT if after else "")

    return cut_out(old), cut_out(new)


def _shared(old: str, new: str) -> int:
    """Returns the length of the common beginning."""
    for length, (was, now) in enumerate(zip(old, new, strict=False)):
        if was != now:
            return length
    return min(len(old), len(new))


def shortened(line: str) -> str:
    """Returns a line of bounded length; a cut line ends with its full length."""
    if len(line) <= _MOST:
        return line
    return f"{line[:_MOST]}{CUT} ({len(line):,} characters)"
