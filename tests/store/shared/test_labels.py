"""Labels in the shared store behave like those in a file beside the journal."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from callsheet.ir.labels import Label, read_label
from callsheet.store.label_transfer import forget_stale, open_labels
from callsheet.store.labels import LabelStore, Noted, Writing
from callsheet.store.shared.postgres import PostgresDatabase

PUBLIC, PRIVATE, SECRET = read_label("U/pub"), read_label("U/priv"), read_label("T/secret")
LABELS = st.sampled_from([PUBLIC, PRIVATE, SECRET])
KINDS = st.sampled_from(["add", "begin", "end", "put", "forget"])
NAMES = st.sampled_from(["a.txt", "b.txt", "dir/a.txt", "", "nul\x00", "half\udc80", "100%", "?"])


def test_labels_are_shared_between_machines(address: str) -> None:
    with LabelStore(PostgresDatabase(address)) as one, LabelStore(PostgresDatabase(address)) as other:
        one.add("/work", ["a.txt"], SECRET, "run-1")
        assert other.of("/work", ["a.txt"]) == SECRET
        assert other.entries("run-1") == [Noted("/work", "a.txt", SECRET)]


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(steps=st.lists(st.tuples(NAMES, LABELS, KINDS)))
def test_any_history_gives_same_labels_as_file(address: str, steps: list[tuple[str, Label, str]]) -> None:
    database = PostgresDatabase(address)
    database.execute("DELETE FROM label")
    with LabelStore(database) as shared, LabelStore.in_memory() as local:
        assert _played(shared, steps) == _played(local, steps)


def _played(store: LabelStore, steps: list[tuple[str, Label, str]]) -> list[object]:
    said: list[object] = []
    open_writes: dict[str, Writing] = {}
    for name, label, kind in steps:
        match kind:
            case "begin":
                open_writes[name] = store.begin("/w", name, label, "r")
            case "end" if name in open_writes:
                store.end(open_writes.pop(name), replaced=True)
            case "put":
                store.put("/w", name, label)
            case "forget":
                said.append(store.forget("/w", name))
            case _:
                store.add("/w", [name], label)
        said += [store.of("/w", [name]), store.below("/w", "dir"), store.below("/w", "")]
    return said


def test_pruning_journal_keeps_labels_of_other_machines(
    address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CALLSHEET_STORE", address)
    journal = tmp_path / "journal.db"
    with open_labels(journal) as store:
        store.add("run elsewhere", ["key"], SECRET)
    assert forget_stale(journal, []) == []
    with open_labels(journal) as store:
        assert store.of("run elsewhere", ["key"]) == SECRET
    assert not LabelStore.path_beside(journal).exists()
