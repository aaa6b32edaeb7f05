"""`callsheet report`: a run as one file, and the preview before it is written."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing


def done_run(machine, *lines, run_id="r1"):
    plan = machine.plan(*(lines or ("S1: @ADD (a=1, b=$n) > $sum", "S2: @RESPOND ($sum)")))
    machine("run", plan, "--tools", machine.tools, "--var", "n=41", "--run-id", run_id)


def test_report_is_one_file_with_whole_run(machine):
    done_run(machine)
    result = machine("report", "r1", "-o", "run.html")
    assert result.exit_code == 0, result.output
    assert result.stdout.startswith("run.html  ")
    page = (machine.folder / "run.html").read_text()
    assert page.startswith("<!doctype html>")
    assert "default-src 'none'" in page
    assert "src=" not in page.split("<style>", 1)[0]
    data = json.loads(page.split('id="callsheet-data">', 1)[1].split("</script>", 1)[0])
    assert data["run"]["id"] == "r1"
    assert "42" in data["values"]


def test_file_is_named_after_run_and_private(machine):
    done_run(machine)
    machine("report", "last")
    path = machine.folder / "r1.html"
    assert path.stat().st_mode & 0o077 == 0
    assert [file.name for file in machine.folder.glob(".r1*")] == []


def test_report_is_deterministic(machine):
    done_run(machine)
    machine("report", "r1", "-o", "a.html")
    machine("report", "r1", "-o", "b.html")
    assert (machine.folder / "a.html").read_bytes() == (machine.folder / "b.html").read_bytes()


def test_report_is_written_to_stdout(machine):
    done_run(machine)
    assert machine("report", "r1", "-o", "-").stdout.startswith("<!doctype html>")
    assert machine("report", "r1", "-o", "-", "--json").exit_code == 2


def test_preview_lists_content_and_writes_nothing(machine):
    done_run(machine)
    result = machine("report", "r1", "--preview-redaction")
    assert "$sum" in result.stdout
    assert "shown     variable" in result.stdout
    told = machine.json("report", "r1", "--preview-redaction", "--redact")
    assert told["redacted"]
    assert {row["how"] for row in told["rows"]} == {"left out"}
    assert not list(machine.folder.glob("*.html"))


def test_report_with_comparison_and_as_json(machine):
    done_run(machine)
    done_run(machine, "S1: @ADD (a=2, b=$n) > $sum", "S2: @RESPOND ($sum)", run_id="r2")
    told = machine.json("report", "r1", "--diff", "r2", "-o", "d.html")
    assert told["path"] == "d.html"
    assert told["bytes"] == (machine.folder / "d.html").stat().st_size
    assert '"other":{"id":"r2"' in (machine.folder / "d.html").read_text()


def test_unwritable_file_is_reported(machine):
    done_run(machine)
    result = machine("report", "r1", "-o", "no/such/folder.html")
    assert result.exit_code == 2
    assert "CFG014" in result.stderr


def test_unknown_run_is_reported(machine):
    done_run(machine)
    assert "JRN002" in machine("report", "r9").stderr


def data_of(machine, run: str) -> dict:
    """The data in the report of a run with any exit status."""
    machine("report", run, "-o", "x.html")
    page = (machine.folder / "x.html").read_text()
    return json.loads(page.split('id="callsheet-data">', 1)[1].split("</script>", 1)[0])


def rows_of(table: dict) -> list[dict]:
    return [dict(zip(table["columns"], row, strict=True)) for row in table["rows"]]


def test_waiting_run_shows_its_question(machine):
    plan = machine.plan('S1: @NOTE ("hello $n") > $note', "S2: @RESPOND ($note)")
    line = ("--tools", machine.tools, "--var", "n=Ada", "--run-id", "r1", "--approve", "note")
    assert machine("run", plan, *line).exit_code == 4
    data = data_of(machine, "r1")
    assert data["run"]["words"] == "Waiting for a person"
    (ask,) = data["asks"]
    assert (ask["key"], ask["kind"], ask["tool"]) == ("S1.0.1", "approval", "NOTE")
    assert "hello Ada" in data["values"][ask["given"]]
    assert [visit["outcome"] for visit in rows_of(data["visits"])] == ["open"]


def test_dead_run_shows_calls_that_may_have_happened(machine):
    plan = machine.plan('S1: @DIE (marker="m") > $alive', "S2: @RESPOND ($alive)")
    machine.shell("run", plan, "--tools", machine.tools, "--run-id", "r1")
    data = data_of(machine, "r1")
    assert data["run"]["status"] == "interrupted"
    assert [(call["key"], call["tool"]) for call in data["doubts"]] == [("S1.0.1", "DIE")]
    assert [visit["end"] for visit in rows_of(data["visits"])] == [0]


def test_value_edited_in_fork_is_fact(machine):
    done_run(machine)
    machine("fork", "r1", "--at", "3", "--set", "sum=7", "--run-id", "r2", "--yes")
    data = data_of(machine, "r2")
    assert data["run"]["parent"] == "r1"
    edit = next(row for row in rows_of(data["writes"]) if row["made"] == "edit")
    fact = next(row for row in rows_of(data["facts"]) if row["id"] == edit["fact"])
    assert (edit["name"], data["values"][edit["value"]], fact["basis"]) == ("sum", "7", "a person said so")


def test_modified_journal_is_reported(machine):
    done_run(machine)
    with closing(sqlite3.connect(machine.journal)) as db, db:
        db.execute("UPDATE events SET ts = ts + 1 WHERE type = 'ok'")
    result = machine("report", "r1")
    assert result.exit_code == 1
    assert "CHAIN BROKEN at event 3" in result.stderr
    data = data_of(machine, "r1")
    assert (data["run"]["chain"]["ok"], data["run"]["chain"]["seq"]) == (False, 3)
    assert any(row["code"] == "JRN012" for row in rows_of(data["findings"]))
