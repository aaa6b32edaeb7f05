"""`runs verify|heads|prune|export|import|salvage`: maintenance of a journal."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from tests.apps.conftest import Machine

from callsheet.store import Durability, Journal


def run(machine: Machine, run_id: str, *steps: str) -> None:
    plan = machine.plan(*(steps or ("S1: @ADD (a=1) > $a", 'S2: @RESPOND ("a=$a")')), name=f"{run_id}.ltp")
    result = machine("run", plan, "--tools", machine.tools, "--run-id", run_id)
    assert result.exit_code in (0, 1), result.stderr


LARGE = ("S1: @BULK (size=100000) > $a", "S2: @BULK (size=1100000) > $b", 'S3: @RESPOND ("$a")')


def change(machine: Machine, statement: str) -> None:
    with closing(sqlite3.connect(machine.journal)) as db, db:
        assert db.execute(statement).rowcount > 0
    db.close()


def blob_files(machine: Machine) -> list[Path]:
    return sorted(p for p in Path(f"{machine.journal}.blobs").rglob("*") if p.is_file())


# ---------------------------------------------------------------- verify, heads


def test_runs_without_subcommand_lists(machine):
    run(machine, "one")
    assert [row["run_id"] for row in machine.json("runs")] == ["one"]
    assert machine("runs", "--limit", "1").stdout.startswith("one ")


def test_all_runs_are_verified(machine):
    run(machine, "one")
    run(machine, "two")
    result = machine("runs", "verify")
    assert result.exit_code == 0
    assert [line.split()[0] for line in result.stdout.splitlines()] == ["one", "two"]
    assert "2 runs, all intact" in result.stderr
    said = machine.json("runs", "verify", "two")
    assert (said["ok"], [r["run_id"] for r in said["runs"]]) == (True, ["two"])


def test_first_bad_event_is_named(machine):
    run(machine, "one")
    run(machine, "two")
    change(
        machine, "UPDATE events SET body = CAST('{\"value\":3}' AS BLOB) WHERE id >> 32 = 1 AND type = 'ok'"
    )
    result = machine("runs", "verify")
    assert result.exit_code == 1
    assert "one " in result.stdout.splitlines()[0]
    assert "BROKEN at event 3" in result.stdout
    said = machine.json("runs", "verify")
    assert [(r["run_id"], r["ok"], r["event"]) for r in said["runs"]] == [
        ("one", False, 3),
        ("two", True, None),
    ]
    assert machine("runs", "verify", "two").exit_code == 0


def test_heads_are_recorded_and_verified(machine):
    run(machine, "one")
    printed = machine("runs", "heads", "--anchor", "heads.jsonl").stdout.split()
    (noted,) = [json.loads(line) for line in Path("heads.jsonl").read_text().splitlines()]
    assert [noted["run"], str(noted["seq"]), noted["head"]] == printed
    run(machine, "two")
    machine("runs", "heads", "--anchor", "heads.jsonl")
    assert len(Path("heads.jsonl").read_text().splitlines()) == 3
    result = machine("runs", "verify", "--anchor", "heads.jsonl")
    assert result.exit_code == 0
    assert "3 anchors, all found" in result.stderr


def test_rewritten_chain_contradicts_recorded_head(machine):
    """Every event verifies; only the recorded head shows that the history is different."""
    run(machine, "one")
    machine("runs", "heads", "--anchor", "heads.jsonl")
    machine.journal.unlink()
    run(machine, "one")
    assert machine("runs", "verify").exit_code == 0
    result = machine("runs", "verify", "--anchor", "heads.jsonl")
    assert result.exit_code == 1
    assert "ANCHOR BROKEN" in result.stdout
    assert machine.json("runs", "verify", "--anchor", "heads.jsonl")["anchors"][0]["ok"] is False


@pytest.mark.parametrize("text", ["", "no json\n", "{}\n", '{"run": 1}\n', "\xff"])
def test_invalid_heads_file_is_refused(machine, text):
    run(machine, "one")
    Path("heads.jsonl").write_bytes(text.encode("latin-1"))
    result = machine("runs", "verify", "--anchor", "heads.jsonl")
    assert result.exit_code != 0
    assert "JRN018" in result.stderr


# ---------------------------------------------------------------- prune


@pytest.fixture
def ahead(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The number of days, in its first item, by which the clock of journals is ahead."""
    opened, days = Journal.open.__func__, [0.0]  # type: ignore[attr-defined]

    def open_ahead(cls: type[Journal], path: Path, durability: Durability, **more: Any) -> Journal:
        return opened(cls, path, durability, clock=lambda: time.time() + days[0] * 86_400, **more)

    monkeypatch.setattr(Journal, "open", classmethod(open_ahead))
    return days


