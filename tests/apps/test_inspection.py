"""`runs`, `show`, `tools`, `doctor`: their output for people and for programs."""

from __future__ import annotations

import datetime
import json
import re
import sqlite3
from contextlib import closing

import pytest
from tests.compiled import IS_COMPILED

from callsheet import Runtime
from callsheet.store import Journal


def done_run(machine, run_id="r1"):
    plan = machine.plan(
        "S1: @ADD (a=1) > $a",
        "S2: ?IF ($a > 5) THEN @ADD (a=5) > $b",
        'S3: @FAIL (text="no luck") > $c ON_FAIL @RETRY(1)',
        "S4: ?FOREACH ($i IN [1, 2]) THEN @ADD (a=$i) > $d",
        'S5: @RESPOND ("a=$a")',
    )
    result = machine("run", plan, "--tools", machine.tools, "--run-id", run_id, "--retry-delay", "0")
    assert result.exit_code == 0, result.stderr


def _clock_set_back(at):
    """A clock that is an hour slow from its `at`-th reading on."""
    readings = (1_790_000_000.0 + n - (3600 if n >= at else 0) for n in range(10_000))
    return lambda: next(readings)


@pytest.mark.parametrize("at", range(2, 8))
def test_no_step_takes_less_than_no_time_if_the_clock_was_set_back(machine, at):
    plan = 'S1: @CALC ("1") > $a\nS2: @CALC ("$a") > $b\nS3: @RESPOND ($b)'
    with Journal.open(machine.journal, clock=_clock_set_back(at)) as journal:
        Runtime(journal=journal).run_sync(plan, run_id="r1")
    assert re.search(r"\s-\d", machine("show", "r1").stdout.replace("(", " ")) is None
    assert re.search(r"\s-\d", machine("show", "r1", "--timeline").stdout) is None
    played = machine("playback", "r1")
    assert played.exit_code == 0
    assert "+-" not in played.stdout
    assert machine("report", "r1", "-o", "r1.html").exit_code == 0
    steps = machine.json("show", "r1")["steps"]
    assert all(step["seconds"] >= 0 for step in steps if step.get("seconds") is not None)


def test_runs_are_listed_newest_first(machine):
    assert machine("runs").stdout == "no runs in this journal\n"
    done_run(machine, "r1")
    done_run(machine, "r2")
    rows = machine.json("runs")
    assert [row["run_id"] for row in rows] == ["r2", "r1"]
    assert rows[0]["status"] == "done"
    assert rows[0]["plan"] == "plan.ltp"
    assert datetime.datetime.fromisoformat(rows[0]["created"]).tzinfo is not None
    assert rows[0]["created"] <= rows[0]["updated"]
    assert [row["run_id"] for row in machine.json("runs", "--limit", "1")] == ["r2"]
    assert machine.json("runs", "--status", "failed") == []
    elsewhere = "import os, time; os.environ['TZ'] = 'America/New_York'; time.tzset()"
    newest = machine.shell("runs", prefix=elsewhere).stdout.splitlines()[0]
    begun = datetime.datetime.fromisoformat(rows[0]["created"]).astimezone(datetime.UTC)
    when = [f"{begun:%Y-%m-%d}", f"{begun:%H:%M:%S}", "UTC"]
    assert newest.split() == [
        "r2",
        *rows[0]["outcome"].split("_"),
        *when,
        *["plan.ltp", "·", "failed", "at", "S3"],
    ]


def test_blame_and_debug_print_where_a_tool_raised(machine):
    plan = machine.plan('S1: @FAIL (text="no luck") > $a', "S2: @RESPOND ($a)")
    options = ("--tools", machine.tools, "--progress", "none", "--run-id")
    result = machine.shell("--debug", "run", plan, *options, "r1")
    raised = ["    raise RuntimeError(text)", "RuntimeError: no luck"]
    assert [line for line in result.stderr.splitlines() if line in raised] == raised
    blamed = [line.strip() for line in machine("blame", "r1").stdout.splitlines()]
    assert [line for line in blamed if line in map(str.strip, raised)][-2:] == [*map(str.strip, raised)]
    failed = machine.json("blame", "r1")["failed"]
    assert failed["traceback"].splitlines()[-1] == "RuntimeError: no luck"
    quiet = machine("run", plan, *options, "r2")
    assert "Traceback" not in quiet.stderr


