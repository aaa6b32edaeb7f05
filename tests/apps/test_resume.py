"""`resume`: after kill -9 a run continues where it was; calls in doubt wait for a decision."""

from __future__ import annotations

import json
import signal

import pytest


@pytest.fixture
def killed(machine):
    """A machine with a run `r` that was killed during an unsafe call of its second step."""
    plan = machine.plan(
        'S1: @NOTE (line="one") > $a',
        'S2: @DIE (marker="died") > $b',
        'S3: @NOTE (line="three") > $c',
        'S4: @RESPOND ("$a/$b/$c")',
    )
    done = machine.shell("run", plan, "--tools", "tools.py", "--run-id", "r")
    assert done.returncode == -signal.SIGKILL, done.stderr
    return machine


def notes(machine):
    return (machine.folder / "notes.txt").read_text().split()


def test_killed_run_is_shown_as_interrupted(killed):
    assert killed.json("runs")[0]["status"] == "interrupted"
    assert [r["run_id"] for r in killed.json("runs", "--status", "interrupted")] == ["r"]
    assert killed.json("runs", "--status", "running") == []


def test_unfinished_write_waits_for_decision(killed):
    result = killed("resume", "r")
    assert result.exit_code == 4
    assert "S2.0.1  @DIE (marker=died)  started " in result.stderr
    assert "callsheet resume r --in-doubt retry" in result.stderr
    assert result.stdout == ""
    assert killed.json("runs")[0]["status"] == "in_doubt"
    assert killed("resume", "r").exit_code == 4


def test_doubt_json_names_call(killed):
    found = killed.json("resume", "last")
    assert found["status"] == "in_doubt"
    (call,) = found["in_doubt"]
    assert call.pop("since").startswith("20")
    assert call == {
        "key": "S2.0.1",
        "step": "S2",
        "item": 0,
        "attempt": 1,
        "tool": "DIE",
        "args": {"marker": "died"},
        "why": "the process ended before the answer came",
    }


@pytest.mark.parametrize(
    ("decision", "answer"),
    [
        ("retry", "one/alive/three"),
        ("skip", "one//three"),
        ("fail", "one/it is not known whether the call took place; it was decided to fail it/three"),
    ],
)
def test_decided_run_continues_and_repeats_nothing(killed, decision, answer):
    result = killed("resume", "r", "--in-doubt", decision, "--progress", "none")
    assert result.exit_code == 0
    assert result.stdout == answer + "\n"
    assert notes(killed) == ["one", "three"]


FLAKY = """
import os
from pathlib import Path
from callsheet.ports.python_tools import tool

@tool(effect="read")
def flaky() -> str:
    if not Path("once").exists():
        Path("once").touch()
        os.kill(os.getpid(), 9)
    return "read"
"""


def test_read_only_call_is_repeated_automatically(machine):
    machine.write("ro.py", FLAKY)
    plan = machine.plan("S1: @FLAKY () > $a", "S2: @RESPOND ($a)")
    machine.shell("run", plan, "--tools", "ro.py", "--run-id", "r")
    result = machine("resume", "last")
    assert result.stdout == "read\n"
    assert "resuming," in result.stderr


def test_resumed_run_names_step_in_progress(machine):
    machine.write("ro.py", FLAKY)
    machine.shell("run", machine.plan("S1: @FLAKY () > $a", "S2: @RESPOND ($a)"), "--tools", "ro.py")
    lines = machine("resume", "last").stderr.splitlines()
    assert lines[:2] == ["resuming, no steps completed", "S1    started  @FLAKY"]
    assert lines[2].split()[:2] == ["S1", "ok"]


def test_resumed_run_json_names_steps_in_progress(machine):
    machine.write("ro.py", FLAKY)
    machine.shell("run", machine.plan("S1: @FLAKY () > $a", "S2: @RESPOND ($a)"), "--tools", "ro.py")
    begin = json.loads(machine("resume", "last", "--progress", "json").stderr.splitlines()[0])
    assert (begin["event"], begin["done_before"], begin["under_way"]) == ("begin", 0, ["S1"])


