"""`decide`: calls in doubt are decided without tools and servers; `runs` and `show` list them."""

from __future__ import annotations

import signal
from collections import Counter

import pytest

TOOLS = """
import os
from pathlib import Path
from callsheet import tool

def put(log: str, text: str) -> str:
    first = not Path(log).exists()
    with open(log, "a") as file:
        file.write(text + "\\n")
    if text.endswith("-40") and Path(log).read_text().split().count(text) == 1:
        os.kill(os.getpid(), 9)
    return "sent " + text

@tool(effect="keyed", key_argument="key")
def keyed(log: str, n: int, key: str) -> str:
    return put(log, key[:8] + "-" + str(n)) and "sent " + str(n)

@tool
def mail(log: str, n: int) -> str:
    return put(log, "mail-" + str(n))
"""


@pytest.fixture
def killed(machine):
    """A run killed in the 40th mail of a thousand, with another call in flight."""
    machine.write("tools.py", TOOLS)
    plan = machine.plan(
        'S1: ?FOREACH ($i IN $n) THEN @MAIL (log="mails", n=$i) > $sent',
        'S2: @RESPOND ("$sent.39")',
    )
    numbers = str([*range(1, 1001)])
    done = machine.shell("run", plan, "--tools", "tools.py", "--run-id", "r", "--var", f"n={numbers}")
    assert done.returncode == -signal.SIGKILL, done.stderr
    return machine


def test_killed_loop_leaves_at_most_its_window_in_doubt(killed):
    (run,) = killed.json("runs")
    (call,) = run["in_doubt"]
    assert (call["key"], call["item"], call["args"]["n"]) == ("S1.39.1", 39, 40)
    assert "@MAIL (log=mails, n=40)" in killed("runs").stdout
    assert "callsheet decide r S1.39.1 retry" in killed("show", "r").stdout
    assert "? S1     in doubt" in killed("show", "r").stdout
    assert killed("decide", "r").exit_code == 4
    (killed.folder / "tools.py").rename(killed.folder / "away.py")  # nothing is opened to decide
    assert killed("decide", "r", "S1", 'value="by hand"').exit_code == 0
    (killed.folder / "away.py").rename(killed.folder / "tools.py")
    done = killed("resume", "r")
    assert done.stdout.strip() == "by hand"
    mails = Counter((killed.folder / "mails").read_text().split())
    assert len(mails) == 1000
    assert set(mails.values()) == {1}


def test_paused_run_stays_paused_when_its_last_call_is_decided(killed):
    assert killed("pause", "r").exit_code == 0
    assert killed.json("decide", "r")["status"] == "paused"
    assert killed.json("decide", "r", "S1.39", "skip") == {"run_id": "r", "status": "paused", "in_doubt": []}
    assert killed.json("runs")[0]["status"] == "paused"


def test_invalid_decisions_are_refused_and_change_nothing(killed):
    events = killed.json("show", "r")["events"]
    for line, code in [
        (("S1", "maybe"), "CFG010"),
        (("S1",), "CFG010"),
        (("S1", "value=paid"), "CFG011"),
        (("S7", "retry"), "JRN030"),
    ]:
        result = killed("decide", "r", *line)
        assert result.exit_code == 2
        assert code in result.stderr
    assert killed.json("show", "r")["events"] == events
    assert killed.json("decide", "r", "S1.39", "skip") == {
        "run_id": "r",
        "status": "interrupted",
        "in_doubt": [],
    }
    assert "has been decided already: skip" in killed("decide", "r", "S1", "skip").stderr


def test_python_tool_killed_after_effect_gets_same_key_again(machine):
    machine.write("tools.py", TOOLS)
    plan = machine.plan('S1: @KEYED (log="sent", n=40) > $a', "S2: @RESPOND ($a)")
    died = machine.shell("run", plan, "--tools", "tools.py", "--run-id", "r")
    assert died.returncode == -signal.SIGKILL, died.stderr
    assert machine("resume", "r").stdout.strip() == "sent 40"
    first, second = (machine.folder / "sent").read_text().split()
    assert first == second


@pytest.mark.parametrize(("policy", "answer"), [("fail", "the policy is to fail it"), ("retry", "")])
def test_policy_applies_after_crash_and_undeclared_tool_is_not_repeated(machine, policy, answer):
    machine.write("tools.py", TOOLS)
    plan = machine.plan('S1: @MAIL (log="mails", n=40) > $a', "S2: @RESPOND ($a)")
    machine.shell("run", plan, "--tools", "tools.py", "--run-id", "r", "--on-in-doubt", policy)
    result = machine("resume", "r")
    assert result.exit_code == (0 if policy == "fail" else 4)
    assert answer in result.stdout
    assert (machine.folder / "mails").read_text().split() == ["mail-40"]
