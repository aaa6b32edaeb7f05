"""Lists of runs are searched by the rows of runs; no event of a run that is not shown is read."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import fields
from pathlib import Path

import pytest
from tests.apps.http.conftest import running
from tests.store.conftest import without_index

from callsheet.apps.cli.runs import runs as runs_command
from callsheet.apps.operations.reading import plan_text
from callsheet.apps.table.runs import FilterArguments
from callsheet.runtime.launch import Launch
from callsheet.runtime.runs import enlist_run
from callsheet.sealing.known import Known
from callsheet.store import Durability, Journal
from callsheet.store.connections import ReadConnection
from callsheet.store.listing import RunQuery, listed_runs, plan_name
from callsheet.store.runs import RunFilter

PLAN = "# goal: Water the plants\nS1: @RESPOND (1)"


async def recorded(folder: Path, count: int, first: int = 0) -> None:
    """A journal with so many runs that nobody has continued."""
    plan = plan_text(PLAN).require()
    with Journal.open(folder / "journal.db", durability=Durability.OFF) as journal:
        for n in range(first, first + count):
            (
                await enlist_run(
                    plan, Known(), Launch(note={"plan": f"file{n:03}.ltp"}), journal, f"run{n:03}"
                )
            ).close()


def test_every_condition_is_an_option_and_a_parameter():
    known = {field.name for field in fields(RunFilter)}
    options = {option.name for option in runs_command.params}
    assert options - {"sort", "rises", "after", "counts", "limit", "journal", "as_json"} == known
    assert {"tags" if name == "tag" else name for name in FilterArguments.model_fields} == known


class Reads:
    """Which tables were read, and how many queries there were."""

    def __init__(self) -> None:
        self.queries = list[str]()

    def of(self, table: str) -> int:
        return sum(f"FROM {table}" in query for query in self.queries)


@contextmanager
def counted(monkeypatch: pytest.MonkeyPatch) -> Iterator[Reads]:
    """The queries of all journals meanwhile."""
    reads, select, many = Reads(), ReadConnection.select, ReadConnection.select_many

    def selecting(self: ReadConnection, query: str, values: tuple[object, ...] = ()):
        reads.queries.append(query)
        return select(self, query, values)

    def selecting_many(self: ReadConnection, query: str, values: tuple[object, ...]):
        reads.queries.append(query)
        return many(self, query, values)

    with monkeypatch.context() as patch:
        patch.setattr(ReadConnection, "select", selecting)
        patch.setattr(ReadConnection, "select_many", selecting_many)
        yield reads


async def test_search_costs_as_many_queries_for_many_runs_as_for_few(folder, monkeypatch):
    spent = list[tuple[int, int]]()
    for first, count in ((0, 20), (20, 380)):
        await recorded(folder, count, first)
        with running(folder, revives=False) as api, counted(monkeypatch) as reads:
            assert [row["run_id"] for row in api.get("/v1/runs?text=FILE007")["runs"]] == ["run007"]
            spent.append((len(reads.queries), reads.of("events")))
    assert spent[0] == spent[1]


async def test_list_is_searched_by_name_goal_and_id(folder):
    await recorded(folder, 30)
    with running(folder, revives=False) as api:

        def ids(query: str) -> list[str]:
            return [row["run_id"] for row in api.get(f"/v1/runs?{query}")["runs"]]

        assert ids("text=run009") == ["run009"]
        assert ids("text=the%20plants&limit=2") == ["run029", "run028"]
        assert ids("text=plants&limit=2&before=run001") == ["run000"]
        assert ids("plan=file01&limit=1&before=run015") == ["run014"]
        assert ids("text=rupted&limit=1") == ["run029"]
        assert (ids("status=done&text=plants"), ids("status=interrupted&limit=1")) == ([], ["run029"])


async def test_older_journal_is_searched_and_its_first_events_are_read_once(own_home, monkeypatch):
    await recorded(own_home, 30)
    path = own_home / "journal.db"
    without_index(path, "name", "goal")
    with Journal.open(path) as journal:
        for firsts in (30, 0):
            with counted(monkeypatch) as reads:
                found = listed_runs(journal, RunQuery(wanted=RunFilter(plan="file003")))
                assert [run.run_id for run, _ in found] == ["run003"]
                assert plan_name(journal, journal.find_run("run004")) == "file004.ltp"
                assert firsts <= reads.of("events") <= 2 * firsts + 4, reads.queries


async def test_index_is_added_to_older_journal_while_others_read_and_write_it(own_home):
    await recorded(own_home, 2)
    path = own_home / "journal.db"
    without_index(path, "name", "goal")
    old_form = (
        "INSERT INTO runs (run_id, plan_hash, core_version, owner, status, epoch, created, updated)"
        " SELECT 'old', plan_hash, core_version, owner, status, epoch, created, updated FROM runs LIMIT 1"
    )
    with Journal.open(path) as reader:
        assert [run.name for run in reader.runs()] == [None, None]
        await recorded(own_home, 1, first=2)  # by another connection, which adds the columns
        assert [run.name for run in reader.runs()] == ["file002.ltp", None, None]
        with closing(sqlite3.connect(path)) as connection:
            connection.execute(old_form)
            connection.commit()
        assert {run.run_id for run in reader.runs() if run.name is None} == {"run000", "run001", "old"}
        assert reader.names(reader.find_run("run000")).goal == "Water the plants"
        assert [run.name for run, _ in listed_runs(reader, RunQuery()) if run.name is None] == []


def test_run_without_named_file_is_called_by_its_goal(api):
    goal = "# goal: Pay what is owed\nS1: @ADD (a=1) > $x"
    named = [
        api("POST", "/v1/runs", {"plan": plan, "run_id": run_id, **more}).status
        for run_id, plan, more in (
            ("a", goal, {}),
            ("b", goal, {"name": "payments"}),
            ("c", "S1: @ADD (a=1) > $x", {}),
        )
    ]
    assert named == [202, 202, 202]
    rows = {row["run_id"]: row["plan"] for row in api.get("/v1/runs")["runs"]}
    assert (rows["a"], rows["b"]) == ("Pay what is owed", "payments")
    assert rows["c"].startswith("plan ")
    api.ended("a")
    assert api.get("/v1/runs/a")["plan"] == "Pay what is owed"


def test_running_run_is_listed_with_what_it_does(api):
    plan = "S1: ?FOREACH ($name IN $names) THEN @HOLD (name=$name) > $held"
    (api.folder / "one").touch()
    for names in (["one", "two"], ["one", "two", "two"]):  # also if another run had its name before
        run = api.start(plan, inputs={"names": names}, run_id="again")
        while not re.fullmatch(
            rf"S1 .+ \(1 of {len(names)}; 1 of 4, rows\)", api.get("/v1/runs")["runs"][0].get("under_way", "")
        ):
            assert api.get(f"/v1/runs/{run}")["status"] in ("queued", "running")
        (api.folder / "two").touch()
        api.ended(run)
        assert "under_way" not in api.get("/v1/runs")["runs"][0]
        (api.folder / "two").unlink()
        assert api("DELETE", f"/v1/runs/{run}").status == 204
