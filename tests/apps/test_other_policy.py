"""`resume --policy`: resuming a run under another policy."""

from __future__ import annotations

import json

import pytest

from .conftest import Machine
from .test_debugger import Terminal

OURS = (
    'schema = 1\nname = "ours"\nextends = "workspace"\n[tools."@ADD"]\negress = false\ndestructive = false\n'
)


@pytest.fixture
def waiting(machine: Machine) -> Machine:
    """A machine with a run `r` under a policy that waits for a person."""
    machine.write("ours.toml", OURS + 'returns = "T/pub"\n')
    plan = machine.plan(
        "S1: @ADD (a=1) > $n", 'S2: @ASK_HUMAN ("go on?") > $a', "S3: @ADD (a=$n) > $m", "S4: @RESPOND ($m)"
    )
    result = machine("run", plan, "--tools", "tools.py", "--policy", "ours.toml", "--run-id", "r")
    assert result.exit_code == 4, result.stderr
    assert machine("approve", "r", "S2", "--answer", "yes").exit_code == 0
    return machine


def test_original_policy_may_be_named(waiting: Machine) -> None:
    result = waiting("resume", "r", "--policy", "ours.toml")
    assert (result.exit_code, result.stdout) == (0, "3\n"), result.stderr


def test_different_policy_is_shown_and_used_after_acceptance(waiting: Machine) -> None:
    waiting.write("ours.toml", OURS + 'returns = "U/priv"\n')
    result = waiting("resume", "r", "--policy", "ours.toml")
    assert result.exit_code == 2
    assert "error JRN023" in result.stderr
    assert "  help: tools.ADD.returns: T/pub → U/priv\n    --accept-changed-policy" in result.stderr
    result = waiting("resume", "r", "--policy", "ours.toml", "--accept-changed-policy")
    assert (result.exit_code, result.stdout) == (0, "3\n"), result.stderr
    assert "the policy changes: tools.ADD.returns: T/pub → U/priv" in result.stderr


def test_policy_that_refuses_remaining_steps_exits_with_3(waiting: Machine) -> None:
    waiting.write(
        "ours.toml", 'schema = 1\nname = "ours"\nextends = "workspace"\n[defaults]\ndeny = ["@ADD"]\n'
    )
    result = waiting("resume", "r", "--policy", "ours.toml", "--accept-changed-policy")
    assert result.exit_code == 3
    assert "POL102" in result.stderr
    assert waiting("resume", "r").stdout == "3\n"


def test_wrong_options_are_refused_before_an_edited_plan_takes_over(machine: Machine) -> None:
    text = '# ltp: 2\nS1: @ASK_HUMAN ("go on?") > $a\nS2: @RESPOND ($a)\n'
    machine("run", machine.write("p.ltp", text), "--run-id", "r")
    edited = machine.write("q.ltp", text.replace("go on", "really"))
    line = "resume", "r", "--plan", edited, "--yes"
    for options, told in (
        (("--accept-changed-policy",), "--accept-changed-policy needs --policy"),
        (("--policy", "gone.toml"), "gone.toml"),
    ):
        result = machine(*line, *options)
        assert (result.exit_code, told in result.stderr) == (2, True), result.stderr
    terminal = Terminal(machine.folder, *line, "--break", "S9")
    try:
        terminal.shows("has the id or the line 'S9'")
        assert terminal.end() == 2
    finally:
        terminal.stop()
    runs = json.loads(machine("runs", "--json").stdout)
    assert [(run["run_id"], run["status"]) for run in runs] == [("r", "waiting")]