def test_steps_after_decision_are_printed_like_those_of_run(machine):
    plan = machine.plan('S1: @NOTE (line="one") > $a', 'S2: @DIE (marker="died") > $b', "S3: @RESPOND ($a)")
    machine.shell("run", plan, "--tools", "tools.py", "--run-id", "r")
    lines = machine("resume", "r", "--in-doubt", "skip").stderr.splitlines()
    assert lines[0] == "resuming, 1 step completed"
    told = [["S2", "started"], ["S2", "ok"], ["S3", "started"], ["S3", "ok"]]
    assert [line.split()[:2] for line in lines[1:5]] == told
    assert "resuming," not in machine("resume", "r").stderr


def test_resuming_finished_run_prints_its_answer(killed):
    first = killed("resume", "r", "--in-doubt", "skip")
    again = killed("resume", "r")
    assert again.stdout == first.stdout
    assert again.exit_code == 0
    assert notes(killed) == ["one", "three"]


def test_changed_tools_are_refused_until_accepted(killed):
    tools = killed.folder / "tools.py"
    tools.write_text(tools.read_text().replace("def die(marker: str)", "def die(marker: str, more: int = 1)"))
    result = killed("resume", "r", "--in-doubt", "retry")
    assert result.exit_code == 2
    assert "JRN021" in result.stderr
    assert "@DIE" in result.stderr
    done = killed("resume", "r", "--in-doubt", "retry", "--accept-changed-tools", "--progress", "none")
    assert done.stdout == "one/alive/three\n"


def test_missing_tool_is_refused_and_nothing_runs(killed):
    tools = killed.folder / "tools.py"
    tools.write_text(tools.read_text().replace("def note(", "def other("))
    result = killed("resume", "r", "--in-doubt", "skip")
    assert result.exit_code == 2
    assert "error TOL001: no tool is called @NOTE" in result.stderr
    tools.unlink()
    assert "CFG100" in killed("resume", "r", "--in-doubt", "skip").stderr
    assert notes(killed) == ["one"]


@pytest.mark.parametrize("command", [("resume", "r", "--in-doubt", "retry"), ("rerun", "r", "--from", "S2")])
def test_moved_files_are_given_by_options(killed, command):
    there = killed.folder / "there"
    (there / "notes").mkdir(parents=True)
    (killed.folder / "tools.py").rename(there / "tools.py")
    yes = ("--yes",) if command[0] == "rerun" else ()
    refused = killed(*command, *yes)
    assert refused.exit_code == 2
    assert "CFG100" in refused.stderr
    assert "help: if it was moved, name it: --tools FILE.py" in refused.stderr
    done = killed(*command, *yes, "--tools", "there/tools.py", "--workspace", "there", "--progress", "none")
    assert done.stdout == "one/alive/three\n"


def test_run_continues_in_named_workspace(machine):
    plan = machine.plan(
        'S1: @WRITE_FILE (path="a.txt", content="a")',
        'S2: @ASK_HUMAN ("ready?")',
        'S3: @READ_FILE (path="a.txt") > $a',
        "S4: @RESPOND ($a)",
    )
    (machine.folder / "one").mkdir()
    assert machine("run", plan, "--workspace", "one", "--run-id", "r").exit_code == 4
    (machine.folder / "one").rename(machine.folder / "two")
    machine("approve", "r")
    assert machine("resume", "r", "--workspace", "two").stdout == "a\n"


@pytest.fixture
def moved(machine):
    """A machine with a run `r` that waits for its second question; its files were moved before that."""
    plan = machine.plan(
        'S1: @WRITE_FILE (path="a.txt", content="a")',
        'S2: @ASK_HUMAN ("ready?")',
        'S3: @NOTE (line="x") > $n',
        'S4: @ASK_HUMAN ("sure?")',
        'S5: @READ_FILE (path="a.txt") > $a',
        'S6: @NOTE (line="$n$a") > $m',
        "S7: @RESPOND ($a)",
    )
    (machine.folder / "one").mkdir()
    assert machine("run", plan, "--tools", "tools.py", "--workspace", "one", "--run-id", "r").exit_code == 4
    (machine.folder / "one").rename(machine.folder / "two")
    (machine.folder / "tools.py").rename(machine.folder / "two" / "tools.py")
    machine("approve", "r")
    resumed = machine("resume", "r", "--tools", "two/tools.py", "--workspace", "two")
    assert resumed.exit_code == 4
    return machine


