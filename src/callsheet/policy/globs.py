"""Patterns of paths: `*` and `?` stay inside a component, `**` goes through any number of them.

In: a glob as a policy writes it. Out: a test for normalised paths. Linear in the path.
"""

from __future__ import annotations

import re
from functools import lru_cache


@lru_cache(maxsize=1_024)
def glob(pattern: str, *, any_case: bool = False) -> re.Pattern[str]:
    """The pattern as an expression that must match the whole path.

    >>> bool(glob("docs/**").fullmatch("docs/a/b.md")), bool(glob("*.pem").fullmatch("keys/a.pem"))
    (True, False)
    """
    pieces: list[str] = []
    at = 0
    while at < len(pattern):
        if pattern.startswith("**/", at):
            pieces.append("(?:[^/]+/)*")
            at += 3
        elif pattern.startswith("**", at):
            pieces.append(".*")
            at += 2
        elif pattern[at] == "*":
            pieces.append("[^/]*")
            at += 1
        elif pattern[at] == "?":
            pieces.append("[^/]")
            at += 1
        else:
            pieces.append(re.escape(pattern[at]))
            at += 1
    return re.compile("".join(pieces), re.DOTALL | (re.IGNORECASE if any_case else 0))


def matches(pattern: str, path: str) -> bool:
    """Whether a path is one of the pattern's; the folder of `folder/**` is too.

    >>> matches("/var/log/**", "/var/log"), matches("/var/log/**", "/var/logs")
    (True, False)
    """
    if not pattern.startswith("/"):
        path = path.lstrip("/")
    return (pattern.endswith("/**") and path == pattern[:-3]) or glob(pattern).fullmatch(path) is not None


def covers(pattern: str, path: str) -> bool:
    """Whether a pattern names a path in any case, or a folder above it.

    This is how what restricts is read: `*secret*` holds for all that lies in `secrets/`.

    >>> covers("**/*secret*", "a/Secrets/x.txt"), covers(".env", "app/.env")
    (True, False)
    """
    expression = glob(pattern, any_case=True)
    if not pattern.startswith("/"):
        path = path.lstrip("/")
    while path:
        if expression.fullmatch(path):
            return True
        path = path.rpartition("/")[0]
    return False
