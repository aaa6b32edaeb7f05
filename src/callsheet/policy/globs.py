"""Glob patterns of paths: `*` and `?` stay within a component, `**` crosses any number of them.

In: a glob. Out: a test for normalised paths, linear in the path by way of RE2; a backtracking engine is not
linear with two `**`. Also patterns in which `*` stands for any text.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from fnmatch import fnmatchcase
from functools import lru_cache
from importlib import import_module
from typing import Any, TypeAlias

_SAYS = re.compile(r"[\w.]")
Test: TypeAlias = "Callable[[str], bool]"


def expression(pattern: str) -> str:
    r"""The pattern as a regular expression that must match the whole path.

    >>> expression("docs/**/*.md")
    'docs/(?:[^/]+/)*[^/]*\\.md'
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
    return "".join(pieces)


@lru_cache(maxsize=1_024)
def _whole(pattern: str) -> Test:
    return _linear(expression(pattern), any_case=False)


@lru_cache(maxsize=1_024)
def _down_to(pattern: str) -> Test:
    return _linear(f"(?:{expression(pattern)})(?:/.*)?", any_case=True)


def _linear(written: str, *, any_case: bool) -> Test:
    """A test for whether an expression matches a whole text, in time linear in the text."""
    re2: Any = import_module("re2")  # by name, since re2 has no type information
    options = re2.Options()
    options.log_errors = False
    options.dot_nl = True
    options.case_sensitive = not any_case
    match = re2.compile(written, options).fullmatch

    def test(text: str) -> bool:
        return match(text if text.isascii() else text.encode(errors="replace").decode()) is not None

    return test


def matches(pattern: str, path: str) -> bool:
    """Whether a path matches a pattern; `folder/**` also matches the folder itself.

    >>> matches("/var/log/**", "/var/log"), matches("/var/log/**", "/var/logs")
    (True, False)
    >>> matches("docs/**", "docs/a/b.md"), matches("*.pem", "keys/a.pem")
    (True, False)
    """
    if not pattern.startswith("/"):
        path = path.lstrip("/")
    return (pattern.endswith("/**") and path == pattern[:-3]) or _whole(pattern)(path)


def covers(pattern: str, path: str) -> bool:
    """Whether a pattern matches a path or a folder above it, ignoring case.

    Restrictions are matched like this: `*secret*` covers everything in `secrets/`.

    >>> covers("**/*secret*", "a/Secrets/x.txt"), covers(".env", "app/.env"), covers("**/.ssh/**", ".ssh")
    (True, False, True)
    """
    if not pattern.startswith("/"):
        path = path.lstrip("/")
    return bool(path) and _down_to(pattern.removesuffix("/**") or pattern)(path)


_BRACES = re.compile(r"\{([^{}]*,[^{}]*)\}")
_MOST_ALTERNATIVES = 64


def alternatives(glob: str) -> list[str]:
    """The globs that braces stand for, as a shell expands them; of too many, the glob itself.

    >>> alternatives("{a,b}/{.env,x}"), alternatives("{a}")
    (['a/.env', 'a/x', 'b/.env', 'b/x'], ['{a}'])
    """
    waiting, made = [glob], list[str]()
    while waiting:
        one = waiting.pop()
        braces = _BRACES.search(one)
        if braces is None:
            made.append(one)
        else:
            before, after = one[: braces.start()], one[braces.end() :]
            waiting += (f"{before}{choice}{after}" for choice in reversed(braces[1].split(",")))
        if len(waiting) + len(made) > _MOST_ALTERNATIVES:
            return [glob]
    return made


def example(pattern: str) -> str:
    """A path that a pattern matches.

    >>> example("docs/secret/**"), example("docs/**/*.pem")
    ('docs/secret/x', 'docs/x/x.pem')
    """
    return pattern.replace("**", "*").replace("*", "x").replace("?", "x")


def may_name(glob: str, pattern: str) -> bool:
    """Whether a component of a shell's glob matches a typical name that a pattern covers; a component without
    a letter or a dot is not compared.

    >>> [may_name(glob, "**/.env") for glob in (".e*", "app/[.]env", "*", "*.md")]
    [True, True, False, False]
    >>> may_name("*.p?m", "*.pem"), may_name("my*", "**/*secret*"), may_name("*crets.txt", "**/*secret*")
    (True, False, False)
    """
    name = next((part for part in reversed(pattern.split("/")) if part.strip("*")), "")
    names = {name.replace("*", "").casefold(), name.replace("*", "x").casefold()} - {""}
    parts = [part.casefold() for part in glob.split("/") if _SAYS.search(part)]
    return any(fnmatchcase(one, part) for one in names for part in parts)


def any_text(pattern: str) -> Test:
    """A test for texts in which each `*` of the pattern stands for any text.

    >>> [any_text("a*b*")(text) for text in ("ab", "a--b--", "b", "ba")]
    [True, True, False, False]
    """
    first, *others = pattern.split("*")
    if not others:
        return lambda text: text == first
    *middle, last = others

    def test(text: str) -> bool:
        at, end = len(first), len(text) - len(last)
        if at > end or not text.startswith(first) or not text.endswith(last):
            return False
        for piece in middle:  # the first match is best: it leaves the most room
            at = text.find(piece, at, end)
            if at < 0:
                return False
            at += len(piece)
        return True

    return test
