"""The files, facts and notes that calls read and write: found from arguments and results, and their labels.

Pure. Paths are normalised as the policy's rules do; those that they refuse denote no file. For an operator's
tools the argument names decide, as in verification.

In: a call before it is made, and its outcome. Out: labels noted in the store before the call leaves; the
outcome with the label of what it has read. `begin` and `labelled` raise one of `UNAVAILABLE` if the store
cannot be used.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from fnmatch import fnmatchcase
from os.path import expanduser, isdir, realpath
from os.path import join as join_path
from pathlib import PurePosixPath
from typing import Any, NamedTuple, TypeAlias, cast
from urllib.parse import unquote

from callsheet.ir import JSON
from callsheet.ir.labels import LITERAL, UNKNOWN, Label, join
from callsheet.machine import CallTool, Failed, Succeeded, to_text
from callsheet.machine.monitor.reads import argument_of
from callsheet.policy.builtins import Traits, fold
from callsheet.policy.calls import Argument, CallView
from callsheet.policy.composing import edited
from callsheet.policy.judge import Judge
from callsheet.policy.paths import (
    PathRefused,
    alternatives,
    file_key,
    is_pattern,
    note_key,
    with_folders,
    workspace_path,
)
from callsheet.policy.programs import (
    WHOLE,
    View,
    fixed_folder,
    is_file_name,
    only_looks,
    program_view,
    words_of,
)
from callsheet.policy.rules.attachments import attached, not_theirs, path_of, sends_files
from callsheet.policy.rules.files import FILE_NAMES, FileAccess, filing_of, keeps_files
from callsheet.policy.rules.receivers import receivers
from callsheet.policy.tool_facts import path_among
from callsheet.runtime.gateway import Outcome
from callsheet.store.database import UNAVAILABLE
from callsheet.store.labels import EVERYWHERE, LabelStore, Writing, fact_name, notes_of

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


Writings: TypeAlias = "Sequence[tuple[WrittenPlace, Writing]]"


def real_path(path: str) -> str:
    """The target of a host path after resolving links and `~`."""
    return realpath(expanduser(path)) if "\x00" not in path else path


class LabelTracker:
    """The labels of what one run writes to a workspace, the memory and its notes."""

    def __init__(self, judge: Judge, labels: LabelStore, root: str, run_id: str) -> None:
        self._judge = judge
        self._sources = judge.setting.sources
        self._memory = judge.policy.memory
        self._labels = labels
        self._root = root
        self._workspace = RunWorkspace(root, self._is_folder, real_path)
        self._run_id = run_id
        self._notes = notes_of(run_id)

    def begin(self, command: CallTool) -> Writings:
        """Note what a call is about to write; returns what to pass to `end`."""
        traits = self._judge.traits(command.tool)
        places = kept_by(command.tool, command.args, traits, self._workspace)
        copied = self._copied_by(places) if places else LITERAL
        begun = ((one, self._begin(one, self._left_by(command, one, copied))) for one in places)
        return [(one, writing) for one, writing in begun if writing is not None]

    def end(self, writings: Writings, outcome: Outcome) -> None:
        """Complete the writes of a call; if its outcome is unknown, its places keep the raised label."""
        is_known = isinstance(outcome, Succeeded) or (isinstance(outcome, Failed) and not outcome.unsettled)
        if not is_known:
            return
        with suppress(*UNAVAILABLE):  # the places keep the higher label
            for place, writing in writings:
                replaced = place.replaces and isinstance(outcome, Succeeded) and writing.root != ""
                self._labels.end(writing, replaced=replaced)

    def labelled(self, command: CallTool, outcome: Succeeded) -> Succeeded:
        """An outcome with the label known for the places that it was read from."""
        traits = self._judge.traits(command.tool)
        read = read_by(command.tool, command.args, outcome.value, traits, self._workspace)
        if read is None:
            return outcome
        if read.facts is not None:
            return outcome._replace(label=self._remembered("", read.facts))
        if read.note is not None:
            return outcome._replace(label=self._remembered(self._notes, (read.note,)))
        label = self._label_of_files(read.paths, are_folders=read.is_folder)
        by_name = [self._sources.file(path, on_host=False) for path in read.files]
        known = by_name if label is None else [label, *by_name]
        return outcome._replace(label=join(known)) if known else outcome

    def _begin(self, place: WrittenPlace, taken: Label) -> Writing | None:
        store, run = self._labels, self._run_id
        if place.facts:
            store.add("", place.facts, taken, run)
            return None
        if place.path == ANYWHERE:
            store.add(self._root, (EVERYWHERE,), taken, run)
            return None
        if place.note is not None:
            return store.begin(self._notes, place.note, taken, run)
        return store.begin(self._root, place.path, taken, run, place.spelling)

    def _left_by(self, command: CallTool, place: WrittenPlace, copied: Label) -> Label:
        """The label of what a call is about to write; for an edit, the file's own label counts too."""
        taken = command.label or LITERAL
        if command.tool == "EDIT_FILE":
            known = self._label_of_files((place.path,)) or LITERAL
            path = command.args[path_among(command.args)]
            around = known.join(self._sources.file(workspace_path(path), on_host=False))
            return edited(taken, around, [to_text(value) for value in command.args.values()])
        return taken if place.path == ANYWHERE else taken.join(copied)

    def _copied_by(self, written: Sequence[WrittenPlace]) -> Label:
        """The join of the labels of all files that a call copies."""
        paths = next((one.copied for one in written if one.copied), ())
        by_policy = join(self._sources.whole(path) for path in paths)
        if not paths:
            return by_policy
        places = ["" if is_pattern(path) else path for path in paths]  # a pattern stands for any file
        return by_policy.join(self._label_of_files(places, are_folders=True) or LITERAL)

    def _label_of_files(self, paths: Sequence[str], *, are_folders: bool = False) -> Label | None:
        """The join of the labels noted for files, or for everything below folders; None without any."""
        below = [self._labels.below(self._root, path) for path in paths] if are_folders else []
        labels = (self._labels.of_files(self._root, paths), *below)
        known = [label for label in labels if label is not None]
        return join(known) if known else None

    def _remembered(self, root: str, names: tuple[str, ...]) -> Label:
        """The label of facts and notes; the policy's label for memory if nothing is noted about one."""
        labels = [LITERAL]
        for name in names:
            label = self._labels.of(root, (name,))
            labels.append(self._memory if label is None else label)
        return join(labels)

    def _is_folder(self, path: str) -> bool:
        return bool(self._root) and isdir(join_path(self._root, path))


