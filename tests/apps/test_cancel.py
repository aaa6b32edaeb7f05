"""`callsheet cancel` ends a run for good in every state, and no call is made afterwards."""

from __future__ import annotations

import json
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from callsheet.store import EventType, Journal

pytestmark = pytest.mark.crash


def events(machine: Any) -> list[EventType]:
    """The kinds of the events of the run; only the end follows the cancellation."""
    with Journal.open_to_read(machine.journal) as journal:
        assert journal.verify("r") is None
        kinds = [event.type for event in journal.events("r")]
    assert kinds[-2:] == [EventType.CANCEL, EventType.END]
    assert kinds.count(EventType.CANCEL) == 1
    return kinds


def status(machine: Any) -> str:
    (row,) = machine.json("runs")
    return row["status"]


def until(condition: Any) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline, "it did not come to this"
        time.sleep(0.02)


def asked(machine: Any, kind: EventType) -> bool:
    """Whether the journal of the run has an event of this kind."""
    if not machine.journal.exists():
        return False
    with Journal.open_to_read(machine.journal) as journal:
        return any(kind is e.type for info in journal.runs() for e in journal.events(info.run_id))


def ended_for_good(machine: Any, *calls: str) -> None:
    """The run is cancelled in the journal, and resuming it makes no call and reports the same."""
    assert status(machine) == "cancelled"
    kinds = events(machine)
    again = machine.json("resume", "r")
    assert (again["status"], events(machine)) == ("cancelled", kinds)
    notes = machine.folder / "notes.txt"
    assert (notes.read_text().split() if notes.exists() else []) == [*calls]
    refused = machine("cancel", "r")
    assert (refused.exit_code, "JRN032" in refused.stderr) == (2, True)


def test_waiting_run_is_cancelled(machine):
    plan = machine.plan('S1: @NOTE ("one") > $a', 'S2: @ASK_HUMAN ("go on?") > $b', 'S3: @NOTE ("two") > $c')
    assert machine("run", plan, "--tools", machine.tools, "--run-id", "r").exit_code == 4
    done = machine("cancel", "r", "--reason", "not any more")
    assert done.exit_code == 0, done.stderr
    assert "the run is cancelled: not any more" in done.stderr
    assert machine.json("inbox") == []
    refused = machine("approve", "r")
    assert refused.exit_code == 2
    assert "RUN030" in refused.stderr
    assert machine.json("resume", "r")["error"] == "not any more"
    ended_for_good(machine, "one")


def test_run_with_call_in_doubt_is_cancelled_and_call_reported(machine):
    plan = machine.plan('S1: @DIE ("marker") > $a', 'S2: @NOTE ("two") > $b')
    machine.shell("run", plan, "--tools", machine.tools, "--run-id", "r")
    assert machine("resume", "r").exit_code == 4
    done = machine("cancel", "r")
    assert done.exit_code == 0
    assert "1 call was sent without an answer" in done.stderr
    assert "S1.0.1  @DIE" in done.stderr
    shown = machine("show", "r").stdout
    assert "1 call was sent without an answer" in shown
    assert "callsheet decide" not in shown
    assert [step["outcome"] for step in machine.json("show", "r")["steps"]] == ["stopped"]
    ended_for_good(machine)
    assert machine("decide", "r", "S1", "retry").exit_code == 2


def test_run_of_killed_process_is_cancelled(machine):
    plan = machine.plan('S1: @NOTE ("one") > $a', 'S2: @DIE ("marker") > $b')
    machine.shell("run", plan, "--tools", machine.tools, "--run-id", "r")
    told = machine.json("cancel", "r")
    assert (told["status"], [c["key"] for c in told["in_doubt"]]) == ("cancelled", ["S2.0.1"])
    ended_for_good(machine, "one")


def test_run_with_call_in_flight_elsewhere_is_cancelled(machine, wait_for):
    plan = machine.plan('S1: @NOTE ("one", wait=60) > $a', 'S2: @NOTE ("two") > $b')
    process = machine.spawn("run", plan, "--tools", machine.tools, "--run-id", "r")
    wait_for(machine.folder / "notes.txt")
    told = machine.json("cancel", "r", "--reason", "too slow")
    assert told["status"] == "cancelled"
    assert [(c["key"], c["why"]) for c in told["in_doubt"]] == [
        ("S1.0.1", "the run was ended before the answer came")
    ]
    _, err = process.communicate(timeout=50)
    assert process.returncode == 1
    assert "the run is cancelled: too slow" in err
    ended_for_good(machine, "one")


@pytest.mark.parametrize(
    ("steps", "options", "kind"),
    [
        (('S1: @FAIL ("no") > $a ON_FAIL @RETRY(1, delay=60)', 'S2: @NOTE ("two")'), (), EventType.TIMER),
        (('S1: @ASK_HUMAN ("go on?") > $b', 'S2: @NOTE ("two")'), ("--wait",), EventType.ASK),
    ],
    ids=["a timer", "an answer"],
)
def test_run_waiting_in_another_process_is_cancelled(machine, steps, options, kind):
    plan = machine.plan(*steps)
    process = machine.spawn("run", plan, "--tools", machine.tools, "--run-id", "r", *options)
    until(lambda: asked(machine, kind))
    assert machine("cancel", "last").exit_code == 0
    process.communicate(timeout=50)
    assert process.returncode == 1
    ended_for_good(machine)


def test_unresponsive_process_is_cancelled_at_next_resume(machine, wait_for):
    plan = machine.plan('S1: @LOOK ("seen", wait=60) > $a', 'S2: @NOTE ("two") > $b')
    process = machine.spawn("run", plan, "--tools", machine.tools, "--run-id", "r")
    wait_for(machine.folder / "seen")
    process.send_signal(signal.SIGSTOP)
    done = machine("cancel", "r", "--patience", "0.2")
    assert done.exit_code == 1
    assert "was asked to cancel it and has not done so yet" in done.stderr
    assert machine.json("cancel", "r", "--patience", "0")["status"] == "asked"
    process.kill()
    process.communicate(timeout=50)
    assert machine.json("resume", "r")["status"] == "cancelled"
    ended_for_good(machine)


def test_cancelling_ended_or_unknown_run_is_error(machine):
    plan = machine.plan('S1: @RESPOND ("done")')
    machine("run", plan, "--run-id", "r")
    refused = machine("cancel", "r")
    assert (refused.exit_code, "has ended (done); there is nothing to cancel" in refused.stderr) == (2, True)
    unknown = machine("cancel", "s")
    assert "JRN002" in unknown.stderr
    assert Path(machine.journal).exists()
    assert json.loads(machine("show", "r", "--json").stdout)["status"] == "done"