def test_named_places_are_used_by_next_resume(moved):
    moved("approve", "r")
    assert moved("resume", "r").stdout == "a\n"


def test_places_named_while_run_waits_are_used_by_next_resume(machine):
    plan = machine.plan('S1: @ASK_HUMAN ("ready?")', "S2: @ADD (a=1) > $a", "S3: @RESPOND ($a)")
    assert machine("run", plan, "--tools", "tools.py", "--run-id", "r").exit_code == 4
    (machine.folder / "two").mkdir()
    (machine.folder / "tools.py").rename(machine.folder / "two" / "tools.py")
    assert "CFG100" in machine("resume", "r", "--tools", "two/no.py").stderr
    assert machine("resume", "r", "--tools", "two/tools.py").exit_code == 4
    machine("approve", "r")
    assert machine("resume", "r").stdout == "2\n"


def test_new_places_are_recorded_as_event(moved):
    (event,) = (e for e in moved.json("show", "r", "--events") if e["type"] == "moved")
    folder = moved.folder / "two"
    assert event["body"] == {"tools": [str(folder / "tools.py")], "workspace": str(folder)}
    moved("approve", "r")
    moved("resume", "r", "--tools", "two/tools.py", "--workspace", "two")
    assert sum(e["type"] == "moved" for e in moved.json("show", "r", "--events")) == 1
    assert moved("runs", "verify", "r").exit_code == 0


def test_places_at_which_the_tools_cannot_be_opened_are_not_recorded(machine):
    plan = machine.plan('S1: @ASK_HUMAN ("ready?")', 'S2: @NOTE (line="x")', 'S3: @RESPOND ("done")')
    assert machine("run", plan, "--tools", "tools.py", "--run-id", "r").exit_code == 4
    machine("approve", "r")
    assert machine("resume", "r", "--tools", "nowhere.py").exit_code == 2
    assert machine("resume", "r").stdout == "done\n"


@pytest.mark.parametrize("command", [("rerun", "r", "--from", "S3"), ("fork", "r", "--at", "3")])
def test_branch_has_tools_at_places_of_parent(moved, command):
    branched = moved(*command, "--yes", "--run-id", "new")
    assert branched.exit_code == 4, branched.stderr
    while branched.exit_code == 4:
        assert moved("approve", "new").exit_code == 0
        branched = moved("resume", "new")
    assert branched.stdout == "a\n"


def test_run_under_policy_keeps_workspace(machine):
    plan = machine.plan('S1: @ASK_HUMAN ("ready?")', 'S2: @RESPOND ("done")')
    assert machine("run", plan, "--policy", "workspace", "--run-id", "r").exit_code == 4
    machine("approve", "r")
    refused = machine("resume", "r", "--workspace", "elsewhere")
    assert refused.exit_code == 2
    assert "a run under a policy keeps its workspace" in refused.stderr


def test_unknown_run_suggests_nearest(killed):
    result = killed("resume", "q")
    assert result.exit_code == 2
    assert "JRN002" in result.stderr


def test_run_owned_by_process_is_refused(machine, wait_for):
    plan = machine.plan('S1: @LOOK (path="here", wait=20) > $a', "S2: @RESPOND ($a)")
    with machine.spawn("run", plan, "--tools", "tools.py", "--run-id", "r") as process:
        wait_for(machine.folder / "here")
        result = machine("resume", "r")
        status = machine.json("runs")[0]["status"]
        process.kill()
        process.communicate()
    assert result.exit_code == 1
    assert "JRN004" in result.stderr
    assert status == "running"


