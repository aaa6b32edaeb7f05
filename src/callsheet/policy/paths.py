"""Normalises file paths, whatever their spelling, inside a workspace or on the host.

In: the text of a path. Out: its normal form, or PathRefused. Does not touch the file system.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import TypeAlias
from urllib.parse import unquote

from callsheet import lazy
from callsheet.ir.linear_patterns import compile_pattern

_DRIVE_OR_SCHEME = lazy.pattern(r"[A-Za-z][A-Za-z0-9+.-]*:")
_ODD = lazy.pattern(r"[%:\\ .](?:(?<=[%:\\])|(?=/|\Z))")
r"""What may be read in another way: `%`, `:`, `\`, and a blank or full stop at the end of a name."""
_PATTERN = frozenset("*?[$")
_MOST_DECODINGS = 6
_MAX_PATH = 4_096


class PathRefused(Exception):
    """The path leads outside or is ambiguous; the message says why."""


@lru_cache(maxsize=4_096)
def workspace_path(text: str) -> str:
    """The normal form of a path inside the workspace; raises PathRefused otherwise.

    >>> workspace_path("docs/a/../guide..md")
    'docs/guide..md'
    >>> workspace_path("docs/%2e%2e/%2e%2e/x")
    Traceback (most recent call last):
    ...
    callsheet.policy.paths.PathRefused: the path leads out of the workspace
    """
    normal = ""
    for reading in _readings(text):
        if _is_absolute(reading.strip()):
            raise PathRefused("the path is absolute; paths are relative to the workspace")
        walked = _walk(reading, "the path leads out of the workspace")
        normal = normal or walked
    return normal


@lru_cache(maxsize=4_096)
def host_path(text: str) -> str:
    """The normal form of an absolute path on the host; raises PathRefused otherwise.

    >>> host_path("/etc/./shadow")
    '/etc/shadow'
    """
    readings = {f"/{_walk(reading, None)}" for reading in _readings(text)}
    if not text.startswith("/") or len(readings) != 1:
        raise PathRefused("a path on the host is absolute and has one reading")
    return readings.pop()


def readings_of(path: str) -> tuple[str, ...]:
    """All paths that some system may take a normal path for: trailing blanks or dots, streams, encodings,
    `\\`.
    """
    if path.isascii() and not _ODD.search(path):
        return (path,)
    bare = "/".join(part.split(":")[0].rstrip(" .") or part for part in path.split("/"))
    folded = unicodedata.normalize("NFKC", path)
    return tuple(dict.fromkeys((path, bare, folded, unquote(path), path.replace("\\", "/"))))


def walked(path: str) -> str:
    """A path with its `.` and `..` components resolved.

    >>> walked("docs/../notes.txt"), walked("/var/log/x")
    ('notes.txt', '/var/log/x')
    """
    if "." not in path:
        return path
    return ("/" if path.startswith("/") else "") + _walk(path, None)


def file_key(path: str) -> str:
    """A key that is equal for two spellings of a file, ignoring case and treating `\\` as a separator.

    >>> file_key("Public\\\\x.txt") == file_key("public/%78.txt") == "public/x.txt"
    True
    """
    folded = unicodedata.normalize("NFKC", path).casefold()
    if "%" not in folded and "\\" not in folded:
        return folded
    return walked(unquote(folded).casefold().replace("\\", "/"))


def note_key(key: str) -> str:
    """A key as the working memory stores it, with lone surrogates replaced.

    >>> note_key("k\\ud800")
    'k?'
    """
    return key if key.isascii() else key.encode(errors="replace").decode()


def with_folders(path: str) -> tuple[str, ...]:
    """The normal path of a file, followed by those of the folders that contain it.

    >>> with_folders("docs/old/a.md")
    ('docs/old/a.md', 'docs/old', 'docs')
    """
    parts = path.split("/")
    return tuple("/".join(parts[:end]) for end in range(len(parts), 0, -1))


def names_within(path: str) -> tuple[str, ...]:
    """The possible names of a host path relative to a workspace whose location is not known.

    >>> names_within("/home/ada/notes/a.txt"), names_within("./a.txt")
    (('home/ada/notes/a.txt', 'ada/notes/a.txt', 'notes/a.txt', 'a.txt'), ('a.txt',))
    """
    parts = walked(path).lstrip("/~").split("/")
    ends = range(len(parts)) if _is_absolute(path) else range(1)
    return tuple("/".join(parts[begin:]) for begin in ends if parts[begin])


def is_pattern(path: str) -> bool:
    """Whether a path is a glob pattern (`*.md`, `{a,b}`) or contains a variable.

    >>> [is_pattern(path) for path in ("a*", "{a,b}.md", "$x", "{a}.md")]
    [True, True, True, False]
    """
    return not _PATTERN.isdisjoint(path) or ("{" in path and "," in path.partition("{")[2])


def _is_absolute(path: str) -> bool:
    return path.startswith(("/", "~")) or _DRIVE_OR_SCHEME.match(path) is not None


def _readings(text: str) -> list[str]:
    """The text and its successive decodings until a fixpoint is reached."""
    if not text.strip() or len(text) > _MAX_PATH:
        raise PathRefused("the path is empty or too long")
    readings = [text]
    if text.isascii() and text.isprintable() and "%" not in text and "\\" not in text:
        return readings
    for _ in range(_MOST_DECODINGS):
        decoded = unicodedata.normalize("NFKC", unquote(readings[-1])).replace("\\", "/")
        if any(unicodedata.category(c) in ("Cc", "Cf", "Cs", "Co") for c in readings[-1] + decoded):
            raise PathRefused("the path contains an invisible character")
        if "\ufffd" in decoded and "\ufffd" not in readings[-1]:
            raise PathRefused("the path is percent-encoded in a way that programs read differently")
        if decoded == readings[-1]:
            return readings
        readings.append(decoded)
    raise PathRefused("the path is percent-encoded too many times")


def _walk(text: str, outside: str | None) -> str:
    """The components that remain once `.` and `..` are resolved."""
    parts: list[str] = []
    for part in text.strip().split("/"):
        if part == "..":
            if parts:
                parts.pop()
            elif outside is not None:
                raise PathRefused(outside)
        elif part not in ("", "."):
            parts.append(part)
    return "/".join(parts)


_SAYS = lazy.pattern(r"[\w.]")
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
    match = compile_pattern(written, any_case=any_case, dot_is_any=True).fullmatch

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


_BRACES = lazy.pattern(r"\{([^{}]*,[^{}]*)\}")
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
