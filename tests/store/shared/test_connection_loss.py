"""A lost connection to the shared store is reported, and reopened later."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from hashlib import sha256
from pathlib import Path

import pytest
from tests.postgres import Server, running_server

from callsheet.diagnostics import CallsheetError
from callsheet.ir.labels import read_label
from callsheet.store.errors import JournalError
from callsheet.store.label_transfer import open_labels
from callsheet.store.labels import LabelStore
from callsheet.store.library import open_library
from callsheet.store.shared.blobs import SharedBlobs
from callsheet.store.shared.opening import shared_address, shown, without_password
from callsheet.store.shared.postgres import PostgresDatabase, StoreUnreachable

SECRET = read_label("T/secret")


@pytest.fixture
def own_server() -> Iterator[Server]:
    """A server that a test may stop."""
    with running_server() as running:
        yield running


def test_existence_of_tables_is_checked_without_creating_them(own_server: Server) -> None:
    with closing(PostgresDatabase(own_server.address)) as database:
        assert not database.has_tables()
        assert not database.has_tables()
        LabelStore(database).add("/w", ["a"], SECRET)
        assert database.has_tables()
    own_server.stop()
    try:
        with closing(PostgresDatabase(own_server.address)) as database, pytest.raises(StoreUnreachable):
            database.has_tables()
    finally:
        own_server.start()


def test_server_crash_loses_no_labels_and_connection_reopens(
    own_server: Server,
) -> None:
    with closing(PostgresDatabase(own_server.address)) as database:
        blobs, labels = SharedBlobs(database), LabelStore(database)
        digest = sha256(b"x" * 100_000).hexdigest()
        blobs.put(digest, b"x" * 100_000)
        labels.add("/w", ["a"], SECRET)
        own_server.stop()
        with pytest.raises(StoreUnreachable, match="cannot be used"):
            blobs.get(digest)
        with pytest.raises(StoreUnreachable):
            labels.begin("/w", "b", SECRET)
        own_server.start()
        assert blobs.get(digest) == b"x" * 100_000
        labels.add("/w", ["b"], SECRET)
        own_server.stop()
        own_server.start()  # and nobody has noticed that it was away
        labels.add("/w", ["c"], SECRET)
        assert [labels.of("/w", [name]) for name in "abc"] == [SECRET] * 3


def test_tables_of_later_version_are_unchanged(address: str) -> None:
    with closing(PostgresDatabase(address)) as database:
        database.execute("UPDATE about SET version = 99")
    with pytest.raises(StoreUnreachable, match="its tables have version 99"):
        PostgresDatabase(address).execute("SELECT 1")


def test_unreachable_store_is_error_with_hint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CALLSHEET_STORE", f"postgresql://me:hidden@/plans?host={tmp_path}")
    with pytest.raises(JournalError) as caught:
        open_labels(tmp_path / "journal.db")
    assert "postgresql://me@/plans cannot be used" in str(caught.value)
    with pytest.raises(CallsheetError) as refused:
        open_library().ids()
    assert refused.value.diagnostics[0].code == "PLN004"
    assert "check that it runs and accepts your login" in (refused.value.diagnostics[0].help or "")
    assert "hidden" not in f"{caught.value}{refused.value}"


def test_invalid_url_is_refused() -> None:
    with pytest.raises(CallsheetError) as caught:
        shared_address({"CALLSHEET_STORE": "db.example"})
    assert caught.value.diagnostics[0].code == "CFG230"
    assert shared_address({"CALLSHEET_STORE": " "}) is None
    assert shown("postgresql://me:word@host:5433/plans?sslmode=require") == "postgresql://me@host:5433/plans"


def test_stored_url_has_no_password() -> None:
    assert without_password("postgresql://me:word@h:1/d?x=1") == "postgresql://me@h:1/d?x=1"
    assert without_password("postgresql://me@h/d") == "postgresql://me@h/d"
    assert without_password("/a/folder:with@signs") == "/a/folder:with@signs"
