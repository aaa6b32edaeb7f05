"""Names chosen by a model or a server cannot lead outside of their folder."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from callsheet.apps.hosting.run_queue import Attempts
from callsheet.diagnostics import CallsheetError
from callsheet.frontends.dag import parse_dag
from callsheet.ir import Plan
from callsheet.ports.mcp import folder_sink
from callsheet.ports.mcp.oauth.file import Client, Login, LoginFile, Tokens
from callsheet.ports.mcp.trust.records import PinFile, PinnedServer, Reported, ServerIdentity
from callsheet.store import Journal, JournalError
from callsheet.store.blobs import write_blob_file
from callsheet.store.journal_paths import place_of, require_room
from callsheet.store.library import PlanLibrary
from callsheet.store.library.plan_files import read_file
from callsheet.store.seal_keys import KeyStore

NAMES = [
    "../x", "..", "a/b", "a\\b", "/etc/passwd", "%2e%2e%2fx", "%2e%2e", "x\0", "CON", "NUL", "x" * 300,
    "\uff0e\uff0e/x", "a\u2044b", "\u202ex", "~root", "$HOME", "a\nb", " a", "a ", "C:x", "x:stream", ".", "",
]  # fmt: skip
SERVER = PinnedServer(ServerIdentity("hall", "server", "f"), Reported(), {})
LOGIN = Login(
    server="hall", url="https://hall.example/mcp", resource="https://hall.example/mcp",
    issuer="https://hall.example", token_endpoint="https://hall.example/token",
    client=Client(id="c"), tokens=Tokens(access="t"),
)  # fmt: skip
BLOB = hashlib.sha256(b"").hexdigest()
GRAPH = {"steps": [{"index": "1", "title": "A", "tool": "t", "args": {}, "depends_on": []}]}


def everything(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


@pytest.mark.parametrize("name", NAMES)
def test_plans_and_runs_are_not_stored_under_unsafe_names(tmp_path, name):
    library = PlanLibrary(tmp_path / "plans")
    plan = parse_dag(json.dumps(GRAPH)).require()
    library.save(plan, "p")
    with Journal.open(tmp_path / "journal.db") as journal:
        before = everything(tmp_path)
        for refused in (library.load, library.delete, lambda n: library.rename("p", n)):
            with pytest.raises(CallsheetError, match="PLN001"):
                refused(name)
        for asked in (
            lambda: journal.create_run(name, Plan(()), "", {}),
            lambda: list(journal.events(name)),
        ):
            with pytest.raises(JournalError, match=r"JRN001|JRN002"):
                asked()
        assert everything(tmp_path) == before


def test_symlink_among_plans_is_neither_read_nor_written(tmp_path):
    secret = tmp_path / "secret.json"
    secret.write_text(json.dumps({"id": "p", **GRAPH}))
    library = PlanLibrary(tmp_path / "plans")
    library.folder.mkdir()
    (library.folder / "p.json").symlink_to(secret)
    before = secret.read_text()
    with pytest.raises(CallsheetError, match="PLN002"):
        library.load("p")
    with pytest.raises(CallsheetError):
        library.delete("p")
    with suppress(CallsheetError):  # it may be told that there is one, or make a file in the link's place
        library.save(parse_dag(json.dumps(GRAPH)).require(), "p")
    assert secret.read_text() == before


def store_plan(folder: Path) -> None:
    PlanLibrary(folder).save(parse_dag(json.dumps(GRAPH)).require(), "p")


def store_pin(folder: Path) -> None:
    PinFile(folder / "pins").change(lambda pins: pins.having(SERVER))


async def store_login(folder: Path) -> None:
    file = LoginFile(folder / "logins", KeyStore(folder / "seal.key", {"CALLSHEET_SEAL_KEY": "5e" * 32}))
    async with file.locked():
        file.put(LOGIN)


WRITERS: dict[str, tuple[str, Callable[[Path], object]]] = {
    "a plan": (".p.json.{}.new", store_plan),
    "pins": (".pins.{}.new", store_pin),
    "the lock of pins": ("pins.lock", store_pin),
    "logins": (".logins.{}.new", lambda folder: asyncio.run(store_login(folder))),
    "the lock of logins": ("logins.lock", lambda folder: asyncio.run(store_login(folder))),
    "keys": (".seal.key.{}.new", lambda folder: KeyStore(folder / "seal.key", {}).sealing()),
    "a large value": (f"{BLOB[:2]}/{BLOB[2:]}.{{}}.tmp", lambda f: write_blob_file(f, BLOB, b"", sync=True)),
    "room on the disk": ("journal.db.{}.room", lambda folder: require_room(place_of(folder / "journal.db"))),
    "attempts": ("journal.db.runs/r.attempts", lambda f: Attempts(place_of(f / "journal.db")).begin("r")),
}  # fmt: skip


@pytest.mark.parametrize("what", WRITERS)
@pytest.mark.parametrize("is_there", [True, False])
def test_symlink_at_output_path_is_not_written_through(tmp_path: Path, what: str, *, is_there: bool):
    name, write = WRITERS[what]
    victim, folder = tmp_path / "victim", tmp_path / "folder"
    if is_there:
        victim.write_text("keep me")
    link = folder / name.format(os.getpid())
    link.parent.mkdir(parents=True)
    link.symlink_to(victim)
    with suppress(CallsheetError, OSError):  # it may be refused, or a file be made in the link's place
        write(folder)
    assert (victim.read_text() if is_there else victim.exists()) == ("keep me" if is_there else False)


def test_only_regular_file_of_limited_size_is_read_as_plan(tmp_path):
    """Independent of an earlier listing: it may have replaced a plan since."""
    (tmp_path / "plan").write_text("S1: @NOTE ()")
    assert read_file(tmp_path / "plan") == b"S1: @NOTE ()"
    (tmp_path / "link").symlink_to(tmp_path / "plan")
    os.mkfifo(tmp_path / "pipe")
    with (tmp_path / "large").open("wb") as file:
        file.truncate(100_000_001)
    for name, why in (("link", "symbolic link"), ("pipe", "not a plain file"), ("large", "larger than")):
        with pytest.raises(OSError, match=why):
            read_file(tmp_path / name)


def test_symlink_among_server_files_is_replaced(tmp_path):
    data, victim = b"\x89PNG", tmp_path / "victim"
    victim.write_bytes(b"keep me")
    folder = tmp_path / "files"
    folder.mkdir()
    name = hashlib.sha256(data).hexdigest()
    (folder / name).symlink_to(victim)
    path = Path(folder_sink(folder)(data))
    assert (path.name, path.is_symlink(), path.read_bytes()) == (name, False, data)
    assert victim.read_bytes() == b"keep me"
    path.write_bytes(b"a part")
    assert Path(folder_sink(folder)(data)).read_bytes() == data


def test_symlink_in_place_of_lock_stops_run(tmp_path):
    victim = tmp_path / "victim"
    victim.write_text("keep me")
    with Journal.open(tmp_path / "journal.db") as journal:
        locks = tmp_path / "journal.db.runs"
        locks.mkdir()
        (locks / "r.lock").symlink_to(victim)
        with pytest.raises((JournalError, OSError)):
            journal.create_run("r", Plan(()), "", {})
    assert victim.read_text() == "keep me"


@pytest.mark.parametrize("what", ["pins", "logins", "a plan"])
def test_atomic_replacement_is_durable(tmp_path: Path, what: str, monkeypatch: pytest.MonkeyPatch):
    """The file is synced before it has its name, and then the folder: a power loss loses neither."""
    done: list[str] = []

    def synced(fd: int, sync: Callable[[int], None] = os.fsync) -> None:
        sync(fd)
        done.append(Path(os.readlink(f"/proc/self/fd/{fd}")).name)

    def named(source: Path, target: Path, replace: Callable[..., None] = os.replace) -> None:
        replace(source, target)
        done.append("named")

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(os, "replace", named)
    temporary, write = WRITERS[what]
    write(tmp_path / "folder")
    first = done.index(temporary.format(os.getpid()))
    assert done[first + 1 : first + 3] == ["named", "folder"]
