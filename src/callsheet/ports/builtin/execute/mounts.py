"""Chooses the files of the workspace that a program sees: those that it declares, or what the settings show.

In: what a call declares, what the policy of its run grants, the settings. Out: the `Mounts` of its sandbox.
No link is followed, so nothing outside the workspace can be among them.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, cast

from callsheet.policy.paths import PathRefused, alternatives, is_pattern, matches
from callsheet.policy.programs import READS
from callsheet.policy.programs.view import fixed_folder, normal_paths, undeclared_view
from callsheet.ports.builtin.settings import BuiltinSettings
from callsheet.ports.calls import FileGrant, ToolFailed

_MOST_FILES = 1_000
"""A glob that matches more files, or a folder with more hidden ones, is refused."""
_MOST_SEARCHED = 200_000


class Mounts(NamedTuple):
    """What a program sees of the workspace.

    `shown` are files and folders relative to it; None stands for all of it, in a place of its own. `hidden`
    are the files among them that are covered.
    """

    shown: tuple[str, ...] | None = ()
    hidden: tuple[str, ...] = ()


def mounts_of(
    settings: BuiltinSettings, language: str, code: str, reads: Any, grant: FileGrant | None
) -> Mounts:
    """What a program sees; `reads` is what its call declares, None if it declares nothing.

    Raises ToolFailed for a declaration that is no list of paths inside the workspace, or that names a file
    that is not there.
    """
    declared = None if reads is None else _declared(reads)
    if declared is None and grant is not None:
        declared = grant.paths
    if declared is None:
        declared = undeclared_view(code, language).paths
    hides = None if grant is None else grant.hides
    root = str(settings.workspace.resolve())
    if declared is None:
        if settings.execution.workspace == "hidden":
            return Mounts()
        return Mounts(None, tuple(_hidden(root, [""], hides)))
    shown = sorted({name for path in declared for name in _expanded(root, path)})
    return Mounts(tuple(shown), tuple(_hidden(root, shown, hides)))


def _declared(reads: Any) -> tuple[str, ...]:
    entries = cast("list[Any]", reads) if isinstance(reads, list) else [reads]
    if not isinstance(reads, list) or not all(isinstance(entry, str) for entry in entries):
        raise ToolFailed(f'the argument {READS} must be a list of paths, such as ["data/in.csv", "src"]')
    try:
        return normal_paths(tuple(map(str, entries)))
    except PathRefused as error:
        raise ToolFailed(f"{READS} can name files of the workspace only: {error}") from None


def _expanded(root: str, path: str) -> Iterator[str]:
    """The files and folders that a declared path stands for."""
    if not path:
        yield from (name for name in os.listdir(root) if not os.path.islink(os.path.join(root, name)))
    elif is_pattern(path):
        yield from _matching(root, path)
    else:
        _check(root, path)
        yield path


def _check(root: str, path: str) -> None:
    """Raise ToolFailed unless there is a file or folder at a path that leads over no link."""
    place, mode = root, 0
    for part in path.split("/"):
        place = os.path.join(place, part)
        try:
            mode = os.lstat(place).st_mode
        except (OSError, ValueError):
            raise ToolFailed(f"{READS} names {path}, which is not in the workspace") from None
        if stat.S_ISLNK(mode):
            raise ToolFailed(f"{READS} names {path}, which leads over a symbolic link")
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
        raise ToolFailed(f"{READS} names {path}, which is neither a file nor a folder")


def _matching(root: str, glob: str) -> Iterator[str]:
    globs = alternatives(glob)
    found = (name for name in _below(root, fixed_folder(glob)) if any(matches(one, name) for one in globs))
    for count, name in enumerate(found):
        if count >= _MOST_FILES:
            raise ToolFailed(f"{READS} names {glob}, which is more than {_MOST_FILES:,} files: name a folder")
        yield name


def _hidden(root: str, shown: Sequence[str], hides: Callable[[str], bool] | None) -> Iterator[str]:
    if hides is None:
        return
    files = (name for path in shown for name in _below(root, path))
    for count, name in enumerate(name for name in files if hides(name)):
        if count >= _MOST_FILES:
            raise ToolFailed(
                f"the policy hides more than {_MOST_FILES:,} of the files that the program would see:"
                f" name fewer in {READS}"
            )
        yield name


def _below(root: str, path: str) -> Iterator[str]:
    """The files at or below a path, relative to the root; links are left out."""
    place = os.path.join(root, path)
    if os.path.isfile(place):
        yield path
        return
    count = 0
    for folder, _, names in os.walk(place):
        for name in names:
            count += 1
            if count > _MOST_SEARCHED:
                raise ToolFailed(f"there are more than {_MOST_SEARCHED:,} files in {path or 'the workspace'}")
            full = os.path.join(folder, name)
            if not os.path.islink(full):
                yield os.path.relpath(full, root)
