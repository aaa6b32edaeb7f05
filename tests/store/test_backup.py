"""A backup is the journal as it was at one moment, with everything that its runs need."""

from __future__ import annotations

import hashlib
import io
import json
import shutil
import sqlite3
import tarfile
from contextlib import closing
from pathlib import Path

import pytest
from tests.runtime.tools import plan_of

from callsheet.sealing.known import Known
from callsheet.sealing.sealer import DECLARED
from callsheet.store import EventType, Journal, JournalError
from callsheet.store.backup import back_up, restore
from callsheet.store.seal_keys import KeyStore

SECRET = "sup3r-secret-word"
LARGE = "y" * 600_000


@pytest.fixture
def keys(tmp_path: Path) -> KeyStore:
    return KeyStore(tmp_path / "seal.key", {})


def written(path: Path, keys: KeyStore) -> Journal:
    """A journal in use, with a run that has a secret, a large value and entries in a tail."""
    journal = Journal.open(path, keys=keys)
    start = {"inputs": {"token": SECRET}, "facts": {}, "limits": {}, "pins": {}, "launch": {}}
    writer = journal.create_run(
        "r", plan_of("S1: @RESPOND (1)"), "", start, known=Known.of([SECRET], DECLARED)
    )
    writer.append(EventType.OK, key="S1.0.1", body={"value": LARGE})
    writer.commit()
    for n in range(40):  # so quickly one after the other that they wait in the tail
        writer.append(EventType.OK, key=f"S1.{n}.1", body={"value": n})
        writer.commit()
    return journal


def test_backup_of_a_journal_in_use_is_restored_with_values_and_keys(tmp_path, keys):
    path, file, place = tmp_path / "j.db", tmp_path / "b.tar.gz", tmp_path / "other" / "j.db"
    with written(path, keys) as journal:
        done = back_up(path, file, keys)
        assert (done.runs, done.values, done.has_keys) == (1, 1, True)
        others = KeyStore(tmp_path / "others.key", {})
        others.sealing()  # another user, with a key of their own
        assert restore(file, place, others) == (1, 1, 1)
        with Journal.open(place, keys=KeyStore(others.path, {})) as copy:
            assert copy.verify("r") is None
            assert [event.hash for event in copy.events("r")] == [event.hash for event in journal.events("r")]
            assert next(iter(copy.opener("r").events(copy.events("r")))).body["inputs"] == {"token": SECRET}
            assert list(copy.events("r"))[1].body == {"value": LARGE}
    assert SECRET.encode() not in place.read_bytes()
    assert file.stat().st_mode & 0o077 == 0


def test_nothing_is_restored_over_a_journal(tmp_path, keys):
    path, file = tmp_path / "j.db", tmp_path / "b.tar.gz"
    written(path, keys).close()
    back_up(path, file, keys)
    before = path.read_bytes()
    with pytest.raises(JournalError, match="JRN010"):
        restore(file, path, keys)
    assert path.read_bytes() == before


