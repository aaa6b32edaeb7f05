"""A server keeps its journal within the rules of time and size, and never deletes what has not ended."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from tests.apps.http.conftest import running
from tests.runtime.tools import plan_of

from callsheet.apps.hosting.host import keep_within
from callsheet.apps.settings import RetentionSettings, Settings
from callsheet.apps.setup import Setup
from callsheet.ir.labels import UNKNOWN
from callsheet.machine import Outcome
from callsheet.store import Durability, EventType, Journal, RunStatus, retention
from callsheet.store.labels import LabelStore, notes_of
from callsheet.store.retention import used_bytes

DAY = 86_400.0
START = {"inputs": {}, "facts": {}, "limits": {}, "pins": {}, "launch": {}}


def written(path: Path, now: list[float], count: int, size: int) -> Journal:
    """A journal with a run a day, of which the first waits."""
    journal = Journal.open(path, Durability.OFF, clock=lambda: now[0])
    for number in range(count):
        now[0] += DAY
        with journal.create_run(f"r{number}", plan_of("S1: @RESPOND (1)"), "", START) as writer:
            writer.append(EventType.OK, key="S1.0.1", body={"value": f"{number}" + "x" * size})
            if number == 0:
                writer.set_status(RunStatus.WAITING)
            else:
                end = {"status": "done"}
                writer.append(EventType.END, body=end)
                writer.set_outcome(Outcome.DONE, end)
            writer.commit()
    return journal


def test_runs_past_their_age_are_deleted(tmp_path):
    now = [1e9]
    with written(tmp_path / "j.db", now, 10, 10) as journal:
        assert keep_within(journal, RetentionSettings(failed="1d")) == (0, 0, 0)
        assert keep_within(journal, RetentionSettings(done="2d")).expired == 5
        assert {run.run_id for run in journal.runs()} == {"r0", "r6", "r7", "r8", "r9"}


def test_run_that_is_resumed_between_look_and_deletion_is_kept(tmp_path):
    with written(tmp_path / "j.db", [1e9], 3, 10) as journal:
        due = retention.Due((), retention.ended_runs(journal.parts))
        assert [run.run_id for run in due.runs] == ["r1", "r2"]
        with journal.claim("r1") as writer:
            writer.append(EventType.REOPEN, body={})
            writer.set_status(RunStatus.WAITING)
            writer.commit()
        assert retention.prune(journal.parts, due).runs == ("r2",)
        assert not retention.delete(journal.parts, due.runs[0])
        assert {run.run_id for run in journal.runs()} == {"r0", "r1"}


def test_labels_of_files_are_left_alone_while_runs_go_on(tmp_path):
    now = [1e9]
    with written(tmp_path / "j.db", now, 10, 10) as journal:
        with LabelStore.beside(journal.path) as labels:
            labels.end(labels.begin(str(tmp_path), "not-yet-there.txt", UNKNOWN, "r0"), replaced=False)
            labels.end(labels.begin(notes_of("r1"), "a", UNKNOWN, "r1"), replaced=False)
            labels.end(labels.begin(notes_of("new"), "a", UNKNOWN, "new"), replaced=False)
        assert keep_within(journal, RetentionSettings(done="2d")).expired == 5
        with LabelStore.beside(journal.path) as labels:
            left = {(noted.root, noted.name) for noted in labels.entries()}
    assert left == {(str(tmp_path), "not-yet-there.txt"), (notes_of("new"), "a")}


@pytest.mark.parametrize("size", [20_000, 400_000])
def test_oldest_runs_make_room(tmp_path, size):
    now = [1e9]
    with written(tmp_path / "j.db", now, 120, size) as journal:
        most = used_bytes(journal.parts) // 2
        done = keep_within(journal, RetentionSettings(most=f"{most / 1_000}kB"))
        assert used_bytes(journal.parts) <= most
        left = {run.run_id for run in journal.runs()}
        assert done.for_room == 120 - len(left)
        assert {"r0", "r119"} <= left
        assert "r1" not in left
        assert len(left) > 40  # no more than was needed


def test_nothing_is_deleted_where_only_open_runs_are_left(tmp_path):
    with written(tmp_path / "j.db", [1e9], 1, 50_000) as journal:
        assert keep_within(journal, RetentionSettings(most="1kB")) == (0, 0, 0)
        assert [run.run_id for run in journal.runs()] == ["r0"]


@pytest.mark.parametrize("wrong", [{"done": "soon"}, {"most": "20"}, {"most": "many GB"}])
def test_rule_that_is_none_is_refused(wrong):
    with pytest.raises(ValueError, match="is not"):
        RetentionSettings(**wrong)


def test_server_deletes_by_its_settings_when_it_starts(tmp_path):
    written(tmp_path / "journal.db", [1e9], 5, 10).close()
    settings = Settings(retention=RetentionSettings(done="1d"))
    with running(
        tmp_path, Setup(workspace=tmp_path, data=tmp_path / "data", settings=settings), revives=False
    ) as api:
        for _ in range(200):
            left = [run["run_id"] for run in api.get("/v1/runs")["runs"]]
            if left == ["r0"]:
                break
            time.sleep(0.05)
    assert left == ["r0"]
