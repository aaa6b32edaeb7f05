"""`callsheet pause` stops a run that another process drives; only `callsheet resume` lets it go on."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from callsheet.store import EventType, Journal

pytestmark = pytest.mark.crash

STEPS = ('S1: @NOTE ("one", wait=3) > $a', 'S2: @NOTE ("two") > $b', "S3: @RESPOND ($b)")
WORDS = re.compile(r"paused by ada since \d{4}-\d\d-\d\d \d\d:\d\d UTC: prices")


def notes(machine: Any) -> list[str]:
    return (machine.folder / "notes.txt").read_text().split()


@pytest.fixture
def paused(machine: Any, wait_for: Any) -> Any:
    """A machine with the run `r`, which was paused while another process drove it."""
    process = machine.spawn("run", machine.plan(*STEPS), "--tools", machine.tools, "--run-id", "r")
    wait_for(machine.folder / "notes.txt")
    done = machine("pause", "last", "--by", "ada", "--reason", "prices", "--patience", "60")
    assert done.exit_code == 0, done.stderr
    assert WORDS.search(done.stderr)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (4, "")
    assert WORDS.search(err)
    assert "let it go on with: callsheet resume r" in err
    return machine


def test_call_under_way_is_kept_and_no_other_leaves(paused: Any) -> None:
    assert notes(paused) == ["one"]
    with Journal.open_to_read(paused.journal) as journal:
        assert journal.verify("r") is None
        *_, answer, pause = (event.type for event in journal.events("r"))
        assert (answer, pause) == (EventType.OK, EventType.PAUSE)


def test_all_who_show_it_say_by_whom_and_since_when(paused: Any) -> None:
    for command in (("runs",), ("show", "r"), ("top", "--all")):
        assert WORDS.search(paused(*command).stdout), command
    (row,) = paused.json("runs", "--status", "paused")
    assert (row["status"], row["pause"]["by"], row["pause"]["reason"]) == ("paused", "ada", "prices")
    assert paused.json("show", "r")["pause"] == row["pause"]
    assert "callsheet resume r" in paused("show", "r").stdout
    told = paused("tail", "r", "--follow")
    assert (told.exit_code, "paused by a person" in told.stderr) == (4, True)
    assert paused("report", "r", "-o", str(paused.folder / "r.html")).exit_code == 0
    assert "Paused by ada since" in (paused.folder / "r.html").read_text()


def test_it_goes_on_where_it_was(paused: Any) -> None:
    left = paused("resume", "r", "--leave-paused")
    assert (left.exit_code, notes(paused)) == (4, ["one"])
    done = paused("resume", "r")
    assert (done.exit_code, notes(paused)) == (0, ["one", "two"])
    assert "prices; it goes on" in done.stderr
    assert "pause" not in json.dumps([row["type"] for row in paused.json("show", "r", "--events")][-2:])
    assert paused.json("runs")[0]["pause"] is None


def test_request_waits_for_calls_under_way(machine: Any, wait_for: Any) -> None:
    process = machine.spawn("run", machine.plan(*STEPS), "--tools", machine.tools, "--run-id", "r")
    wait_for(machine.folder / "notes.txt")
    assert machine.json("pause", "r", "--patience", "0") == {"run_id": "r", "status": "asked", "pause": None}
    assert "is paused once these have ended: S1" in machine("runs").stdout
    process.communicate(timeout=60)
    assert process.returncode == 4
    assert machine.json("pause", "r")["status"] == "paused"
    assert machine("cancel", "r").exit_code == 0
    refused = machine("pause", "r")
    assert (refused.exit_code, "JRN032" in refused.stderr) == (2, True)
