"""Lists the files that a path in a workspace stands for: those of a folder, those that a glob may match."""

from __future__ import annotations

import os
from collections.abc import Iterator
from fnmatch import fnmatchcase

from callsheet.policy.globs import alternatives
from callsheet.policy.paths import is_pattern, with_folders

MOST = 10_000
"""A folder with more files is not listed to its end."""


class TooMany(Exception):
    """There are more than MOST files."""


def files_of(root: str, path: str) -> Iterator[str]:
    """The files that a normal path below `root` stands for, relative to it; raises TooMany.

    Links to folders are listed as files. A glob is taken as widely as some tool may take it.
    """
    folder, globs = path, list[str]()
    if is_pattern(path):
        parts = path.split("/")
        fixed = next(at for at, part in enumerate(parts) if is_pattern(part) or "{" in part)
        folder, globs = "/".join(parts[:fixed]), [glob.casefold() for glob in alternatives(path)]
    for count, name in enumerate(_below(root, folder)):
        if count >= MOST:
            raise TooMany
        if not globs or any(
            fnmatchcase(one, glob) for glob in globs for one in with_folders(name.casefold())
        ):
            yield name


def _below(root: str, folder: str) -> Iterator[str]:
    for place, folders, files in os.walk(os.path.join(root, folder)):
        links = [name for name in folders if os.path.islink(os.path.join(place, name))]
        for name in (*files, *links):
            yield os.path.relpath(os.path.join(place, name), root)
