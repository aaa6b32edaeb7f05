"""Normalises file paths, whatever their spelling, inside a workspace or on the host.

In: the text of a path. Out: its normal form, or PathRefused. Does not touch the file system.
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache
from urllib.parse import unquote

_DRIVE_OR_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
_ODD = re.compile(r"[%:\\ .](?:(?<=[%:\\])|(?=/|\Z))")
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
