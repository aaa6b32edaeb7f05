"""The labels of what calls of a run leave behind and come upon: files, facts, notes.

In: a call before it is made, and its outcome. Out: what is noted in the store of labels, before the call
leaves; the outcome with the label that is known of what it has read. Every method raises one of `UNAVAILABLE`
where the store cannot be used.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TypeAlias

from callsheet.ir.labels import LITERAL, Label, join
from callsheet.machine import CallTool, Failed, Succeeded, to_text
from callsheet.policy.composing import edited
from callsheet.policy.judge import Judge
from callsheet.policy.paths import with_folders, workspace_path
from callsheet.policy.rules.opening import opened_by
from callsheet.runtime.gateway import Outcome
from callsheet.runtime.places import ANYWHERE, Here, Kept, is_pattern, kept_by, program_of, read_by
from callsheet.store.database import UNAVAILABLE
from callsheet.store.labels import EVERYWHERE, LabelStore, Writing, notes_of

Writings: TypeAlias = "Sequence[tuple[Kept, Writing]]"


class Leaving:
    """What one run leaves behind in a workspace, the memory and its notes."""

    def __init__(self, judge: Judge, labels: LabelStore, root: str, run_id: str) -> None:
        self._judge = judge
        self._sources = judge.setting.sources
        self._memory = judge.policy.memory
        self._labels = labels
        self._root = root
        self._here = Here(root, self._is_folder)
        self._run_id = run_id
        self._notes = notes_of(run_id)

    def begin(self, command: CallTool) -> Writings:
        """Note what a call is about to leave behind; gives what is to be told once it has ended."""
        traits = self._judge.traits(command.tool)
        kept = kept_by(command.tool, command.args, traits, self._here)
        begun = ((one, self._begin(one, self._left_by(command, one))) for one in kept)
        return [(one, writing) for one, writing in begun if writing is not None]

    def end(self, writings: Writings, outcome: Outcome) -> None:
        """What a call has written is there; a call of which nobody knows keeps its places marked."""
        is_known = isinstance(outcome, Succeeded) or (isinstance(outcome, Failed) and not outcome.unsettled)
        if not is_known:
            return
        with suppress(*UNAVAILABLE):  # the places keep the higher label
            for kept, writing in writings:
                replaced = kept.replaces and isinstance(outcome, Succeeded) and writing.root != ""
                self._labels.end(writing, replaced=replaced)

    def labelled(self, command: CallTool, outcome: Succeeded) -> Succeeded:
        """An outcome with the label that is known of the places which it was read from."""
        read = read_by(command.tool, command.args, outcome.value, self._judge.traits(command.tool))
        if read is None:
            return outcome
        if read.facts is not None:
            return outcome._replace(label=self._remembered("", read.facts))
        if read.note is not None:
            return outcome._replace(label=self._remembered(self._notes, (read.note,)))
        found = [self._known(path, is_folder=read.is_folder) for path in read.paths]
        by_name = [self._sources.file(path, on_host=False) for path in read.files]
        known = [label for label in (*found, *by_name) if label is not None]
        return outcome._replace(label=join(known)) if known else outcome

    def _begin(self, kept: Kept, taken: Label) -> Writing | None:
        store, run = self._labels, self._run_id
        if kept.facts:
            store.add("", kept.facts, taken, run)
            return None
        if kept.path == ANYWHERE:
            store.add(self._root, (EVERYWHERE,), taken, run)
            return None
        if kept.note is not None:
            return store.begin(self._notes, kept.note, taken, run)
        return store.begin(self._root, kept.path, taken, run)

    def _left_by(self, command: CallTool, kept: Kept) -> Label:
        """The label of what a call is about to leave behind; that of an edit counts what it is put into."""
        taken = command.label or LITERAL
        if command.tool == "EDIT_FILE":
            known = self._known(kept.path) or LITERAL
            around = known.join(self._sources.file(workspace_path(command.args["path"]), on_host=False))
            return edited(taken, around, [to_text(value) for value in command.args.values()])
        if kept.path == ANYWHERE:
            return taken
        program = program_of(command.tool, command.args, command.step)
        if program is None:
            by_policy = join(self._sources.file(path, on_host=False) for path in kept.copied)
        else:
            by_policy = opened_by(self._judge.setting, program.tool, program)
        return taken.join(by_policy).join(self._copied(kept.copied))

    def _copied(self, paths: Iterable[str]) -> Label:
        """What runs have left in these files, or in folders of these names; of a pattern, anywhere."""
        known = ["" if is_pattern(path) else path for path in paths]
        return join(self._known(path, is_folder=True) or LITERAL for path in known)

    def _known(self, path: str, *, is_folder: bool = False) -> Label | None:
        """What runs have left in a file, or in all of a folder; None where nothing is known."""
        own = self._labels.of(self._root, (*with_folders(path), EVERYWHERE))
        below = self._labels.below(self._root, path) if is_folder else None
        return below if own is None else own if below is None else own.join(below)

    def _remembered(self, root: str, names: tuple[str, ...]) -> Label:
        """The label of facts and notes: what the policy says of memory where nothing is known of one."""
        labels = [LITERAL]
        for name in names:
            label = self._labels.of(root, (name,))
            labels.append(self._memory if label is None else label)
        return join(labels)

    def _is_folder(self, path: str) -> bool:
        return bool(self._root) and Path(self._root, path).is_dir()
