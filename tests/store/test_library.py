"""The plan library: valid ids, atomic files, plans that are loaded as they were saved."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests import forked
from tests.dag_plans import dag_plans

from callsheet.diagnostics import CallsheetError
from callsheet.frontends.dag import format_dag, parse_dag
from callsheet.frontends.ltp import parse
from callsheet.frontends.spelling import Syntax
from callsheet.store.library import PlanLibrary, check_plan_id, new_plan_id

GRAPH = {
    "id": "refactor-auth-001",
    "title": "Refactor",
    "variables": {"module_path": "a.py"},
    "steps": [
        {"index": "1", "title": "Read", "tool": "read_file", "args": {}, "depends_on": []},
        {"index": "2", "title": "Find", "tool": "search", "args": {}, "depends_on": []},
        {"index": "3", "title": "Write", "tool": "write_file", "args": {}, "depends_on": ["1", "2"]},
    ],
}
LTP = '# ltp: 1\n# goal: Greet\nPLAN_START\n# a comment\nS1: @RESPOND ("hi")\nPLAN_END\n'
HOSTILE = [
    "", ".", "..", "../x", "a/b", "/etc/x", "a\\b", "A", "-x", ".x", "x\n", "x\0", "ü", "x" * 65, "a b", "%2e"
]  # fmt: skip


def code(error: pytest.ExceptionInfo[CallsheetError]) -> str:
    return error.value.diagnostics[0].code


@pytest.fixture
def library(tmp_path: Path) -> PlanLibrary:
    return PlanLibrary(tmp_path / "kept" / "plans")


def graph():
    return parse_dag(json.dumps(GRAPH)).require()


def test_graph_keeps_id_and_dependencies(library):
    saved = library.save(graph())
    assert saved.id == "refactor-auth-001"
    assert Path(saved.place).name == "refactor-auth-001.json"
    again = library.load("refactor-auth-001").require()
    assert again == graph()
    assert again.step("3").depends_on == ("1", "2")


def test_text_is_stored_with_comments_and_read_where_there_are_no_locks(library, monkeypatch):
    def no_locks(*_: object) -> None:
        raise OSError(errno.ENOLCK, "no locks available")

    plan = parse(LTP).require()
    library.save(plan, "greet", text=LTP, syntax=Syntax.LTP)
    monkeypatch.setattr(fcntl, "flock", no_locks)
    assert [one.id for one in library.list()] == ["greet"]
    with pytest.raises(CallsheetError, match="PLN004"):
        library.save(plan, "other")
    stored = library.load("greet")
    assert (stored.text, stored.syntax) == (LTP, Syntax.LTP)
    assert stored.require().id == "greet"
    assert stored.require().steps == plan.steps


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(plan=dag_plans(3))
def test_saved_graphs_round_trip(plan):
    with tempfile.TemporaryDirectory() as folder:
        library = PlanLibrary(folder)
        saved = library.save(plan, "p")
        assert format_dag(saved.require()) == library.load("p").text
        assert saved.require().steps == plan.steps


@pytest.mark.parametrize("name", HOSTILE)
def test_unsafe_id_is_refused_before_path_is_built(library, name, monkeypatch):
    library.save(graph())
    touched: list[object] = []
    monkeypatch.setattr(os, "open", lambda *a, **k: touched.append(a))
    monkeypatch.setattr(os, "scandir", lambda *a: touched.append(a))
    for refused in (
        lambda: library.load(name),
        lambda: library.find(name),
        lambda: library.rename("refactor-auth-001", name),
        lambda: check_plan_id(name),
    ):
        with pytest.raises(CallsheetError) as error:
            refused()
        assert code(error) == "PLN001"
    assert touched == []


@pytest.mark.parametrize("name", [n for n in HOSTILE if n])
def test_no_plan_is_saved_or_deleted_under_unsafe_id(library, name):
    library.save(graph())
    before = sorted(library.folder.parent.rglob("*"))
    for refused in (lambda: library.save(graph(), name), lambda: library.delete(name)):
        with pytest.raises(CallsheetError) as error:
            refused()
        assert code(error) == "PLN001"
    assert sorted(library.folder.parent.rglob("*")) == before


@given(st.text(max_size=70))
def test_every_title_gives_id(title):
    assert check_plan_id(new_plan_id(title, {new_plan_id(title)})) != new_plan_id(title)


def test_unique_id_prefix_suffices_and_ambiguous_one_does_not(library):
    for name in ("report-daily", "report-weekly", "report"):
        library.save(graph(), name)
    assert library.find("report-w") == "report-weekly"
    assert library.find("report") == "report"  # a whole id counts before beginnings
    with pytest.raises(CallsheetError, match="more than one plan begins with report-") as error:
        library.find("report-")
    assert code(error) == "PLN002"
    with pytest.raises(CallsheetError) as error:
        library.find("raport")
    assert "did you mean report" in str(error.value.diagnostics[0].help)


def test_plan_is_not_overwritten_by_default(library):
    library.save(graph(), "p")
    with pytest.raises(CallsheetError) as error:
        library.save(parse(LTP).require(), "p")
    assert code(error) == "PLN003"
    library.save(parse(LTP).require(), "p", replaces=True)
    assert [file.name for file in library.folder.iterdir() if file.is_file()] == ["p.ltp"]


def test_plan_without_id_gets_id_from_title(library):
    nameless = replace(graph(), id=None, title="Tidy the notes")
    assert [library.save(nameless).id for _ in range(2)] == ["tidy-the-notes", "tidy-the-notes-2"]


def test_renaming_changes_id_in_text(library):
    library.save(graph())
    renamed = library.rename("refactor", "other")
    assert (renamed.id, json.loads(renamed.text)["id"]) == ("other", "other")
    assert library.ids() == ("other",)
    library.save(parse(LTP).require(), "greet", text=LTP, syntax=Syntax.LTP)
    assert library.rename("greet", "hail").text == LTP
    with pytest.raises(CallsheetError) as error:
        library.rename("hail", "other")
    assert code(error) == "PLN003"


def test_deleting_removes_one_plan(library):
    library.save(graph(), "a1")
    library.save(graph(), "a2")
    assert library.delete("a1") == "a1"
    assert library.ids() == ("a2",)
    with pytest.raises(CallsheetError):
        library.delete("a1")


def test_foreign_files_are_ignored(library):
    library.save(graph(), "p")
    (library.folder / "README.md").write_text("x")
    (library.folder / "Upper.json").write_text("{}")
    (library.folder / "sub.json").mkdir()
    secret = library.folder.parent / "secret.json"
    secret.write_text("{}")
    (library.folder / "link.json").symlink_to(secret)
    assert library.ids() == ("p",)
    with pytest.raises(CallsheetError) as error:
        library.load("link")
    assert code(error) == "PLN002"


def test_invalid_text_is_listed_and_reported_on_load(library):
    library.save(graph(), "good")
    (library.folder / "bad.json").write_text('{"title": "Bad", "steps": [{"index": "1"}]}')
    assert [(p.id, p.steps) for p in library.list()] == [("bad", None), ("good", 3)]
    with pytest.raises(CallsheetError) as error:
        library.load("bad").require()
    assert code(error) == "DAG010"


def test_two_files_of_one_id_are_reported(library):
    library.save(graph(), "p")
    (library.folder / "p.ltp").write_text(LTP)
    with pytest.raises(CallsheetError) as error:
        library.load("p")
    assert code(error) == "PLN004"
    assert [p.steps for p in library.list()] == [None]


def test_unwritable_folder_is_reported(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(CallsheetError) as error:
        PlanLibrary(tmp_path / "file").save(graph())
    assert code(error) == "PLN004"


def test_missing_library_is_empty(tmp_path):
    assert PlanLibrary(tmp_path / "none").list() == []
    assert not (tmp_path / "none").exists()


def test_killed_write_keeps_previous_plan(library):
    library.save(graph(), "p")
    before = library.load("p").text
    code_ = (
        "import os, sys\n"
        "from callsheet.store.library import PlanLibrary\n"
        "from callsheet.frontends.dag import parse_dag\n"
        "os.replace = lambda *a: os.kill(os.getpid(), 9)\n"
        "library = PlanLibrary(sys.argv[1])\n"
        "library.save(parse_dag(sys.argv[2]).require(), 'p', replaces=True)\n"
    )
    text = json.dumps({**GRAPH, "title": "Changed"})
    done = forked.run([sys.executable, "-c", code_, str(library.folder), text], check=False)
    assert done.returncode == -9
    assert library.load("p").text == before
    assert library.ids() == ("p",)


def test_concurrent_writers_lose_no_plan(library):
    code_ = (
        "import sys\n"
        "from callsheet.store.library import PlanLibrary\n"
        "from callsheet.frontends.dag import parse_dag\n"
        "library = PlanLibrary(sys.argv[1])\n"
        "for _ in range(10): library.save(parse_dag(sys.argv[2]).require())\n"
    )
    text = json.dumps({name: value for name, value in GRAPH.items() if name != "id"})
    line = [sys.executable, "-c", code_, str(library.folder), text]
    writers = [forked.Popen(line) for _ in range(3)]
    assert [writer.wait() for writer in writers] == [0, 0, 0]
    assert len(library.ids()) == 30