@pytest.mark.parametrize("damage", ["cut", "byte", "other"])
def test_damaged_backup_leaves_no_journal(tmp_path, keys, damage):
    path, file, place = tmp_path / "j.db", tmp_path / "b.tar.gz", tmp_path / "new" / "j.db"
    written(path, keys).close()
    back_up(path, file, keys)
    data = file.read_bytes()
    if damage == "cut":
        file.write_bytes(data[: len(data) // 2])
    elif damage == "byte":
        file.write_bytes(data[:2_000] + bytes([data[2_000] ^ 1]) + data[2_001:])
    else:
        file.write_bytes(b"a text")
    with pytest.raises(JournalError, match="JRN016"):
        restore(file, place, keys)
    assert list(place.parent.iterdir()) == []


def test_every_damage_of_a_backup_is_told(tmp_path, keys):
    path, file, place = tmp_path / "j.db", tmp_path / "b.tar.gz", tmp_path / "new" / "j.db"
    written(path, keys).close()
    back_up(path, file, keys)
    data = file.read_bytes()
    codes = list[str]()
    for at in (*range(0, len(data), len(data) // 40), *range(len(data) - 8, len(data))):
        file.write_bytes(data[:at] + bytes([data[at] ^ 0x55]) + data[at + 1 :])
        try:
            restore(file, place, keys)
        except JournalError as error:
            codes += [each.code for each in error.diagnostics]
            assert list(place.parent.iterdir()) == []
        else:  # a byte of the envelope: every member has its digest
            with Journal.open(place, keys=keys) as copy:
                assert copy.verify("r") is None
        shutil.rmtree(place.parent)
    assert len(codes) > 20
    assert set(codes) == {"JRN016"}


def archive(file: Path, members: dict[str, bytes], **links: str) -> None:
    """A file like a backup, with these members, and symbolic links."""
    digests = {name: hashlib.sha256(data).hexdigest() for name, data in members.items()}
    told = json.dumps({"callsheet": "backup", "version": 1, "sha256": digests}).encode()
    with tarfile.open(file, "w:gz") as tar:
        for name, data in ({"backup.json": told} | members).items():
            head = tarfile.TarInfo(name)
            head.size = len(data)
            tar.addfile(head, io.BytesIO(data))
        for name, target in links.items():
            head = tarfile.TarInfo(name)
            head.type, head.linkname = tarfile.SYMTYPE, target
            tar.addfile(head)


@pytest.mark.parametrize(
    ("members", "links"),
    [
        ({"../evil": b"x"}, {}),
        ({"/tmp/evil": b"x"}, {}),
        ({"values/../../evil": b"x"}, {}),
        ({}, {"values": "/tmp"}),
        ({"seal.key": b"no key\n"}, {}),
        ({"backup.json": b"[]"}, {}),
        ({"backup.json": b"[" * 100_000}, {}),
        ({"journal.db": b""}, {}),
    ],
)
def test_hostile_archive_writes_nothing_and_spoils_no_keys(tmp_path, keys, members, links):
    path, file, place = tmp_path / "j.db", tmp_path / "b.tar.gz", tmp_path / "new" / "j.db"
    written(path, keys).close()
    before = keys.path.read_bytes()
    archive(file, {"journal.db": path.read_bytes()} | members, **links)
    with pytest.raises(JournalError, match="JRN016"):
        restore(file, place, keys)
    assert list(place.parent.iterdir()) == []
    assert keys.path.read_bytes() == before
    assert not (tmp_path / "evil").exists()


def test_keys_are_added_to_a_file_without_a_last_line_break(tmp_path, keys):
    path, file = tmp_path / "j.db", tmp_path / "b.tar.gz"
    written(path, keys).close()
    back_up(path, file, keys)
    others = KeyStore(tmp_path / "others.key", {})
    own = others.sealing().sealing.name
    others.path.write_text(others.path.read_text().strip())
    assert restore(file, tmp_path / "new" / "j.db", others).keys == 1
    ring = KeyStore(others.path, {}).sealing()
    assert (ring.sealing.name, len(ring.opening)) == (own, 2)
    assert others.path.stat().st_mode & 0o077 == 0


def test_backup_replaces_neither_the_journal_nor_the_keys(tmp_path, keys):
    path = tmp_path / "j.db"
    written(path, keys).close()
    for own in (path, keys.path):
        before = own.read_bytes()
        with pytest.raises(JournalError, match="JRN017"):
            back_up(path, own, keys)
        assert own.read_bytes() == before


def test_nothing_is_restored_beside_the_log_of_a_journal_that_is_gone(tmp_path, keys):
    path, file, place = tmp_path / "j.db", tmp_path / "b.tar.gz", tmp_path / "new" / "j.db"
    written(path, keys).close()
    back_up(path, file, keys)
    place.parent.mkdir()
    Path(f"{place}-wal").write_bytes(b"x")
    with pytest.raises(JournalError, match="JRN010"):
        restore(file, place, keys)
    assert [each.name for each in place.parent.iterdir()] == ["j.db-wal"]


def test_backup_without_keys_has_none_and_missing_journal_is_told(tmp_path, keys):
    path, file = tmp_path / "j.db", tmp_path / "b.tar.gz"
    written(path, keys).close()
    assert not back_up(path, file, keys, with_keys=False).has_keys
    with pytest.raises(JournalError, match="JRN010"):
        back_up(tmp_path / "none.db", file, keys)
    assert not (tmp_path / "none.db").exists()
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("SELECT count(*) FROM runs").fetchone() == (1,)