def test_suggested_commands_include_journal_option(machine):
    plan = machine.plan('S1: @DIE (marker="died") > $b', "S2: @RESPOND ($b)")
    machine.shell("run", plan, "--tools", "tools.py", "--run-id", "r", "--journal", "my journal.db")
    result = machine("resume", "r", "--journal", "my journal.db")
    assert "callsheet resume r --journal 'my journal.db' --in-doubt retry" in result.stderr


@pytest.mark.parametrize("stage", ["plain", "live"])
def test_resumed_run_does_not_mix_steps_of_old_and_new_plan(machine, stage):
    plan = machine.plan("S1: @ADD (a=1) > $a", "S2: @ADD (a=2) > $c", 'S3: @RE-PLAN ("once more")')
    new = 'S1: @ADD (a=5) > $b\\nS2: @ASK_HUMAN (prompt="Go on?") > $c\\nS3: @RESPOND ("$b $c")'
    machine.write("again.py", f"def ask(messages):\n    return '{new}'\n")
    asked = machine("run", plan, "--tools", machine.tools, "--model", "again.py:ask", "--progress", "none")
    assert asked.exit_code == 4, asked.stderr
    assert machine("approve", "last", "--answer", "yes").exit_code == 0
    done = machine("resume", "last", "--progress", stage)
    assert (done.exit_code, done.stdout) == (0, "6 yes\n"), done.stderr
    assert "S2" in done.stderr
    assert "@ADD" not in done.stderr
    assert "once more" not in done.stderr


def test_edited_plan_is_not_continued_silently(machine):
    """Its later steps would be made as they were; comments, and a file that is gone, do not count."""
    steps = ('S1: @ASK_HUMAN (prompt="Go?") > $a', 'S2: @NOTE (line="old") > $b', "S3: @RESPOND ($b)")
    assert machine("run", machine.plan(*steps), "--tools", machine.tools, "--run-id", "r").exit_code == 4
    machine("approve", "r", "--answer", "yes")
    machine.plan("# a comment", *steps, "# another")
    assert machine("resume", "r").exit_code == 0
    assert machine("rerun", "r", "--from", "S2", "--yes", "--run-id", "r2").stdout.strip() == "old"
    machine.plan(steps[0], 'S2: @NOTE (line="new") > $b', steps[2])
    for command in (
        ("rerun", "r", "--from", "S2"),
        ("fork", "r", "--at", "1"),
        ("rerun", "r2", "--from", "S2"),
    ):
        result = machine(*command, "--yes")
        assert result.exit_code == 2
        assert f"plan.ltp was edited after run {command[1]} began: step S2 (argument line)" in result.stderr
    assert machine("resume", "r").stdout.strip() == "old"  # it had ended: nothing is executed
    assert machine("rerun", "r", "--from", "S2", "--yes", "--as-recorded").stdout.strip() == "old"
    edited = ("fork", "r", "--at", "1", "--as-recorded", "--replace", 'S2=@NOTE (line="mine") > $b')
    assert machine(*edited, "--yes", "--run-id", "r3").exit_code == 4
    assert "JRN024" not in machine("resume", "r3").stderr  # its plan is no file's
    (machine.folder / "plan.ltp").write_text("PLAN_START\nS1: @\n")
    assert "it has errors now" in machine("rerun", "r", "--from", "S2").stderr
    (machine.folder / "plan.ltp").unlink()
    assert machine("rerun", "r", "--from", "S2", "--yes").exit_code == 0


def test_waiting_run_of_edited_plan_stops(machine):
    steps = ('S1: @ASK_HUMAN (prompt="Go?") > $a', 'S2: @NOTE (line="old") > $b')
    machine("run", machine.plan(*steps), "--tools", machine.tools, "--run-id", "r")
    machine.plan(steps[0], 'S2: @NOTE (line="new") > $b', 'S3: @RESPOND ("$b")')
    result = machine("resume", "r")
    assert (result.exit_code, "step S2 (argument line), step S3 is new" in result.stderr) == (2, True)
    assert not (machine.folder / "notes.txt").exists()
    assert machine("resume", "r", "--as-recorded").exit_code == 4