def test_show_prints_every_step(machine):
    done_run(machine)
    lines = machine("show", "last").stdout.splitlines()
    assert lines[0] == "run      r1"
    assert "chain verified" in lines[4]
    steps = [line.split()[:3] for line in lines if re.match("  [✓–✗]", line)]
    assert steps == [
        ["✓", "S1", "ok"],
        ["–", "S2", "skipped"],
        ["✗", "S3", "failed"],
        ["✓", "S4", "ok"],
        ["✓", "S5", "ok"],
    ]
    assert any("[2 calls, 1 retried]" in line for line in lines)
    assert "      RuntimeError: no luck" in lines
    assert "S3: traceback: at the same place as S3.0.1" in lines
    assert "$a = 2" in lines
    assert lines[-1] == "answer: a=2"


def test_show_json_equals_text(machine):
    done_run(machine)
    said = machine.json("show", "r")
    assert said["status"] == "done"
    assert said["chain"] == {"ok": True}
    assert said["variables"]["d"] == [2, 3]
    assert said["response"] == "a=2"
    assert [(s["step"], s["outcome"], s["calls"], s["retries"]) for s in said["steps"]] == [
        ("S1", "ok", 1, 0),
        ("S2", "skipped", 0, 0),
        ("S3", "failed", 2, 1),
        ("S4", "ok", 2, 0),
        ("S5", "ok", 0, 0),
    ]


def test_loop_ended_by_item_is_failed(machine):
    plan = machine.plan(
        'S1: ?FOREACH ($i IN [1, "x", 3]) THEN @ADD (a=$i) > $d ON_FAIL TERMINATE ("stopped: $d")',
        "S2: @RESPOND ($d)",
    )
    ran = machine("run", plan, "--tools", machine.tools, "--run-id", "loop")
    assert ran.exit_code == 1
    assert [line.split()[1] for line in ran.stderr.splitlines()[:3]] == ["started", "failed", "failed"]
    played = [line.split() for line in machine("playback", "loop").stdout.splitlines()]
    assert [words[4] for words in played if words[3] == "S1"] == ["started", "failed", "failed"]
    said = machine.json("show", "loop")
    assert [(step["step"], step["outcome"]) for step in said["steps"]] == [("S1", "failed")]
    assert (said["ended_at"], said["terminated"]) == ("S1", True)
    assert ["✗", "S1", "failed"] in [line.split()[:3] for line in machine("show", "loop").stdout.splitlines()]
    why = machine("why", "loop", "answer")
    assert why.exit_code == 2
    assert "the run has no answer" in why.stderr
    assert "callsheet blame" in why.stderr


def test_show_events_prints_journal(machine):
    done_run(machine)
    events = machine.json("show", "r1", "--events")
    assert [e["seq"] for e in events] == list(range(1, len(events) + 1))
    assert events[0]["type"] == "start"
    assert events[-1]["type"] == "end"
    assert len(machine("show", "r1", "--events").stdout.splitlines()) == len(events)


def test_show_reports_broken_chain(machine):
    done_run(machine)
    events = machine.json("show", "r1", "--events")
    (seq,) = [event["seq"] for event in events if (event["type"], event["key"]) == ("ok", "S1.0.1")]
    with closing(sqlite3.connect(machine.journal)) as db, db:
        db.execute(
            "UPDATE events SET body = CAST('{\"value\":3}' AS BLOB) WHERE key = 'S1.0.1' AND type = 'ok'"
        )
    db.close()
    assert f"CHAIN BROKEN at event {seq}" in machine("show", "r1").stdout
    assert machine.json("show", "r1")["chain"]["event"] == seq


def test_tools_lists_reachable_tools(machine):
    result = machine("tools", "--tools", machine.tools)
    assert result.exit_code == 0
    assert "  @ADD (a, b?)  [read]\n      The sum of two numbers.\n" in result.stdout
    assert "builtin\n" in result.stdout
    said = machine.json("tools", "--tools", machine.tools)
    (add,) = [t for t in said["tools"] if t["name"] == "ADD"]
    assert (add["origin"], add["effect"], add["arguments"]) == ("python:tools.py", "read", ["a", "b"])
    assert {t["origin"] for t in said["tools"]} == {"python:tools.py", "builtin", "transform", "people"}


def test_tools_reports_failed_server_and_lists_rest(machine):
    machine.write("mcp.json", '{"mcpServers": {"git": {"command": "no-such-program"}}}')
    result = machine("tools", "--mcp-config", "mcp.json")
    assert result.exit_code == 1
    assert "TOL010" in result.stderr
    assert "@READ_FILE" in result.stdout
    assert machine.json("tools", "--mcp-config", "mcp.json")["diagnostics"][0]["code"] == "TOL010"


