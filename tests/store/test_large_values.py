"""Large values: stored by size, once each, by hash, on the disk before their event."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from callsheet.ir import Plan
from callsheet.store import Durability, EventType, Journal, JournalError, JournalWriteFailed
from callsheet.store.blobs import INLINE_LIMIT, ROW_LIMIT, write_blob_file

_FRAME = len(b'{"v":""}')


def _blobs(journal: Journal) -> list[tuple[str, int, bool]]:
    connection = sqlite3.connect(journal.path)
    try:
        return connection.execute("SELECT hash, size, data IS NULL FROM blobs ORDER BY size").fetchall()
    finally:
        connection.close()


def _files(journal: Journal) -> list[Path]:
    return [file for file in journal.path.with_name("journal.db.blobs").rglob("*") if file.is_file()]


@pytest.mark.parametrize(
    ("size", "blobs", "files"),
    [(64 * 1024, 0, 0), (64 * 1024 + 1, 1, 0), (256 * 1024, 1, 0), (256 * 1024 + 1, 1, 1)],
)
def test_value_is_stored_by_size_and_returned(
    journal: Journal, plan: Plan, size: int, blobs: int, files: int
) -> None:
    body = {"v": "x" * (size - _FRAME)}
    with journal.create_run("r", plan, "", {}) as writer:
        writer.append(EventType.OK, body=body)
        writer.commit()
    assert [event.body for event in journal.events("r", after=1)] == [body]
    assert (len(_blobs(journal)), len(_files(journal))) == (blobs, files)
    assert journal.verify("r") is None


@pytest.mark.parametrize("size", [INLINE_LIMIT * 2, ROW_LIMIT * 2])
def test_equal_values_are_stored_once(journal: Journal, plan: Plan, size: int) -> None:
    body = {"v": "x" * size}
    for run_id in ("a", "b"):
        with journal.create_run(run_id, plan, "", body) as writer:
            writer.append(EventType.OK, body=body)
            writer.append(EventType.OK, body=body)
            writer.commit()
    assert len(_blobs(journal)) == 1
    assert len(_files(journal)) == (1 if size > ROW_LIMIT else 0)
    assert journal.verify("a") is journal.verify("b") is None


def test_file_is_named_by_hash_and_private(journal: Journal, plan: Plan) -> None:
    with journal.create_run("r", plan, "", {"v": "x" * 2 * ROW_LIMIT}) as writer:
        writer.commit()
    ((name, _, _),) = _blobs(journal)
    (file,) = _files(journal)
    assert file.parent.name + file.name == name
    assert file.stat().st_mode & 0o777 == 0o600


def test_file_is_on_disk_before_its_event(path: Path, plan: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[str] = []

    def noted(name: str, call: Callable[..., object]) -> Callable[..., object]:
        def noting(*args: object, **named: object) -> object:
            done.append(name)
            return call(*args, **named)

        return noting

    monkeypatch.setattr(os, "fsync", noted("sync", os.fsync))
    monkeypatch.setattr(Path, "replace", noted("rename", Path.replace))
    synced = ["sync", "rename", "sync", "sync", "sync"]
    for durability, expected in (
        (Durability.FULL, synced),
        (Durability.NORMAL, synced),
        (Durability.OFF, ["rename"]),
    ):
        with Journal.open(path, durability) as journal:
            body = {"v": durability.value * ROW_LIMIT}
            with journal.create_run(durability.value, plan, "", body) as writer:
                done.clear()
                writer.commit()
                assert done == expected


def test_folder_names_are_synced_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    syncs: list[int] = []
    sync = os.fsync

    def noted(fd: int) -> None:
        syncs.append(fd)
        sync(fd)

    monkeypatch.setattr(os, "fsync", noted)
    synced = set[Path]()
    for name, expected in (("aa1", 4), ("aa2", 2), ("bb1", 3)):
        syncs.clear()
        write_blob_file(tmp_path, name, b"", sync=True, synced=synced)
        assert len(syncs) == expected


@pytest.mark.parametrize("durability", Durability)
def test_large_values_are_written_once(path: Path, plan: Plan, durability: Durability) -> None:
    """Few other bytes are written, also when SQLite checkpoints its log."""
    count, size = 20, 1_000_000
    with Journal.open(path, durability) as journal, journal.create_run("r", plan, "", {}) as writer:
        writer.commit()
        before = _written()
        for number in range(count):
            writer.append(EventType.OK, body={"v": f"{number:02}" * (size // 2)})
            writer.commit()
        assert count * size < _written() - before < 1.05 * count * size


def _written() -> int:
    """The bytes that this process has written so far."""
    told = dict(line.split(": ") for line in Path("/proc/self/io").read_text().splitlines())
    return int(told["wchar"])


def test_damaged_file_is_rewritten(journal: Journal, plan: Plan) -> None:
    body = {"v": "x" * 2 * ROW_LIMIT}
    with journal.create_run("a", plan, "", body) as writer:
        writer.commit()
    (file,) = _files(journal)
    file.write_bytes(b"\0" * file.stat().st_size)
    with pytest.raises(JournalError, match="JRN012"):
        list(journal.events("a"))
    with journal.create_run("b", plan, "", body) as writer:
        writer.commit()
    assert journal.verify("a") is journal.verify("b") is None


def test_missing_file_is_found_by_verify(journal: Journal, plan: Plan) -> None:
    with journal.create_run("r", plan, "", {"v": "x" * 2 * ROW_LIMIT}) as writer:
        writer.commit()
    (file,) = _files(journal)
    file.unlink()
    bad = journal.verify("r")
    assert bad is not None
    assert bad.seq == 1
    assert "cannot be read" in bad.why


def test_unwritable_file_blocks_and_loses_nothing(journal: Journal, plan: Plan) -> None:
    folder = journal.path.with_name("journal.db.blobs")
    with journal.create_run("r", plan, "", {}) as writer:
        writer.commit()
        folder.write_text("in the way")
        writer.append(EventType.OK, body={"v": "x" * 2 * ROW_LIMIT})
        with pytest.raises(JournalWriteFailed):
            writer.commit()
        assert journal.runs()[0].events == 1
        folder.unlink()
        writer.append(EventType.END)
        writer.commit()
    assert [event.seq for event in journal.events("r")] == [1, 2, 3]
    assert journal.verify("r") is None