def test_values_and_then_runs_expire(machine, ahead):
    run(machine, "big", *LARGE)
    run(machine, "bad", 'S1: @FAIL (text="x") > $a ON_FAIL TERMINATE ("no")')
    size = machine.journal.stat().st_size
    assert machine.json("runs", "prune") == {
        "dry_run": False, "values": [], "runs": [], "blobs": 0, "bytes": 0, "orphans": 0, "compacted": False,
        "labels": [],
    }  # fmt: skip
    ahead[0] = 31
    planned = machine.json("runs", "prune", "--dry-run")
    assert (planned["values"], planned["runs"], planned["blobs"]) == (["big"], [], 2)
    assert blob_files(machine)
    done = machine.json("runs", "prune")
    assert (done["values"], done["blobs"], done["bytes"]) == (["big"], 2, planned["bytes"])
    assert done["bytes"] > 800_000
    assert not blob_files(machine)
    assert machine.journal.stat().st_size < size
    assert machine("runs", "verify").exit_code == 0
    assert "JRN015" in machine("show", "big").stderr
    assert '"dropped"' in machine("show", "big", "--events").stdout
    assert machine.json("runs", "prune")["blobs"] == 0
    ahead[0] = 61
    assert machine.json("runs", "prune", "--values-only")["runs"] == []
    assert machine.json("runs", "prune", "--done", "never")["runs"] == []
    assert machine.json("runs", "prune")["runs"] == ["big"]
    assert [row["run_id"] for row in machine.json("runs")] == ["bad"]
    assert machine("runs", "verify").exit_code == 0
    run(machine, "big", *LARGE)  # the same values again: they are there again
    assert machine("show", "big").exit_code == 0
    assert machine("runs", "verify").exit_code == 0


@pytest.mark.parametrize(("status", "days"), [("done", 30), ("failed", 90), ("cancelled", 90)])
def test_default_retention_depends_on_status(machine, ahead, status, days):
    run(machine, "big", *LARGE)
    change(machine, f"UPDATE runs SET status = '{status}' WHERE run_id = 'big'")
    for day, values, runs in (
        (days - 1, [], []),
        (days + 1, ["big"], []),
        (2 * days - 1, ["big"], []),
        (2 * days + 1, [], ["big"]),
    ):
        ahead[0] = day
        planned = machine.json("runs", "prune", "--dry-run")
        assert (day, planned["values"], planned["runs"]) == (day, values, runs)


def test_pruning_keeps_values_that_other_runs_use(machine):
    run(machine, "old", *LARGE)
    run(machine, "new", 'S1: @FAIL (text="x") > $a', *LARGE[1:])
    said = machine.json("runs", "prune", "--done", "0d", "--values-only")
    assert sorted(said["values"]) == ["new", "old"]
    run(machine, "third", *LARGE)
    change(machine, "UPDATE runs SET status = 'failed' WHERE run_id = 'third'")
    assert machine.json("runs", "prune", "--done", "0d", "--values-only")["blobs"] == 0
    assert machine("show", "third").exit_code == 0


