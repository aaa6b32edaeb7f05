"""Labels of files and facts outlast runs, and no possible write makes a file look harmless."""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from callsheet.ir.labels import Label, read_label
from callsheet.store.labels import LabelStore

PUBLIC, PRIVATE, SECRET = read_label("U/pub"), read_label("U/priv"), read_label("T/secret")


def test_labels_persist_for_next_process(tmp_path: Path) -> None:
    journal = tmp_path / "journal.db"
    with LabelStore.beside(journal) as store:
        store.add("/srv", ["a.txt"], SECRET)
    with LabelStore.beside(journal) as store:
        assert store.of("/srv", ["a.txt"]) == SECRET
        assert store.of("/elsewhere", ["a.txt"]) is None
        assert store.of("/srv", ["b.txt"]) is None


def test_label_is_synced_before_write_leaves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[sqlite3.Connection] = []
    connect = sqlite3.connect

    def recorded(*arguments: Any, **options: Any) -> sqlite3.Connection:
        opened.append(connect(*arguments, **options))
        return opened[-1]

    monkeypatch.setattr(sqlite3, "connect", recorded)
    with LabelStore.beside(tmp_path / "journal.db"):
        full = 2
        assert [c.execute("PRAGMA synchronous").fetchone() for c in opened] == [(full,)]


def test_pending_write_raises_label_and_lowers_nothing_until_done() -> None:
    with LabelStore.in_memory() as store:
        store.add("", ["a"], SECRET)
        writing = store.begin("", "a", PUBLIC)
        assert store.of("", ["a"]) == SECRET.join(PUBLIC)
        store.end(writing, replaced=True)
        assert store.of("", ["a"]) == PUBLIC


def test_write_without_replacement_adds_to_label() -> None:
    with LabelStore.in_memory() as store:
        store.add("", ["a"], SECRET)
        store.end(store.begin("", "a", PUBLIC), replaced=False)
        assert store.of("", ["a"]) == SECRET.join(PUBLIC)


def test_concurrent_writes_lower_nothing_in_any_order() -> None:
    for first in (0, 1):
        with LabelStore.in_memory() as store:
            both = [store.begin("", "a", SECRET), store.begin("", "a", PUBLIC)]
            store.end(both[first], replaced=True)
            store.end(both[1 - first], replaced=True)
            assert store.of("", ["a"]) == SECRET.join(PUBLIC)


def test_related_workspaces_are_looked_up_once_until_changed(tmp_path: Path) -> None:
    """A call that reads a file does not go through all of them."""
    journal = tmp_path / "journal.db"
    with LabelStore.beside(journal) as store, LabelStore.beside(journal) as other:
        for number in range(20):
            store.add(f"/elsewhere/{number}", ["a"], PUBLIC)
        assert store.of_files("/srv/docs", ["a"]) is None
        asked: list[str] = []
        store._database = Asked(store._database, asked)  # type: ignore[assignment]
        assert store.of_files("/srv/docs", ["a"]) is None
        assert "SELECT root FROM folder" not in asked
        other.add("/srv", ["docs/a"], SECRET)
        assert store.of_files("/srv/docs", ["a"]) == SECRET
        assert "SELECT root FROM folder" in asked


class Asked:
    """A database, and the queries it received."""

    def __init__(self, database: Any, asked: list[str]) -> None:
        self._database, self._asked = database, asked

    def __getattr__(self, name: str) -> Any:
        return getattr(self._database, name)

    def execute(self, statement: str, *values: Any) -> Any:
        self._asked.append(statement)
        return self._database.execute(statement, *values)


def test_process_that_died_writing_leaves_higher_label(tmp_path: Path) -> None:
    journal = tmp_path / "journal.db"
    child = os.fork()
    if not child:
        LabelStore.beside(journal).begin("", "a", SECRET)
        os._exit(9)
    os.waitpid(child, 0)
    with LabelStore.beside(journal) as store:
        store.end(store.begin("", "a", PUBLIC), replaced=True)
        assert store.of("", ["a"]) == SECRET.join(PUBLIC)


def test_folder_has_labels_of_its_contents() -> None:
    with LabelStore.in_memory() as store:
        store.add("", ["docs/a/b.txt"], PRIVATE)
        store.add("", ["docs.txt"], SECRET)
        assert store.below("", "docs") == PRIVATE
        assert store.below("", "") == PRIVATE.join(SECRET)
        assert store.below("", "other") is None


def test_concurrent_writer_is_waited_for(tmp_path: Path) -> None:
    journal = tmp_path / "journal.db"
    with LabelStore.beside(journal) as one, LabelStore.beside(journal) as other:
        for number in range(20):
            (one if number % 2 else other).add("", [f"f{number}"], PRIVATE)
        assert one.of("", [f"f{n}" for n in range(20)]) == PRIVATE


def test_non_store_file_is_reported_at_once(tmp_path: Path) -> None:
    (tmp_path / "journal.db-labels").write_text("no database at all, but a text that is long enough" * 20)
    with pytest.raises(sqlite3.DatabaseError):
        LabelStore.beside(tmp_path / "journal.db")


_LABELS = st.sampled_from([PUBLIC, PRIVATE, SECRET])


@given(st.lists(st.tuples(_LABELS, st.booleans(), st.booleans()), min_size=1, max_size=8))
def test_label_is_never_below_possible_content(writes: list[tuple[Label, bool, bool]]) -> None:
    """Sequential writes: each succeeds or fails, and replaces or adds."""
    with LabelStore.in_memory() as store:
        inside: set[Label] = set()
        for label, replaces, lands in writes:
            writing = store.begin("", "a", label)
            if lands:
                inside = {label} if replaces else inside | {label}
            store.end(writing, replaced=replaces and lands)
            known = store.of("", ["a"])
            assert known is not None
            assert all(held.flows_to(known) for held in inside)


def test_write_under_other_spelling_removes_no_label() -> None:
    with LabelStore.in_memory() as store:
        store.end(store.begin("/w", "a.md", SECRET, spelling="A.md"), replaced=True)
        store.end(store.begin("/w", "a.md", PUBLIC, spelling="a.md"), replaced=True)
        assert store.of("/w", ["a.md"]) == SECRET.join(PUBLIC)
        assert store.forget("/w", "a.md")
        store.end(store.begin("/w", "a.md", SECRET, spelling="a.md"), replaced=True)
        store.end(store.begin("/w", "a.md", PUBLIC, spelling="a.md"), replaced=True)
        assert store.of("/w", ["a.md"]) == PUBLIC
