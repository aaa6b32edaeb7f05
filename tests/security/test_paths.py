"""Names that a model or a server may choose lead nowhere but where their files lie."""

from __future__ import annotations

import hashlib
import json
from contextlib import suppress
from pathlib import Path

import pytest

from callsheet.diagnostics import CallsheetError
from callsheet.frontends.dag import parse_dag
from callsheet.ir import Plan
from callsheet.ports.mcp import folder_sink
from callsheet.store import Journal, JournalError
from callsheet.store.library import PlanLibrary

NAMES = [
    "../x", "..", "a/b", "a\\b", "/etc/passwd", "%2e%2e%2fx", "%2e%2e", "x\0", "CON", "NUL", "x" * 300,
    "\uff0e\uff0e/x", "a\u2044b", "\u202ex", "~root", "$HOME", "a\nb", " a", "a ", "C:x", "x:stream", ".", "",
]  # fmt: skip
GRAPH = {"steps": [{"index": "1", "title": "A", "tool": "t", "args": {}, "depends_on": []}]}


def everything(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


@pytest.mark.parametrize("name", NAMES)
def test_no_plan_and_no_run_is_kept_under_such_a_name(tmp_path, name):
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


def test_a_link_among_the_plans_is_neither_read_nor_written_through(tmp_path):
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


def test_a_link_among_the_files_that_servers_send_is_replaced_and_not_followed(tmp_path):
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


def test_a_link_in_the_place_of_a_lock_stops_the_run(tmp_path):
    victim = tmp_path / "victim"
    victim.write_text("keep me")
    with Journal.open(tmp_path / "journal.db") as journal:
        locks = tmp_path / "journal.db.runs"
        locks.mkdir()
        (locks / "r.lock").symlink_to(victim)
        with pytest.raises((JournalError, OSError)):
            journal.create_run("r", Plan(()), "", {})
    assert victim.read_text() == "keep me"