def withheld(judge: Judge, labels: LabelStore, root: str, tool: str, args: Mapping[str, Any]) -> str | None:
    """Why a call is refused: it would send a file whose label does not permit its receivers; else None."""
    name, traits = fold(tool), judge.traits(tool)
    if traits is None or not sends_files(name, traits):
        return None
    call, workspace = view_of(tool, args), RunWorkspace(root, real=real_path)
    known = [
        (file, label)
        for file in attached(call)
        for label in _labels(judge, labels, workspace, file.path)
        if label is not None
    ]
    objection = not_theirs(known, receivers(judge.setting, traits, call)) if known else None
    if objection is None:
        return None
    file, _, who = objection
    path = path_of(file.path)
    if path is None or labels.of_files(root, (file_key(path),)) is None:
        return f"{file.path.text} is, or links to, a private file that would reach {who}"
    return f"a run has put private data into {path}, which would reach {who}"


def _labels(
    judge: Judge, labels: LabelStore, workspace: RunWorkspace, path: Argument
) -> Iterator[Label | None]:
    """The stored label of a file or of a folder's files, and the policy's label for an absolute path or the
    target of a link. A pattern may denote any file.

    Where the workspace is and where links lead is only known at run time.
    """
    if not path.text:
        return
    sources, own = judge.setting.sources, path_of(path)
    for spelled in workspace.inside([path.text]):
        name = workspace_path(spelled)
        yield labels.of_files(workspace.root, (file_key(name),))
        yield labels.below(workspace.root, "" if is_pattern(name) else file_key(name))
        if name != own:
            yield sources.file(name)
        yield _of_files(judge, workspace, name)
    outside = own and workspace.outside(own)
    if outside:
        yield sources.file(outside, on_host=True)


def _of_files(judge: Judge, workspace: RunWorkspace, path: str) -> Label | None:
    """The policy's label for the files in a folder, or for those that a glob matches; None for a file."""
    if not workspace.root:
        return None
    sources = judge.setting.sources
    try:
        names = list(files_of(workspace.root, path))
    except TooMany:
        return UNKNOWN
    return join(sources.file(name) for found in names for name in workspace.inside([found]))
