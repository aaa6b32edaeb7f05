"""A plan library in the shared store behaves like one in a folder; policies are stored there too."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from os import environ
from pathlib import Path
from subprocess import run
from sys import executable

import pytest

from callsheet.api.policies import load_policy, share_policy
from callsheet.diagnostics import CallsheetError
from callsheet.frontends.spelling import Syntax, read_as
from callsheet.ir import Plan
from callsheet.store.library import PlanLibrary, open_library
from callsheet.store.library.library import export_plans, import_plans
from callsheet.store.shared.opening import SharedFiles
from callsheet.store.shared.postgres import PostgresDatabase

PLAN = "S1: @ADD (a=$a, b=2) > $sum\nS2: @RESPOND ($sum)\n"
OTHER = "S1: @ADD (a=1, b=2) > $sum\nS2: @RESPOND ($sum)\n"


@pytest.fixture
def database(address: str) -> Iterator[PostgresDatabase]:
    """The database of the store."""
    with closing(PostgresDatabase(address)) as opened:
        yield opened


@pytest.fixture
def shared(database: PostgresDatabase) -> PlanLibrary:
    """A library in the store."""
    return PlanLibrary(files=SharedFiles(database, "plans"), clock=lambda: 5.0)


def parse(text: str) -> Plan:
    """The plan of a text."""
    return read_as(Syntax.LTP, text, "plan").require()


def life(library: PlanLibrary) -> list[object]:
    """The results of a library over a sequence of operations."""
    one, other = parse(PLAN), parse(OTHER)
    library.save(one, "sum", text=f"# note\n{PLAN}", goal="add two")
    library.save(other, "sum", replaces=True)
    library.save(one, "odd")
    said: list[object] = [library.ids(), [each.version for each in library.versions("sum")]]
    said += [library.load("sum@1").text, library.load("su").text, library.purposes()]
    library.rename("sum", "total")
    said += [library.ids(), library.load("total").version, export_plans(library, ["total"])]
    library.delete("odd")
    said += [
        _code(lambda: library.load("odd")),
        _code(lambda: library.save(one, "total")),
        library.list()[0][2:],
    ]
    return said


def _code(work: Callable[[], object]) -> str:
    with pytest.raises(CallsheetError) as caught:
        work()
    return str(caught.value.diagnostics[0].code)


def test_shared_library_behaves_like_folder(shared: PlanLibrary, tmp_path: Path) -> None:
    assert life(shared) == life(PlanLibrary(tmp_path / "plans", clock=lambda: 5.0))


def test_plans_move_from_folder_to_store(shared: PlanLibrary, tmp_path: Path) -> None:
    local = PlanLibrary(tmp_path / "plans")
    local.save(parse(PLAN), "sum")
    assert [(each.id, each.added) for each in import_plans(shared, export_plans(local, ["sum"]))] == [
        ("sum", 1)
    ]
    assert shared.load("sum").text == local.load("sum").text


def test_failed_import_leaves_nothing(shared: PlanLibrary, database: PostgresDatabase) -> None:
    shared.save(parse(PLAN), "sum")
    text = export_plans(shared, ["sum"])
    database.execute(
        "CREATE FUNCTION refuse() RETURNS trigger AS 'BEGIN RAISE ''no room''; END' LANGUAGE plpgsql"
    )
    database.execute(
        "CREATE TRIGGER refuse BEFORE INSERT ON text FOR EACH ROW"
        " WHEN (new.name = '1.json' AND new.folder LIKE '%copy%') EXECUTE FUNCTION refuse()"
    )
    with pytest.raises(CallsheetError, match="no room"):
        import_plans(shared, text, as_id="copy")
    assert shared.ids() == ("sum",)


def test_concurrent_saves_of_machines_lose_no_plan(address: str) -> None:
    def machine(number: int) -> None:
        with closing(PostgresDatabase(address)) as database:
            library = PlanLibrary(files=SharedFiles(database, "plans"))
            for _ in range(5):
                library.save(parse(f"S1: @RESPOND ('plan {number}')"))

    with ThreadPoolExecutor(3) as machines:
        list(machines.map(machine, range(3)))
    with closing(PostgresDatabase(address)) as database:
        assert len(PlanLibrary(files=SharedFiles(database, "plans")).ids()) == 15


def test_environment_selects_library(address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CALLSHEET_PLANS", raising=False)
    monkeypatch.setenv("CALLSHEET_STORE", address)
    assert open_library().address.startswith("postgresql://tests@/postgres/plans")
    assert open_library(tmp_path).folder == tmp_path
    monkeypatch.setenv("CALLSHEET_PLANS", str(tmp_path))
    assert open_library().folder == tmp_path


def test_policy_in_store_is_read_by_name(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CALLSHEET_STORE", address)
    share_policy("base", 'schema = 1\nname = "base"\nextends = "strict"\n')
    share_policy("store:ours", 'schema = 1\nname = "ours"\nextends = "store:base"\n')
    assert load_policy("store:ours").name == "ours"
    with pytest.raises(CallsheetError, match="there is no policy 'store:our'") as caught:
        load_policy("store:our")
    assert caught.value.diagnostics[0].help is not None
    assert "did you mean store:ours?" in caught.value.diagnostics[0].help


def test_shared_policy_without_store_has_hint(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CALLSHEET_STORE", raising=False)
    with pytest.raises(CallsheetError, match="there is no shared store"):
        load_policy("store:ours")


_WITHOUT_DRIVER = """
import sys
sys.modules["psycopg"] = None
from callsheet.api.policies import load_policy
from callsheet.diagnostics import CallsheetError
from callsheet.store.library import open_library

for use in (lambda: open_library(), lambda: load_policy("store:ours")):
    try:
        use()
    except CallsheetError as error:
        print(error.diagnostics[0].code, error.diagnostics[0].help)
"""


def test_missing_driver_error_names_extra() -> None:
    there = {**environ, "CALLSHEET_STORE": "postgresql://me@localhost/plans"}
    there.pop("CALLSHEET_PLANS", None)
    said = run([executable, "-c", _WITHOUT_DRIVER], env=there, capture_output=True, text=True, check=False)
    assert said.stdout == "CFG231 pip install 'callsheet[postgres]'\n" * 2, said.stderr