def test_tools_shows_servers_with_names_by_which_their_tools_are_called(with_server):
    said = with_server.json("tools")
    assert [t["name"] for t in said["tools"] if t["origin"] == "mcp:hall"] == ["GREET", "HALL__READ_FILE"]
    assert [(s["name"], s["tools"]) for s in said["servers"]] == [("hall", 2)]


def test_doctor_checks_each_server(with_server):
    result = with_server("doctor", "--mcp-config", ".mcp.json")
    assert "✓ mcp server     hall: 2 tools, protocol 2025-06-18" in result.stdout
    assert "✗ mcp server     broken" in result.stdout


def test_doctor_reports_everything_in_order(machine):
    result = machine("doctor")
    assert result.exit_code == 0, result.stdout
    found = {item["name"]: item for item in machine.json("doctor")["items"]}
    assert {"python", "packages", "sqlite", "journal", "code", "git", "node", "mcp config"} <= set(found)
    assert found["journal"]["found"].startswith(str(machine.journal))
    assert not machine.journal.exists()
    form = "inner loop as machine code" if IS_COMPILED else "Python"
    assert f" ({form}), click " in found["packages"]["found"]


@pytest.mark.parametrize(("number", "said"), [(1, "has format 1"), (None, "is not a journal of callsheet")])
def test_doctor_reports_a_journal_that_no_run_could_use(machine, number, said):
    machine.write("plan.ltp", "S1: @RESPOND (1)")
    assert machine("run", "plan.ltp", "--journal", "journal.db").exit_code == 0
    assert machine("doctor", "--journal", "journal.db").exit_code == 0
    with closing(sqlite3.connect(machine.folder / "journal.db")) as database:
        database.execute("PRAGMA application_id = 7" if number is None else f"PRAGMA user_version = {number}")
    result = machine("doctor", "--journal", "journal.db")
    assert result.exit_code == 1
    assert "✗ journal" in result.stdout
    assert said in result.stdout


def test_doctor_reports_failures(machine):
    machine.write("file", "x")
    assert machine("doctor", "--journal", "file/journal.db").exit_code == 1
    machine.write("mcp.json", '{"mcpServers": {"git": {"command": "no-such-program"}}}')
    result = machine("doctor", "--mcp-config", "mcp.json")
    assert result.exit_code == 1
    assert "✗ mcp server" in result.stdout
    machine.write("mcp.json", json.dumps([]))
    assert "✗ mcp config" in machine("doctor", "--mcp-config", "mcp.json").stdout


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("postgresql://nobody@/x?host=/nowhere", "cannot be used"),
        ("mysql://x", "not the address of a shared store"),
    ],
)
def test_doctor_reports_unusable_shared_store(machine, monkeypatch, address, said):
    monkeypatch.setenv("CALLSHEET_STORE", address)
    result = machine("doctor")
    (line,) = [line for line in result.stdout.splitlines() if line[2:].startswith("store ")]
    assert (result.exit_code, line[0]) == (1, "✗")
    assert said in line


def cut_run(machine):
    """A run in which five searches omit results."""
    machine.write("long.txt", "needle\n" * 300)
    plan = machine.plan('S1: ?FOREACH ($i IN [1, 2, 3, 4, 5]) THEN @SEARCH_FILES (pattern="needle") > $f')
    return machine("run", plan, "--run-id", "cut", "--workspace", ".", "--progress", "plain")


def test_show_reports_truncation(machine):
    assert cut_run(machine).exit_code == 0
    warnings = [line for line in machine("show", "cut").stdout.splitlines() if line.startswith("warning")]
    *told, more = warnings  # items are done in any order
    assert len(set(told)) == 3
    assert set(told) <= {f"warning: S1: item {n}: matches cut to 200 rows" for n in range(1, 6)}
    assert more == "warning: S1: and 2 more (--events has them all)"
    (step,) = machine.json("show", "cut")["steps"]
    assert len(step["cuts"]) == 5
    remarks = [e["body"].get("remarks") for e in machine.json("show", "cut", "--events") if e["type"] == "ok"]
    assert remarks == [[{"cut": "matches", "kept": 200, "whole": None, "unit": "rows"}]] * 5


def test_truncation_is_reported_during_run(machine):
    said = cut_run(machine).stderr.splitlines()
    assert said.count("S1    warning  item 4: matches cut to 200 rows") == 1
