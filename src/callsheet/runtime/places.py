"""Determines which files, facts and notes a call reads or writes, from its arguments and result.

Pure. Paths are normalised as the policy's rules do; those that they refuse denote no file. For an operator's
tools the argument names decide, as in verification.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from fnmatch import fnmatchcase
from pathlib import PurePosixPath
from typing import Any, NamedTuple, cast
from urllib.parse import unquote

from callsheet.ir import JSON
from callsheet.ir.labels import LITERAL
from callsheet.machine import to_text
from callsheet.machine.monitor.reads import argument_of
from callsheet.policy.builtins import Traits, fold
from callsheet.policy.calls import Argument, CallView
from callsheet.policy.paths import (
    PathRefused,
    alternatives,
    file_key,
    is_pattern,
    note_key,
    with_folders,
    workspace_path,
)
from callsheet.policy.programs import View, is_file_name, only_looks, program_view, words_of
from callsheet.policy.programs.view import WHOLE, fixed_folder
from callsheet.policy.rules.files import FILE_NAMES, FileAccess, filing_of, keeps_files
from callsheet.policy.tool_facts import path_among
from callsheet.store.labels import fact_name

ANYWHERE = "*"
"""Stands for any file of the workspace."""
_SANDBOXED = frozenset({"EXEC_CODE", "SHELL_EXEC"})


class WrittenPlace(NamedTuple):
    """What a call writes: names of facts, a note, or a path.

    `replaces` means that nothing of the old content is left, `copied` are the paths of files whose content
    may be in it, `spelling` is the path as the call has it.
    """

    path: str = ""
    facts: tuple[str, ...] = ()
    note: str | None = None
    replaces: bool = False
    copied: tuple[str, ...] = ()
    spelling: str = ""


class RunWorkspace(NamedTuple):
    """The workspace of a run: its folder, a test for folders in it, and a resolver of links in host paths."""

    root: str = ""
    is_folder: Callable[[str], bool] = lambda _path: False
    real: Callable[[str], str] = lambda path: path

    def keys(self, paths: Iterable[str]) -> tuple[str, ...]:
        """The file keys of those paths that lead into the workspace."""
        return tuple(dict.fromkeys(map(_path, self.inside(paths))))

    def inside(self, paths: Iterable[str]) -> tuple[str, ...]:
        """The workspace-relative form of those paths that lead into the workspace.

        >>> RunWorkspace("/w").inside(["a.md", "/w/./b.md", "file:///w/c%20d.md", "/v/e.md", "https://c.example/f"])
        ('a.md', 'b.md', 'c d.md')
        """
        return tuple(dict.fromkeys(found for path in paths for found in self._inside(path) if found))

    def folders(self, paths: Iterable[str]) -> tuple[str, ...]:
        """The same of folders, among which the workspace itself is ""."""
        named = [path for path in paths if not self._is_root(path)]
        return (*self.inside(named), *(("",) if len(named) < len(list(paths)) else ()))

    def _is_root(self, path: str) -> bool:
        """Whether a path leads to the workspace itself, or to a folder above it."""
        if not self.root:
            return not _spelled(path) and not path.startswith(("/", "~"))
        path = unquote(path.removeprefix("file://").removeprefix("localhost"))
        place = self.real(path if path.startswith(("/", "~")) else f"{self.root}/{path}")
        return PurePosixPath(self.real(self.root)).is_relative_to(place)

    def _inside(self, path: str) -> Iterable[str]:
        if path.startswith("file://"):
            path = unquote(path.removeprefix("file://").removeprefix("localhost"))
        if not self.root:
            return (_spelled(path),)
        if not path.startswith(("/", "~")):
            return (spelled := _spelled(path), spelled and self._below(self.real(f"{self.root}/{path}")))
        return (self._below(path), self._below(self.real(path)))

    def outside(self, path: str) -> str:
        """The host path that a workspace path resolves to, "" if it stays inside the workspace."""
        real = self.real(f"{self.root}/{path}") if self.root else ""
        return "" if not real or self._below(real) or real == self.root else real

    def _below(self, path: str) -> str:
        try:
            return _spelled(str(PurePosixPath(f"/{path.lstrip('/')}").relative_to(self.root)))
        except ValueError:
            return ""


NOWHERE = RunWorkspace()


class ReadPlace(NamedTuple):
    """What a call has read: names of facts, a note, or paths of files, or of folders if `is_folder`.

    `files` are those in the folder that its result names.
    """

    paths: tuple[str, ...] = ()
    facts: tuple[str, ...] | None = None
    note: str | None = None
    is_folder: bool = False
    files: tuple[str, ...] = ()


def view_of(tool: str, args: Mapping[str, Any], step: str = "") -> CallView:
    """A call with its actual arguments for the rules, without labels; lists of any length are expanded."""
    return CallView(step, fold(tool), tuple([_argument(name, value) for name, value in args.items()]))


def _argument(name: str, value: JSON) -> Argument:
    if not isinstance(value, list) or not value:
        return argument_of(name, value, LITERAL)
    items = [argument_of(name, item, LITERAL) for item in value]
    return Argument(name, (), LITERAL, tuple(items))


def seen_by_program(tool: str, args: Mapping[str, Any], traits: Traits | None = None) -> View | None:
    """What the program of a call sees of the workspace; None if the call runs none.

    A command of the host sees everything, unless it only displays the state of the machine.
    """
    if tool in _SANDBOXED:
        return program_view(tool, view_of(tool, args), None if traits is None else traits.reads)
    return WHOLE if tool == "HOST_EXEC" and not only_looks(to_text(args.get("command"))) else None


def kept_by(
    tool: str, args: Mapping[str, Any], traits: Traits | None = None, workspace: RunWorkspace = NOWHERE
) -> tuple[WrittenPlace, ...]:
    """What a call of a tool with these traits is about to write.

    A program that declares nothing may write its input anywhere, and the files that it names to each other.

    >>> kept_by("WRITE_FILE", {"path": "./a//b.txt", "content": "x"})
    (WrittenPlace(path='a/b.txt', facts=(), note=None, replaces=True, copied=(), spelling='a/b.txt'),)
    >>> here = RunWorkspace("", {"b"}.__contains__)
    >>> (kept,) = kept_by("MOVE", {"path": "A", "new_path": "b"}, Traits(), here)
    >>> kept.path, kept.copied, kept.spelling
    ('b/a', ('a',), 'b/A')
    >>> command, here = {"command": "cp a.txt /w/b.txt"}, RunWorkspace("/w")
    >>> [kept.path for kept in kept_by("HOST_EXEC", command, None, here)]
    ['*', 'a.txt', 'b.txt']
    """
    if tool == "STORE_FACT":
        return (WrittenPlace(facts=_names(args.get("content"))),)
    if tool == "SET_WM":
        return (WrittenPlace(note=note_key(to_text(args.get("key"))), replaces=True),)
    if tool in ("WRITE_FILE", "EDIT_FILE"):
        given = args.get(path_among(args))
        path, spelling = _path(given), _spelled(given)
        return (WrittenPlace(path, replaces=tool == "WRITE_FILE", spelling=spelling),) if path else ()
    view = seen_by_program(tool, args, traits)
    if view is not None:
        if not view.is_whole:
            return ()
        words = words_of(to_text(args.get("command" if tool == "HOST_EXEC" else "code")))
        named = workspace.inside(
            word for word in words if "/" in word or is_file_name(word) or workspace.is_folder(word)
        )
        return (WrittenPlace(ANYWHERE), *_copies(named, named, workspace.is_folder))
    filing = _filing(tool, args, traits)
    if filing is None:
        return ()
    copied = workspace.inside(_texts(filing.reads))
    if filing.unpacks:
        keys = tuple(dict.fromkeys(map(_path, copied)))
        folders = workspace.folders(_texts(filing.writes))
        return tuple(WrittenPlace(_path(folder), copied=keys, spelling=folder) for folder in folders)
    return _copies(copied, workspace.inside(_texts(filing.writes)), workspace.is_folder)


def read_by(
    tool: str,
    args: Mapping[str, Any],
    value: JSON,
    traits: Traits | None = None,
    workspace: RunWorkspace = NOWHERE,
) -> ReadPlace | None:
    """What a call with this result has read; None if that cannot be known.

    >>> read_by("HOST_FILE_READ", {"path": "/w/a.txt"}, "", None, RunWorkspace("/w"))
    ReadPlace(paths=('a.txt',), facts=None, note=None, is_folder=True, files=())
    """
    if tool == "QUERY_MEMORY":
        return ReadPlace(facts=_names(value))
    if tool == "GET_WM":
        return ReadPlace(note=note_key(to_text(args.get("key"))))
    if tool == "SEARCH_FILES":
        return ReadPlace(
            (_path(args.get(path_among(args)) or ""),), is_folder=True, files=_files_in_rows(value)
        )
    if tool in ("READ_FILE", "EDIT_FILE"):
        return ReadPlace((_path(args.get(path_among(args))),))
    view = seen_by_program(tool, args, traits)
    if view is not None:
        paths = ("",) if view.paths is None else tuple(map(file_key, map(fixed_folder, view.paths)))
        return ReadPlace(tuple(dict.fromkeys(paths)), is_folder=True) if paths else None
    if tool == "HOST_FILE_READ":
        path = to_text(args.get(path_among(args)))
        seen = ("",) if is_pattern(path) else workspace.keys((path,))
        return ReadPlace(seen, is_folder=True) if seen else None
    filing = _filing(tool, args, traits)
    read = () if filing is None else workspace.keys(_texts(filing.reads))
    return ReadPlace(read) if read else None


def _filing(tool: str, args: Mapping[str, Any], traits: Traits | None) -> FileAccess | None:
    """What a call of an operator's tool does with files; None if it names none."""
    if FILE_NAMES.isdisjoint([name.casefold() for name in args]) or not keeps_files(fold(tool), traits):
        return None
    return filing_of(view_of(tool, args))


