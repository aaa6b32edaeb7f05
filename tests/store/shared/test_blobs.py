"""Large values by hash behave the same in a folder, in PostgreSQL and in an object store."""

from __future__ import annotations

import os
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from pathlib import Path
from typing import Any

import obstore
import pytest

from callsheet.diagnostics import CallsheetError
from callsheet.store.blobs import BlobMissing
from callsheet.store.shared.blobs import Blobs, FolderBlobs, SharedBlobs, Swept, sweep
from callsheet.store.shared.opening import open_blobs, open_database

BODY = b"value" * 20_000
DIGEST = sha256(BODY).hexdigest()


@pytest.fixture(scope="session")
def bucket(
    node_tool: Callable[[str], tuple[str, str]], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    """A bucket of an S3 server; its files lie in the folder that $S3_FOLDER names."""
    node, script = node_tool("s3rver")
    folder = tmp_path_factory.mktemp("s3")
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
    where = ["-a", "127.0.0.1", "-p", str(port), "-d", str(folder), "--configure-bucket", "large"]
    server = subprocess.Popen([node, script, *where, "-s"], stdout=subprocess.DEVNULL)
    said = {
        "AWS_ACCESS_KEY_ID": "S3RVER",
        "AWS_SECRET_ACCESS_KEY": "S3RVER",
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}",
        "AWS_ALLOW_HTTP": "true",
        "AWS_REGION": "us-east-1",
        "S3_FOLDER": str(folder),
    }
    with pytest.MonkeyPatch.context() as patch:
        for name, value in said.items():
            patch.setenv(name, value)
        try:
            _wait_for(port)
            yield "s3://large/values"
        finally:
            server.kill()
            server.wait()


def _wait_for(port: int) -> None:
    until = time.monotonic() + 60
    while time.monotonic() < until:
        with socket.socket() as tried:
            if tried.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.1)
    pytest.fail("s3rver does not listen")


