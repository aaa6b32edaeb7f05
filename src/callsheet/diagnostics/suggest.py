"""Did you mean: the known words nearest to an unknown one."""

from __future__ import annotations

from collections.abc import Iterable

_MAX_CANDIDATES = 2_000


def did_you_mean(word: str, known: Iterable[str], most: int = 3) -> tuple[str, ...]:
    """Up to `most` of the known words that look like `word`, the nearest first.

    Case does not count. At most the first 2,000 known words are looked at, so that a hostile
    list cannot make an error message slow.
    """
    from difflib import get_close_matches  # noqa: PLC0415 - only where something is wrong

    by_fold: dict[str, str] = {}
    for candidate in known:
        by_fold.setdefault(candidate.casefold(), candidate)
        if len(by_fold) >= _MAX_CANDIDATES:
            break
    suggestions = get_close_matches(word[:64].casefold(), list(by_fold), n=most, cutoff=0.6)
    return tuple(by_fold[fold] for fold in suggestions)
