"""Limits on the command line and in the configuration file."""

from __future__ import annotations

import time
from datetime import datetime
from pathlib import Path

import pytest

from callsheet.api.checking import idle_rules
from callsheet.frontends.ltp import parse

FOUR = "\n".join(f"S{n}: @ADD (a={n}) > $a" for n in range(1, 5))


def test_loop_cut_by_limit_is_not_reported_ok(machine):
    plan = machine.plan("S1: ?FOREACH ($n in [1, 2, 3]) THEN @ADD (a=$n) > $all")
    lines = machine("run", plan, "--tools", machine.tools, "--max-calls", "2").stderr.splitlines()
    told = next(line for line in lines if line.startswith("S1") and "$all" in line)
    assert told.split()[1] == "stopped"
    assert "its limit is 2" in told


def test_step_refused_by_limit_has_end_line(machine):
    result = machine("run", machine.plan(FOUR), "--tools", machine.tools, "--max-calls", "1")
    told = [line.split()[:2] for line in result.stderr.splitlines() if line.startswith("S")]
    assert told == [["S1", "started"], ["S1", "ok"], ["S2", "started"], ["S2", "stopped"]]


@pytest.mark.parametrize(
    ("options", "budget", "hint"),
    [
        (["--max-calls", "2"], "max_calls", "--max-calls N"),
        (["--max-calls", "9", "--max-calls", "add=2"], "max_calls_by_tool", "--max-calls ADD=N"),
        (["--no-guards", "--max-calls", "@add=2"], "max_calls_by_tool", "--max-calls ADD=N"),
    ],
)
def test_limit_error_names_its_option(machine, options, budget, hint):
    plan = machine.plan(FOUR)
    result = machine("run", plan, "--tools", machine.tools, *options)
    assert result.exit_code == 1
    assert ": @ADD is refused: the run has " in result.stderr
    assert "the plan failed at S3" in result.stderr
    assert result.stderr.count(hint) == 1
    assert "used 2 steps" not in result.stderr
    assert "used 3 steps · 2 calls (ADD 2)" in result.stderr
    shown = machine.json("show", "last")
    assert shown["refusal"] == {"budget": budget, "limit": 2, "used": 2, "tool": "ADD"}
    assert (shown["usage"]["calls"], shown["usage"]["calls_by_tool"]) == (2, {"ADD": 2})
    assert "used     3 steps · 2 calls (ADD 2)" in machine("show", "last").stdout


def waits(machine, *options):
    """The seconds of each wait before a retry of a run, as recorded in its journal."""
    plan = machine.plan('S1: @FAIL (text="no") ON_FAIL @RETRY(2)')
    machine("run", plan, "--tools", machine.tools, *options)
    timers = [event for event in machine.json("show", "last", "--events") if event["type"] == "timer"]
    return [event["body"]["due"] - datetime.fromisoformat(event["time"]).timestamp() for event in timers]


def test_retry_delay_is_configurable(machine):
    assert waits(machine, "--retry-delay", "0.25") == pytest.approx([0.25, 0.25], abs=0.05)
    machine.write("home/config/callsheet/config.toml", "[limits]\nretry_delay = 0.5\n")
    assert waits(machine) == pytest.approx([0.5, 0.5], abs=0.05)


def test_retry_delay_is_one_second_by_default(machine):
    started = time.monotonic()
    assert waits(machine) == pytest.approx([1.0, 1.0], abs=0.05)
    assert time.monotonic() - started >= 2.0


def test_cap_for_uncalled_tool_is_warning(machine):
    result = machine("run", machine.plan(FOUR), "--tools", machine.tools, "--max-calls", "AD=1")
    assert result.exit_code == 0
    assert "warning RUN032: no step calls @AD, whose calls are limited" in result.stderr


def test_cap_for_another_name_of_a_called_tool_is_warning():
    plan = parse('S1: @SHOP__PAY ("x")').require()
    assert not idle_rules(plan, [], ["SHOP__PAY"])
    (idle,) = idle_rules(plan, ["PAY"], ["PAY"])
    assert (idle.code, idle.help) == ("RUN032", "a limit counts one name; limit @SHOP__PAY too")


