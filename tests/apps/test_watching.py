"""`playback`, `tail` and `search`: inspecting runs during and after execution."""

from __future__ import annotations

import json
import os
import pty
import select
import sys
import time

PLAN = (
    "S1: @ADD (a=$n) > $a",
    "S2: ?FOREACH ($i IN [$a, 7]) THEN @ADD (a=$i, b=10) > $sums",
    'S3: @NOTE (line="$sums.1 kept") > $noted',
    'S4: @RESPOND ("$sums.0 $noted")',
)


def done_run(machine, *lines, run_id="r1"):
    plan = machine.plan(*(lines or PLAN))
    result = machine("run", plan, "--tools", machine.tools, "--run-id", run_id, "--var", "n=1")
    assert result.exit_code in (0, 1, 4), result.stderr


# ---------------------------------------------------------------- playback


def test_playback_prints_run_and_makes_no_calls(machine):
    done_run(machine)
    (machine.folder / machine.tools).unlink()
    text = machine("playback", "r1").stdout
    told = [line.split()[2:] for line in text.splitlines()]
    assert [(parts[1:3]) for parts in told if parts[1].startswith("S")] == [
        ["S1", "started"],
        ["S1", "ok"],
        ["S2", "started"],
        ["S2", "ok"],
        ["S3", "started"],
        ["S3", "ok"],
        ["S4", "started"],
        ["S4", "ok"],
    ]
    assert text.splitlines()[-1].endswith("ended: done at S4")
    assert (machine.folder / "notes.txt").read_text() == "17 kept\n"


def test_playback_starts_and_ends_at_events(machine):
    done_run(machine)
    whole = [json.loads(line) for line in machine("playback", "r1", "--json").stdout.splitlines()]
    part = machine("playback", "r1", "--json", "--from", "3", "--to", "7").stdout.splitlines()
    assert [json.loads(line) for line in part] == [row for row in whole if 3 <= row["seq"] <= 7]
    finished = [row for row in whole if row["event"] == "finished"]
    assert [(row["step"], row["var"], row["preview"]) for row in finished][:2] == [
        ("S1", "a", "2"),
        ("S2", "sums", "[12,17]"),
    ]
    refused = machine("playback", "r1", "--to", "99")
    assert (refused.exit_code, "JRN041" in refused.stderr) == (2, True)


def test_playback_advances_on_key_press(machine):
    done_run(machine)
    child, terminal = pty.fork()
    if child == 0:
        code = "from callsheet.apps.cli.main import main; main()"
        os.execv(sys.executable, [sys.executable, "-c", code, "playback", "r1", "--step"])
    shown = b""

    def read_until(text: bytes, key: bytes = b"") -> None:
        nonlocal shown
        deadline = time.monotonic() + 60
        while text not in shown:
            assert time.monotonic() < deadline, shown
            os.write(terminal, key)
            if select.select([terminal], [], [], 0.3)[0]:
                shown += os.read(terminal, 65536)

    try:
        read_until(b"any key: next event")
        read_until(b"S4")
        assert b"$sums = " not in shown
        read_until(b"$sums = ", key=b" ")
        os.write(terminal, b"q")
        assert os.waitpid(child, 0)[1] == 0
    finally:
        os.close(terminal)
    assert machine("playback", "r1", "--step").exit_code == 2  # no terminal


# ---------------------------------------------------------------- tail


def test_tail_prints_events_of_run(machine):
    done_run(machine)
    assert machine("tail", "r1").stdout == machine("show", "r1", "--events").stdout
    lines = machine("tail", "r1", "--from", "4", "--json").stdout.splitlines()
    assert [json.loads(line) for line in lines] == machine.json("show", "r1", "--events")[3:]