def test_unended_run_is_never_pruned(machine):
    machine.write("marker", "")
    Path("marker").unlink()
    plan = machine.plan(
        "S1: @BULK (size=100000) > $a", 'S2: @DIE (marker="marker") > $b', 'S3: @RESPOND ("$b")'
    )
    died = machine.shell("run", plan, "--tools", machine.tools, "--run-id", "open")
    assert died.returncode == -signal.SIGKILL
    said = machine.json("runs", "prune", "--done", "0d", "--failed", "0d", "--cancelled", "0d")
    assert (said["runs"], said["blobs"]) == ([], 0)
    assert machine("resume", "open").exit_code == 4
    assert machine.json("runs", "prune", "--done", "0d")["runs"] == []
    assert machine("resume", "open", "--in-doubt", "skip").exit_code == 0


def test_old_orphaned_files_are_removed(machine):
    run(machine, "one")
    folder = Path(f"{machine.journal}.blobs") / "ab"
    folder.mkdir(parents=True)
    old, fresh = folder / ("c" * 62), folder / ("d" * 62)
    old.write_text("x")
    fresh.write_text("x")
    os.utime(old, (time.time() - 7_200,) * 2)
    assert machine.json("runs", "prune", "--dry-run")["orphans"] == 1
    assert machine.json("runs", "prune")["orphans"] == 1
    assert (old.exists(), fresh.exists()) == (False, True)


@pytest.mark.parametrize("text", ["soon", "-1d", "3 months", ""])
def test_invalid_age_is_usage_error(machine, text):
    run(machine, "one")
    assert machine("runs", "prune", "--done", text).exit_code == 2
    assert [row["run_id"] for row in machine.json("runs")] == ["one"]


# ---------------------------------------------------------------- export, import


def other(machine: Machine) -> tuple[str, str]:
    return ("--journal", str(machine.folder / "other" / "journal.db"))


def test_exported_run_is_imported_unchanged(machine):
    run(machine, "big", *LARGE)
    run(machine, "one")
    before = machine.json("show", "big", "--events")
    assert machine("runs", "export", "-o", "runs.jsonl").exit_code == 0
    taken = machine.json("runs", "import", "runs.jsonl", *other(machine))
    assert [row["run_id"] for row in taken] == ["big", "one"]
    assert machine.json("show", "big", "--events", *other(machine)) == before
    assert machine.json("runs", "verify", *other(machine))["ok"]
    heads = [[h["run_id"], h["event"], h["head"]] for h in machine.json("runs", "heads")]
    assert heads == [
        [h["run_id"], h["event"], h["head"]] for h in machine.json("runs", "heads", *other(machine))
    ]
    assert machine.json("show", "big", *other(machine))["response"] == machine.json("show", "big")["response"]
    assert Path("runs.jsonl").stat().st_mode & 0o777 == 0o600


def test_unfinished_run_is_resumed_elsewhere(machine):
    plan = machine.plan("S1: @ADD (a=1) > $a", 'S2: @DIE (marker="marker") > $b', 'S3: @RESPOND ("$a $b")')
    assert machine.shell("run", plan, "--tools", machine.tools, "--run-id", "r").returncode == -signal.SIGKILL
    exported = machine.shell("runs", "export", "r", "-o", "-")
    imported = machine.spawn("runs", "import", "-", *other(machine), stdin=subprocess.PIPE)
    imported.communicate(exported.stdout, timeout=60)
    assert imported.returncode == 0
    assert machine("resume", "r", *other(machine)).exit_code == 4
    result = machine.json("resume", "r", "--in-doubt", "retry", *other(machine))
    assert result["response"] == "2 alive"
    assert machine.json("runs")[0]["status"] == "interrupted"


def test_existing_run_is_not_imported(machine):
    run(machine, "one")
    machine("runs", "export", "-o", "runs.jsonl")
    result = machine("runs", "import", "runs.jsonl")
    assert result.exit_code != 0
    assert "JRN003" in result.stderr
    assert machine("runs", "verify").exit_code == 0


def lines_of(machine: Machine) -> list[bytes]:
    run(machine, "one", "S1: @BULK (size=70000) > $a", "S2: @ADD (a=2) > $b", 'S3: @RESPOND ("$b")')
    machine("runs", "export", "-o", "runs.jsonl")
    return Path("runs.jsonl").read_bytes().splitlines(keepends=True)


