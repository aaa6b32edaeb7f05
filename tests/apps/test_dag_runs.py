"""Running graphs from the command line: failures, independent steps, inputs, cancelling."""

from __future__ import annotations

import json
import signal

import pytest


def step(index, tool, *after, var=None, **args):
    more = {} if var is None else {"result_variable": var}
    return {"index": index, "title": index, "tool": tool, "args": args, "depends_on": list(after), **more}


READ = step("2", "read_file", path="missing.txt", var="text")
"""Fails until the file is there."""
STEPS = [
    step("1", "note", line="one ${who}", var="a"),
    {key: READ[key] for key in ("index", "title", "depends_on", "result_variable")}
    | {"tool_calls": [{"id": "c", "name": "read_file", "args": READ["args"]}]},
    step("3", "note", "1", line="three ${a}"),
    step("4", "note", "2", line="four ${text}"),
    step("5", "note", "3", "4", line="five"),
    {**step("6", "note", "3", line="six"), "when": "$n == 2"},
]


def written(machine):
    return sorted((machine.folder / "notes.txt").read_text("utf-8").split("\n")[:-1])


def plan(machine, *steps):
    return machine.write(
        "p.json", json.dumps({"id": "p", "variables": {"who": "Ada", "n": 1}, "steps": steps or STEPS})
    )


def test_independent_steps_finish_after_failure_and_resume_continues_rest(machine):
    failed = machine("run", plan(machine), "--tools", machine.tools, "--run-id", "r")
    assert failed.exit_code == 1
    assert written(machine) == ["one Ada", "three one Ada"]
    assert "4     skipped  2 failed" in failed.stderr
    assert "5     skipped  2 failed" in failed.stderr
    assert "6     skipped  the condition does not hold" in failed.stderr
    assert "retry the failed steps with: callsheet resume r" in failed.stderr
    machine.write("missing.txt", "now")
    done = machine("resume", "r")
    assert done.exit_code == 0
    assert "resume r" not in done.stderr
    assert written(machine) == ["five", "four now", "one Ada", "three one Ada"]


def test_plan_variables_are_overridden_at_start(machine):
    machine.write("missing.txt", "there")
    result = machine("run", plan(machine), "--tools", machine.tools, "--var", "who=Bob", "--var", "n=2")
    assert result.exit_code == 0
    assert written(machine) == ["five", "four there", "one Bob", "six", "three one Bob"]


def test_on_fail_terminate_ends_plan(machine):
    said = {"retry": 1, "delay": 0, "terminate": "stopped by ${who}"}
    result = machine(
        "run",
        plan(machine, {**READ, "on_fail": said}, step("3", "note", "2", line="never")),
        "--tools",
        machine.tools,
    )
    assert result.exit_code == 1
    assert result.stdout == "stopped by Ada\n"
    assert result.stderr.count("retrying") == 1
    assert not (machine.folder / "notes.txt").exists()


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_stopped_run_continues_without_repeating_calls(machine, wait_for, sent):
    steps = [
        step("1", "note", line="one", var="a"),
        step("2", "look", "1", path="here", wait=3.0),
        step("3", "note", "2", line="three"),
    ]
    with machine.spawn("run", plan(machine, *steps), "--tools", machine.tools, "--run-id", "r") as process:
        wait_for(machine.folder / "here")
        process.send_signal(sent)
        process.communicate()
    assert process.returncode in (130, 143, -9)
    assert machine.json("runs")[0]["status"] == "interrupted"
    assert machine("resume", "r").exit_code == 0
    assert written(machine) == ["one", "three"]