def test_resuming_ended_run_reports_no_calls(machine):
    line = ("--tools", machine.tools, "--run-id", "r", "--max-calls", "1")
    plan = machine.plan(FOUR)
    assert machine("run", plan, *line).exit_code == 1
    again = machine("resume", "r", "--max-calls", "10")
    assert again.exit_code == 1
    assert "its limit is 1" in again.stderr
    assert "run r had already ended: no call was made" in again.stderr
    assert "as a new run: callsheet rerun r --from STEP" in again.stderr
    Path(plan).write_text(FOUR.replace("S3: ", "S30: "))
    assert f"as a new run: callsheet rerun r --plan {Path(plan).resolve()}" in machine("resume", "r").stderr


def test_run_that_limit_ended_is_rerun_with_higher_limit(machine):
    """The step that was refused is made: it was refused again before the new limit applied."""
    line = ("--tools", machine.tools, "--run-id", "r", "--max-calls", "1")
    ended = machine("run", machine.plan(FOUR), *line, "--schedule", "sequential")
    assert "with this option, as a new run: callsheet rerun r --from S2" in ended.stderr
    further = machine("rerun", "r", "--from", "S2", "--max-calls", "2", "--yes", "--run-id", "r2")
    assert (further.exit_code, "its limit is 2" in further.stderr) == (1, True)
    done = machine("rerun", "r2", "--from", "S3", "--max-calls", "9", "--yes", "--run-id", "r3")
    assert done.exit_code == 0, done.stderr
    assert [step["outcome"] for step in machine.json("show", "r3")["steps"]] == ["ok"] * 4
    first = machine("rerun", "r", "--from", "S1", "--max-calls", "9", "--yes", "--run-id", "r4")
    assert first.exit_code == 0, first.stderr
    assert machine("runs", "verify").exit_code == 0


@pytest.mark.parametrize("bad", [["--max-calls", "add=x"], ["--max-time", "soon"], ["--max-cost", "-1"]])
def test_invalid_limit_is_usage_error(machine, bad):
    result = machine("run", machine.plan(FOUR), "--tools", machine.tools, *bad)
    assert result.exit_code == 2
    assert bad[1].removeprefix("add=") in result.stderr


def test_options_override_limits_of_configuration(machine, monkeypatch, tmp_path):
    config = tmp_path / "limits.toml"
    config.write_text("[limits]\nmax_calls = 3\nmax_items = 7\n\n[limits.max_calls_by_tool]\nadd = 2\n")
    monkeypatch.setenv("CALLSHEET_CONFIG", str(config))
    plan = machine.plan(FOUR)
    assert machine("run", plan, "--tools", machine.tools).exit_code == 1
    assert (
        machine("run", plan, "--tools", machine.tools, "--max-calls", "4", "--max-calls", "ADD=4").exit_code
        == 0
    )
    limits = machine.json("show", "last")["limits"]
    assert (limits["max_calls"], limits["max_items"], limits["max_calls_by_tool"]) == (4, 7, {"ADD": 4})


def test_invalid_limit_in_configuration_is_named(machine, monkeypatch, tmp_path):
    config = tmp_path / "limits.toml"
    config.write_text("[limits]\nmax_steps = 0\n")
    monkeypatch.setenv("CALLSHEET_CONFIG", str(config))
    result = machine("run", machine.plan(FOUR), "--tools", machine.tools)
    assert result.exit_code == 2
    assert "max_steps must be at least 1" in result.stderr


def test_loop_ended_by_limit_is_not_shown_as_done(machine):
    plan = machine.plan("S1: ?FOREACH ($i IN $n) THEN @ADD ($i) > $all", "S2: @RESPOND ($all)")
    line = ("--tools", machine.tools, "--var", "n=[1, 2, 3]", "--max-calls", "2")
    assert machine("run", plan, *line).exit_code == 1
    assert "✗ S1     stopped" in machine("show", "last").stdout
