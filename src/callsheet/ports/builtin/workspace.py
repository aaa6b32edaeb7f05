"""Confines file access to a folder, also against `..` and symbolic links.

Paths are never passed to the system as a whole: each component is opened relative to the handle of its
parent folder and without following symbolic links, so a link created concurrently cannot lead outside.
"""

from __future__ import annotations

import errno
import os
import secrets
import stat
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NoReturn

from callsheet.ports.calls import ToolFailed

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_SKIPPED_FOLDERS = frozenset({".git", "__pycache__", "node_modules"})


def split_path(path: str) -> tuple[str, ...]:
    """The components of a path inside the workspace; raises ToolFailed if it is invalid or leads outside.

    >>> split_path("./notes//today.md")
    ('notes', 'today.md')
    """
    if "\0" in path:
        raise ToolFailed("the path contains a NUL character")
    try:
        path.encode()
    except UnicodeEncodeError:
        raise ToolFailed("the path contains half of a character (a lone surrogate)") from None
    if path.startswith("/"):
        raise ToolFailed(f"{path!r} is absolute; paths are relative to the workspace")
    parts = tuple(part for part in path.split("/") if part not in ("", "."))
    if ".." in parts:
        raise ToolFailed(f"{path!r} leads upwards; paths stay inside the workspace")
    return parts


class Workspace:
    """The files below a folder. No handle is held between two operations."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def read(self, path: str, limit: int) -> bytes:
        """The content of a file of at most `limit` bytes; raises ToolFailed if it cannot be read."""
        parts = _file_parts(path)
        with _said_of(path), self._folder(parts[:-1]) as folder:
            return _read_file(parts[-1], folder, path, limit)

    def write(self, path: str, content: bytes) -> None:
        """Create or replace a file atomically, and its folders; an existing file keeps its permissions."""
        parts = _file_parts(path)
        with _said_of(path), self._folder(parts[:-1], create=True) as folder:
            mode = _mode_of_file(parts[-1], folder, path)
            temporary = f".callsheet-{secrets.token_hex(8)}.tmp"
            handle = os.open(temporary, _CREATE, 0o666, dir_fd=folder)
            try:
                with os.fdopen(handle, "wb") as file:
                    if mode is not None:
                        os.fchmod(file.fileno(), mode)
                    file.write(content)
                    file.flush()
                    os.fsync(file.fileno())
                os.rename(temporary, parts[-1], src_dir_fd=folder, dst_dir_fd=folder)
            except BaseException:
                os.unlink(temporary, dir_fd=folder)
                raise

    def files(self, path: str, limit: int) -> Iterator[tuple[str, bytes | None]]:
        """The name and content of every file at or below a path, sorted within each folder.

        The content is None if it cannot be read: a link, a device, larger than `limit` bytes, no permission.
        """
        parts = split_path(path)
        with _said_of(path or "."):
            if parts and self._is_file(parts):
                yield "/".join(parts), self.read(path, limit)
                return
            with self._folder(parts) as top:
                yield from _walk(top, "/".join(parts), limit)

    def _is_file(self, parts: tuple[str, ...]) -> bool:
        with self._folder(parts[:-1]) as folder:
            return stat.S_ISREG(os.stat(parts[-1], dir_fd=folder, follow_symlinks=False).st_mode)

    @contextmanager
    def _folder(self, parts: tuple[str, ...], *, create: bool = False) -> Generator[int]:
        """A descriptor of the folder at these components, opened one by one."""
        handle = os.open(self._root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            for part in parts:
                if create:
                    with suppress(FileExistsError):
                        os.mkdir(part, dir_fd=handle)
                below = os.open(part, _FOLDER, dir_fd=handle)
                os.close(handle)
                handle = below
            yield handle
        finally:
            os.close(handle)


def _file_parts(path: str) -> tuple[str, ...]:
    parts = split_path(path)
    if not parts or path.endswith("/"):
        raise ToolFailed(f"{path!r} does not name a file")
    return parts


def _read_file(name: str, folder: int, path: str, limit: int) -> bytes:
    with os.fdopen(os.open(name, _READ, dir_fd=folder), "rb") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise ToolFailed(f"{path!r} is not a regular file")
        content = file.read(limit + 1)
    if len(content) > limit:
        raise ToolFailed(f"{path!r} is larger than {limit} bytes")
    return content


def _mode_of_file(name: str, folder: int, path: str) -> int | None:
    """The permissions of an existing file, None if there is none; raises ToolFailed if it is not a file."""
    try:
        mode = os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode
    except FileNotFoundError:
        return None
    if stat.S_ISLNK(mode):
        raise ToolFailed(f"{path!r} is a symbolic link, which is not followed")
    if not stat.S_ISREG(mode):
        raise ToolFailed(f"{path!r} is not a regular file")
    return stat.S_IMODE(mode) & 0o777


def _walk(top: int, prefix: str, limit: int) -> Iterator[tuple[str, bytes | None]]:
    for folder, folders, names, handle in os.fwalk(".", dir_fd=top, follow_symlinks=False):
        folders[:] = sorted(f for f in folders if f not in _SKIPPED_FOLDERS)
        inner = split_path(folder)
        for name in sorted(names):
            path = "/".join([part for part in (prefix, *inner) if part] + [name])
            try:
                content = _read_file(name, handle, path, limit)
            except (OSError, ToolFailed):
                content = None
            yield path, content


@contextmanager
def _said_of(path: str) -> Generator[None]:
    """Turn OSError into ToolFailed messages that name the path as the plan wrote it."""
    try:
        yield
    except OSError as error:
        _fail(path, error)


def _fail(path: str, error: OSError) -> NoReturn:
    if error.errno == errno.ELOOP:
        raise ToolFailed(f"{path!r} contains a symbolic link, which is not followed") from None
    if error.errno == errno.ENOENT:
        raise ToolFailed(f"there is no {path!r} in the workspace") from None
    if error.errno == errno.ENOTDIR:
        raise ToolFailed(
            f"a part of {path!r} is not a folder, or is a symbolic link, which is not followed"
        ) from None
    if error.errno in (errno.ENXIO, errno.ENODEV):
        raise ToolFailed(f"{path!r} is not a regular file") from None
    raise ToolFailed(f"{path!r}: {error.strerror or error}") from None