def test_missing_changed_or_moved_lines_are_found(machine):
    lines = lines_of(machine)
    bad = [lines[:n] for n in range(len(lines))]
    bad += [lines[:n] + lines[n + 1 :] for n in range(len(lines))]
    bad += [[*lines[:n], lines[n + 1], lines[n], *lines[n + 2 :]] for n in range(len(lines) - 1)]
    bad += [
        [*lines[:n], lines[n].replace(b"2", b"3", 1), *lines[n + 1 :]]
        for n in range(len(lines))
        if b"2" in lines[n]
    ]
    bad += [[b"[" * 100_000 + b"]" * 100_000], [b"9" * 5_000]]
    bad += [[*lines, b"{}\n"], [b"[]\n"], [b"\xff\n"], [b'{"callsheet": "run", "version": 2}\n'], lines * 2]
    for number, text in enumerate(bad):
        Path("bad.jsonl").write_bytes(b"".join(text))
        result = machine("runs", "import", "bad.jsonl", *other(machine))
        assert result.exit_code != 0, number
        assert "JRN016" in result.stderr or "JRN003" in result.stderr, result.stderr
        assert "JSONDecodeError" not in result.stderr
        assert machine.json("runs", *other(machine)) == []


def test_hostile_lines_write_nowhere(machine):
    """A name or an id that would be a path is refused."""
    lines = lines_of(machine)
    for old, new in ((b'"sha256":"', b'"sha256":"../../../x'), (b'"run_id":"one"', b'"run_id":"../one"')):
        Path("bad.jsonl").write_bytes(b"".join(lines).replace(old, new))
        result = machine("runs", "import", "bad.jsonl", *other(machine))
        assert result.exit_code != 0
        assert "JRN0" in result.stderr
    assert not list(machine.folder.rglob("x*"))


def test_damaged_run_is_not_exported(machine):
    run(machine, "one")
    change(machine, "UPDATE events SET ts = ts + 1 WHERE type = 'ok'")
    result = machine("runs", "export", "-o", "runs.jsonl")
    assert result.exit_code == 1
    assert "runs salvage one" in result.stderr
    assert not Path("runs.jsonl").exists()
    assert not list(Path().glob("*.new"))


# ---------------------------------------------------------------- salvage


def test_intact_part_of_damaged_run_is_salvaged_and_resumes(machine):
    run(machine, "one", "S1: @ADD (a=1) > $a", "S2: @ADD (a=$a) > $b", 'S3: @RESPOND ("$b")')
    run(machine, "two")
    change(
        machine, "UPDATE events SET body = CAST('{\"value\":9}' AS BLOB) WHERE key = 'S2.0.1' AND type = 'ok'"
    )
    result = machine("resume", "one")
    assert "runs salvage" in result.stderr
    result = machine("runs", "salvage", "-o", "saved.jsonl")
    assert result.exit_code == 1
    assert "one                    4 events saved; lost from event 5" in result.stderr
    machine("runs", "import", "saved.jsonl", *other(machine))
    assert machine.json("runs", "verify", *other(machine))["ok"]
    assert machine.json("resume", "one", *other(machine))["response"] == "3"
    assert machine.json("show", "two", *other(machine))["status"] == "done"


def test_corrupt_page_loses_only_later_events(machine):
    steps = [f"S{n}: @BULK (size={3000 + n}) > $v{n}" for n in range(1, 30)]
    run(machine, "one", *steps)
    data = bytearray(machine.journal.read_bytes())
    at = data.index(b"x" * 900, len(data) // 2) // 1024 * 1024
    data[at : at + 4096] = b"\xff" * 4096
    machine.journal.write_bytes(data)
    assert machine("runs", "verify").exit_code == 1
    result = machine("runs", "salvage", "-o", "saved.jsonl", "--json")
    assert result.exit_code == 1
    (saved,) = json.loads(result.stdout)["runs"]
    assert 10 < saved["events"] < 61
    machine("runs", "import", "saved.jsonl", *other(machine))
    assert machine.json("resume", "one", *other(machine))["status"] == "done"
