"""Salvaging a truncated journal: its readable runs are saved, and the original is unchanged."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from callsheet.ir import Plan
from callsheet.machine import Limits
from callsheet.store import EventType, Journal, JournalError, RunStatus
from callsheet.store.archive import import_runs
from callsheet.store.backup import lists_all, opened, run_ids, salvage
from callsheet.store.start import Start


@pytest.fixture
def whole(path: Path, plan: Plan) -> bytes:
    """The file of a journal with twenty runs of ten events, without a log beside it."""
    start = Start({}, {}, Limits(), {}, {}).to_json()
    with Journal.open(path) as journal:
        for number in range(20):
            with journal.create_run(f"r{number}", plan, "", start) as writer:
                for n in range(9):
                    writer.append(EventType.OK, key=f"S1.{n}.1", body={"value": "x" * 50})
                writer.commit()
    return path.read_bytes()


def test_readable_runs_of_truncated_file_are_saved(whole: bytes, path: Path, tmp_path: Path) -> None:
    counts: list[int] = []
    codes: set[str] = set()
    for left in range(len(whole) - 1, 1_000, -3_000):
        path.write_bytes(whole[:left])
        try:
            with opened(path) as journal:
                saved = [salvage(journal.parts, run) for run in run_ids(journal.parts.reader)]
                is_all = lists_all(journal.parts.reader)
        except JournalError as error:
            codes.add(error.diagnostics[0].code)
            counts.append(0)
        else:
            assert [run.run_id for run in saved if run.lost is None and run.events != 10] == []
            counts.append(sum(run.events for run in saved))
            assert is_all == (len(saved) == 20)
            lines = [line for run in saved for line in run.lines]
            if not lines:  # where the cut is depends on the times that the file holds
                continue
            other = tmp_path / f"other-{left}.db"
            with Journal.open(other) as sound:
                import_runs(sound.parts, iter(lines))
                found = sound.runs()
                assert sum(info.events for info in found) == counts[-1]
                assert [info.run_id for info in found if sound.verify(info.run_id) is not None] == []
        assert path.read_bytes() == whole[:left]
    assert codes == {"JRN012"}
    assert counts == sorted(counts, reverse=True)
    assert counts[0] >= 190
    assert counts[-1] == 0
    assert len(set(counts)) > 5


def test_missing_run_list_is_reported(whole: bytes, path: Path) -> None:
    path.write_bytes(whole[:3_000])
    with (
        pytest.raises(JournalError, match=r"cut off after 3000 bytes, before its list of runs"),
        opened(path),
    ):
        pass


def test_intact_journal_is_read_in_place(whole: bytes, path: Path) -> None:
    with opened(path) as journal:
        assert journal.path == path
        assert {salvage(journal.parts, run).lost for run in run_ids(journal.parts.reader)} == {None}


def test_paused_run_stays_paused_beyond_a_damaged_event(whole: bytes, path: Path, tmp_path: Path) -> None:
    """Only a person lets it go on, also from what was saved of it."""
    with Journal.open(path) as journal, journal.claim("r0") as writer:
        writer.append(EventType.PAUSE, body={"by": "ada", "reason": ""})
        writer.set_status(RunStatus.PAUSED)
        writer.commit()
    with sqlite3.connect(path) as database:
        database.execute("UPDATE events SET body = X'00' WHERE type = 'pause'")
    with Journal.open(path) as journal:
        saved = salvage(journal.parts, "r0")
        assert saved.lost is not None
    with Journal.open(tmp_path / "other.db") as sound:
        import_runs(sound.parts, iter(saved.lines))
        assert sound.find_run("r0").status is RunStatus.PAUSED