@pytest.fixture(params=["folder", "postgres", "s3"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The place of an empty store, except the bucket's, which all tests share."""
    match request.param:
        case "folder":
            return str(tmp_path / "blobs")
        case "postgres":
            return request.getfixturevalue("address")
        case _:
            return f"{request.getfixturevalue('bucket')}/{tmp_path.name}"


@pytest.fixture
def blobs(place: str) -> Iterator[Blobs]:
    """A store at the place."""
    opened = open_blobs(place)
    yield opened
    if isinstance(opened, SharedBlobs):
        opened.close()


def test_put_is_idempotent_and_get_returns_value(blobs: Blobs) -> None:
    blobs.put(DIGEST, BODY)
    blobs.put(DIGEST, BODY)
    assert blobs.get(DIGEST) == BODY


def test_missing_blob_is_reported(blobs: Blobs) -> None:
    with pytest.raises(BlobMissing, match=f"blob {DIGEST} is not in"):
        blobs.get(DIGEST)


def test_damaged_blob_is_not_returned(blobs: Blobs, place: str) -> None:
    blobs.put(DIGEST, BODY)
    _damage(place)
    with pytest.raises(BlobMissing, match="is not what was stored"):
        blobs.get(DIGEST)


def _damage(place: str) -> None:
    if place.startswith("postgresql"):
        database = open_database(place)
        database.execute("UPDATE blob SET body = ?", (b"other",))
        database.close()
        return
    root = Path(os.environ["S3_FOLDER"]) if place.startswith("s3") else Path(place)
    for path in root.rglob("*"):
        if path.is_file() and path.read_bytes() == BODY:
            path.write_bytes(BODY[:-1] + b"?")


def test_old_unused_blobs_are_removed_and_renewed_ones_stay(blobs: Blobs, place: str) -> None:
    bodies = {sha256(body).hexdigest(): body for body in (BODY, b"needed", b"put again")}
    unused, needed, again = bodies
    for digest, body in bodies.items():
        blobs.put(digest, body)
    assert sweep(blobs, {needed}, _DAYS, dry_run=False) == Swept((), 0, 1, 2)
    _make_old(place)
    blobs.put(again, bodies[again])
    for dry_run in (True, False):
        assert sweep(blobs, {needed}, _DAYS, dry_run=dry_run) == Swept((unused,), len(BODY), 1, 1)
    assert {stored.digest: stored.size for stored in blobs.stored()} == {needed: 6, again: 9}
    assert not blobs.remove(again, _DAYS)
    assert blobs.get(again) == b"put again"


_DAYS = 30 * 86_400.0


def _make_old(place: str) -> None:
    if place.startswith("postgresql"):
        database = open_database(place)
        database.execute("UPDATE blob SET created = now() - interval '31 days'")
        database.close()
        return
    root = Path(os.environ["S3_FOLDER"]) if place.startswith("s3") else Path(place)
    for path in root.rglob("*"):
        if path.is_file():
            os.utime(path, (time.time() - 31 * 86_400,) * 2)


def test_users_of_store_are_registered(blobs: Blobs) -> None:
    assert blobs.signs() == {}
    for _ in range(2):
        blobs.sign("here", b"who")
        blobs.sign("there", b"another")
    assert blobs.signs() == {"here": b"who", "there": b"another"}
    blobs.unsign("there")
    blobs.unsign("there")
    assert (blobs.signs(), list(blobs.stored())) == ({"here": b"who"}, [])


def test_registration_removed_during_listing_hides_no_other(
    place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    blobs = open_blobs(place)
    if isinstance(blobs, SharedBlobs):
        blobs.close()
        pytest.skip("one statement reads all signs")
    for name in ("gone", "here", "there"):
        blobs.sign(name, b"who")
    if isinstance(blobs, FolderBlobs):
        listed = Path.iterdir

        def then_removed(folder: Path) -> Iterator[Path]:
            found = list(listed(folder))
            FolderBlobs(Path(place)).unsign("gone")
            return iter(found)

        monkeypatch.setattr(Path, "iterdir", then_removed)
    else:
        read = obstore.get

        def removed_before(store: Any, path: str) -> Any:
            open_blobs(place).unsign("gone")
            return read(store, path)

        monkeypatch.setattr(obstore, "get", removed_before)
    assert blobs.signs() == {"here": b"who", "there": b"who"}


def test_concurrent_removal_keeps_blobs_put_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = str(tmp_path / "blobs")
    first, second = FolderBlobs(Path(place)), FolderBlobs(Path(place))
    first.put(DIGEST, BODY)
    _make_old(place)
    renamed = os.replace
    seen: list[bytes | bool] = []

    def then_the_other(source: Any, target: Any) -> None:
        """After the first rename: a read, another put of the blob, and the other removal up to its rename."""
        renamed(source, target)
        monkeypatch.setattr(os, "replace", renamed)
        seen.append(second.get(DIGEST))
        second.put(DIGEST, BODY)
        seen.append(second.remove(DIGEST, _DAYS))

    monkeypatch.setattr(os, "replace", then_the_other)
    assert first.remove(DIGEST, _DAYS)
    assert seen == [BODY, False]
    assert first.get(DIGEST) == BODY


def test_object_put_during_removal_is_kept(
    bucket: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other process puts it between the check of its age and its removal."""
    place = f"{bucket}/{tmp_path.name}"
    first, second = open_blobs(place), open_blobs(place)
    first.put(DIGEST, BODY)
    _make_old(place)
    delete = obstore.delete
    with ThreadPoolExecutor(1) as others:
        putting: list[Any] = []

        def after_the_other_put(store: Any, path: str) -> None:
            if path == DIGEST:
                put = obstore.put
                has_put = threading.Event()

                def then_told(store: Any, path: str, data: bytes) -> Any:
                    told = put(store, path, data)
                    has_put.set()
                    return told

                monkeypatch.setattr(obstore, "put", then_told)
                putting.append(others.submit(second.put, DIGEST, BODY))
                assert has_put.wait(30)
                monkeypatch.setattr(obstore, "put", put)
            delete(store, path)

        monkeypatch.setattr(obstore, "delete", after_the_other_put)
        assert first.remove(DIGEST, _DAYS)
        putting[0].result(60)
    assert first.get(DIGEST) == BODY
    assert [stored.digest for stored in first.stored()] == [DIGEST]


def test_leftovers_of_dead_process_are_swept(tmp_path: Path) -> None:
    folder = tmp_path / "blobs"
    blobs = FolderBlobs(folder)
    bodies = {sha256(body).hexdigest(): body for body in (b"no other name", b"put again")}
    alone, again = bodies
    for digest, body in bodies.items():
        blobs.put(digest, body)
        place = folder / digest[:2] / digest[2:]
        place.rename(place.with_name(f".old-{place.name}-{'0' * 32}"))
    blobs.put(again, bodies[again])
    (folder / alone[:2] / ".new-abc").write_bytes(b"half")
    sweep(blobs, (), _DAYS, dry_run=False)
    assert len(list(folder.rglob(".*"))) == 3  # they may be in use
    with pytest.MonkeyPatch.context() as patch:
        now = time.time()
        patch.setattr(time, "time", lambda: now + 2 * 3_600)
        sweep(blobs, (), _DAYS, dry_run=True)
        assert len(list(folder.rglob(".*"))) == 3
        sweep(blobs, (), _DAYS, dry_run=False)
    assert list(folder.rglob(".*")) == []
    assert {stored.digest for stored in blobs.stored()} == {alone, again}
    assert (blobs.get(alone), blobs.get(again)) == (b"no other name", b"put again")


def test_marks_of_a_process_that_died_while_it_removed_an_object_hold_up_nobody(
    bucket: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = f"{bucket}/{tmp_path.name}"
    blobs = open_blobs(place)
    blobs.put(DIGEST, BODY)

    def dies(*_: object) -> None:
        raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(obstore, "delete", dies)
        with pytest.raises(KeyboardInterrupt):
            blobs.remove(DIGEST, 0.0)
    marks = Path(os.environ["S3_FOLDER"]).rglob("removing/**/*")
    assert any(mark.is_file() for mark in marks)
    _make_old(place)
    blobs.put(DIGEST, BODY)
    sweep(blobs, (), _DAYS, dry_run=False)
    assert not any(
        m.is_file() for m in (Path(os.environ["S3_FOLDER"])).rglob(f"{tmp_path.name}/removing/**/*")
    )
    assert blobs.get(DIGEST) == BODY


def test_concurrent_threads_may_put_and_get(blobs: Blobs) -> None:
    bodies = [b"%d" % (number % 7) * 1_000 for number in range(40)]

    def round_trip(body: bytes) -> bool:
        digest = sha256(body).hexdigest()
        blobs.put(digest, body)
        return blobs.get(digest) == body

    for body in bodies[:7]:  # s3rver, unlike the stores it stands for, shows what is half written
        assert round_trip(body)
    with ThreadPoolExecutor(8) as threads:
        assert all(threads.map(round_trip, bodies))


def test_unreachable_bucket_is_os_error(bucket: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(OSError, match="cannot be used"):
        open_blobs("s3://another-bucket/values").put(DIGEST, BODY)


def test_store_of_other_kind_is_refused() -> None:
    with pytest.raises(CallsheetError) as caught:
        open_blobs("ftp://me:hidden@host/values")
    assert caught.value.diagnostics[0].code == "CFG230"
    assert "hidden" not in str(caught.value)
