"""The labels that runs have left on files, facts and notes, as known when verification starts.

In: the stored labels of places, and calls. Out: the label of what a call may read there, in addition to the
one the policy gives the place; that of what a call stores.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

from callsheet.ir.labels import LITERAL, Label, join
from callsheet.passes.verify.places import ALL_FILES, ALL_NOTES, BELOW, CODE, MEMORY
from callsheet.policy.calls import CallView
from callsheet.policy.composing import edited
from callsheet.policy.judge import Judge
from callsheet.policy.paths import PathRefused, file_key, note_key, with_folders, workspace_path
from callsheet.policy.prepared import Prepared
from callsheet.policy.programs import WHOLE, View, fixed_folder
from callsheet.policy.rules.base import Setting, own_texts
from callsheet.policy.rules.files import keeps_files, moved
from callsheet.policy.rules.opened_files import seen_by
from callsheet.policy.tool_facts import path_among

_FILES = CODE | {"READ_FILE", "EDIT_FILE", "SEARCH_FILES"}


@dataclass(frozen=True, slots=True)
class PersistedLabels:
    """The labels of files in a workspace, facts in a memory, and notes of a run.

    `files` are by normalised file key. `anywhere` is the label of data that may be in any file. `facts` is
    the join over all facts that may be found. `notes` are by key.
    """

    files: Mapping[str, Label] = field(default_factory=dict[str, Label])
    anywhere: Label = LITERAL
    facts: Label = LITERAL
    notes: Mapping[str, Label] = field(default_factory=dict[str, Label])
    _of_folders: dict[str, Label] = field(
        default_factory=dict[str, Label], init=False, repr=False, compare=False
    )
    """The joins of the labels of the files in each folder; computed when the first is needed."""

    def read_by(
        self, setting: Setting, prepared: Prepared, calls: Iterable[CallView], places: Iterable[str]
    ) -> Label:
        """The label of what the calls of a step may read; `places` are those that it is known to read."""
        label = self._read(prepared.tool, calls, partial(seen_by, setting, prepared.tool))
        if keeps_files(prepared.tool, prepared.traits):
            label = label.join(self.of_places(places))
        return label

    def _read(self, tool: str, calls: Iterable[CallView], seen: Callable[[CallView], View]) -> Label:
        if tool in ("QUERY_MEMORY", "MEMORY_STATS"):
            return self.facts
        if tool == "GET_WM" and self.notes:
            return join(label for call in calls for label in self._noted(call))
        if tool in _FILES and (self.files or self.anywhere is not LITERAL):
            return join(label for call in calls for label in self._in_files(tool, call, seen))
        return LITERAL

    def of_places(self, places: Iterable[str]) -> Label:
        """The join of the labels of these places, given by name."""
        label = LITERAL
        for place in places:
            kind, _, name = place.partition(":")
            if place == MEMORY:
                label = label.join(self.facts)
            elif place == ALL_FILES:
                label = label.join(self._below(""))
            elif place == ALL_NOTES:
                label = label.join(join(self.notes.values()))
            elif place.startswith(BELOW):
                label = label.join(self._below(name))
            elif kind == "file":
                label = label.join(self._in_file(name))
            label = label.join(self.anywhere) if kind == "file" else label
        return label

    def _in_file(self, path: str) -> Label:
        """The label stored for a file and for the folders that contain it."""
        return join(self.files.get(name, LITERAL) for name in with_folders(path))

    def _below(self, folder: str) -> Label:
        """The join of the labels stored for the files in a folder, "" for the workspace."""
        joins = self._of_folders
        if not joins:
            for name, label in self.files.items():
                for containing in (*with_folders(name)[1:], ""):
                    joins[containing] = label.join(joins.get(containing, LITERAL))
        return joins.get(folder, LITERAL)

    def _noted(self, call: CallView) -> Iterator[Label]:
        key = call.argument("key")
        text = None if key is None else key.text
        yield from self.notes.values() if text is None else (self.notes.get(note_key(text), LITERAL),)

    def _in_files(self, tool: str, call: CallView, seen: Callable[[CallView], View]) -> Iterator[Label]:
        if tool in CODE:
            view = WHOLE if tool == "HOST_EXEC" else seen(call)
            for place in ("",) if view.paths is None else view.paths:
                yield self.anywhere
                key = file_key(fixed_folder(place))
                yield self._below(key)
                yield self._in_file(key)
            return
        yield self.anywhere
        path = _path(call, is_folder=tool == "SEARCH_FILES")
        if path is None or tool == "SEARCH_FILES":
            yield self._below(path or "")
            yield self._in_file(path or "")
        else:
            yield self._in_file(path)


NOTHING_LEFT = PersistedLabels()


class Storing(NamedTuple):
    """A call that writes to a place: the labels of its arguments with that of the planner, of what it reads
    in places, of what its tool adds from outside, of what decides whether it is made, and of its result.
    """

    data: Label
    read: Label
    source: Label
    pc: Label
    result: Label

    def stored(
        self,
        judge: Judge,
        prepared: Prepared,
        calls: Callable[[], Sequence[CallView]],
        left: Label,
        *,
        stands_apart: bool = False,
    ) -> Label:
        """The label of what it writes; the calls that it may be are made only where their texts decide.

        `left` is what runs have left where it reads; `stands_apart`: no text that it writes adjoins data.
        """
        if prepared.tool == "AGENT_SOLVE":
            return self.result
        data = self.data
        if prepared.tool in CODE:  # code may copy anything that it reads
            data = data.join(self.source).join(self.read)
        elif keeps_files(prepared.tool, prepared.traits):
            data = data.join(self.read).join(left)
            data = data.join(join(moved(judge.setting, call) for call in calls()))
        label = data.join(self.pc)
        if prepared.tool == "EDIT_FILE":
            opened = (judge.source(call._replace(tool="READ_FILE")) for call in calls())
            own = [text for call in calls() for argument in call.arguments for text in own_texts(argument)]
            label = edited(label, self.read.join(join(opened)), own)
        if label.is_public or stands_apart:
            return label
        return judge.unshown(label) if any(map(judge.links_data, calls())) else label


def _path(call: CallView, *, is_folder: bool) -> str | None:
    """The path that a call names; None if it is not statically known."""
    argument = call.argument(path_among(each.name for each in call.arguments))
    if argument is None:
        return "" if is_folder else None
    if argument.text is None:
        return None
    try:
        return file_key(workspace_path(argument.text)) if argument.text or not is_folder else ""
    except PathRefused:
        return None
