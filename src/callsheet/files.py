"""Files of the user: where they are by default, and how they are replaced durably.

After a crash there is the old or the new content of a file that was replaced.
"""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Mapping
from pathlib import Path

_DATA = "XDG_DATA_HOME", "~/.local/share", "~/Library/Application Support"
_FOLDERS = {
    "data": _DATA,
    "config": ("XDG_CONFIG_HOME", "~/.config", _DATA[2]),
    "cache": ("XDG_CACHE_HOME", "~/.cache", "~/Library/Caches"),
}


def user_folder(kind: str) -> Path:
    """The user's folder for callsheet's `data`, `config` or `cache`, where the system keeps such things.

    An absolute path in the variable of the XDG Base Directory Specification takes precedence.
    """
    variable, *usual = _FOLDERS[kind]
    named = os.environ.get(variable, "")
    if not named.startswith("/"):
        named = os.path.expanduser(usual[sys.platform == "darwin"])
    return Path(named) / "callsheet"


def user_file(variable: str, name: str, environ: Mapping[str, str] | None = None) -> Path:
    """The file that an environment variable names, else the one of this name in the configuration folder."""
    named = (os.environ if environ is None else environ).get(variable)
    if named:
        return Path(named).expanduser()
    return user_folder("config") / name


def replace_file(path: Path, data: bytes, mode: int = 0o600) -> None:
    """Write a file atomically and durably, by default readable by its owner only.

    A symbolic link is replaced and not followed. Raises OSError, also if the path is a device or a pipe,
    which would be lost.
    """
    if path.exists() and not path.is_file():
        raise OSError(errno.EINVAL, "it is not a file", str(path))
    temporary = path.with_name(f".{path.name[:200]}.{os.getpid()}.new")
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
    fd = os.open(temporary, flags, mode)
    try:
        with os.fdopen(fd, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)  # otherwise a crash could bring back what was replaced


def sync_file(path: Path) -> None:
    """Sync the content of a file; a symbolic link is not followed. Raises OSError."""
    _sync(path, os.O_RDONLY | os.O_NOFOLLOW)


def sync_folder(path: Path) -> None:
    """Sync the names in a folder. Raises OSError."""
    _sync(path, os.O_RDONLY | os.O_DIRECTORY)


def _sync(path: Path, flags: int) -> None:
    fd = os.open(path, flags | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def seen_from_here(path: Path) -> Path:
    """The path, relative to the working folder if it is below that."""
    try:
        return path.relative_to(Path.cwd())
    except (ValueError, OSError):
        return path
