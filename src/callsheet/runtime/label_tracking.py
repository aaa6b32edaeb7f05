"""Tracks the labels of files, facts and notes that a run's calls write and read.

In: a call before it is made, and its outcome. Out: labels noted in the store before the call leaves; the
outcome with the label of what it has read. `begin` and `labelled` raise one of `UNAVAILABLE` if the store
cannot be used.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from os.path import expanduser, isdir, realpath
from os.path import join as join_path
from typing import Any, TypeAlias

from callsheet.ir.labels import LITERAL, UNKNOWN, Label, join
from callsheet.machine import CallTool, Failed, Succeeded, to_text
from callsheet.policy.builtins import fold
from callsheet.policy.calls import Argument
from callsheet.policy.composing import edited
from callsheet.policy.judge import Judge
from callsheet.policy.paths import file_key, is_pattern, workspace_path
from callsheet.policy.rules.attachments import attached, not_theirs, path_of, sends_files
from callsheet.policy.rules.receivers import receivers
from callsheet.policy.tool_facts import path_among
from callsheet.runtime.gateway import Outcome
from callsheet.runtime.places import (
    ANYWHERE,
    RunWorkspace,
    TooMany,
    WrittenPlace,
    files_of,
    kept_by,
    read_by,
    view_of,
)
from callsheet.store.database import UNAVAILABLE
from callsheet.store.labels import EVERYWHERE, LabelStore, Writing, notes_of

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
