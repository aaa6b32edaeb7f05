"""Exports and imports the labels of what runs left behind, and deletes those of places that are gone.

In: a journal, the ids of runs. Out: lines of an export, imported labels, places that are gone. An imported
label can only raise the label of its place.
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from callsheet.ir.labels import read_label
from callsheet.policy.paths import file_key
from callsheet.store.database import UNAVAILABLE
from callsheet.store.errors import JournalError
from callsheet.store.journal_paths import is_absent
from callsheet.store.labels import EVERYWHERE, NOTES, LabelStore, Noted, notes_of
from callsheet.store.shared.opening import VARIABLE, shared_address

KIND = "labels"
"""The kind of the line in an export."""
_MOST_FILES = 200_000
"""Workspaces with more files are not searched; all of their labels are kept."""


def lines_of_labels(journal: Path, run_id: str) -> Iterator[bytes]:
    """The line of an export with the labels that a run left; none if it left none."""
    if not has_labels(journal):
        return
    with open_labels(journal) as store:
        rows = [[root, name, str(label)] for root, name, label in store.entries(run_id)]
    if rows:
        yield json.dumps({"callsheet": KIND, "run": run_id, KIND: rows}).encode() + b"\n"


def read_labels(row: Mapping[str, Any]) -> tuple[str, list[Noted]]:
    """The run and the labels in such a line; raises KeyError, TypeError or ValueError if it is malformed."""
    rows = [Noted(str(root), str(name), read_label(label)) for root, name, label in row[KIND]]
    return str(row["run"]), rows


def take_labels(journal: Path, noted_by_run: Iterable[tuple[str, list[Noted]]]) -> None:
    """Join imported labels into the stored ones."""
    noted = list(noted_by_run)
    if not noted:
        return
    with open_labels(journal) as store:
        for run_id, rows in noted:
            for root, name, label in rows:
                store.end(store.begin(root, name, label, run_id), replaced=False)


def has_labels(journal: Path) -> bool:
    """Whether a journal has a label store: a shared one is configured, or there is a file beside it."""
    return shared_address() is not None or not is_absent(LabelStore.path_beside(journal))


def noted_before(journal: Path) -> tuple[Noted, ...]:
    """The labels of files and facts, for a run that is not recorded in the journal; no file is created.

    Raises JournalError (JRN010) if they cannot be read.
    """
    if not has_labels(journal):
        return ()
    try:
        with open_labels(journal) as store:
            return tuple(noted for noted in store.entries() if not noted.root.startswith(NOTES))
    except UNAVAILABLE as error:
        raise JournalError(
            "JRN010", f"the labels of files beside {journal} cannot be read: {error}"
        ) from error


def open_labels(journal: Path) -> LabelStore:
    """The label store of a journal: the shared one if configured, else the one beside the journal.

    Raises JournalError (JRN010) if it cannot be used, CallsheetError (CFG230, CFG231) for a bad address.
    """
    address = shared_address()
    if address is not None:
        return _shared_labels(address)
    try:
        return LabelStore.beside(journal)
    except sqlite3.Error as error:
        raise JournalError(
            "JRN010",
            f"the labels of files and facts beside {journal} cannot be used: {error}",
            hint="free space, or move that file (`…-labels`) away, which loses its labels",
        ) from error


def _shared_labels(address: str) -> LabelStore:
    from callsheet.store.shared.opening import open_database  # noqa: PLC0415 - only where there is one

    try:
        return LabelStore(open_database(address))
    except OSError as error:
        raise JournalError(
            "JRN010",
            f"the labels of files and facts cannot be used: {error.strerror}",
            hint=(
                f"check that it runs and accepts your login; without ${VARIABLE} labels are kept on this "
                "machine"
            ),
        ) from error


def forget_stale(journal: Path, runs: Iterable[str], *, dry_run: bool = False) -> list[Noted]:
    """Delete the labels of files that are gone, and of notes of runs that are not in `runs`; returns them.

    Labels of facts are kept, and those of folders that are missing, cannot be read or have too many files.
    Nothing is deleted from a shared store, as other machines have other files and journals.
    """
    if shared_address() is not None or is_absent(LabelStore.path_beside(journal)):
        return []
    roots = {notes_of(run_id) for run_id in runs}
    with open_labels(journal) as store:
        stale = list(_stale(store.entries(), roots))
        if not dry_run:
            stale = [noted for noted in stale if store.forget(noted.root, noted.name)]
    return stale


def forget_notes(journal: Path, run_id: str) -> None:
    """Delete the labels of the notes of a run; those in a shared store are kept."""
    if shared_address() is None and not is_absent(LabelStore.path_beside(journal)):
        with open_labels(journal) as store:
            store.forget_notes(run_id)


def _stale(noted: Iterable[Noted], roots: set[str]) -> Iterator[Noted]:
    files: dict[str, frozenset[str] | None] = {}
    for place in noted:
        if place.root.startswith(NOTES):
            if place.root not in roots:
                yield place
        elif place.root and place.name != EVERYWHERE:
            if place.root not in files:
                files[place.root] = _files_in(Path(place.root))
            known_files = files[place.root]
            if known_files is not None and place.name not in known_files:
                yield place


def _files_in(root: Path) -> frozenset[str] | None:
    """The label names of all files in a folder; None if it cannot be read or has too many files."""
    if not os.path.isdir(root):
        return None
    files: set[str] = set()
    unread: list[OSError] = []
    for folder, _, names in os.walk(root, onerror=unread.append):
        below = Path(folder).relative_to(root)
        files.update(file_key((below / name).as_posix()) for name in names)
        if len(files) > _MOST_FILES:
            return None
    return None if unread else frozenset(files)