def _copies(
    copied: Iterable[str], targets: Iterable[str], is_folder: Callable[[str], bool]
) -> tuple[WrittenPlace, ...]:
    """The files that a call writes, with the files that may have been copied into them."""
    keys = tuple(dict.fromkeys(map(_path, copied)))
    named = dict.fromkeys(_targets(copied, targets, is_folder))
    return tuple(WrittenPlace(_path(path), copied=keys, spelling=path) for path in named)


def _targets(
    copied: Iterable[str], targets: Iterable[str], is_folder: Callable[[str], bool]
) -> Iterable[str]:
    """The paths of files after they are moved: in a folder, they keep their names as far as known."""
    for target in targets:
        if is_folder(target):
            names = (PurePosixPath(source).name for source in copied)
            yield from dict.fromkeys(target if is_pattern(name) else f"{target}/{name}" for name in names)
        else:
            yield target


def _texts(paths: Iterable[Argument]) -> list[str]:
    """The known paths in arguments."""
    return [path.text for path in paths if path.text]


def _files_in_rows(rows: Any) -> tuple[str, ...]:
    """The files named in the rows of a search result."""
    if not isinstance(rows, list):
        return ()
    items = cast("list[Any]", rows)
    named = [cast("dict[str, Any]", row).get("path") for row in items if isinstance(row, dict)]
    return tuple(dict.fromkeys(name for name in named if isinstance(name, str) and name))


def _names(facts: Any) -> tuple[str, ...]:
    """The names under which the lines of facts are stored."""
    lines = to_text(facts).splitlines()
    return tuple(dict.fromkeys(fact_name(line) for line in lines if line.strip()))


def _path(given: Any) -> str:
    try:
        return file_key(workspace_path(given)) if isinstance(given, str) else ""
    except PathRefused:
        return ""


def _spelled(given: Any) -> str:
    """A file path as the file tools take it; surrounding blanks are part of the name."""
    return str(PurePosixPath(given)) if _path(given) else ""


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
