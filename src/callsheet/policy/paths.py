"""Where a path leads, whatever its spelling: inside a workspace, or on the host.

In: the text of a path. Out: its one normal form, or PathRefused. No file is looked at.
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache
from urllib.parse import unquote

_DRIVE_OR_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
_ODD = re.compile(r"[%:\\]|[ .](?:/|\Z)")
_PATTERN = frozenset("*?[$")
_MOST_DECODINGS = 6
_MAX_PATH = 4_096


class PathRefused(Exception):
    """The path leads outside, or has a second reading; the text says why."""


@lru_cache(maxsize=4_096)
def workspace_path(text: str) -> str:
    """The normal form of a path inside the workspace; raises PathRefused for any other.

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
    """The normal form of an absolute path on the host; raises PathRefused for any other.

    >>> host_path("/etc/./shadow")
    '/etc/shadow'
    """
    readings = {f"/{_walk(reading, None)}" for reading in _readings(text)}
    if not text.startswith("/") or len(readings) != 1:
        raise PathRefused("a path on the host is absolute and has one reading")
    return readings.pop()


def readings_of(path: str) -> tuple[str, ...]:
    """All that a normal path may be taken for by some system: ends of blanks or dots, streams, `\\`."""
    if path.isascii() and not _ODD.search(path):
        return (path,)
    bare = "/".join(part.split(":")[0].rstrip(" .") or part for part in path.split("/"))
    folded = unicodedata.normalize("NFKC", path)
    return tuple(dict.fromkeys((path, bare, folded, unquote(path), path.replace("\\", "/"))))


def walked(path: str) -> str:
    """A reading of a normal path with its `.` and `..` carried out.

    >>> walked("docs/../notes.txt"), walked("/var/log/x")
    ('notes.txt', '/var/log/x')
    """
    if "." not in path:
        return path
    return ("/" if path.startswith("/") else "") + _walk(path, None)


def file_key(path: str) -> str:
    """What two spellings of one file have in common, also where case does not count or `\\` parts folders.

    >>> file_key("Public\\\\x.txt") == file_key("public/%78.txt") == "public/x.txt"
    True
    """
    folded = unicodedata.normalize("NFKC", path).casefold()
    if "%" not in folded and "\\" not in folded:
        return folded
    return walked(unquote(folded).casefold().replace("\\", "/"))


def note_key(key: str) -> str:
    """A key as the working memory keeps it, which has no halves of characters.

    >>> note_key("k\\ud800")
    'k?'
    """
    return key if key.isascii() else key.encode(errors="replace").decode()


def with_folders(path: str) -> tuple[str, ...]:
    """The path of a file in its normal form, and those of the folders that it is in.

    >>> with_folders("docs/old/a.md")
    ('docs/old/a.md', 'docs/old', 'docs')
    """
    parts = path.split("/")
    return tuple("/".join(parts[:end]) for end in range(len(parts), 0, -1))


def names_within(path: str) -> tuple[str, ...]:
    """The names that a file may have in a workspace of which only the path on the host is not known.

    >>> names_within("/home/ada/notes/a.txt"), names_within("./a.txt")
    (('home/ada/notes/a.txt', 'ada/notes/a.txt', 'notes/a.txt', 'a.txt'), ('a.txt',))
    """
    parts = walked(path).lstrip("/~").split("/")
    ends = range(len(parts)) if _is_absolute(path) else range(1)
    return tuple("/".join(parts[begin:]) for begin in ends if parts[begin])


def is_pattern(path: str) -> bool:
    """Whether a path that a program names stands for others (`*.md`), or for one that is not known."""
    return not _PATTERN.isdisjoint(path)


def _is_absolute(path: str) -> bool:
    return path.startswith(("/", "~")) or _DRIVE_OR_SCHEME.match(path) is not None


def _readings(text: str) -> list[str]:
    """The text, and what is left of it once it has been decoded, until nothing is left to decode."""
    if not text.strip() or len(text) > _MAX_PATH:
        raise PathRefused("the path is empty or too long")
    readings = [text]
    if text.isascii() and text.isprintable() and "%" not in text and "\\" not in text:
        return readings
    for _ in range(_MOST_DECODINGS):
        decoded = unicodedata.normalize("NFKC", unquote(readings[-1])).replace("\\", "/")
        if any(unicodedata.category(c) in ("Cc", "Cf", "Cs", "Co") for c in readings[-1] + decoded):
            raise PathRefused("the path holds a character that cannot be seen")
        if decoded == readings[-1]:
            return readings
        readings.append(decoded)
    raise PathRefused("the path is encoded again and again")


def _walk(text: str, outside: str | None) -> str:
    """The components that are left when `.` and `..` are carried out."""
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
