"""The file tools on a real folder: they read and write in it, and nothing leads out of it."""

from __future__ import annotations

import json
import os
import shutil
import threading
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from callsheet.diagnostics import CallsheetError
from callsheet.machine import Cut, Fact
from callsheet.ports.builtin import BuiltinSettings, FetchSettings, SearchSettings, builtin_tools
from callsheet.ports.builtin.files import Workspace
from callsheet.ports.calls import CallContext, ToolFailed
from callsheet.ports.tools import Registry

CONTEXT = CallContext("run", "S1", "key")
SECRET = "the secret outside"


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A workspace with a secret beside it."""
    (tmp_path / "secret.txt").write_text(SECRET)
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret.txt").write_text(SECRET)
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    return workspace


async def call(workspace: Path, tool: str, limits: dict[str, Any] | None = None, **arguments: Any) -> Any:
    settings = BuiltinSettings(workspace=workspace, data=workspace.parent / "data", **(limits or {}))
    return await Registry(builtin_tools(settings)).require(tool).handler(arguments, CONTEXT)


async def test_written_file_is_read_back(place):
    await call(place, "WRITE_FILE", path="notes/2026/a.md", content="Grüße\n")
    assert await call(place, "READ_FILE", path="./notes//2026/a.md") == "Grüße\n"
    assert (place / "notes/2026/a.md").read_text() == "Grüße\n"


async def test_non_text_value_is_written_as_json(place):
    await call(place, "WRITE_FILE", path="a.json", content={"n": [1, None], "s": "ü"})
    assert json.loads((place / "a.json").read_text()) == {"n": [1, None], "s": "ü"}


async def test_write_keeps_permissions_and_leaves_no_temporary_file(place):
    script = place / "run.sh"
    script.write_text("old")
    script.chmod(0o750)
    await call(place, "WRITE_FILE", path="run.sh", content="new")
    assert script.stat().st_mode & 0o777 == 0o750
    assert os.listdir(place) == ["run.sh"]


@pytest.mark.parametrize(
    "path",
    [
        "../secret.txt",
        "a/../../secret.txt",
        "/etc/passwd",
        "x\0y",
        "",
        ".",
        "a/",
        "\ud800",
        "x" * 300,
        "a/" * 5_000,
    ],
)
@pytest.mark.parametrize("tool", ["READ_FILE", "WRITE_FILE", "EDIT_FILE"])
async def test_invalid_path_is_refused(place, tool, path):
    with pytest.raises(ToolFailed):
        await call(place, tool, path=path, content="x", old="a", new="b")
    assert (place.parent / "secret.txt").read_text() == SECRET


@pytest.mark.parametrize("path", ["link.txt", "folder/secret.txt", "inner.txt"])
async def test_symlink_is_never_followed(place, path):
    (place / "link.txt").symlink_to(place.parent / "secret.txt")
    (place / "folder").symlink_to(place.parent / "outside")
    (place / "real.txt").write_text("inside")
    (place / "inner.txt").symlink_to("real.txt")
    for tool in ("READ_FILE", "WRITE_FILE", "EDIT_FILE"):
        with pytest.raises(ToolFailed, match="symbolic link"):
            await call(place, tool, path=path, content="x", old="secret", new="b")
    assert await call(place, "SEARCH_FILES", pattern="secret") == []
    assert (place.parent / "outside" / "secret.txt").read_text() == SECRET


async def test_devices_pipes_and_folders_are_not_read(place):
    os.mkfifo(place / "pipe")
    (place / "folder").mkdir()
    for path in ("pipe", "folder"):
        with pytest.raises(ToolFailed):
            await call(place, "READ_FILE", path=path)
        with pytest.raises(ToolFailed, match="not a regular file"):
            await call(place, "WRITE_FILE", path=path, content="x")
    assert await call(place, "SEARCH_FILES", pattern="x") == []


async def test_sizes_are_limited(place):
    (place / "big").write_text("x" * 101)
    with pytest.raises(ToolFailed, match="larger than 100 bytes"):
        await call(place, "READ_FILE", {"max_read_bytes": 100}, path="big")
    with pytest.raises(ToolFailed, match="larger than 100 bytes"):
        await call(place, "WRITE_FILE", {"max_write_bytes": 100}, path="new", content="x" * 101)
    assert not (place / "new").exists()


async def test_non_text_file_is_reported(place):
    (place / "image").write_bytes(b"\x89PNG\r\n")
    with pytest.raises(ToolFailed, match="not UTF-8"):
        await call(place, "READ_FILE", path="image")


async def test_missing_file_is_named_as_in_plan(place):
    with pytest.raises(ToolFailed, match=r"there is no 'a/b.txt' in the workspace"):
        await call(place, "READ_FILE", path="a/b.txt")


async def test_edit_needs_exactly_one_match(place):
    (place / "a.txt").write_text("one two two\r\n", newline="")
    await call(place, "EDIT_FILE", path="a.txt", old="one", new="1")
    assert (place / "a.txt").read_bytes() == b"1 two two\r\n"
    for old, times in (("two", 2), ("none", 0)):
        with pytest.raises(ToolFailed, match=f"occurs {times} times"):
            await call(place, "EDIT_FILE", path="a.txt", old=old, new="x")
    assert (place / "a.txt").read_bytes() == b"1 two two\r\n"


async def test_search_returns_path_line_and_text(place):
    (place / "src").mkdir()
    (place / "src" / "b.py").write_text("import os\nos.walk('.*')\n")
    (place / "a.txt").write_text("os.walk('.*')\n")
    (place / "bin").write_bytes(b"\0os.walk")
    assert await call(place, "SEARCH_FILES", pattern=".walk('.*')") == [
        {"path": "a.txt", "line": 1, "text": "os.walk('.*')"},
        {"path": "src/b.py", "line": 2, "text": "os.walk('.*')"},
    ]
    only = [{"path": "src/b.py", "line": 2, "text": "os.walk('.*')"}]
    for narrow in ({"glob": "*.py"}, {"path": "src"}, {"path": "src/b.py"}):
        assert await call(place, "SEARCH_FILES", pattern="walk", **narrow) == only
    with pytest.raises(ToolFailed, match="there is no 'nowhere'"):
        await call(place, "SEARCH_FILES", pattern="walk", path="nowhere")


async def test_search_reports_truncation(place):
    (place / "a").write_text("x\n" * 50)
    rows = await call(place, "SEARCH_FILES", {"max_matches": 10}, pattern="x")
    assert len(rows) == 11
    assert "more than 10" in rows[-1]["text"]


@settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    parts=st.lists(
        st.sampled_from(["..", ".", "", "a", "up", "in", "file", "~", "\\..", "..."]) | st.text(max_size=5)
    )
)
def test_paths_stay_in_workspace(place, parts):
    """Writing to any path changes nothing outside."""
    if not (place / "up").is_symlink():
        (place / "up").symlink_to("..")
        (place / "in").symlink_to("in")
    path = "/".join(parts)
    try:
        Workspace(place).write(path, b"written")
    except ToolFailed:
        return
    assert sorted(os.listdir(place.parent)) == ["outside", "secret.txt", "workspace"]
    assert (place.parent / "secret.txt").read_text() == SECRET


def test_symlink_race_does_not_leave_workspace(place):
    """A folder is repeatedly swapped for a symlink while files in it are read and written."""
    (place / "real").mkdir()
    (place / "real" / "secret.txt").write_text("inside")
    over = threading.Event()

    def swap() -> None:
        folder, link = place / "d", place / "l"
        while not over.is_set():
            try:
                os.rename(place / "real", folder)
                os.rename(folder, place / "real")
                link.symlink_to("../outside")
                os.rename(link, folder)
                folder.unlink()
            except OSError:  # the writer made the folder in between
                link.unlink(missing_ok=True)
                folder.unlink() if folder.is_symlink() else shutil.rmtree(folder, ignore_errors=True)

    swapper = threading.Thread(target=swap)
    swapper.start()
    read: set[bytes] = set()
    tries = refused = 0
    workspace = Workspace(place)
    try:
        while tries < 3_000 or (not refused and tries < 300_000):  # on a busy machine few tries meet a swap
            tries += 1
            try:
                read.add(workspace.read("d/secret.txt", 1_000))
                workspace.write("d/new.txt", b"written")
            except ToolFailed as failure:
                refused += "symbolic link" in str(failure)
    finally:
        over.set()
        swapper.join()
    assert read <= {b"inside"}
    assert refused > 0
    assert os.listdir(place.parent / "outside") == ["secret.txt"]


@pytest.mark.parametrize(
    "changes",
    [
        {"workspace": Path("no/such/folder")},
        {"namespace": "../x"},
        {"fetch": FetchSettings(allow_private_hosts=("10.0.0.0/33",))},
        {"search": SearchSettings(provider="searxng")},
        {"search": SearchSettings(provider="brave", url="ftp://x")},
    ],
)
def test_impossible_settings_are_refused_at_once(tmp_path, changes):
    given_settings = {"workspace": tmp_path, "data": tmp_path, **changes}
    with pytest.raises(CallsheetError, match="TOL101"):
        builtin_tools(BuiltinSettings(**given_settings))


async def remarked(workspace: Path, limits: dict[str, Any] | None = None, **arguments: Any) -> Any:
    """The results and remarks of a search."""
    settings = BuiltinSettings(workspace=workspace, data=workspace.parent / "data", **(limits or {}))
    context = CallContext("run", "S1")
    rows = await Registry(builtin_tools(settings)).require("SEARCH_FILES").handler(arguments, context)
    return rows, context.remarks


async def test_incomplete_search_has_remarks(place):
    (place / "a.txt").write_text("x" * 700 + "\nx\nx\n")
    (place / "big.txt").write_text("x" * 5_000)
    (place / "data.bin").write_bytes(b"x\0")
    (place / "link.txt").symlink_to("a.txt")
    rows, remarks = await remarked(place, {"max_matches": 2, "max_read_bytes": 1_000}, pattern="x")
    assert rows[0]["text"] == "x" * 500 + "…"
    assert remarks == (Cut("matches", 2, None, "rows"), Cut("lines of the matches", 500, 700, "characters"))
    rows, remarks = await remarked(place, {"max_read_bytes": 1_000}, pattern="x")
    assert [row["path"] for row in rows] == ["a.txt"] * 3
    (_, passed_over) = remarks
    assert isinstance(passed_over, Fact)
    assert passed_over.text.endswith(": big.txt, data.bin, link.txt")


async def test_complete_search_has_no_remarks(place):
    (place / "a.txt").write_text("x\n")
    (place / "b.bin").write_bytes(b"\0\1")
    assert await remarked(place, pattern="x") == ([{"path": "a.txt", "line": 1, "text": "x"}], ())