def test_tail_follows_run_of_another_process_to_end(machine, wait_for):
    plan = machine.plan('S1: @LOOK (path="begun", wait=1.0) > $a', "S2: @RESPOND ($a)")
    with machine.spawn("run", plan, "--tools", machine.tools, "--run-id", "r1") as run:
        wait_for(machine.folder / "begun")
        followed = machine("tail", "r1", "--follow")
        run.communicate(timeout=60)
    assert followed.exit_code == 0
    assert [line.split()[2] for line in followed.stdout.splitlines()] == ["start", "intent", "ok", "end"]
    assert "ended: done" in followed.stderr


def test_tail_reports_dead_process(machine):
    plan = machine.plan('S1: @DIE (marker="m") > $a', "S2: @RESPOND ($a)")
    machine.shell("run", plan, "--tools", machine.tools, "--run-id", "r1", "--durability", "off")
    followed = machine("tail", "r1", "--follow")
    assert followed.exit_code == 1
    assert "continue it with: callsheet resume r1" in followed.stderr
    assert followed.stdout.splitlines()[-1].split()[2] == "intent"


def test_tail_stops_where_run_waits_for_people(machine):
    plan = machine.plan('S1: @ASK_HUMAN (prompt="go?") > $a', "S2: @RESPOND ($a)")
    machine("run", plan, "--tools", machine.tools, "--run-id", "r1")
    followed = machine("tail", "r1", "--follow")
    assert (followed.exit_code, "waiting for people" in followed.stderr) == (4, True)


# ---------------------------------------------------------------- search


def test_search_finds_text_everywhere_in_run(machine):
    done_run(machine)
    found = machine.json("search", "r1", "17")
    assert found["left_off"] == 0
    assert [(m["what"], m["variable"], m["path"]) for m in found["matches"]] == [
        ("result", "sums", [1]),
        ("argument", None, ["line"]),
        ("result", "noted", []),
        ("response", None, []),
    ]
    assert machine("search", "r1", "17").stdout.splitlines()[0].split()[1:] == [
        "S2.1.1",
        "result",
        "$sums.1",
        "17",
    ]


def test_search_takes_linear_time_for_patterns(machine):
    done_run(machine)
    assert len(machine.json("search", "r1", "/^1[0-9] KEPT/", "-i")["matches"]) == 2
    refused = machine("search", "r1", r"/(a)\1/")
    assert (refused.exit_code, "JRN085" in refused.stderr) == (2, True)
    done_run(machine, "S1: @BULK (size=100000) > $a", "S2: @RESPOND ($a)", run_id="r2")
    assert machine("search", "r2", "/(x+x+)+y/").exit_code == 1  # a back-tracking matcher would never end


def test_search_covers_all_runs_and_reports_truncation(machine):
    for number in range(3):
        done_run(machine, run_id=f"r{number}")
    result = machine("search", "--all", "kept", "--limit", "4")
    assert "and 5 more: use --limit 9" in result.stderr
    assert [line for line in result.stdout.splitlines() if not line.startswith(" ")] == ["r2", "r1"]
    assert {m["run_id"] for m in machine.json("search", "--all", "kept")["matches"]} == {"r0", "r1", "r2"}
    assert machine("search", "--all", "nowhere").exit_code == 1


def test_search_finds_errors_answers_and_edits(machine):
    lines = (
        'S1: @ASK_HUMAN (prompt="which town?") > $a',
        'S2: @FAIL (text="no $a") > $b',
        "S3: @RESPOND ($b)",
    )
    done_run(machine, *lines)
    assert machine("approve", "r1", "--answer", "Oslo").exit_code == 0
    machine("resume", "r1")
    kinds = [m["what"] for m in machine.json("search", "r1", "Oslo")["matches"]]
    assert kinds[0] == "answer"
    assert {"argument", "error"} <= {*kinds}
    assert machine.json("search", "r1", "which town")["matches"][0]["what"] == "question"
    machine("fork", "r1", "--at", "1", "--set", "b=Bergen", "--run-id", "r2")
    assert machine.json("search", "r2", "Bergen")["matches"][0]["variable"] == "b"
